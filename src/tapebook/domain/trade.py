"""A round trip: from the first fill that opens a position to the one that ends it."""

from typing import Literal, NamedTuple

import msgspec

from tapebook.domain.money import price_e8_of

TradeSide = Literal["long", "short"]
Lack = Literal["fills", "funding", "path"]
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
        return price_e8_of(self.entered_usd_e6, self.entered_e8)

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


class ClosedTrade(msgspec.Struct, frozen=True):
    """A trade that has ended, with the exit it got."""

    state: TradeState
    exit_tick_at: int
    exit_reason: str
    exit_run_id: str | None

    @property
    def exit_price_e8(self) -> int:
        """The average price of all leaving fills."""
        return price_e8_of(self.state.exited_usd_e6, self.state.exited_e8)

    @property
    def holding_ms(self) -> int:
        """How long the position lived."""
        return self.exit_tick_at - self.state.entry_tick_at
