"""The families of market rows: which table holds which fact, on which channel it arrives, and how it is chunked."""

import msgspec

from tapebook.db import Queries
from tapebook.domain.instants import HOUR, MINUTE, SECOND
from tapebook.domain.market import (
    AssetContext,
    Candle,
    FeatureRow,
    FundingRate,
    Liquidity,
    Mid,
    Observation,
    PredictedFunding,
)

CHUNK_BUCKETS = 20
"""Buckets per chunk. Measured with 1,000 symbols of one-minute bars: at 20, writing reaches two thirds of what a key by
time reaches, and reading 500 bars of a symbol costs what it costs with a key by symbol (docs/decisions/0006)."""

_KEY_FIELDS = ("granularity_sec", "venue")


class Family:
    """One table of rows; `step_ms` is the usual distance between two rows of a symbol."""

    def __init__(self, fact: type[msgspec.Struct], table: str, channel: str, *, step_ms: int) -> None:
        own = [name for name in fact.__struct_fields__ if name not in ("symbol", "family")]
        self.table, self.channel, self.step_ms = table, channel, step_ms
        self.has_granularity = "granularity_sec" in own
        self.bucket_at = own.index("bucket_ts")
        self.span_ms = step_ms * CHUNK_BUCKETS
        # Bucket, granularity and venue stand first in a fact, before what it says.
        self.key_width = 1 + sum(name in _KEY_FIELDS for name in own)
        self.queries = Queries.load("tapebook.tape", "family.sql", **_names(table, own))

    def chunk(self, bucket_ts: int, granularity_sec: int = 0) -> int:
        """The chunk a bucket lies in."""
        return bucket_ts // (granularity_sec * SECOND * CHUNK_BUCKETS if granularity_sec else self.span_ms)

    def chunk_of(self, fact: Observation) -> int:
        """The chunk a fact lies in."""
        return self.chunk(fact.bucket_ts, fact.granularity_sec if isinstance(fact, Candle) else 0)


def _names(table: str, own: list[str]) -> dict[str, str]:
    """What the family's SQL is filled in with: a row is its place, the fact's own fields, its revision and times."""
    columns = ["chunk", "symbol_id", *own, "revision", "known_at", "seq"]
    key = ["chunk", "symbol_id", "bucket_ts", *(name for name in own if name in _KEY_FIELDS)]
    return {
        "table": table,
        "columns": ", ".join(columns),
        "params": ", ".join(f":{name}" for name in columns),
        "key": ", ".join(key),
        "same_key": " AND ".join(f"{name} = :{name}" for name in key),
        "values": ", ".join(name for name in own if name not in key),
        "fields": ", ".join(own),
        "granularity": "granularity_sec = :granularity_sec AND " if "granularity_sec" in own else "",
    }


MIDS = Family(Mid, "hyperliquid_mid_prices", "mids", step_ms=5 * SECOND)
CANDLES = Family(Candle, "hyperliquid_candles", "candles", step_ms=MINUTE)
BOOKS = Family(Liquidity, "hyperliquid_liquidity_profiles", "books", step_ms=5 * MINUTE)
CONTEXTS = Family(AssetContext, "hyperliquid_asset_contexts", "contexts", step_ms=MINUTE)
FUNDING = Family(FundingRate, "hyperliquid_funding_rates", "funding", step_ms=HOUR)
PREDICTED = Family(PredictedFunding, "hyperliquid_predicted_fundings", "predicted", step_ms=MINUTE)
VOLATILITY = Family(FeatureRow, "hyperliquid_volatility_profiles", "volatility", step_ms=5 * MINUTE)
PRESSURE = Family(FeatureRow, "hyperliquid_funding_pressure", "pressure", step_ms=5 * MINUTE)
POSITIONING = Family(FeatureRow, "hyperliquid_positioning_pressure", "positioning", step_ms=5 * MINUTE)

ALL = (MIDS, CANDLES, BOOKS, CONTEXTS, FUNDING, PREDICTED, VOLATILITY, PRESSURE, POSITIONING)
OF_TYPE: dict[type, Family] = {
    Mid: MIDS,
    Candle: CANDLES,
    Liquidity: BOOKS,
    AssetContext: CONTEXTS,
    FundingRate: FUNDING,
    PredictedFunding: PREDICTED,
}
OF_FEATURE = {family.channel: family for family in (VOLATILITY, PRESSURE, POSITIONING)}


def family_of(fact: Observation) -> Family:
    """The family a fact belongs to."""
    return OF_FEATURE[fact.family] if isinstance(fact, FeatureRow) else OF_TYPE[type(fact)]
