"""The tape in its database: commits observations, reads them as of a moment and a watermark.

One commit is one transaction with one sequence number and one `known_at`, later than any before.
A read names both: `as_of` (what was known at a moment) and `watermark` (the newest commit that
may be seen). A live run reads its whole tape and remembers the watermark; a replay reads no
further. Rows are never changed: a correction is a new revision of its bucket. Rows that left for
the archive are read from there (`cold.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.instants import SECOND
from tapebook.domain.market import (
    AssetContext,
    Candle,
    FeatureRow,
    FundingRate,
    Gap,
    Liquidity,
    Mid,
    Observation,
    PredictedFunding,
)
from tapebook.tape.cold import Cold, Fetch
from tapebook.tape.families import CANDLES, OF_FEATURE, OF_TYPE, PREDICTED, Family, family_of

MIGRATIONS = "tapebook.tape"
NO_WATERMARK = 2**62
_QUERIES = Queries.load("tapebook.tape")

Fact = TypeVar("Fact", Mid, Liquidity, AssetContext, FundingRate)
KnownAt = Callable[[Observation], int]


class Clock(Protocol):
    """Anything that knows market time."""

    def now(self) -> int:
        """UTC milliseconds."""
        ...


class View(msgspec.Struct, frozen=True):
    """How far a read may see: what was known at a moment, up to a commit."""

    as_of: int
    watermark: int = NO_WATERMARK


class Channel(msgspec.Struct, frozen=True):
    """What a channel has delivered so far; its newest moments are 0 while all its rows are imported."""

    name: str
    rows: int
    newest_bucket_ts: int
    newest_known_at: int


class RecordedGap(msgspec.Struct, frozen=True):
    """A gap, when it was found, and when it was filled, if it was."""

    gap: Gap
    found_at: int
    filled_at: int | None


class Tape:
    """All market rows of one database."""

    def __init__(self, db: Database, *, clock: Clock, fetch: Fetch = lambda key: None) -> None:
        self._db = db
        self._clock = clock
        self._cold = Cold(db, fetch)
        self._ids: dict[str, int] = {}

    def head(self) -> tuple[int, int]:
        """The newest commit and when it was known; (0, 0) on an empty tape."""
        row = self._db.one(_QUERIES.head)
        return (row[0], row[1]) if row else (0, 0)

    def first_known_at(self) -> int:
        """When the oldest commit was known; 0 on an empty tape."""
        row = self._db.one(_QUERIES.first_commit)
        return row[0] if row else 0

    def commit(
        self,
        observations: Iterable[Observation],
        *,
        gaps: Sequence[Gap] = (),
        filled: Sequence[Gap] = (),
        assumed: KnownAt | None = None,
    ) -> int:
        """Writes observations and gaps in one transaction and returns the newest sequence number.

        What says nothing new leaves no trace. `assumed` says of imported history when each row would have been known.
        """
        try:
            with self._db.transaction():
                return self._commit(observations, gaps, filled, assumed=assumed)
        except BaseException:
            # Numbers given to new symbols in a transaction that failed were never given.
            self._ids = {}
            raise

    def _commit(
        self,
        observations: Iterable[Observation],
        gaps: Sequence[Gap],
        filled: Sequence[Gap],
        *,
        assumed: KnownAt | None,
    ) -> int:
        seq, previous = self.head()
        place = _Place(seq + 1, max(previous + 1, self._clock.now()), assumed)
        written = sum(self._add(family, facts, place) for family, facts in _by_family(observations))
        written += sum(self._note(gap, place) for gap in gaps)
        written += sum(self._fill(gap, place) for gap in filled)
        if not written:
            return seq
        basis = "observed" if assumed is None else "assumed"
        row = {"seq": place.seq, "known_at": place.known_at, "rows_written": written, "known_basis": basis}
        self._db.run(_QUERIES.commit, **row)
        return place.seq

    def channels(self) -> list[Channel]:
        """What each channel has delivered, by name."""
        return [Channel(*row) for row in self._db.all(_QUERIES.channels)]

    def newest_buckets(self) -> dict[str, int]:
        """The newest bucket each channel has delivered by itself; imported history does not count."""
        return {channel.name: channel.newest_bucket_ts for channel in self.channels() if channel.newest_bucket_ts}

    def rows_written(self) -> int:
        """How many rows the tape has taken in."""
        return sum(channel.rows for channel in self.channels())

    def gaps(self, *, as_of: int, most: int = NO_WATERMARK) -> list[RecordedGap]:
        """The gaps found by a moment, oldest first."""
        rows = self._db.all(_QUERIES.gaps, as_of=as_of, most=most)
        return [RecordedGap(Gap(*row[:6]), row[6], row[7]) for row in rows]

    def gap_count(self) -> int:
        """How many gaps have been found and not filled."""
        row = self._db.one(_QUERIES.gap_count)
        return row[0] if row else 0

    def symbols(self) -> list[str]:
        """Every symbol the tape has heard of, in alphabetical order."""
        return sorted(self._known_ids())

    def newest(self, kind: type[Fact], symbol: str, *, view: View) -> Fact | None:
        """The newest fact of a kind about a symbol."""
        row = self._newest(OF_TYPE[kind], symbol, view)
        return None if row is None else kind(symbol, *row)

    def feature(self, family: str, symbol: str, *, view: View) -> FeatureRow | None:
        """The newest derived row of a family about a symbol."""
        row = self._newest(OF_FEATURE[family], symbol, view)
        return None if row is None else FeatureRow(symbol, row[0], row[1], family)

    def funding_at(self, symbol: str, *, hour: int, view: View) -> FundingRate | None:
        """The rate that was settled at one hour, as far as it was known."""
        rows = self._between(OF_TYPE[FundingRate], symbol, since=hour, until=hour, view=view)
        return FundingRate(symbol, *rows[-1]) if rows else None

    def mids(self, symbol: str, *, since: int, until: int, view: View) -> list[Mid]:
        """A symbol's midpoints between two moments, oldest first."""
        return [Mid(symbol, *row) for row in self._between(OF_TYPE[Mid], symbol, since=since, until=until, view=view)]

    def facts(self, kind: type[Fact], symbol: str, *, since: int, view: View) -> list[Fact]:
        """A symbol's facts of a kind since a moment, oldest first."""
        rows = self._between(OF_TYPE[kind], symbol, since=since, until=view.as_of, view=view)
        return [kind(symbol, *row) for row in rows]

    def predicted(self, symbol: str, *, since: int, view: View) -> list[PredictedFunding]:
        """What each venue announced last since a moment, by venue."""
        rows = self._between(PREDICTED, symbol, since=since, until=view.as_of, view=view)
        newest = {row[1]: row for row in rows}
        return [PredictedFunding(symbol, *newest[venue]) for venue in sorted(newest)]

    def candles(
        self, symbol: str, *, granularity_sec: int, since: int, view: View, until: int = NO_WATERMARK
    ) -> list[Candle]:
        """A symbol's bars that begin between two moments and had ended by `view.as_of`, oldest first."""
        last = min(until, view.as_of - granularity_sec * SECOND)
        rows = self._between(CANDLES, symbol, since=since, until=last, view=view, granularity_sec=granularity_sec)
        return [Candle(symbol, *row) for row in rows]

    def _newest(self, family: Family, symbol: str, view: View) -> Row | None:
        """Looks in the chunk of the moment, then back through the chunks there are, here and in the archive."""
        symbol_id = self._id(symbol)
        chunk: int | None = family.chunk(view.as_of)
        while symbol_id is not None and chunk is not None:
            where = {"chunk": chunk, "symbol_id": symbol_id, "as_of": view.as_of, "watermark": view.watermark}
            found = self._cold.both(family, family.queries.newest, first=chunk - 1, last=chunk, **where)
            if found:
                return found[-1]
            chunk = self._chunk_before(family, chunk - 1)
        return None

    def _chunk_before(self, family: Family, chunk: int) -> int | None:
        here = self._db.one(family.queries.chunk_before, chunk=chunk)
        found = [here[0] if here else None, self._cold.chunk_before(family, chunk)]
        return max((number for number in found if number is not None), default=None)

    def _between(
        self, family: Family, symbol: str, *, since: int, until: int, view: View, granularity_sec: int = 0
    ) -> list[Row]:
        """Rows in order of their bucket, each in its newest revision."""
        symbol_id = self._id(symbol)
        if symbol_id is None or until < since:
            return []
        first, last = family.chunk(since, granularity_sec), family.chunk(until, granularity_sec)
        where = {"symbol_id": symbol_id, "granularity_sec": granularity_sec, "since": since, "until": until}
        where |= {"first_chunk": first, "last_chunk": last, "as_of": view.as_of, "watermark": view.watermark}
        rows = self._cold.both(family, family.queries.between, first=first, last=last, **where)
        if len({row[family.bucket_at] for row in rows}) == len(rows):
            return rows
        return list({row[: family.key_width]: row for row in rows}.values())

    def _id(self, symbol: str) -> int | None:
        """A symbol's number; another process may have given it since this one looked."""
        return self._ids.get(symbol) or self._known_ids().get(symbol)

    def _known_ids(self) -> dict[str, int]:
        self._ids = dict(self._db.all(_QUERIES.symbols))
        return self._ids

    def _add(self, family: Family, facts: list[Observation], place: "_Place") -> int:
        """Adds facts as revision 0, or as the next revision where they differ from what is stored."""
        ids = self._numbered({fact.symbol for fact in facts})
        rows = _rows(family, facts, ids, place)
        written = self._db.many(family.queries.add, rows)
        if written < len(rows):
            written += sum(self._revise(family, row) for row in rows)
        if written:
            # Imported history says nothing of how far a channel has come by itself.
            observed = place.assumed is None
            newest = max(fact.bucket_ts for fact in facts) if observed else 0
            counted = {"channel": family.channel, "rows_written": written, "newest_bucket_ts": newest}
            self._db.run(_QUERIES.count_channel, newest_known_at=place.known_at if observed else 0, **counted)
        return written

    def _revise(self, family: Family, row: Row) -> int:
        """Adds a row as a new revision if the newest stored one says something else."""
        values = dict(zip(family.queries.add.params, row, strict=True))
        stored = self._db.one(family.queries.stored, **values)
        # Without key and revision, the stored values are the last of the row before its revision and times.
        if stored is None or stored[1:] == row[-2 - len(stored) : -3]:
            return 0
        return self._db.many(family.queries.add, [(*row[:-3], stored[0] + 1, *row[-2:])])

    def _numbered(self, symbols: set[str]) -> dict[str, int]:
        """Numbers for symbols; new ones get theirs in alphabetical order, so that equal inputs give equal numbers."""
        if symbols <= self._ids.keys():
            return self._ids
        # The numbers given here are remembered only once they are read back: this transaction may still fail.
        ids = dict(self._known_ids())
        for symbol in sorted(symbols - ids.keys()):
            ids[symbol] = len(ids) + 1
            self._db.run(_QUERIES.add_symbol, symbol_id=ids[symbol], symbol=symbol)
        return ids

    def _note(self, gap: Gap, place: "_Place") -> int:
        row = msgspec.structs.asdict(gap) | {"found_at": place.known_at, "found_seq": place.seq}
        return self._db.many(_QUERIES.add_gap, [tuple(row[name] for name in _QUERIES.add_gap.params)])

    def _fill(self, gap: Gap, place: "_Place") -> int:
        row = msgspec.structs.asdict(gap) | {"filled_at": place.known_at, "filled_seq": place.seq}
        return self._db.many(_QUERIES.fill_gap, [tuple(row[name] for name in _QUERIES.fill_gap.params)])


class _Place(msgspec.Struct, frozen=True):
    """Where a commit stands: its sequence number, its time, and the rule for imported rows."""

    seq: int
    known_at: int
    assumed: KnownAt | None


def _rows(family: Family, facts: Sequence[Observation], ids: dict[str, int], place: _Place) -> list[Row]:
    """The values in the order of the family's insert: place, the fact's own fields, revision, times."""
    own = slice(1, -1) if family.channel in OF_FEATURE else slice(1, None)
    values, seq = msgspec.structs.astuple, place.seq
    if place.assumed is not None or family.has_granularity:
        known_at = place.assumed or (lambda fact: place.known_at)
        return [
            (family.chunk_of(fact), ids[fact.symbol], *values(fact)[own], 0, known_at(fact), seq) for fact in facts
        ]
    # Written out for frames of all symbols, of which there are many.
    span, known = family.span_ms, place.known_at
    return [(fact.bucket_ts // span, ids[fact.symbol], *values(fact)[own], 0, known, seq) for fact in facts]


def _by_family(observations: Iterable[Observation]) -> list[tuple[Family, list[Observation]]]:
    """Facts grouped by family, in a fixed order; within a family as they came."""
    groups: dict[object, list[Observation]] = {}
    for fact in observations:
        groups.setdefault(fact.family if isinstance(fact, FeatureRow) else type(fact), []).append(fact)
    families = [(family_of(facts[0]), facts) for facts in groups.values()]
    return sorted(families, key=lambda pair: pair[0].table)
