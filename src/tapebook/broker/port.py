"""What a broker offers, and what it may ask of the market."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tapebook.domain.market import Mid
from tapebook.domain.order import BrokerEvent, Order


class Exposure(msgspec.Struct, frozen=True):
    """An open position as a broker must know it: its signed size, and up to when its funding is booked."""

    symbol: str
    size_e8: int
    funded_until: int


class PaperTerms(msgspec.Struct, frozen=True):
    """What paper trading costs; fees and spread in millionths, so that they are integers."""

    latency_ms: int
    taker_fee_ppm: int
    maker_fee_ppm: int
    spread_ppm: int


class Quotes(Protocol):
    """The market as far as it is known; a broker cannot see beyond it."""

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        """Midpoints between two moments, oldest first."""
        ...

    def spread_ppm(self, symbol: str, *, at: int) -> int | None:
        """The recorded spread at a moment in millionths, or None when no book was recorded."""
        ...

    def mark_e8(self, symbol: str, *, at: int) -> int | None:
        """The price a position is valued at."""
        ...

    def funding_e12(self, symbol: str, *, hour: int) -> int | None:
        """The hourly rate that was due at an hour, or None when none is known."""
        ...


class Broker(Protocol):
    """A place that executes orders."""

    def place(self, order: Order) -> None:
        """Hands an order over; the same client id again changes nothing."""
        ...

    def activity(
        self, orders: Sequence[Order], exposures: Sequence[Exposure], *, quotes: Quotes, until: int
    ) -> list[BrokerEvent]:
        """What happened up to a moment to working orders and open positions, in time order."""
        ...
