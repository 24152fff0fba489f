"""A round trip: from the first fill that opens a position to the one that ends it."""

from typing import Literal

import msgspec

from tapebook.domain.money import price_e8_of

TradeSide = Literal["long", "short"]


class TradeState(msgspec.Struct, frozen=True):
    """A trade as far as it has come. Entries and exits are totals, so averages need no memory of each fill.

    `funded_until` is the newest moment up to which funding has been booked.
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

    @property
    def entry_price_e8(self) -> int:
        """The average price of all entering fills."""
        return price_e8_of(self.entered_usd_e6, self.entered_e8)

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
