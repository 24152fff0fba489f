"""What the guard weighs a proposal against: the caps, and the whole account with everything that is under way.

Orders that work may be filled in any order, or not at all, so a cap is kept only if the worst case
keeps it (`Limits.worst_usd_e6`). That is why every figure here is the most that can come of something.
"""

import msgspec

from tapebook.domain.activity import Activity
from tapebook.domain.agent import RiskCaps
from tapebook.domain.money import notional_usd_e6
from tapebook.domain.order import Order
from tapebook.domain.position import Portfolio, Position


class Move(msgspec.Struct, frozen=True):
    """An order as the rules see it, whether it is proposed, about to leave or working already."""

    symbol: str
    buys: bool
    usd_e6: int
    mark_e8: int
    limit_price_e8: int | None
    leverage: int
    reduces: bool

    @property
    def order_usd_e6(self) -> int:
        """What the exchange counts: the value at the order's own price."""
        return self.usd_e6 if self.limit_price_e8 is None else self.usd_e6 * self.limit_price_e8 // self.mark_e8


def move_of(order: Order, mark_e8: int | None) -> Move:
    """An order of the book at the newest price; one whose symbol has no price any more counts at its limit."""
    price = mark_e8 or order.limit_price_e8 or 1
    worth = notional_usd_e6(order.size_e8, price)
    return Move(
        order.symbol, order.side == "buy", worth, price, order.limit_price_e8, order.leverage, order.reduce_only
    )


class Limits(msgspec.Struct, frozen=True):
    """What is known at `at`, as of `seq` of the book, about the symbol of a run and the account around it.

    `marks` has every symbol that is held; `halted` says why nothing may leave; `citations` are those of the packet.
    `activity_unread` says why nobody knows what was done lately, if so: then nothing may grow.
    `settled_at_e8` is what a symbol that was delisted was settled at.
    """

    caps: RiskCaps
    symbol: str
    watchlist: tuple[str, ...]
    at: int
    seq: int
    portfolio: Portfolio
    marks: dict[str, int]
    data_age_ms: int | None
    working: tuple[Move, ...] = ()
    halted: str | None = None
    activity: Activity = Activity()
    citations: frozenset[str] = frozenset()
    activity_unread: str | None = None
    settled_at_e8: int | None = None

    @property
    def held(self) -> Position | None:
        """The position in the run's symbol."""
        return self.portfolio.positions.get(self.symbol)

    @property
    def mark_e8(self) -> int | None:
        """The newest price of the run's symbol."""
        return self.marks.get(self.symbol)

    @property
    def equity_usd_e6(self) -> int:
        """What the account is worth now."""
        return self.portfolio.equity_usd_e6(self.marks)

    def held_usd_e6(self, symbol: str) -> int:
        """The signed value of a position at its mark."""
        held = self.portfolio.positions.get(symbol)
        return notional_usd_e6(held.size_e8, self.marks[symbol]) if held else 0

    def worst_usd_e6(self, symbol: str, *, buys: bool, adding: Move | None = None) -> int:
        """The most of a symbol that can be held on one side once what works there, and `adding`, is filled.

        A position on the other side is credited to a lone market order, which turns it. Beside another order, or
        for a limit order that may wait, it can be closed first, and then all of the order opens. A limit above the
        mark is filled when the price is up there, and then everything is worth that much.
        """
        moves = [move for move in self._moves(adding) if move.symbol == symbol and move.buys == buys]
        held = self.held_usd_e6(symbol) if buys else -self.held_usd_e6(symbol)
        if held < 0 and [move.limit_price_e8 for move in moves] != [None]:
            held = 0
        grows = [move for move in moves if not move.reduces]
        worth = max(0, held + sum(move.usd_e6 for move in grows))
        return max(
            (-(-worth * max(move.mark_e8, move.limit_price_e8 or 0) // move.mark_e8) for move in grows), default=worth
        )

    def gross_usd_e6(self, adding: Move) -> int:
        """The most that all symbols together can be worth, whatever their side."""
        return sum(self._worst(symbol, adding) for symbol in self._symbols(adding))

    def margin_usd_e6(self, adding: Move) -> int:
        """The initial margin of that: each symbol at the lowest leverage that anything in it has."""
        return sum(
            -(-self._worst(symbol, adding) // self._leverage(symbol, adding)) for symbol in self._symbols(adding)
        )

    def _moves(self, adding: Move | None) -> tuple[Move, ...]:
        return self.working if adding is None else (*self.working, adding)

    def _symbols(self, adding: Move) -> set[str]:
        return {*self.portfolio.positions, *(move.symbol for move in self._moves(adding))}

    def _worst(self, symbol: str, adding: Move) -> int:
        return max(self.worst_usd_e6(symbol, buys=buys, adding=adding) for buys in (True, False))

    def _leverage(self, symbol: str, adding: Move) -> int:
        held = self.portfolio.positions.get(symbol)
        asked = [move.leverage for move in self._moves(adding) if move.symbol == symbol and not move.reduces]
        return max(1, min([*asked, held.leverage] if held else asked, default=1))
