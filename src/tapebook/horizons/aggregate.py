"""What a span of days amounts to, in integers that merge: any period is the fold of the leaves of its days.

A leaf is the aggregate of one UTC day, made from the trades that ended on it (`leaf_of`). `fold_spans` is
associative and has the empty aggregate as its identity, so days may be grouped in any way as long as they stay in
order. Its arguments are of different days: squares are of daily sums. `RunningTotal` keeps drawdown and recovery in
five integers that merge too.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Literal

import msgspec

from tapebook.domain.position import ClosedTrade, TradeSide
from tapebook.domain.units import DAY
from tapebook.horizons.layers import Period
from tapebook.horizons.markets import PriceSpan, join_prices, moves_together


class RunningTotal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A total that begins at 0. `high` and `low` are its extremes, the beginning included.

    `drawdown` is the deepest fall from a peak to a later trough; `regained` is how far the total has come up
    from that trough at the end (of equal falls, from the lowest trough).
    """

    total: int = 0
    high: int = 0
    low: int = 0
    drawdown: int = 0
    regained: int = 0


def running_total_of(amount: int) -> RunningTotal:
    """The path of one amount."""
    return RunningTotal(amount, max(amount, 0), min(amount, 0), max(-amount, 0), max(amount, 0))


def join_running_totals(first: RunningTotal, then: RunningTotal) -> RunningTotal:
    """One path after the other. The worst fall lies in the first, in the second, or from a peak in one to a trough
    in the other; each is known with what came after it, so nothing of the paths themselves is needed.
    """
    # The fall from a peak in the first span to a trough in the second.
    across = first.high - first.total - then.low
    drawdown, regained = max(
        (first.drawdown, first.regained + then.total),
        (across, then.total - then.low),
        (then.drawdown, then.regained),
    )
    high, low = max(first.high, first.total + then.high), min(first.low, first.total + then.low)
    return RunningTotal(first.total + then.total, high, low, drawdown, regained)


# Kept in every sum, so that the greatest trades of a year need no second look at its days.
MOST_BEST = 5
MOST_WORST = 1


class Sums(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many values, their sum and the sum of their squares."""

    n: int = 0
    total: int = 0
    square: int = 0


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a symbol or of a strategy; `square_e12` sums the squares of its daily results."""

    trades: int = 0
    wins: int = 0
    net_usd_e6: int = 0
    entered_usd_e6: int = 0
    square_e12: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.trades + other.trades,
            self.wins + other.wins,
            self.net_usd_e6 + other.net_usd_e6,
            self.entered_usd_e6 + other.entered_usd_e6,
            self.square_e12 + other.square_e12,
        )


class Notable(msgspec.Struct, frozen=True):
    """A trade worth remembering."""

    trade_id: str
    symbol: str
    side: Literal["long", "short"]
    exited_at: int
    net_usd_e6: int
    reason: str


class Aggregate(msgspec.Struct, frozen=True, omit_defaults=True):
    """Days summed up. Money is counted on the day a trade ended.

    `daily` are the results of days on which something ended; `first_day` and `last_day` count days since 1970.
    `ledger_usd_e6` sums what was booked in the days, if anybody said. `notional_ms` is what was held times how long.
    `prices` and `together` are of the market itself (`markets.py`), whoever traded in it.
    """

    trades: int = 0
    wins: int = 0
    net_usd_e6: int = 0
    gross_usd_e6: int = 0
    fees_usd_e6: int = 0
    funding_usd_e6: int = 0
    entered_usd_e6: int = 0
    notional_ms: int = 0
    ledger_usd_e6: int | None = None
    first_day: int | None = None
    last_day: int | None = None
    daily: Sums = Sums()
    confidence_e4: Sums = Sums()
    path: RunningTotal = RunningTotal()
    symbols: dict[str, Tally] = {}
    strategies: dict[str, Tally] = {}
    regimes: dict[str, int] = {}
    years: tuple[int, ...] = ()
    best: tuple[Notable, ...] = ()
    worst: tuple[Notable, ...] = ()
    prices: dict[str, PriceSpan] = {}
    together: dict[str, int] = {}

    def with_market(self, prices: dict[str, PriceSpan]) -> "Aggregate":
        """A leaf with the prices of its day."""
        return msgspec.structs.replace(self, prices=prices, together=moves_together(prices))

    @property
    def span_days(self) -> int:
        """Calendar days from the first to the last day something ended, both included; quiet days between count."""
        if self.first_day is None or self.last_day is None:
            return 0
        return self.last_day - self.first_day + 1


EMPTY_AGGREGATE = Aggregate()


def fold_two_spans(earlier: Aggregate, later: Aggregate) -> Aggregate:
    """Two spans as one; every day of the first lies before every day of the second."""
    return fold_spans((earlier, later))


def fold_spans(parts: Iterable[Aggregate]) -> Aggregate:
    """Spans in the order of time as one."""
    spans = list(parts)
    # The object itself: a sum that did not change must compare equal, and cheaply.
    if len(spans) == 1:
        return spans[0]
    booked = [each.ledger_usd_e6 for each in spans if each.ledger_usd_e6 is not None]
    firsts = [each.first_day for each in spans if each.first_day is not None]
    lasts = [each.last_day for each in spans if each.last_day is not None]
    return Aggregate(
        trades=sum(each.trades for each in spans),
        wins=sum(each.wins for each in spans),
        net_usd_e6=sum(each.net_usd_e6 for each in spans),
        gross_usd_e6=sum(each.gross_usd_e6 for each in spans),
        fees_usd_e6=sum(each.fees_usd_e6 for each in spans),
        funding_usd_e6=sum(each.funding_usd_e6 for each in spans),
        entered_usd_e6=sum(each.entered_usd_e6 for each in spans),
        notional_ms=sum(each.notional_ms for each in spans),
        # None and not zero: that nobody said is another thing than that nothing was booked.
        ledger_usd_e6=sum(booked) if booked else None,
        first_day=firsts[0] if firsts else None,
        last_day=lasts[-1] if lasts else None,
        daily=_merged_sums(each.daily for each in spans),
        confidence_e4=_merged_sums(each.confidence_e4 for each in spans),
        path=reduce(join_running_totals, (each.path for each in spans), RunningTotal()),
        symbols=_merged_tallies(each.symbols for each in spans),
        strategies=_merged_tallies(each.strategies for each in spans),
        regimes=_merged_counts(each.regimes for each in spans),
        years=tuple(sorted({year for each in spans for year in each.years})),
        best=best_of(trade for each in spans for trade in each.best),
        worst=worst_of(trade for each in spans for trade in each.worst),
        prices=join_prices(each.prices for each in spans),
        together=_merged_counts(each.together for each in spans),
    )


def _merged_sums(values: Iterable[Sums]) -> Sums:
    n = total = square = 0
    for each in values:
        n, total, square = n + each.n, total + each.total, square + each.square
    return Sums(n, total, square)


def best_of(trades: Iterable[Notable]) -> tuple[Notable, ...]:
    """The trades that won most; of equals, the earlier."""
    won = (trade for trade in trades if trade.net_usd_e6 > 0)
    # Equal results go by time and id, so that the order of the parts does not matter.
    return tuple(sorted(won, key=lambda trade: (-trade.net_usd_e6, trade.exited_at, trade.trade_id))[:MOST_BEST])


def worst_of(trades: Iterable[Notable]) -> tuple[Notable, ...]:
    """The trades that lost most; of equals, the earlier."""
    lost = (trade for trade in trades if trade.net_usd_e6 < 0)
    return tuple(sorted(lost, key=lambda trade: (trade.net_usd_e6, trade.exited_at, trade.trade_id))[:MOST_WORST])


def _merged_counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _merged_tallies(parts: Iterable[dict[str, Tally]]) -> dict[str, Tally]:
    found: dict[str, list[Tally]] = {}
    for part in parts:
        for name, one in part.items():
            found.setdefault(name, []).append(one)
    return {name: ones[0] if len(ones) == 1 else _sum_of_tallies(ones) for name, ones in found.items()}


def _sum_of_tallies(ones: list[Tally]) -> Tally:
    columns = zip(*map(msgspec.structs.astuple, ones), strict=True)
    return Tally(*map(sum, columns))


# A trade that somebody made on the exchange itself still counts in all sums.
EXTERNAL = "external"
"""The strategy of a trade that no run of ours began."""

_MOST_REASON = 80


class TradeExit(msgspec.Struct, frozen=True):
    """A trade that ended: what a leaf needs of it.

    `entered_usd_e6` is the notional at its entry, `strategy` the engine that began it.
    """

    trade_id: str
    symbol: str
    side: TradeSide
    exited_at: int
    held_ms: int
    entered_usd_e6: int
    gross_usd_e6: int
    fees_usd_e6: int
    funding_usd_e6: int
    strategy: str = EXTERNAL
    confidence_e4: int | None = None
    regime: str | None = None
    reason: str = ""

    @property
    def net_usd_e6(self) -> int:
        """Gross result less fees, plus funding."""
        return self.gross_usd_e6 - self.fees_usd_e6 + self.funding_usd_e6

    @property
    def is_win(self) -> bool:
        """A win is a net result above zero."""
        return self.net_usd_e6 > 0


def exit_of(trade: ClosedTrade, strategy: str | None = None, confidence_e4: int | None = None) -> TradeExit:
    """A closed trade, with the engine that entered it and how sure that was; None when nobody of ours did."""
    state = trade.state
    return TradeExit(
        trade_id=state.trade_id,
        symbol=state.symbol,
        side=state.side,
        exited_at=trade.exit_tick_at,
        held_ms=trade.holding_ms,
        entered_usd_e6=state.entry_notional_usd_e6,
        gross_usd_e6=state.realised_usd_e6,
        fees_usd_e6=state.fees_usd_e6,
        funding_usd_e6=state.funding_usd_e6,
        strategy=strategy or EXTERNAL,
        confidence_e4=confidence_e4,
        regime=state.entry_regime_tag,
        # Models write reasons: one line of them is enough to recognise a trade by.
        reason=" ".join(trade.exit_reason.split())[:_MOST_REASON],
    )


def leaf_of(day: Period, exits: Iterable[TradeExit], *, ledger_usd_e6: int | None = None) -> Aggregate:
    """The leaf of a day; in whatever order its trades come, the same leaf."""
    # The running total depends on the order of exits, so it is fixed.
    ended = sorted(exits, key=lambda each: (each.exited_at, each.trade_id))
    if any(each.exited_at not in day for each in ended):
        raise ValueError(f"a trade that did not end on {day.key} is no part of its leaf")
    if not ended:
        return Aggregate(ledger_usd_e6=ledger_usd_e6)
    net = sum(each.net_usd_e6 for each in ended)
    confidences = [each.confidence_e4 for each in ended if each.confidence_e4 is not None]
    notable = [_notable(each) for each in ended]
    return Aggregate(
        trades=len(ended),
        wins=sum(each.is_win for each in ended),
        net_usd_e6=net,
        gross_usd_e6=sum(each.gross_usd_e6 for each in ended),
        fees_usd_e6=sum(each.fees_usd_e6 for each in ended),
        funding_usd_e6=sum(each.funding_usd_e6 for each in ended),
        entered_usd_e6=sum(each.entered_usd_e6 for each in ended),
        notional_ms=sum(each.entered_usd_e6 * each.held_ms for each in ended),
        ledger_usd_e6=ledger_usd_e6,
        first_day=day.start // DAY,
        last_day=day.start // DAY,
        daily=Sums(1, net, net * net),
        confidence_e4=Sums(len(confidences), sum(confidences), sum(value * value for value in confidences)),
        path=_running_total(ended),
        symbols=_tallies_by_name([(each.symbol, each) for each in ended]),
        strategies=_tallies_by_name([(each.strategy, each) for each in ended]),
        regimes=dict(Counter(each.regime for each in ended if each.regime)),
        years=(int(day.key[:4]),),
        best=best_of(notable),
        worst=worst_of(notable),
    )


def _running_total(ended: Sequence[TradeExit]) -> RunningTotal:
    path = RunningTotal()
    for each in ended:
        path = join_running_totals(path, running_total_of(each.net_usd_e6))
    return path


def _tallies_by_name(named: Sequence[tuple[str, TradeExit]]) -> dict[str, Tally]:
    sums: dict[str, Tally] = {}
    for name, each in named:
        sums[name] = sums.get(name, Tally()) + Tally(1, int(each.is_win), each.net_usd_e6, each.entered_usd_e6)
    # Of the day's sum, not of each trade: days are what is compared.
    return {name: msgspec.structs.replace(one, square_e12=one.net_usd_e6**2) for name, one in sums.items()}


def _notable(each: TradeExit) -> Notable:
    return Notable(each.trade_id, each.symbol, each.side, each.exited_at, each.net_usd_e6, each.reason)
