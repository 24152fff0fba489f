"""Ingestion: a source delivers, the tape commits, features are derived, old rows leave for the archive.

1. the source runs as a task of its own and puts what it learns into an `Intake`;
2. a few times a second the intake is emptied into one commit (`Ingester.flush`);
3. at every full minute features are derived and books that a kill took are named (`mend.py`), at
   every full hour bars are rolled up and old rows retired (`Ingester.keep_up`).

A commit that fails keeps what it could not write and tries again with the next one.
"""

from collections.abc import Sequence

from tapebook.archive import put_content
from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.domain.market import Gap, Observation
from tapebook.errors import Busy, StoreFailed
from tapebook.loop.derive import Deriver
from tapebook.loop.mend import true_gaps, untold_gaps
from tapebook.tape.retention import Keep, retire
from tapebook.tape.rollup import roll_up
from tapebook.tape.store import View
from tapebook.wiring import Rooms

TIDY_DELAY = MINUTE
"""How long after the hour it is rolled up: by then the last minute of a quiet market is final too."""

MAX_WAITING = 2_000_000
"""Facts kept in memory while the disk refuses to take them; beyond it the process must stop."""


class Intake:
    """Where a source puts what it learns until it is committed."""

    def __init__(self) -> None:
        self._facts: list[Observation] = []
        self._gaps: list[Gap] = []

    def take(self, observations: Sequence[Observation]) -> None:
        """Keeps observations for the next commit."""
        self._facts += observations

    def gap(self, gap: Gap) -> None:
        """Keeps a gap for the next commit."""
        self._gaps.append(gap)

    def drain(self) -> tuple[list[Observation], list[Gap]]:
        """Gives everything away."""
        facts, self._facts = self._facts, []
        gaps, self._gaps = self._gaps, []
        return facts, gaps

    def give_back(self, facts: list[Observation], gaps: list[Gap]) -> None:
        """Takes back what could not be committed, in its place before what came since."""
        self._facts[:0] = facts
        self._gaps[:0] = gaps

    def __len__(self) -> int:
        return len(self._facts)


class Ingester:
    """Commits what an intake collects and keeps the tape in order."""

    def __init__(self, rooms: Rooms, intake: Intake, *, keep: Keep, derive_every: int = MINUTE) -> None:
        self._rooms = rooms
        self._intake = intake
        self._keep = keep
        self._derive_every = derive_every
        self._deriver = Deriver(rooms.tape)
        self._underived: list[str] = []
        # What fell due before this moment was the business of an earlier process, what falls due at it is ours.
        before = rooms.clock.now() - 1
        self._derived, self._tidied = floor(before, derive_every), floor(before - TIDY_DELAY, HOUR)

    def flush(self) -> str | None:
        """Commits what is waiting; returns why it could not, with everything kept for the next attempt."""
        facts, gaps = self._intake.drain()
        try:
            self._commit(facts, gaps)
        except (StoreFailed, Busy) as error:
            self._intake.give_back(facts, gaps)
            if len(self._intake) > MAX_WAITING:
                raise
            return f"{error} ({len(self._intake)} facts are waiting)"
        return None

    def close(self) -> None:
        """Commits what is waiting for the last time: what cannot be written now is lost, so that is an error."""
        self._commit(*self._intake.drain())

    def _commit(self, facts: list[Observation], gaps: list[Gap]) -> None:
        true = true_gaps(self._rooms.tape, gaps, now=self._rooms.clock.now())
        self._rooms.tape.commit(facts, gaps=true)

    def keep_up(self, *, at_once: int | None = None) -> None:
        """Does what has fallen due, once; what could not be written raises, and is due again at the next call.

        Features of a symbol take some 20 ms. Where frames must not wait that long for all of them, `at_once` says of
        how many symbols they are derived in one call; the next calls go on.
        """
        now = self._rooms.clock.now()
        moment, hour = floor(now, self._derive_every), floor(now - TIDY_DELAY, HOUR)
        if moment > self._derived and not self._underived:
            self._rooms.tape.commit([], gaps=untold_gaps(self._rooms.tape, now=moment))
            self._underived, self._derived = self._rooms.tape.symbols(), moment
        if self._underived:
            self._derive(self._underived[:at_once])
            self._underived = self._underived[at_once:] if at_once else []
        if hour > self._tidied:
            self._roll_up(hour)
            retire(self._rooms.tape_db, self._archive, keep=self._keep, now=now)
            self._tidied = hour

    def _derive(self, symbols: list[str]) -> None:
        derived = self._deriver.due(symbols, now=self._derived)
        self._rooms.tape.commit([each.row for each in derived])
        self._deriver.written(derived, now=self._derived)

    def _archive(self, content: bytes) -> str:
        return put_content(self._rooms.archive, content)

    def _roll_up(self, hour: int) -> None:
        """Hourly bars of the last day; what has not changed leaves no trace."""
        view = View(self._rooms.clock.now())
        bars = []
        for symbol in self._rooms.tape.symbols():
            minutes = self._rooms.tape.candles(symbol, granularity_sec=60, since=hour - 24 * HOUR, view=view)
            # An hour the tape knows only the end of is left out.
            first = -(-minutes[0].bucket_ts // HOUR) * HOUR if minutes else hour
            whole = (minute for minute in minutes if first <= minute.bucket_ts < hour)
            bars += roll_up(whole, granularity_sec=3600)
        self._rooms.tape.commit(bars)
