"""The tape in its database: commits observations, reads them as of a moment and a watermark.

One commit is one transaction with one sequence number and one `known_at`, later than any before.
A read names both: `as_of` (what was known at a moment) and `watermark` (the newest commit that
may be seen). A live run reads its whole tape and remembers the watermark; a replay reads no
further. Rows are never changed: a correction is a new revision of its bucket. Rows that left for
the archive are read from there (`cold.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, repeat
from operator import attrgetter
from typing import Protocol, TypeVar, cast

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
    MidFrame,
    Observation,
    PredictedFunding,
)
from tapebook.tape.cold import Cold, Fetch
from tapebook.tape.families import ALL, CANDLES, MIDS, OF_FEATURE, OF_TYPE, PREDICTED, Family

MIGRATIONS = "tapebook.tape"
NO_WATERMARK = 2**62
_QUERIES = Queries.load("tapebook.tape")

Fact = TypeVar("Fact", Mid, Liquidity, AssetContext, FundingRate, PredictedFunding)
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
        self._open_gaps = (0, 0)

    def head(self) -> tuple[int, int]:
        """The newest commit and when it was known; (0, 0) on an empty tape."""
        row = self._db.one(_QUERIES.head)
        return (row[0], row[1]) if row else (0, 0)

    def first_known_at(self) -> int:
        """When the oldest commit was known; 0 on an empty tape."""
        row = self._db.one(_QUERIES.first_commit)
        return row[1] if row else 0

    def commit(
        self,
        observations: Iterable[Observation | MidFrame],
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
        observations: Iterable[Observation | MidFrame],
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

    def buckets(self, kind: type[Fact], *, since: int, view: View) -> dict[str, set[int]]:
        """The buckets of all symbols of which there is a fact since a moment."""
        family, found = OF_TYPE[kind], dict[str, set[int]]()
        first, last = family.chunk(since), family.chunk(view.as_of)
        where = {"first_chunk": first, "last_chunk": last, "as_of": view.as_of, "watermark": view.watermark}
        names = {number: symbol for symbol, number in self._known_ids().items()}
        for bucket, number in self._cold.both(family, family.queries.buckets, first=first, last=last, **where):
            if bucket >= since:
                found.setdefault(names[number], set()).add(bucket)
        return found

    def newest_by_symbol(self, channel: str, *, since: int) -> dict[str, int]:
        """The newest bucket of each symbol of which a channel has delivered something since a moment.

        Looks at what has not left for the archive; of bars at those of a minute.
        """
        family = next(family for family in ALL if family.channel == channel)
        granularity = 60 if family.has_granularity else 0
        where = {"chunk": family.chunk(since, granularity), "granularity_sec": granularity}
        names = {number: symbol for symbol, number in self._known_ids().items()}
        rows = self._db.all(family.queries.newest_by_symbol, **where)
        return {names[number]: newest for number, newest in rows if newest >= since}

    def rows_written(self) -> int:
        """How many rows the tape has taken in."""
        return sum(channel.rows for channel in self.channels())

    def gaps(self, *, as_of: int, most: int = NO_WATERMARK) -> list[RecordedGap]:
        """The gaps found by a moment, as they were known then, oldest first."""
        rows = self._db.all(_QUERIES.gaps, as_of=as_of, most=most)
        return [RecordedGap(Gap(*row[:6]), row[6], row[7]) for row in rows]

    def gap_count(self) -> int:
        """How many gaps have been found and not filled."""
        # Asked at every flush, and counted only when one has changed.
        newest = (self._db.one(_QUERIES.newest_gap) or (None,))[0] or 0
        if newest != self._open_gaps[0]:
            self._open_gaps = (newest, self._db.all(_QUERIES.gap_count)[0][0])
        return self._open_gaps[1]

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
        if len(set(map(family.bucket_of, rows))) == len(rows):
            return rows
        return list({row[: family.key_width]: row for row in rows}.values())

    def _id(self, symbol: str) -> int | None:
        """A symbol's number; another process may have given it since this one looked."""
        return self._ids.get(symbol) or self._known_ids().get(symbol)

    def _known_ids(self) -> dict[str, int]:
        self._ids = dict(self._db.all(_QUERIES.symbols))
        return self._ids

    def _add(self, family: Family, facts: list[Observation | MidFrame], place: "_Place") -> int:
        """Adds facts as revision 0, or as the next revision where they differ from what is stored."""
        try:
            rows = _rows(family, facts, self._ids, place)
        except KeyError:
            rows = _rows(family, facts, self._numbered(_symbols(facts)), place)
        written = self._db.many(family.queries.add, rows)
        if written < len(rows):
            written += sum(self._revise(family, row) for row in rows)
        if written:
            # Imported history says nothing of how far a channel has come by itself.
            observed = place.assumed is None
            newest = max(map(attrgetter("bucket_ts"), facts)) if observed else 0
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
        # The numbers given here are remembered only once they are read back: this transaction may still fail.
        ids = dict(self._known_ids())
        for symbol in sorted(symbols - ids.keys()):
            ids[symbol] = len(ids) + 1
            self._db.run(_QUERIES.add_symbol, symbol_id=ids[symbol], symbol=symbol)
        return ids

    def _note(self, gap: Gap, place: "_Place") -> int:
        """A gap that is new, or longer than it was known to be; the same again says nothing."""
        known = self._gap(gap)
        if known is None:
            return self._add_gap(gap, place, found_at=place.known_at)
        if gap.to_ts <= known.gap.to_ts:
            return 0
        longer = msgspec.structs.replace(known.gap, to_ts=gap.to_ts)
        return self._add_gap(longer, place, found_at=known.found_at)

    def _fill(self, gap: Gap, place: "_Place") -> int:
        known = self._gap(gap)
        if known is None or known.filled_at is not None:
            return 0
        return self._add_gap(known.gap, place, found_at=known.found_at, filled_at=place.known_at)

    def _gap(self, gap: Gap) -> RecordedGap | None:
        """What is known by now of the gap that begins here."""
        row = self._db.one(_QUERIES.gap, **msgspec.structs.asdict(gap))
        if row is None:
            return None
        return RecordedGap(msgspec.structs.replace(gap, to_ts=row[0], reason=row[1]), row[2], row[3])

    def _add_gap(self, gap: Gap, place: "_Place", *, found_at: int, filled_at: int | None = None) -> int:
        times = {"seq": place.seq, "known_at": place.known_at, "found_at": found_at, "filled_at": filled_at}
        self._db.run(_QUERIES.add_gap, **msgspec.structs.asdict(gap), **times)
        return 1


class _Place(msgspec.Struct, frozen=True):
    """Where a commit stands: its sequence number, its time, and the rule for imported rows."""

    seq: int
    known_at: int
    assumed: KnownAt | None


def _rows(
    family: Family, facts: Sequence[Observation | MidFrame], ids: Mapping[str, int], place: _Place
) -> list[Row]:
    """The values in the order of the family's insert: place, the fact's own fields, revision, times."""
    if family is MIDS:
        return [row for fact in facts for row in _mid_rows(fact, ids, place)]
    singles = cast("Sequence[Observation]", facts)
    own, values, seq = family.own, msgspec.structs.astuple, place.seq
    known_at = map(place.assumed, singles) if place.assumed else repeat(place.known_at)
    return [
        (chunk, ids[fact.symbol], *values(fact)[own], 0, known, seq)
        for fact, chunk, known in zip(singles, family.chunks(singles), known_at, strict=False)
    ]


def _mid_rows(fact: Observation | MidFrame, ids: Mapping[str, int], place: _Place) -> Iterable[Row]:
    """A frame of midpoints column by column; one that came alone is a frame of one."""
    if isinstance(fact, Mid):
        fact = MidFrame(fact.bucket_ts, (fact.symbol,), (fact.price_e8,))
    frame = cast("MidFrame", fact)
    chunk, numbers = repeat(MIDS.chunk(frame.bucket_ts)), map(ids.__getitem__, frame.symbols)
    known_at = map(place.assumed, frame) if place.assumed else repeat(place.known_at)
    buckets, revisions, seqs = repeat(frame.bucket_ts), repeat(0), repeat(place.seq)
    return zip(chunk, numbers, buckets, frame.prices_e8, revisions, known_at, seqs, strict=False)


def _symbols(facts: Iterable[Observation | MidFrame]) -> set[str]:
    named = (fact.symbols if isinstance(fact, MidFrame) else (fact.symbol,) for fact in facts)
    return {symbol for symbols in named for symbol in symbols}


def _by_family(observations: Iterable[Observation | MidFrame]) -> list[tuple[Family, list[Observation | MidFrame]]]:
    """Facts grouped by family, in a fixed order; within a family as they came."""
    groups: dict[Family, list[Observation | MidFrame]] = {}
    for kind, facts in groupby(observations, type):
        if kind is FeatureRow:
            for fact in facts:
                groups.setdefault(OF_FEATURE[cast("FeatureRow", fact).family], []).append(fact)
        elif kind is MidFrame:
            # An empty one says nothing, not even that its bucket was reached.
            groups.setdefault(MIDS, []).extend(frame for frame in facts if len(cast("MidFrame", frame)))
        else:
            groups.setdefault(OF_TYPE[kind], []).extend(facts)
    return sorted(groups.items(), key=lambda group: group[0].table)
