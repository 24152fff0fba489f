"""What is watched on Hyperliquid, how often, and how patiently.

Durations that count market time are `_ms`; timeouts of the wire are `_s` and count monotonic time.
"""

from typing import Protocol

import msgspec

from tapebook.domain.units import HOUR, MINUTE, SECOND
from tapebook.errors import ConfigError

# The dearest single request, 5,000 candles, weighs 104 of 1,200: a smaller share could never send it.
_LEAST_SHARE = 0.1


class HyperliquidSourceSettings(msgspec.Struct, frozen=True):
    """Settings of the source; the defaults watch every live perp and all spot mids of the main exchange."""

    base_url: str = "https://api.hyperliquid.xyz"

    # Builder dexes watched beside the main one.
    dexes: tuple[str, ...] = ()
    # Empty: every live perp, and by `spot` and `outcomes` the mids of those. Named: these and nothing else.
    symbols: tuple[str, ...] = ()
    # Empty: every perp watched.
    candle_symbols: tuple[str, ...] = ()
    spot: bool = True
    outcomes: bool = False

    contexts_every_ms: int = MINUTE
    books_every_ms: int = 5 * MINUTE
    # Between two rounds books are looked at so often, 0 for never. One is kept when its spread or depth has grown or
    # shrunk by the factor, or its imbalance has moved by the step, since the newest one that is kept.
    book_looks_every_ms: int = MINUTE
    book_change_factor: float = 2.0
    book_change_imbalance: float = 0.8
    # What looks may use of the weight there is; where that does not reach for all symbols, they take turns.
    book_looks_share: float = 0.25
    funding_every_ms: int = HOUR
    spot_names_every_ms: int = HOUR
    # The hour's rate is settled a few milliseconds past the hour and published a little later.
    funding_delay_ms: int = 15 * SECOND
    grace_ms: int = 2 * SECOND
    # How far back the first start of all looks for candles and funding.
    history_ms: int = HOUR
    # Once an hour every symbol's last hour of candles is asked for again: 21 weight each.
    audit: bool = True

    weight_share: float = 0.6
    subscriptions_per_connection: int = 100

    ping_s: float = 30.0
    pong_s: float = 10.0
    mids_silence_s: float = 30.0
    # For one symbol; a connection that carries ten of them is given up after a tenth of it, but not before the mids.
    candles_silence_s: float = 300.0
    connect_s: float = 10.0
    request_s: float = 10.0
    ack_s: float = 15.0
    barrier_s: float = 30.0

    # Virtual time: nothing happens between barriers but receiving, and all intervals count market time.
    stepped: bool = False

    @property
    def info_url(self) -> str:
        """Where questions are posted."""
        return f"{self.base_url.rstrip('/')}/info"

    @property
    def socket_url(self) -> str:
        """The WebSocket beside it: http becomes ws, https becomes wss."""
        return f"ws{self.base_url.rstrip('/').removeprefix('http')}/ws"

    def check(self) -> None:
        """Raises ConfigError for what cannot work."""
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(f"{self.base_url!r} is no address: write it like https://api.hyperliquid.xyz")
        if not _LEAST_SHARE <= self.weight_share <= 1:
            raise ConfigError(f"weight_share is {self.weight_share}: choose a share from {_LEAST_SHARE} to 1")
        if self.contexts_every_ms % MINUTE or self.books_every_ms % (5 * MINUTE) or self.funding_every_ms % HOUR:
            raise ConfigError("polls keep to their buckets: contexts whole minutes, books 5 minutes, funding hours")
        if self.book_looks_every_ms % MINUTE or self.book_looks_every_ms < 0:
            raise ConfigError("book_looks_every_ms is whole minutes, or 0 for no looks")
        if not self.book_change_factor > 1:
            raise ConfigError(f"book_change_factor is {self.book_change_factor}: choose a number above 1")
        for name in ("contexts_every_ms", "books_every_ms", "funding_every_ms", "spot_names_every_ms"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}: choose a positive number of milliseconds")


class FeedSettings(Protocol):
    """The section [hyperliquid] of a home's settings."""

    @property
    def url(self) -> str:
        """Where the exchange is."""
        ...

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols to watch; empty for all."""
        ...

    @property
    def dexes(self) -> tuple[str, ...]:
        """Builder dexes to watch beside the main one."""
        ...

    @property
    def spot(self) -> bool:
        """Whether the midpoints of spot markets are kept."""
        ...

    @property
    def weight_share(self) -> float:
        """The share of the exchange's request budget to use."""
        ...

    @property
    def history_hours(self) -> float:
        """Hours of candles and funding to fetch at the first start."""
        ...

    @property
    def book_change_factor(self) -> float:
        """By how much a book must have changed to be kept between two rounds."""
        ...


def source_settings(feed: FeedSettings, *, url: str | None, stepped: bool = False) -> HyperliquidSourceSettings:
    """The settings of the source, from those of the home."""
    return HyperliquidSourceSettings(
        base_url=url or feed.url,
        dexes=feed.dexes,
        symbols=feed.symbols,
        spot=feed.spot,
        weight_share=feed.weight_share,
        book_change_factor=feed.book_change_factor,
        history_ms=int(feed.history_hours * HOUR),
        stepped=stepped,
    )
