"""What an account holds: signed sizes with what was paid for them, and what a fill does to them.

Cost is kept in USD and released in proportion when a position shrinks; the last part takes the
rest. So the results of a lifetime's fills add up to exactly what was sold less what was bought,
however it was cut. The margin goes the same way: each fill that enters allots its value divided by
the leverage, rounded up, a part that leaves takes its part along, and funding moves it.
"""

import msgspec

from tapebook.domain.money import divide, notional_usd_e6, price_e8_of
from tapebook.domain.order import Fill


class Position(msgspec.Struct, frozen=True):
    """A holding in one perp. Cost is signed like the size: a short has a negative one.

    `margin_usd_e6` is what an isolated position has to lose: an earmark within cash, never apart from it; cross margin
    does not look at it. `moved_at` is when the size last changed.
    """

    symbol: str
    size_e8: int
    cost_usd_e6: int
    leverage: int = 1
    margin_usd_e6: int = 0
    moved_at: int = 0

    @property
    def entry_price_e8(self) -> int:
        """The average price of what is still held."""
        return price_e8_of(self.cost_usd_e6, self.size_e8)

    def unrealised_usd_e6(self, mark_e8: int) -> int:
        """What closing at the mark would realise, before fees."""
        return notional_usd_e6(self.size_e8, mark_e8) - self.cost_usd_e6

    def funded(self, amount_usd_e6: int) -> "Position":
        """The position after an hour's funding, which its margin pays or receives."""
        return msgspec.structs.replace(self, margin_usd_e6=self.margin_usd_e6 + amount_usd_e6)


class Portfolio(msgspec.Struct, frozen=True):
    """A moment of an account: open positions by symbol, and cash including all that was realised."""

    positions: dict[str, Position]
    cash_usd_e6: int = 0

    def equity_usd_e6(self, marks: dict[str, int]) -> int:
        """Cash and what the positions would realise at the marks; every held symbol needs one."""
        equity = self.cash_usd_e6
        for held in self.positions.values():
            equity += held.unrealised_usd_e6(marks[held.symbol])
        return equity


def moved(held: Position | None, fill: Fill, *, leverage: int) -> tuple[Position | None, int]:
    """The position after a fill, None when it is gone, and the gross result the fill realised."""
    size, price = fill.signed_size_e8, fill.price_e8
    if size == 0:
        return held, 0
    if held is None or (held.size_e8 > 0) == (size > 0):
        return _grown(held or Position(fill.symbol, 0, 0), fill, leverage), 0
    left = held.size_e8 + size
    if left and (left > 0) == (held.size_e8 > 0):
        released = divide(held.cost_usd_e6 * abs(size), abs(held.size_e8))
        margin = held.margin_usd_e6 - divide(held.margin_usd_e6 * abs(size), abs(held.size_e8))
        cost = held.cost_usd_e6 - released
        shrunk = Position(held.symbol, left, cost, held.leverage, margin, fill.happened_at)
        return shrunk, notional_usd_e6(-size, price) - released
    realised = notional_usd_e6(held.size_e8, price) - held.cost_usd_e6
    rest = msgspec.structs.replace(fill, signed_size_e8=left)
    return _grown(Position(fill.symbol, 0, 0), rest, leverage) if left else None, realised


def _grown(held: Position, fill: Fill, leverage: int) -> Position:
    paid = notional_usd_e6(fill.signed_size_e8, fill.price_e8)
    allotted = -(-abs(paid) // max(1, leverage))
    return Position(
        fill.symbol,
        held.size_e8 + fill.signed_size_e8,
        held.cost_usd_e6 + paid,
        leverage,
        held.margin_usd_e6 + allotted,
        fill.happened_at,
    )
