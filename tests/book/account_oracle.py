"""A slow account in fractions to hold the integers against, and the desk that keeps those integers.

`Desk` does what a reconciliation does, one step at a time: ledger, materializer, ops applied to the
open trades. `SlowAccount` shares no line with either. It keeps every lot at its own price and lets a
reduction take the same part of each, which is what average cost means.

Rounding, as the ledger does it: a fill is worth `size × price` rounded half to even, once; a fill
that turns a position round is two parts, the one that closes and the one that opens, each rounded.
`SlowAccount.flow_usd_e6` adds exactly these, so equity can be proved to the last unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec

from tapebook.book.events import Posting
from tapebook.book.materializer import (
    CloseTrade,
    FlipTrade,
    MaterializerContext,
    Op,
    OpenTrade,
    UpdateMfeMae,
    apply_fill,
    apply_funding,
    reconcile_portfolio_delta,
)
from tapebook.domain.order import Fill, FundingPayment
from tapebook.domain.position import ClosedTrade, Portfolio, TradeState


class Saved(msgspec.Struct, frozen=True):
    """What a desk must remember between two steps."""

    portfolio: Portfolio
    trades: dict[str, TradeState]
    marks: dict[str, int]


class Desk:
    """The account and its trades, moved by fills, marks and funding; ops are applied as they come."""

    def __init__(self, *, deposit_usd_e6: int = 0) -> None:
        """An account with a deposit and nothing else."""
        self.portfolio = Portfolio({}, deposit_usd_e6)
        self.postings = [Posting("deposit", "", deposit_usd_e6)]
        self.trades: dict[str, TradeState] = {}
        self.closed: list[ClosedTrade] = []
        self.marks: dict[str, int] = {}

    def fill(self, fill: Fill, *, leverage: int = 1, **words: Any) -> list[Op]:
        """The ops of a fill; `words` are what explains it."""
        after, postings = apply_fill(self.portfolio, fill, leverage=leverage)
        if fill.liquidation:
            words["exit_label"] = "liquidated"
        context = self._context(
            fill.happened_at,
            fill.fill_id,
            prices={fill.symbol: fill.price_e8},
            fees={fill.symbol: fill.fee_usd_e6},
            **words,
        )
        # A mark is of what was held when it was seen; what a fill made of it has none yet.
        self.marks.pop(fill.symbol, None)
        return self._step(after, postings, context)

    def fund(self, payment: FundingPayment) -> list[Op]:
        """The ops of an hour's funding."""
        after, postings = apply_funding(self.portfolio, payment)
        source_id = f"{payment.symbol}@{payment.happened_at}"
        context = self._context(payment.happened_at, source_id, funding={payment.symbol: payment.amount_usd_e6})
        return self._step(after, postings, context)

    def mark(self, at: int, marks: Mapping[str, int]) -> list[Op]:
        """The ops of new marks."""
        self.marks.update(marks)
        return self._step(self.portfolio, [], self._context(at, f"marks@{at}"))

    def replay(self, at: int) -> list[Op]:
        """The ops of a step in which nothing happened, with the marks that are known; not applied."""
        return reconcile_portfolio_delta(self.portfolio, self.portfolio, self._context(at, f"replay@{at}"))

    def save(self) -> bytes:
        """The state as JSON."""
        return msgspec.json.encode(Saved(self.portfolio, self.trades, self.marks))

    @classmethod
    def load(cls, content: bytes) -> "Desk":
        """A desk that goes on from a saved state."""
        saved = msgspec.json.decode(content, type=Saved)
        desk = cls()
        desk.portfolio, desk.trades, desk.marks = saved.portfolio, saved.trades, saved.marks
        return desk

    def posted(self, kind: str, symbol: str) -> int:
        """The sum of one kind of posting for one symbol."""
        return sum(each.amount_usd_e6 for each in self.postings if (each.kind, each.symbol) == (kind, symbol))

    def states(self, symbol: str) -> list[TradeState]:
        """All trades of a symbol, oldest first, the open one last."""
        ended = [closed.state for closed in self.closed if closed.state.symbol == symbol]
        return ended + [trade for trade in self.trades.values() if trade.symbol == symbol]

    def _context(self, at: int, source_id: str, **words: Any) -> MaterializerContext:
        return MaterializerContext(
            at=at, source_id=source_id, open_trades=dict(self.trades), marks=dict(self.marks), **words
        )

    def _step(self, after: Portfolio, postings: list[Posting], context: MaterializerContext) -> list[Op]:
        ops = reconcile_portfolio_delta(self.portfolio, after, context)
        self.portfolio = after
        self.postings += postings
        for op in ops:
            self._apply(op)
        return ops

    def _apply(self, op: Op) -> None:
        match op:
            case OpenTrade(trade):
                assert trade.symbol not in self.trades, "a second open trade"
                self.trades[trade.symbol] = trade
            case UpdateMfeMae(trade):
                assert self.trades[trade.symbol].trade_id == trade.trade_id, "an update of another trade"
                self.trades[trade.symbol] = trade
            case CloseTrade(closed):
                assert self.trades.pop(closed.state.symbol).trade_id == closed.state.trade_id, "an end of another trade"
                self.closed.append(closed)
            case FlipTrade(close, opened):
                self._apply(close)
                self._apply(opened)


@dataclass
class SlowTrade:
    """One lifetime: what it realised, and the best and worst it has stood at."""

    realised: Fraction = Fraction(0)
    best: Fraction = Fraction(0)
    worst: Fraction = Fraction(0)
    fills: int = 0

    def saw(self, result: Fraction) -> None:
        """Widens the extremes."""
        self.best, self.worst = max(self.best, result), min(self.worst, result)


@dataclass
class SlowSymbol:
    """The lots (size, price) still held in one symbol, and its lifetimes; the last one is open while lots are held."""

    lots: list[tuple[Fraction, Fraction]] = field(default_factory=list)
    trades: list[SlowTrade] = field(default_factory=list)

    @property
    def size(self) -> Fraction:
        """What is held, signed."""
        return sum((size for size, _ in self.lots), Fraction(0))

    def value(self, price: int) -> Fraction:
        """What the lots would realise at a price, in e6."""
        return sum((size * (price - paid) for size, paid in self.lots), Fraction(0)) / 10**10

    def reduce(self, part: Fraction, price: int) -> None:
        """Gives up the same part of every lot."""
        self.trades[-1].realised += part * self.value(price)
        self.lots = [(size * (1 - part), paid) for size, paid in self.lots] if part < 1 else []

    def saw(self, price: int) -> None:
        """Looks at the open lifetime at a price."""
        self.trades[-1].saw(self.trades[-1].realised + self.value(price))


class SlowAccount:
    """Every lot in exact fractions, and the cash flow of the fills in the ledger's rounding."""

    def __init__(self) -> None:
        """An account that holds nothing."""
        self.symbols: dict[str, SlowSymbol] = {}
        self.marks: dict[str, int] = {}
        self.flow_usd_e6 = 0

    def fill(self, symbol: str, size: int, price: int) -> None:
        """Closes what the fill can close, opens the rest."""
        self.marks.pop(symbol, None)
        book = self.symbols.setdefault(symbol, SlowSymbol())
        held = int(book.size)
        closing = max(-abs(held), min(abs(held), size)) if held * size < 0 else 0
        if closing:
            book.trades[-1].fills += 1
            book.reduce(Fraction(abs(closing), abs(held)), price)
            self._look(symbol, price)
            self._paid(closing, price)
        if opening := size - closing:
            if not book.lots:
                book.trades.append(SlowTrade())
            book.trades[-1].fills += 1
            book.lots.append((Fraction(opening), Fraction(price)))
            self._look(symbol, price)
            self._paid(opening, price)

    def mark(self, symbol: str, price: int) -> None:
        """A new mark."""
        self.marks[symbol] = price
        if symbol in self.symbols and self.symbols[symbol].lots:
            self.symbols[symbol].saw(price)

    def _look(self, symbol: str, price: int) -> None:
        book = self.symbols[symbol]
        book.saw(price)
        if book.lots and symbol in self.marks:
            book.saw(self.marks[symbol])

    def _paid(self, part: int, price: int) -> None:
        # Python rounds a Fraction half to even.
        self.flow_usd_e6 -= round(Fraction(part * price, 10**10))
