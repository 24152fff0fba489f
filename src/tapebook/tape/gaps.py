"""What a commit notes beside its rows: versions of gaps (new ones, longer ones, and those that were filled since), and
the hours whose bars must be made anew.
"""

from bisect import bisect_left
from collections.abc import Callable
from operator import itemgetter

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.market import Gap
from tapebook.domain.units import HOUR, floor_to_step
from tapebook.tape.families import CANDLES, CommitStamp
from tapebook.tape.seals import HOUR_MARKS, Seal, SealWriter
from tapebook.tape.view import RecordedGap

_QUERIES = Queries.load("tapebook.tape")
_MINUTE_SEC = 60


class GapTable:
    """The gaps of a tape, inside one transaction; every change is a new version of a gap, known with the commit."""

    def __init__(self, db: Database, place: CommitStamp) -> None:
        self._db, self._place = db, place

    def note(self, gap: Gap) -> int:
        """A gap that is new, or longer than it was known to be; the same again says nothing."""
        known = self._recorded_gap(gap)
        if known is None:
            return self._add(gap, found_at=self._place.known_at)
        if gap.to_ts <= known.gap.to_ts:
            return 0
        longer = msgspec.structs.replace(known.gap, to_ts=gap.to_ts)
        return self._add(longer, found_at=known.found_at)

    def fill(self, filled: Gap) -> int:
        """Fills the open gaps of a subject as far as a range reaches: what lies outside of it stays open, split off."""
        where = {name: getattr(filled, name) for name in ("source", "channel", "subject", "from_ts", "to_ts")}
        return sum(
            self._fill_part(Gap(*list(where.values())[:3], *row[:3]), row[3], filled)
            for row in self._db.all(_QUERIES.open_gaps_within, **where)
        )

    def _fill_part(self, gap: Gap, found_at: int, filled: Gap) -> int:
        begins, ends = max(gap.from_ts, filled.from_ts), min(gap.to_ts, filled.to_ts)
        bounds = msgspec.structs.replace
        if gap.from_ts < begins:
            self._add(bounds(gap, to_ts=begins), found_at=found_at)
        if ends < gap.to_ts:
            self._leave_open(bounds(gap, from_ts=ends), found_at=found_at)
        part = bounds(gap, from_ts=begins, to_ts=ends)
        return self._add(part, found_at=found_at, filled_at=self._place.known_at)

    def _leave_open(self, rest: Gap, *, found_at: int) -> None:
        """What is left of a gap behind a filled part; another open gap that begins there may be longer."""
        known = self._recorded_gap(rest)
        if known is None or known.filled_at is not None:
            self._add(rest, found_at=found_at)
        elif known.gap.to_ts < rest.to_ts:
            self._add(rest, found_at=min(found_at, known.found_at))

    def _recorded_gap(self, gap: Gap) -> RecordedGap | None:
        """What is known by now of the gap that begins here."""
        if (row := self._db.one(_QUERIES.gap, **msgspec.structs.asdict(gap))) is None:
            return None
        return RecordedGap(msgspec.structs.replace(gap, to_ts=row[0], reason=row[1]), row[2], row[3])

    def _add(self, gap: Gap, *, found_at: int, filled_at: int | None = None) -> int:
        times = {"seq": self._place.seq, "known_at": self._place.known_at, "found_at": found_at, "filled_at": filled_at}
        self._db.execute(_QUERIES.add_gap, **msgspec.structs.asdict(gap), **times)
        return 1


HourOfSymbol = tuple[int, int]
"""The number of a symbol, and when an hour of it begins."""


class HourMarks:
    """The hours of each symbol that are to be rolled up, since their minutes have changed."""

    def __init__(self, db: Database) -> None:
        self._db = db
        # A cache of the symbols by hour that are marked; the checksum of their table tells whether they still are.
        self._marked: tuple[Seal | None, dict[int, set[int]]] = (None, {})

    def mark(
        self,
        rows: list[Row],
        place: CommitStamp,
        seals: SealWriter,
        *,
        are_new: bool,
        stored: Callable[[set[HourOfSymbol]], set[HourOfSymbol]] | None,
    ) -> None:
        """Notes the hours whose minutes this commit has written, so that `ingest/compaction.py` makes their bars anew.

        As long as an hour runs nobody rolls it up, so its mark need not name the newest commit of its minutes: it is
        written once, and its table is sealed once, not with the bars of every minute. `are_new` says that no row was
        there before. Hours of imported minutes are rolled up as they are read; only where a bar is stored it must
        follow: `stored` says of which hours there is one.
        """
        # Behind chunk and symbol, a row begins with the length of its bar and its bucket.
        bucket_of = itemgetter(3)
        minutes = sorted([row for row in rows if row[2] == _MINUTE_SEC], key=bucket_of)
        hours, done = set[HourOfSymbol](), 0
        while done < len(minutes):
            hour = floor_to_step(bucket_of(minutes[done]), HOUR)
            end = bisect_left(minutes, hour + HOUR, lo=done, key=bucket_of)
            numbers = set(map(itemgetter(1), minutes[done:end]))
            if hour + HOUR > place.known_at:
                numbers -= self._marked_now(seals).get(hour, set())
            hours |= {(number, hour) for number in numbers}
            done = end
        if hours and not are_new:
            first, last = (CANDLES.chunk(bucket_of(minutes[at]), _MINUTE_SEC) for at in (0, -1))
            hours &= set(self._db.all(_QUERIES.hours_written, first_chunk=first, last_chunk=last, seq=place.seq))
        if hours and stored is not None:
            hours &= stored(hours)
        if hours:
            self._db.many(_QUERIES.mark_hour, [(number, hour, place.seq) for number, hour in sorted(hours)])
            seals.mark_changed(HOUR_MARKS)

    def _marked_now(self, seals: SealWriter) -> dict[int, set[int]]:
        seal = seals.table_seal(HOUR_MARKS)
        if seal is None or seal != self._marked[0]:
            found: dict[int, set[int]] = {}
            for number, hour in self._db.all(_QUERIES.marked_hours):
                found.setdefault(hour, set()).add(number)
            self._marked = seal, found
        return self._marked[1]
