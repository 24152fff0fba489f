"""Positions, what a fill does to them, the sizes that actions ask for, and the round trips that result.

Cost is kept in USD and released in proportion when a position shrinks; the last part takes the rest. So the results
of a lifetime's fills add up to exactly what was sold less what was bought, however it was cut. The margin goes the
same way: each fill that enters allots its value divided by the leverage, rounded up, a part that leaves takes its
part along, and funding moves it. A round trip lasts from the first fill that opens a position to the one that ends
it.
"""

from typing import Literal, NamedTuple

import msgspec

from tapebook.domain.order import Fill
from tapebook.domain.run import Action
from tapebook.domain.units import average_price_e8, divide_half_even, notional_usd_e6, size_e8_for


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
        return average_price_e8(self.cost_usd_e6, self.size_e8)

    def unrealised_usd_e6(self, mark_e8: int) -> int:
        """What closing at the mark would realise, before fees."""
        return notional_usd_e6(self.size_e8, mark_e8) - self.cost_usd_e6

    def with_funding(self, amount_usd_e6: int) -> "Position":
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
            equity += notional_usd_e6(held.size_e8, marks[held.symbol]) - held.cost_usd_e6
        return equity


def position_after_fill(held: Position | None, fill: Fill, *, leverage: int) -> tuple[Position | None, int]:
    """The position after a fill, None when it is gone, and the gross result the fill realised."""
    size, price = fill.signed_size_e8, fill.price_e8
    if size == 0:
        return held, 0
    if held is None or (held.size_e8 > 0) == (size > 0):
        return _increase(held or Position(fill.symbol, 0, 0), fill, leverage), 0
    left = held.size_e8 + size
    if left and (left > 0) == (held.size_e8 > 0):
        # The part that leaves is rounded; what stays is the rest, so that nothing is lost over a lifetime.
        released = divide_half_even(held.cost_usd_e6 * abs(size), abs(held.size_e8))
        margin = held.margin_usd_e6 - divide_half_even(held.margin_usd_e6 * abs(size), abs(held.size_e8))
        cost = held.cost_usd_e6 - released
        shrunk = Position(held.symbol, left, cost, held.leverage, margin, fill.happened_at)
        return shrunk, notional_usd_e6(-size, price) - released
    realised = notional_usd_e6(held.size_e8, price) - held.cost_usd_e6
    # A flip: the fill ends one position, and what is left of it begins another at the same price.
    rest = msgspec.structs.replace(fill, signed_size_e8=left)
    return _increase(Position(fill.symbol, 0, 0), rest, leverage) if left else None, realised


def _increase(held: Position, fill: Fill, leverage: int) -> Position:
    paid = notional_usd_e6(fill.signed_size_e8, fill.price_e8)
    # Up, so that no position is backed by less than its share.
    allotted = -(-abs(paid) // max(1, leverage))
    return Position(
        fill.symbol,
        held.size_e8 + fill.signed_size_e8,
        held.cost_usd_e6 + paid,
        leverage,
        held.margin_usd_e6 + allotted,
        fill.happened_at,
    )


def signed_size_e8(action: Action, held: Position | None, mark_e8: int) -> int:
    """Positive to buy, negative to sell; a hold asks for nothing, a close for all that is held."""
    have = held.size_e8 if held else 0
    if action.action == "hold":
        return 0
    if action.action == "close":
        return -have
    long = action.side == "long"
    wanted = size_e8_for(action.notional_usd_e6, mark_e8) * (1 if long else -1)
    # Asked of the side and not of the size: an add too small to be a size must not sell what is held.
    if action.action == "open" and (have == 0 or (have > 0) == long):
        return wanted
    # Turning a position, and adjusting one, both aim at the size that was asked for.
    return wanted - have


def only_reduces(size_e8: int, held: Position | None) -> bool:
    """Whether a signed size makes a position smaller, at most down to nothing."""
    have = held.size_e8 if held else 0
    return have != 0 and (have > 0) != (size_e8 > 0) and abs(size_e8) <= abs(have)


TradeSide = Literal["long", "short"]
MissingFact = Literal["fills", "funding", "path"]
"""What is not known of a trade of the past: fills before or within it, funding it paid, prices it saw.

Of a trade that lacks fills nothing is learned: its entry, its size and its result are partly assumed.
"""


class PriceRange(NamedTuple):
    """The lowest and the highest price that was observed of what was held."""

    low_e8: int
    high_e8: int


class TradeState(msgspec.Struct, frozen=True):
    """A trade as far as it has come. Entries and exits are totals, so averages need no memory of each fill.

    `funded_until` is the newest moment up to which funding has been booked. `entry_usd_e6` is what the order that
    opened the trade filled, `entry_order_id` that order where no run of ours placed it; trades from before these were
    recorded have neither.
    """

    trade_id: str
    symbol: str
    side: TradeSide
    entry_tick_at: int
    entry_mark_e8: int
    entry_leverage: int | None
    entry_reason: str
    entry_run_id: str | None
    entry_regime_tag: str | None
    entry_lessons_hash: str | None
    entered_e8: int
    entered_usd_e6: int
    funded_until: int
    exited_e8: int = 0
    exited_usd_e6: int = 0
    realised_usd_e6: int = 0
    fees_usd_e6: int = 0
    funding_usd_e6: int = 0
    mfe_usd_e6: int = 0
    mae_usd_e6: int = 0
    entry_usd_e6: int | None = None
    entry_order_id: str | None = None

    @property
    def entry_price_e8(self) -> int:
        """The average price of all entering fills."""
        return average_price_e8(self.entered_usd_e6, self.entered_e8)

    @property
    def entry_notional_usd_e6(self) -> int:
        """The notional at entry, which percentages are of: what later decisions added does not count.

        Of a trade from before it was recorded, all that was entered.
        """
        return abs(self.entered_usd_e6 if self.entry_usd_e6 is None else self.entry_usd_e6)

    @property
    def turnover_usd_e6(self) -> int:
        """The notional of all fills, entering and leaving."""
        return abs(self.entered_usd_e6) + self.exited_usd_e6

    @property
    def net_usd_e6(self) -> int:
        """Gross result less fees, plus funding."""
        return self.realised_usd_e6 - self.fees_usd_e6 + self.funding_usd_e6


class DayResults(msgspec.Struct, frozen=True):
    """What the trades that ended on a day came to, up to a moment of it."""

    trades: int = 0
    won: int = 0
    net_usd_e6: int = 0


class ClosedTrade(msgspec.Struct, frozen=True):
    """A trade that has ended, with the exit it got."""

    state: TradeState
    exit_tick_at: int
    exit_reason: str
    exit_run_id: str | None

    @property
    def exit_price_e8(self) -> int:
        """The average price of all leaving fills."""
        return average_price_e8(self.state.exited_usd_e6, self.state.exited_e8)

    @property
    def holding_ms(self) -> int:
        """How long the position lived."""
        return self.exit_tick_at - self.state.entry_tick_at
