"""The tape in its database: commits observations, reads them as of a moment and a watermark.

One commit is one transaction with one sequence number and one `known_at`, later than any before. A read names both:
`as_of` (what was known at a moment) and `watermark` (the newest commit that may be seen). A live run reads its whole
tape and remembers the watermark; a replay reads no further. Rows are never changed: a correction is a new revision
of its bucket. Rows that left for the archive are read from there (`retention.py`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar, overload

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.market import (
    AssetContext,
    Candle,
    Delisting,
    FeatureRow,
    FundingRate,
    Gap,
    Liquidity,
    Mid,
    MidFrame,
    Observation,
    PredictedFunding,
    RegistryRecord,
    SubjectKind,
)
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND
from tapebook.log.store import AcceptSetBack, LogClock, is_clock_set_back
from tapebook.tape.bars import (
    BAR_LENGTHS,
    bars_of_length,
    is_finest,
    lengths_dividing,
    roll_up,
    stored_lengths_dividing,
)
from tapebook.tape.families import (
    ALL_FAMILIES,
    CANDLES,
    FAMILY_OF_TYPE,
    MIDS,
    CommitStamp,
    Family,
    KnownAt,
    facts_by_family,
    rows_to_insert,
    symbols_in,
)
from tapebook.tape.gaps import GapTable, HourMarks
from tapebook.tape.history_features import HistoryDeriver, HistoryFeatures
from tapebook.tape.quarantine import PriceClaim, PriceState, RefusedObservation, StoredPrices, newest_observed_price
from tapebook.tape.registry import DelistingTable, Registry, commits_of_records
from tapebook.tape.retention import ArchivedRows, FetchObject
from tapebook.tape.seals import HOUR_MARKS, SealWriter, commit_checksum
from tapebook.tape.source import SourceAdapter, SourceProblem
from tapebook.tape.view import (
    NO_WATERMARK,
    Channel,
    RecordedGap,
    RecordedProblem,
    SetBack,
    UnrolledHour,
    View,
)

MIGRATIONS = "tapebook.tape"
_QUERIES = Queries.load("tapebook.tape")

RECENT_MS = 2 * MINUTE
"""A midpoint of the last two minutes is the price; without one, the newest price of any kind is looked for."""

# A source that fails every second must not fill the disk with its complaints.
MOST_PROBLEMS = 200
"""Subjects of which it is remembered that something went wrong."""

_QUARANTINE_KEPT_MS = 7 * DAY
_MINUTE_SEC, _HOUR_SEC = 60, 3_600
# How far back a bar is looked for, nearest first: the farther, the more there is to look through.
_BACK = (HOUR, DAY, 30 * DAY)
_BAR_START = attrgetter("bucket_ts")

Fact = TypeVar("Fact", Mid, Liquidity, AssetContext, FundingRate, PredictedFunding)

FactKind = type[Any] | str
"""The type of a fact, or the channel of a row of features."""

_NO_KINDS: Mapping[str, SubjectKind] = MappingProxyType({})


class Tape:
    """All market rows of one database."""

    # Whether nobody can see a book, a context or a feature; a tape that grows cannot say so.
    has_prices_alone = False

    def __init__(
        self,
        db: Database,
        *,
        clock: LogClock,
        fetch: FetchObject = lambda key: None,
        may_go_back: AcceptSetBack | None = None,
        sources: Sequence[SourceAdapter] = (),
    ) -> None:
        self._db = db
        self._clock = clock
        self._may_go_back = may_go_back
        # All tables of rows, those of known sources behind the tape's own; those of feature rows by their channels.
        self.families = (*ALL_FAMILIES, *(family for source in sources for family in source.families))
        self._features = {each.channel: each for each in self.families if each.fact is FeatureRow}
        self.feature_channels = frozenset(self._features)
        packages = (MIGRATIONS, *(source.migrations for source in sources if source.migrations))
        self._cold = ArchivedRows(db, fetch, packages=packages)
        # A cache of the numbers and kinds of symbols: numbers never change, and what is not found is read again.
        self._ids: dict[str, int] = {}
        self._kinds: dict[str, SubjectKind] = {}
        self._declared: dict[str, SubjectKind] = {}
        self._open_gaps = (0, 0)
        self._hour_marks = HourMarks(db)
        # A cache of the bars read last: a part is often read next, and a watermark that was reached sees no others.
        self._reached = 0
        self._newest_bars_read: tuple[object, int, int, list[Candle]] = (None, 0, 0, [])
        self.delistings = DelistingTable(db)
        self._seals = SealWriter(db)
        self.registry = Registry(db)
        self.commits = 0

    def head(self) -> tuple[int, int]:
        """The newest commit and when it was known; (0, 0) on an empty tape."""
        row = self._db.one(_QUERIES.head) or (0, 0)
        self._reached = row[0]
        return row[0], row[1]

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
        refused: Sequence[RefusedObservation] = (),
        kinds: Mapping[str, SubjectKind] = _NO_KINDS,
    ) -> int:
        """Writes observations and gaps in one transaction and returns the newest sequence number.

        What says nothing new leaves no trace. `assumed` says of imported history when each row would have been known.
        `filled` are ranges that have been fetched since: open gaps of their subjects are filled as far as they reach.
        `refused` is what came with the observations and is no fact (`quarantine.py`). `kinds` are those of symbols that
        are no perps, said once; nothing is written of a symbol before it has a row.
        """
        try:
            with self._db.transaction():
                self._seals = SealWriter(self._db)
                self._note_kinds(kinds)
                first, *others = [observations] if assumed is None else commits_of_records([*observations])
                seq = self._commit(first, gaps, filled, assumed=assumed, refused=refused)
                for facts in others:
                    self._seals = SealWriter(self._db)
                    seq = self._commit(facts, (), (), assumed=assumed)
                return seq
        except BaseException:
            # Numbers given to new symbols in a transaction that failed were never given.
            self._ids, self._kinds, self._reached = {}, {}, 0
            raise

    def commit_hours(self, bars: Sequence[Candle], *, rolled: Sequence[UnrolledHour]) -> int:
        """Writes the bars of hours that were rolled up, and forgets in one transaction that these were to be."""
        with self._db.transaction():
            self._seals = SealWriter(self._db)
            self._seals.mark_changed(HOUR_MARKS)
            for each in rolled:
                where = {"symbol_id": self._id(each.symbol), "hour_ts": each.hour_ts, "seq": each.seq}
                self._db.execute(_QUERIES.unmark_hour, **where)
            return self._commit(bars, (), (), assumed=None)

    def _commit(
        self,
        observations: Iterable[Observation | MidFrame],
        gaps: Sequence[Gap],
        filled: Sequence[Gap],
        *,
        assumed: KnownAt | None,
        refused: Sequence[RefusedObservation] = (),
    ) -> int:
        seq, previous = self.head()
        place, written = CommitStamp(seq + 1, max(previous + 1, now := self._clock.now()), assumed), 0
        if self._may_go_back is not None and is_clock_set_back(previous, now):
            place = msgspec.structs.replace(place, known_at=self._may_go_back(previous, now))
            written = self._set_back(place, previous)
        observations = list(observations)
        written += sum(
            self._add(family, facts, place) for family, facts in facts_by_family(observations, self._features)
        )
        # Others were gone before anybody watched them.
        gone = [fact for fact in observations if type(fact) is Delisting and self._id(fact.symbol) is not None]
        if delisted := sum(self.delistings.add(fact, place) for fact in gone):
            self._seals.add_commit("tape_delistings", seq=place.seq)
        if listed := self.registry.write_records(
            [fact for fact in observations if type(fact) is RegistryRecord], place
        ):
            self._seals.add_commit("tape_registry", seq=place.seq)
        table = GapTable(self._db, place)
        if changed := sum(map(table.note, gaps)) + sum(map(table.fill, filled)):
            self._seals.add_commit("tape_gaps", seq=place.seq)
        written += delisted + listed + changed + (self._write_quarantine(refused, place) if refused else 0)
        self._seals.seal_changed_tables()
        if not written:
            return seq
        row = (place.seq, place.known_at, written, "observed" if assumed is None else "assumed")
        self._db.execute_row(_QUERIES.commit, (*row, commit_checksum(*row)))
        if assumed is not None:
            self._seals.import_commit()
        self.commits += 1
        return place.seq

    def _set_back(self, place: CommitStamp, previous: int) -> int:
        """The clock has gone back: what has happened by now is known now, what has not was never known."""
        self._db.execute(_QUERIES.add_set_back, seq=place.seq, known_before=previous, known_at=place.known_at)
        self._seals.add_row("tape_set_backs", (place.seq, previous, place.known_at))
        self._db.execute(_QUERIES.set_channels_back, known_at=place.known_at)
        self._seals.mark_changed("tape_channels")
        for family in self.families:
            self._db.execute(family.queries.state_again, known_at=place.known_at, seq=place.seq)
            if rows := self._db.all(family.queries.restated, seq=place.seq):
                self._seals.add_rows(family, rows, seq=place.seq)
        return 1

    def set_backs(self) -> list[SetBack]:
        """Where the clock was found to have gone back, oldest first."""
        return [SetBack(*row) for row in self._db.all(_QUERIES.set_backs)]

    def channels(self) -> list[Channel]:
        """What each channel has delivered, by name."""
        return [Channel(*row) for row in self._db.all(_QUERIES.channels)]

    def newest_buckets(self) -> dict[str, int]:
        """The newest bucket each channel has delivered by itself; imported history does not count."""
        return {channel.name: channel.newest_bucket_ts for channel in self.channels() if channel.newest_bucket_ts}

    def buckets_by_symbol(self, kind: type[Fact], *, since: int, view: View) -> dict[str, set[int]]:
        """The buckets of all symbols of which there is a fact since a moment."""
        family, found = FAMILY_OF_TYPE[kind], dict[str, set[int]]()
        first, last = family.chunk(since), family.chunk(view.as_of)
        where = {"first_chunk": first, "last_chunk": last, "as_of": view.as_of, "watermark": view.watermark}
        names = {number: symbol for symbol, number in self._known_ids().items()}
        for bucket, number in self._cold.rows_with_archived(
            family, family.queries.buckets, first=first, last=last, **where
        ):
            if bucket >= since:
                found.setdefault(names[number], set()).add(bucket)
        return found

    def observed_minutes(
        self, channel: type[Candle] | type[Mid], *, of: Callable[[str], bool], since: int, until: int
    ) -> set[int]:
        """The minutes of a range in which a bar or a midpoint of certain symbols came by itself, not by an import."""
        family = CANDLES if channel is Candle else MIDS
        granularity = 60 if family.has_granularity else 0
        first, last = family.chunk(since, granularity), family.chunk(until - 1, granularity)
        where = {"first_chunk": first, "last_chunk": last, "since": since, "until": until}
        where["granularity_sec"] = granularity
        found = self._cold.rows_with_archived(family, family.queries.observed_buckets, first=first, last=last, **where)
        mine = {number for symbol, number in self._known_ids().items() if of(symbol)}
        return {bucket - bucket % MINUTE for bucket, number in found if number in mine}

    def minute_commits(self, symbol: str, *, since: int, until: int) -> dict[int, frozenset[int]]:
        """Of each minute of a symbol there is a bar of, the commits that said so; imported history counts as none."""
        symbol_id = self._id(symbol)
        if symbol_id is None:
            return {}
        first, last = CANDLES.chunk(since, 60), CANDLES.chunk(until, 60)
        where = {"symbol_id": symbol_id, "granularity_sec": 60, "since": since, "until": until}
        where |= {"first_chunk": first, "last_chunk": last, "watermark": NO_WATERMARK}
        imported = {seq for (seq,) in self._db.all(_QUERIES.assumed_commits)}
        found: dict[int, frozenset[int]] = {}
        for row in self._cold.rows_with_archived(CANDLES, CANDLES.queries.page, first=first, last=last, **where):
            bucket = CANDLES.bucket_of(row)
            found[bucket] = found.get(bucket, frozenset()) | ({row[-1]} - imported)
        return found

    def unrolled_hours(self, *, before: int, most: int = NO_WATERMARK) -> list[UnrolledHour]:
        """Hours before a moment whose minutes have changed since their bars were made, symbol by symbol."""
        return [UnrolledHour(*row) for row in self._db.all(_QUERIES.unrolled_hours, before=before, most=most)]

    def newest_by_symbol(self, channel: str, *, since: int) -> dict[str, int]:
        """The newest bucket of each symbol of which a channel has delivered something since a moment.

        Looks at what has not left for the archive; of bars at those of a minute.
        """
        family = next(family for family in self.families if family.channel == channel)
        granularity = 60 if family.has_granularity else 0
        where = {"chunk": family.chunk(since, granularity), "granularity_sec": granularity}
        names = {number: symbol for symbol, number in self._known_ids().items()}
        rows = self._db.all(family.queries.newest_by_symbol, **where)
        return {names[number]: newest for number, newest in rows if newest >= since}

    def rows_written(self) -> int:
        """How many rows the tape has taken in."""
        return sum(channel.rows for channel in self.channels())

    def gaps(self, *, as_of: int, most: int = NO_WATERMARK, after: int = 0) -> list[RecordedGap]:
        """The gaps found by a moment, or found or filled after a commit, as they were known then, oldest first."""
        rows = self._db.all(_QUERIES.gaps, as_of=as_of, most=most, after=after)
        return [RecordedGap(Gap(*row[:6]), row[6], row[7]) for row in rows]

    def channel_gaps(self, channel: str, *, since: int, as_of: int) -> list[RecordedGap]:
        """The gaps of one channel that end after a moment, as they were known at another, oldest first."""
        rows = self._db.all(_QUERIES.channel_gaps, channel=channel, since=since, as_of=as_of)
        return [RecordedGap(Gap(*row[:6]), row[6], row[7]) for row in rows]

    def gap_count(self) -> int:
        """How many gaps have been found and not filled."""
        # Asked at every flush, and counted only when one has changed.
        newest = (self._db.one(_QUERIES.newest_gap) or (None,))[0] or 0
        if newest != self._open_gaps[0]:
            self._open_gaps = (newest, self._db.all(_QUERIES.gap_count)[0][0])
        return self._open_gaps[1]

    def filled_gap_count(self) -> int:
        """How many gaps have been filled."""
        return int(self._db.all(_QUERIES.filled_gap_count)[0][0])

    def note_problems(self, problems: Sequence[SourceProblem]) -> None:
        """Remembers what went wrong on the way here: of every subject the newest case and how often it happened."""
        if not problems:
            return
        at = self._clock.now()
        with self._db.transaction():
            for each in problems:
                self._db.execute(_QUERIES.note_problem, **msgspec.structs.asdict(each), at=at)
            self._db.execute(_QUERIES.forget_problems, most=MOST_PROBLEMS)
            seals = SealWriter(self._db)
            seals.mark_changed("tape_problems")
            seals.seal_changed_tables()

    def problems(self, *, since: int) -> list[RecordedProblem]:
        """What went wrong since a moment, newest first."""
        rows = self._db.all(_QUERIES.problems, since=since)
        return [RecordedProblem(SourceProblem(*row[:4]), *row[4:]) for row in rows]

    def quarantined_observations(self, *, since: int, most: int = NO_WATERMARK) -> list[RefusedObservation]:
        """The observations that were refused since a moment, newest first."""
        return [RefusedObservation(*row) for row in self._db.all(_QUERIES.quarantined, since=since, most=most)]

    def price_state(self, symbol: str) -> PriceState:
        """Which price of a symbol is believed, and what is claimed against it: the newest rows say."""
        view = View(max(self._clock.now(), self.head()[1]))
        bar = self.newest_bar(symbol, view=view, lengths=(_MINUTE_SEC,))
        mid, book = self.newest(Mid, symbol, view=view), self.newest(Liquidity, symbol, view=view)
        believed = newest_observed_price([bar, mid, book, self.newest(AssetContext, symbol, view=view)])
        claimed = self._db.all(_QUERIES.newest_claim, symbol=symbol, as_of=view.as_of)
        if not claimed or believed is None or believed.at >= claimed[-1][3]:
            return PriceState(believed)
        since, channel, price_e8, _ = claimed[0]
        return PriceState(believed, PriceClaim(since, channel, price_e8, at=claimed[-1][3]))

    def stored_prices(self) -> StoredPrices:
        """What judging a price takes from the tape."""

        def mids(symbol: str, since: int, until: int) -> list[int]:
            return [mid.price_e8 for mid in self.facts(Mid, symbol, since=since, until=until, view=View(NO_WATERMARK))]

        def closes(symbol: str, since: int, until: int) -> list[int]:
            limits = {"granularity_sec": _MINUTE_SEC, "since": since, "until": until}
            return [bar.close_e8 for bar in self.candles(symbol, view=View(NO_WATERMARK), **limits)]

        return StoredPrices(self.price_state, mids, closes)

    def symbols(self, *kinds: SubjectKind) -> list[str]:
        """Every symbol of some kinds the tape has heard of, or of all kinds, in alphabetical order."""
        known = self._known_ids()
        return sorted(symbol for symbol in known if not kinds or self._kinds[symbol] in kinds)

    def kind_of(self, symbol: str) -> SubjectKind | None:
        """The kind of a symbol; None of one the tape has not heard of."""
        self._known_ids()
        return self._kinds.get(symbol)

    def source_rows(self, symbol: str, *, view: View) -> list[FeatureRow]:
        """The newest row of a symbol in each family that a source declares."""
        own = self.families[len(ALL_FAMILIES) :]
        found = [self.newest(family.channel, symbol, view=view) for family in own]
        return [row for row in found if row is not None]

    @overload
    def newest(self, kind: type[Fact], symbol: str, *, view: View) -> Fact | None: ...
    @overload
    def newest(self, kind: str, symbol: str, *, view: View) -> FeatureRow | None: ...
    @overload
    def newest(
        self, kind: type[Candle], symbol: str, *, view: View, since: int, granularity_sec: int
    ) -> Candle | None: ...
    # Each row ends with whether chunks of its range have left for the archive, here and in `facts`, so that most reads
    # are one statement, and no row is lost that another process archives meanwhile.
    def newest(
        self, kind: FactKind, symbol: str, *, view: View, since: int | None = None, granularity_sec: int = 0
    ) -> Any:
        """A symbol's newest fact of a kind, or row of a channel of features; of bars, of a length, one that ended.

        Looks in the chunk of the moment, then back through the chunks there are, here and in the archive.
        """
        family = self._features[kind] if isinstance(kind, str) else FAMILY_OF_TYPE[kind]
        until = view.as_of - granularity_sec * SECOND
        symbol_id = self._ids.get(symbol) or self._known_ids().get(symbol)
        chunk = until // (granularity_sec * family.span_per_granularity or family.span_ms)
        where = {"symbol_id": symbol_id, "granularity_sec": granularity_sec, "until": until}
        where |= {"as_of": view.as_of, "watermark": view.watermark}
        while symbol_id is not None and chunk >= 0:
            found = self._db.all(family.queries.newest, chunk=chunk, **where)
            if not found and since is not None:
                limits: Any = {"since": since, "until": until, "granularity_sec": granularity_sec}
                return next(reversed(self.facts(kind, symbol, view=view, **limits)), None)
            if not found:
                here, away = self._chunks_before(family, chunk - 1, granularity_sec, away_chunk=chunk + 1)
                if away < chunk - 1:
                    chunk = max(here, away)
                    continue
            if not found or found[-1][-1]:
                chunks = {"first_chunk": chunk - 1, "last_chunk": chunk, "granularity_sec": granularity_sec}
                notes = self._db.all(_QUERIES.archived, table_name=family.table, **chunks)
                if notes:
                    query = family.queries.newest
                    found = self._cold.add_archived(found, notes, family, query=query, chunk=chunk, **where)
            if found:
                fact = family.make(symbol, *found[-1][:-1])
                return fact if since is None or fact.bucket_ts >= since else None
            chunk = max(self._chunks_before(family, chunk - 1, granularity_sec, away_chunk=chunk - 1))
        return None

    def funding_at(self, symbol: str, *, hour: int, view: View) -> FundingRate | None:
        """The rate that was settled at one hour, as far as it was known."""
        return next(reversed(self.facts(FundingRate, symbol, since=hour, until=hour, view=view)), None)

    @overload
    def facts(self, kind: type[Fact], symbol: str, *, since: int, view: View, until: int = ...) -> list[Fact]: ...
    @overload
    def facts(self, kind: str, symbol: str, *, since: int, view: View) -> list[FeatureRow]: ...
    @overload
    def facts(
        self, kind: type[Candle], symbol: str, *, since: int, view: View, until: int, granularity_sec: int
    ) -> list[Candle]: ...
    def facts(
        self, kind: FactKind, symbol: str, *, since: int, view: View, until: int | None = None, granularity_sec: int = 0
    ) -> list[Any]:
        """A symbol's facts of a kind, or rows of a channel of features, between two moments or since one, in order of
        their bucket, each in its newest revision.
        """
        family = self._features[kind] if isinstance(kind, str) else FAMILY_OF_TYPE[kind]
        until = view.as_of if until is None else until
        symbol_id = self._ids.get(symbol) or self._known_ids().get(symbol)
        if symbol_id is None or until < since:
            return []
        span = granularity_sec * family.span_per_granularity or family.span_ms
        where = {"symbol_id": symbol_id, "since": since, "until": until}
        where |= {"as_of": view.as_of, "watermark": view.watermark}
        chunks = {"first_chunk": since // span, "last_chunk": until // span, "granularity_sec": granularity_sec}
        where |= chunks
        rows = self._db.all(family.queries.between, **where)
        # Notes are read behind the rows: a chunk that leaves in between is seen twice, never lost.
        if (not rows or rows[0][-1]) and (notes := self._db.all(_QUERIES.archived, table_name=family.table, **chunks)):
            rows = self._cold.add_archived(rows, notes, family, query=family.queries.between, **where)
        if not rows:
            return []
        # Column by column, and without whether chunks have left, which stands last: a packet reads hundreds of rows.
        columns = list(zip(*rows, strict=True))
        if len(set(columns[family.bucket_at])) < len(rows):
            columns = list(zip(*{row[: family.key_width]: row for row in rows}.values(), strict=True))
        return list(map(family.make, repeat(symbol), *columns[:-1]))

    def predicted_funding(self, symbol: str, *, since: int, view: View) -> list[PredictedFunding]:
        """What each venue announced last since a moment, by venue."""
        found = self.facts(PredictedFunding, symbol, since=since, view=view)
        newest = {fact.venue: fact for fact in found}
        return [newest[venue] for venue in sorted(newest)]

    def candles(
        self, symbol: str, *, granularity_sec: int, since: int, view: View, until: int = NO_WATERMARK
    ) -> list[Candle]:
        """A symbol's bars that begin between two moments and had ended by `view.as_of`, oldest first."""
        last, asked = min(until, view.as_of - granularity_sec * SECOND), (symbol, granularity_sec, view)
        known, first, end, bars = self._newest_bars_read
        if known == asked and first <= since and last <= end:
            begin = bisect_left(bars, since, key=_BAR_START)
            return bars[begin : bisect_right(bars, last, lo=begin, key=_BAR_START)]
        found = self.facts(Candle, symbol, since=since, until=last, view=view, granularity_sec=granularity_sec)
        if view.watermark <= self._reached:
            self._newest_bars_read = asked, since, last, [*found]
        return found

    def bars(self, symbol: str, *, minutes: int, count: int, view: View) -> tuple[Candle, ...]:
        """The newest complete bars of a size, rolled up from smaller ones that had ended, oldest first."""
        return self.bars_and_end(symbol, minutes=minutes, count=count, view=view)[0]

    def bars_and_end(self, symbol: str, *, minutes: int, count: int, view: View) -> tuple[tuple[Candle, ...], int]:
        """The newest complete bars of a size, and when the last stored bar they are made of ended; 0 without any."""
        end = view.as_of - view.as_of % (minutes * MINUTE)
        since = end - count * minutes * MINUTE
        for length in lengths_dividing(minutes):
            stored = bars_of_length(self, symbol, length, minutes=minutes, since=since, end=end, view=view)
            found = tuple(roll_up(stored, granularity_sec=minutes * 60))
            if is_finest(found, length, minutes=minutes, end=end):
                return found, stored[-1].bucket_ts + stored[-1].granularity_sec * SECOND
        return (), 0

    def newest_bar(self, symbol: str, *, view: View, lengths: Sequence[int] = ()) -> Candle | None:
        """The bar that ended last, of the finest there are: a longer one counts where no shorter one lies in it."""
        # Behind the end of a minute that is as new as this no longer bar fits.
        since = view.as_of - (BAR_LENGTHS[1] + _MINUTE_SEC) * SECOND + 1
        if (fresh := self.newest(Candle, symbol, granularity_sec=_MINUTE_SEC, since=since, view=view)) is not None:
            return fresh
        lengths = lengths or self.stored_lengths()
        for back in _BACK:
            best: Candle | None = None
            for length in lengths:
                last = view.as_of - length * SECOND
                since = last - back if best is None else best.end
                if since <= last:
                    best = self.newest(Candle, symbol, granularity_sec=length, since=since, view=view) or best
            if best is not None:
                return best
        return None

    def last_price(self, symbol: str, *, view: View) -> Mid | None:
        """The price last observed: a midpoint, or the close of a bar that ended after it, at the moment it ended."""
        mid = self.newest(Mid, symbol, view=view)
        if mid is not None and mid.bucket_ts >= view.as_of - RECENT_MS:
            return mid
        bar = self.newest_bar(symbol, view=view)
        if bar is None or (mid is not None and mid.bucket_ts >= bar.end):
            return mid
        return Mid(symbol, bar.end, bar.close_e8)

    def lengths_within(self, symbol: str, minutes: int) -> Iterable[int]:
        """The lengths, finest first, that bars of a size can be made of and that there may be bars of."""
        return stored_lengths_dividing(self, minutes)

    def stored_lengths(self) -> list[int]:
        """The lengths there are bars of, here or in the archive, finest first; a process beside this may add one."""
        return [row[0] for row in self._db.all(_QUERIES.candle_lengths)]

    def is_stored_until(self, symbol: str, end: int, *, minutes: int, view: View) -> bool:
        """Whether a bar that ends then or later is stored, of any length a bar of this size is made of."""
        return any(
            self.newest(Candle, symbol, granularity_sec=length, since=end - length * SECOND, view=view)
            for length in self.lengths_within(symbol, minutes)
        )

    def first_known(
        self, kind: type[Mid | Candle], symbol: str, *, since: int, until: int, view: View, granularity_sec: int = 0
    ) -> int:
        """When the first row of a stretch was known that had ended by then, up to a watermark; never, without a row."""
        family, symbol_id = FAMILY_OF_TYPE[kind], self._id(symbol)
        if symbol_id is None or until < since:
            return NO_WATERMARK
        first, last = family.chunk(since, granularity_sec), family.chunk(until, granularity_sec)
        where = {"symbol_id": symbol_id, "granularity_sec": granularity_sec, "since": since, "until": until}
        where |= {"first_chunk": first, "last_chunk": last, "watermark": view.watermark}
        rows = self._cold.rows_with_archived(family, family.queries.page, first=first, last=last, **where)
        ended = granularity_sec * SECOND
        return min((max(row[-2], family.bucket_of(row) + ended) for row in rows), default=NO_WATERMARK)

    def history_features(self, symbol: str, *, view: View) -> HistoryFeatures:
        """The features of a symbol derived from its bars and settled rates alone."""
        return HistoryDeriver(self, symbol).features_at(view)

    def candle_span(self, symbol: str, *, granularity_sec: int) -> tuple[int, int] | None:
        """When a symbol's first and last bar of a length begin; what left for the archive is not looked at."""
        symbol_id = self._id(symbol)
        where = {"symbol_id": symbol_id, "granularity_sec": granularity_sec}
        row = self._db.one(CANDLES.queries.span, **where) if symbol_id is not None else None
        return (row[0], row[1]) if row and row[0] is not None else None

    def known_rows(self, symbol: str, *, since: int, view: View) -> Iterator[tuple[str, int, list[Row]]]:
        """Every revision of a symbol's rows since a moment that a view sees: table, length of bars, and the rows,
        each a fact's own fields and when it was known, without its commit.
        """
        symbol_id = self._id(symbol)
        for family in self.families if symbol_id is not None else ():
            for length in BAR_LENGTHS if family.has_granularity else (0,):
                first, last = family.chunk(since, length), family.chunk(view.as_of, length)
                where = {"symbol_id": symbol_id, "granularity_sec": length, "since": since, "until": view.as_of}
                where |= {"first_chunk": first, "last_chunk": last, "as_of": view.as_of, "watermark": view.watermark}
                rows = self._cold.rows_with_archived(family, family.queries.known, first=first, last=last, **where)
                yield family.table, length, rows

    def _chunks_before(self, family: Family, chunk: int, granularity_sec: int, *, away_chunk: int) -> tuple[int, int]:
        """The newest chunk here before one, and in the archive before another; -1 where there is none."""
        where = {"chunk": chunk, "away_chunk": away_chunk, "granularity_sec": granularity_sec}
        here, away = self._db.one(family.queries.chunk_before, **where) or (None, None)
        return -1 if here is None else here, -1 if away is None else away

    def _id(self, symbol: str) -> int | None:
        """A symbol's number."""
        # Another process may have given it since this one looked.
        return self._ids.get(symbol) or self._known_ids().get(symbol)

    def _known_ids(self) -> dict[str, int]:
        rows = self._db.all(_QUERIES.symbols)
        self._ids = {symbol: number for symbol, number, _ in rows}
        self._kinds = {symbol: kind for symbol, _, kind in rows}
        return self._ids

    def _note_kinds(self, kinds: Mapping[str, SubjectKind]) -> None:
        """Remembers the kinds of symbols that get their numbers later, and corrects those that are stored otherwise."""
        if not kinds:
            return
        self._declared |= kinds
        self._known_ids()
        for symbol in sorted(kinds.keys() & self._kinds.keys()):
            if self._kinds[symbol] != kinds[symbol]:
                self._db.execute(_QUERIES.set_kind, symbol_id=self._ids[symbol], kind=kinds[symbol])
                self._seals.mark_changed("tape_symbols")

    def _add(self, family: Family, facts: list[Observation | MidFrame], place: CommitStamp) -> int:
        """Adds facts as revision 0, or as the next revision where they differ from what is stored."""
        try:
            rows = rows_to_insert(family, facts, self._ids, place)
        except KeyError:
            rows = rows_to_insert(family, facts, self._number_symbols(symbols_in(facts)), place)
        # In order of their key, as they lie in the table and in its checksum; of equal keys the first stays first.
        shared = family.sort_rows(rows) | place.shared_params
        new = written = self._db.many(family.queries.add, rows, shared=shared)
        sealed = rows
        if new < len(rows):
            revised: dict[Row, Row] = {}
            written += sum(self._revise(family, row, revised) for row in rows)
            sealed = [revised[key] for key in sorted(revised)]
        if written:
            self._seals.add_rows(family, sealed, seq=place.seq)
        if written and family is CANDLES:
            stored = self._stored_hours if place.assumed else None
            self._hour_marks.mark(rows, place, self._seals, are_new=new == len(rows), stored=stored)
        if written:
            # Imported history says nothing of how far a channel has come by itself.
            observed = place.assumed is None
            newest = max(map(_BAR_START, facts)) if observed else 0
            counted = {"channel": family.channel, "rows_written": written, "newest_bucket_ts": newest}
            self._db.execute(_QUERIES.count_channel, newest_known_at=place.known_at if observed else 0, **counted)
            self._seals.mark_changed("tape_channels")
        return written

    def _stored_hours(self, hours: set[tuple[int, int]]) -> set[tuple[int, int]]:
        since, until = min(hour for _, hour in hours), max(hour for _, hour in hours)
        names = {number: symbol for symbol, number in self._known_ids().items()}
        limits: Any = {"since": since, "until": until, "granularity_sec": _HOUR_SEC, "view": View(NO_WATERMARK)}
        numbers = {number for number, _ in hours}
        return {(each, bar.bucket_ts) for each in numbers for bar in self.facts(Candle, names[each], **limits)}

    def _revise(self, family: Family, row: Row, written: dict[Row, Row]) -> int:
        """Adds a row as a new revision if the newest stored one says something else."""
        # `written` gets what this commit has written by now, by key and revision.
        values = dict(zip(family.queries.add.params, row, strict=True))
        stored = self._db.one(family.queries.stored, **values)
        if stored is None:
            return 0
        revision, *stored_values, known_at, seq = stored
        # Without key and revision, the stored values are the last of the row before its revision and times.
        if tuple(stored_values) == row[-3 - len(stored_values) : -3] and self._is_stamp_valid(known_at, seq):
            if seq == row[-1]:
                same = (*row[:-3], revision, *row[-2:])
                written.setdefault(family.key_of(same), same)
            return 0
        newer = (*row[:-3], revision + 1, *row[-2:])
        written[family.key_of(newer)] = newer
        return self._db.many(family.queries.add, [newer])

    def _is_stamp_valid(self, known_at: int, seq: int) -> bool:
        """Whether a stored row was stamped by a clock that was not found to be ahead."""
        return not any(seq < back.seq and known_at > back.known_at for back in self.set_backs())

    def _number_symbols(self, symbols: set[str]) -> dict[str, int]:
        """Numbers for symbols."""
        # New ones get theirs in alphabetical order, so that equal inputs give equal numbers.
        # The numbers given here are remembered only once they are read back: this transaction may still fail.
        ids = dict(self._known_ids())
        for symbol in sorted(symbols - ids.keys()):
            ids[symbol] = len(ids) + 1
            kind = self._declared.get(symbol, "perp")
            self._db.execute(_QUERIES.add_symbol, symbol_id=ids[symbol], symbol=symbol, kind=kind)
            self._seals.mark_changed("tape_symbols")
        return ids

    def _write_quarantine(self, refused: Sequence[RefusedObservation], place: CommitStamp) -> int:
        self._seals.mark_changed("tape_quarantine")
        self._db.execute(_QUERIES.forget_quarantined, before=place.known_at - _QUARANTINE_KEPT_MS)
        times = {"seq": place.seq, "known_at": place.known_at}
        rows = [_QUERIES.quarantine.values_in_order(msgspec.structs.asdict(each) | times) for each in refused]
        return self._db.many(_QUERIES.quarantine, rows)
