"""The families of market rows: which table holds which fact, how it is chunked, and facts as rows of a commit.

A family is one table: it knows its channel, its chunks and its SQL (`family.sql`). `facts_by_family` groups what a
commit writes, `rows_to_insert` gives the values in the order of the family's insert.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, cast

import msgspec

from tapebook.db import Queries, Row
from tapebook.domain.market import (
    AssetContext,
    Candle,
    Delisting,
    FeatureRow,
    FundingRate,
    Liquidity,
    Mid,
    MidFrame,
    Observation,
    PredictedFunding,
    RegistryRecord,
)
from tapebook.domain.units import HOUR, MINUTE, SECOND

CHUNK_BUCKETS = 20
"""Buckets per chunk, unless a family says otherwise: fewer write faster, more read faster (docs/decisions/0006)."""

_KEY_FIELDS = ("granularity_sec", "venue")
_STAMP = frozenset(("revision", "known_at", "seq"))


class Family:
    """One table of rows; `step_ms` is the usual distance between two rows of a symbol.

    A source that brings facts of its own declares a family of `FeatureRow` whose table its migrations make.
    """

    def __init__(
        self,
        fact: type[msgspec.Struct],
        table: str,
        channel: str,
        *,
        step_ms: int,
        chunk_buckets: int = CHUNK_BUCKETS,
    ) -> None:
        own = [name for name in fact.__struct_fields__ if name not in ("symbol", "family")]
        self.table, self.channel, self.step_ms, self.fact = table, channel, step_ms, fact
        # Makes a fact of a symbol and a row of the family.
        self.make: Callable[..., Any] = partial(fact, family=channel) if fact is FeatureRow else fact
        self.has_granularity = "granularity_sec" in own
        self.bucket_at = own.index("bucket_ts")
        self.bucket_of: Callable[[Row], int] = itemgetter(self.bucket_at)
        # What of a fact stands in a row by itself: not the symbol, which has a number, nor the name of a family.
        self.own = slice(1, -1 if "family" in fact.__struct_fields__ else None)
        self.span_ms = step_ms * chunk_buckets
        self.span_per_granularity = SECOND * chunk_buckets
        # Bucket, granularity and venue stand first in a fact, before what it says.
        self.key_width = 1 + sum(name in _KEY_FIELDS for name in own)
        # Where a row stands: its chunk, its symbol, and what is the key of a fact.
        self._place_of: Callable[[Row], tuple[Any, ...]] = itemgetter(*range(2 + self.key_width))
        # What is alike in all rows of a frame; nothing where one has several rows of a symbol.
        self._frame_columns = () if "venue" in own else tuple(range(2, 2 + self.key_width))
        self._frame_params = frozenset(("chunk", *own[: self.key_width]))
        self.key_of: Callable[[Row], tuple[Any, ...]] = itemgetter(*range(2 + self.key_width), -3)
        kinds = {field.name: field.type for field in msgspec.structs.fields(fact)}
        floats = [2 + place for place, name in enumerate(own) if kinds[name] is float]
        # They stand together in every fact.
        self._floats = slice(floats[0], floats[-1] + 1) if floats else None
        self.queries = Queries.load("tapebook.tape", "family.sql", **_sql_names(table, own))

    def chunk(self, bucket_ts: int, granularity_sec: int = 0) -> int:
        """The chunk a bucket lies in."""
        return bucket_ts // self.span_of(granularity_sec)

    def span_of(self, granularity_sec: int = 0) -> int:
        """How many milliseconds a chunk spans."""
        return granularity_sec * self.span_per_granularity if granularity_sec else self.span_ms

    def chunk_of(self, row: Row) -> int:
        """The chunk a stored row belongs to; before the fact's own fields, a row has its chunk and its symbol."""
        return self.chunk(row[2 + self.bucket_at], row[2] if self.has_granularity else 0)

    def exact_values(self, rows: list[Row]) -> list[Row]:
        """Rows with the values a database gives back: in a column of floats no integer, and no zero below zero."""
        if self._floats is None:
            return rows
        floats, first, last = self._floats, self._floats.start, self._floats.stop
        # Of a thousand rows nearly always none is another: the columns are asked before a row is built anew.
        columns = [list(map(itemgetter(at), rows)) for at in range(first, last)]
        if all(set(map(type, column)) == {float} and 0.0 not in column for column in columns):
            return rows
        try:
            return [(*row[:first], *[value + 0.0 for value in row[floats]], *row[last:]) for row in rows]
        except TypeError:
            # A damaged row holds something else; it stays what it is.
            return rows

    def sort_rows(self, rows: list[Row]) -> frozenset[str]:
        """Puts rows in the order of their key, of equal keys the first stays first; what of their place all share."""
        # Rows of one moment are told apart by their symbol, and a number sorts in an eighth of the time.
        columns = self._frame_columns
        is_frame = bool(columns) and all(len(set(map(itemgetter(column), rows))) == 1 for column in columns)
        rows.sort(key=itemgetter(1) if is_frame else self._place_of)
        return self._frame_params if is_frame else frozenset()

    def chunks(self, facts: Sequence[Observation]) -> list[int]:
        """The chunk each fact lies in: written out, for there are thousands at once."""
        if self.has_granularity:
            span = self.span_per_granularity
            return [bar.bucket_ts // (bar.granularity_sec * span) for bar in cast("Sequence[Candle]", facts)]
        span = self.span_ms
        return [fact.bucket_ts // span for fact in facts]


def _sql_names(table: str, own: list[str]) -> dict[str, str]:
    """What the family's SQL is filled in with: a row is its place, the fact's own fields, its revision and times."""
    columns = ["chunk", "symbol_id", *own, "revision", "known_at", "seq"]
    key = ["chunk", "symbol_id", "bucket_ts", *(name for name in own if name in _KEY_FIELDS)]
    # As rows of a symbol lie in the table: with the bucket the chunk grows, and with the revision the commit.
    order = ["chunk", "bucket_ts", *(["venue"] if "venue" in own else []), "revision"]
    ends_at = "bucket_ts + granularity_sec * 1000" if "granularity_sec" in own else "bucket_ts"
    return {
        "place_and_own": ", ".join(["chunk", "symbol_id", *own]),
        "ends_at": ends_at,
        "later_revision": " AND ".join(f"later.{name} = {table}.{name}" for name in key),
        "table": table,
        "columns": ", ".join(columns),
        "params": ", ".join(f":{name}" for name in columns),
        "key": ", ".join(key),
        "same_key": " AND ".join(f"{name} = :{name}" for name in key),
        "values": ", ".join(name for name in own if name not in key),
        "fields": ", ".join(own),
        "oldest_first": ", ".join(order),
        "newest_first": ", ".join(f"{name} DESC" for name in order),
        "granularity": "granularity_sec = :granularity_sec AND " if "granularity_sec" in own else "",
        "stored_key": ", ".join(sorted(key, key=lambda name: name != "granularity_sec")),
    }


MIDS = Family(Mid, "hyperliquid_mid_prices", "mids", step_ms=5 * SECOND, chunk_buckets=4)
CANDLES = Family(Candle, "hyperliquid_candles", "candles", step_ms=MINUTE)
BOOKS = Family(Liquidity, "hyperliquid_liquidity_profiles", "books", step_ms=5 * MINUTE)
CONTEXTS = Family(AssetContext, "hyperliquid_asset_contexts", "contexts", step_ms=MINUTE)
FUNDING = Family(FundingRate, "hyperliquid_funding_rates", "funding", step_ms=HOUR)
PREDICTED = Family(PredictedFunding, "hyperliquid_predicted_fundings", "predicted", step_ms=MINUTE)
VOLATILITY = Family(FeatureRow, "hyperliquid_volatility_profiles", "volatility", step_ms=5 * MINUTE)
PRESSURE = Family(FeatureRow, "hyperliquid_funding_pressure", "pressure", step_ms=5 * MINUTE)
POSITIONING = Family(FeatureRow, "hyperliquid_positioning_pressure", "positioning", step_ms=5 * MINUTE)

ALL_FAMILIES = (MIDS, CANDLES, BOOKS, CONTEXTS, FUNDING, PREDICTED, VOLATILITY, PRESSURE, POSITIONING)
FAMILY_OF_TYPE: dict[type, Family] = {
    Mid: MIDS,
    MidFrame: MIDS,
    Candle: CANDLES,
    Liquidity: BOOKS,
    AssetContext: CONTEXTS,
    FundingRate: FUNDING,
    PredictedFunding: PREDICTED,
}


KnownAt = Callable[[Observation], int]


class CommitStamp(msgspec.Struct, frozen=True):
    """Where a commit stands: its sequence number, its time, and the rule for imported rows."""

    seq: int
    known_at: int
    assumed: KnownAt | None

    @property
    def shared_params(self) -> frozenset[str]:
        """What of revision and times all new rows have in common; imported rows were known each at its own time."""
        return _STAMP if self.assumed is None else _STAMP - {"known_at"}


def rows_to_insert(
    family: Family, facts: Sequence[Observation | MidFrame], ids: Mapping[str, int], place: CommitStamp
) -> list[Row]:
    """The values in the order of the family's insert: place, the fact's own fields, revision, times."""
    if family is MIDS:
        return [row for fact in facts for row in _mid_rows(fact, ids, place)]
    singles = cast("Sequence[Observation]", facts)
    own, values, seq = family.own, map(msgspec.structs.astuple, singles), place.seq
    known_at = map(place.assumed, singles) if place.assumed else repeat(place.known_at)
    # The symbol is the first field of every fact.
    return [
        (chunk, ids[fact[0]], *fact[own], 0, known, seq)
        for fact, chunk, known in zip(values, family.chunks(singles), known_at, strict=False)
    ]


def _mid_rows(fact: Observation | MidFrame, ids: Mapping[str, int], place: CommitStamp) -> Iterable[Row]:
    """A frame of midpoints column by column; one that came alone is a frame of one."""
    if isinstance(fact, Mid):
        fact = MidFrame(fact.bucket_ts, (fact.symbol,), (fact.price_e8,))
    frame = cast("MidFrame", fact)
    chunk, numbers = repeat(MIDS.chunk(frame.bucket_ts)), map(ids.__getitem__, frame.symbols)
    known_at = map(place.assumed, frame) if place.assumed else repeat(place.known_at)
    buckets, revisions, seqs = repeat(frame.bucket_ts), repeat(0), repeat(place.seq)
    return zip(chunk, numbers, buckets, frame.prices_e8, revisions, known_at, seqs, strict=False)


def symbols_in(facts: Iterable[Observation | MidFrame]) -> set[str]:
    """Every symbol the facts are about."""
    named = (fact.symbols if isinstance(fact, MidFrame) else (fact.symbol,) for fact in facts)
    return {symbol for symbols in named for symbol in symbols}


def facts_by_family(
    observations: Iterable[Observation | MidFrame], features: Mapping[str, Family]
) -> list[tuple[Family, list[Observation | MidFrame]]]:
    """Facts grouped by family, in a fixed order; within a family as they came. Delistings and records belong to none.

    `features` are the families of feature rows by their name.
    """
    groups: dict[Family, list[Observation | MidFrame]] = {}
    for kind, facts in groupby(observations, type):
        if kind is FeatureRow:
            for fact in facts:
                groups.setdefault(features[cast("FeatureRow", fact).family], []).append(fact)
        elif kind is MidFrame:
            # An empty one says nothing, not even that its bucket was reached.
            groups.setdefault(MIDS, []).extend(frame for frame in facts if len(cast("MidFrame", frame)))
        elif kind is not Delisting and kind is not RegistryRecord:
            groups.setdefault(FAMILY_OF_TYPE[kind], []).extend(facts)
    return sorted(groups.items(), key=lambda group: group[0].table)
