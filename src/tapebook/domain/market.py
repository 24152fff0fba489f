"""What the market did: the facts a source delivers, each about one symbol at one moment.

`bucket_ts` is when it happened (the start of the bucket for bars). When it became known is not
part of the fact: the tape stamps that as it commits.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

SubjectKind = Literal["perp", "spot", "prediction_market", "protocol", "chain", "stablecoin", "global"]
"""What a symbol of the tape stands for."""

TRADED_KINDS: tuple[SubjectKind, ...] = ("perp", "spot")
"""The kinds that have a price of their own, so that an agent can watch them."""

EVERY_SUBJECT = "*"
"""The subject of a gap that concerns all symbols."""


def dex_of(symbol: str) -> str:
    """The dex in a symbol such as `xyz:TSLA`; empty for the main one."""
    return symbol.partition(":")[0] if ":" in symbol else ""


def subject_of(dex: str) -> str:
    """All of a dex: `*` for the main one, `xyz:*` for a builder dex."""
    return f"{dex}:{EVERY_SUBJECT}" if dex else EVERY_SUBJECT


class Mid(msgspec.Struct, frozen=True):
    """The midpoint of one symbol in a 5-second bucket."""

    symbol: str
    bucket_ts: int
    price_e8: int


class MidFrame(msgspec.Struct, frozen=True):
    """The midpoints of many symbols in one bucket, in two columns: what a thousand `Mid`s say, as one value."""

    bucket_ts: int
    symbols: tuple[str, ...]
    prices_e8: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.symbols) != len(self.prices_e8):
            raise ValueError(f"symbols: {len(self.symbols)}, prices: {len(self.prices_e8)}")

    def __len__(self) -> int:
        return len(self.symbols)

    def __iter__(self) -> Iterator[Mid]:
        for symbol, price in zip(self.symbols, self.prices_e8, strict=True):
            yield Mid(symbol, self.bucket_ts, price)


class Candle(msgspec.Struct, frozen=True, gc=False):
    """One final bar; volumes are statistics, so they are floats and never enter money."""

    symbol: str
    granularity_sec: int
    bucket_ts: int
    open_e8: int
    high_e8: int
    low_e8: int
    close_e8: int
    volume_base: float
    volume_quote_usd: float
    sample_count: int

    @property
    def end(self) -> int:
        """The first instant after the bar."""
        return self.bucket_ts + self.granularity_sec * 1_000


class LookbackBars(msgspec.Struct, frozen=True, gc=False):
    """The bars that a situation is read from, whatever bars a packet shows; oldest first, each of one size.

    `recent` are quarters of an hour from a full hour at least four hours back; `older` are hours that end there or
    before, eight days of them. Where the tape has no bars so small, `recent` is empty and `older` has the smallest.
    """

    recent: tuple[Candle, ...] = ()
    older: tuple[Candle, ...] = ()


class Liquidity(msgspec.Struct, frozen=True):
    """An order book, boiled down: spread and the depth within 0.1, 0.5 and 1 % of the mid, in USD."""

    symbol: str
    bucket_ts: int
    mid_e8: int
    spread_bps: float
    depth_usd_10bps: float
    depth_usd_50bps: float
    depth_usd_100bps: float
    imbalance: float


class AssetContext(msgspec.Struct, frozen=True):
    """The exchange's view of a perp now: current hourly funding, premium, open interest, mark and oracle price."""

    symbol: str
    bucket_ts: int
    funding_e12: int
    premium_e12: int
    open_interest_base: float
    mark_e8: int
    oracle_e8: int


class FundingRate(msgspec.Struct, frozen=True):
    """The rate that was settled at one hour: longs pay `rate` of their notional, shorts receive it."""

    symbol: str
    bucket_ts: int
    rate_e12: int
    premium_e12: int


class SettledFunding(msgspec.Struct, frozen=True):
    """The funding settled last: what was paid, when, and for how many hours, as the distance of settlements says."""

    symbol: str
    bucket_ts: int
    rate_e12: int
    interval_hours: int


class PredictedFunding(msgspec.Struct, frozen=True):
    """What one venue will charge next; an interval the venue did not name stays unknown."""

    symbol: str
    bucket_ts: int
    venue: str
    rate_e12: int
    interval_hours: int | None
    next_funding_at: int


class Delisting(msgspec.Struct, frozen=True):
    """Whether the exchange still lists a perp: None while it does, else the price at which positions are settled."""

    symbol: str
    bucket_ts: int
    settlement_e8: int | None


class FeatureRow(msgspec.Struct, frozen=True):
    """What a family says of a symbol, as canonical JSON: derived (volatility, pressure, positioning), or delivered by a
    source that has a table of its own.
    """

    symbol: str
    bucket_ts: int
    metrics_json: str
    family: str


class Gap(msgspec.Struct, frozen=True):
    """Market time a channel said nothing about, from its first missing moment up to, not including, `to_ts`."""

    source: str
    channel: str
    subject: str
    from_ts: int
    to_ts: int
    reason: str


class RegistryRecord(msgspec.Struct, frozen=True):
    """What a register says of a subject from now on, as canonical JSON; what it does not mention stays as it was."""

    symbol: str
    bucket_ts: int
    record_json: str
    register: str


Observation = (
    Mid | Candle | Liquidity | AssetContext | FundingRate | PredictedFunding | Delisting | FeatureRow | RegistryRecord
)
