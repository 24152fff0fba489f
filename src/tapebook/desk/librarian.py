"""Keeps documents up to date while the desk runs, and moves old decisions to the archive.

`Librarian` syncs at the start and every few minutes; in between, old decisions leave a step at a time, month by
month (`OldRunArchiver`). Once a day it brings the layers of all agents together up to date and drops what is past its
time there (`roll_up_all_agents`), which no tick waits for.

What leaves are the events of decisions that placed nothing, and the valuations beside them: most of a log. All else
stays in the book, and so do all tables, so that decisions are found as before; what a table does not say is read
from the archive when asked for. A month leaves once it ended `retention.runs_days` ago, some thousand events at a
time: they become a Parquet file of the month (`cold/runs/STREAM/MONTH/`), which is written to the archive and read
back, and then their rows go in the transaction that notes it (`Log.archive_events`).
"""

from functools import partial

from tapebook.archive import Archive, SpooledArchive, put_cold
from tapebook.book.events import may_be_archived
from tapebook.clock import Clock, SystemClock, elapsed_seconds
from tapebook.desk.document_writes import adopt_manual_files
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, HOUR, iso_text
from tapebook.errors import DatabaseAway, Fix, Retry, Stop
from tapebook.home import shared_lock
from tapebook.horizons.layers import period_of
from tapebook.library.sync import sync_documents
from tapebook.log import Log, Stream
from tapebook.settings.config import Config
from tapebook.tick.learn import owner_layers_due
from tapebook.wiring import Rooms

# Looked at in one step: half a second, and one file of a few hundred kilobytes.
EVENTS_PER_STEP = 4_096


class OldRunArchiver:
    """The decisions of a home that are old enough to leave."""

    def __init__(self, archive: SpooledArchive, log: Log, clock: Clock, *, config: Config) -> None:
        self._archive = archive
        self._log = log
        self._clock = clock
        self._config = config
        # How far each stream was looked at: what stays need not be looked at again.
        self._looked: dict[Stream, int] = {}
        self._done_before: int | None = None
        self.left = 0

    def archive_step(self) -> bool:
        """Moves at most one file; False when nothing is old enough any more."""
        before = period_of("month", self._clock.now() - self._config.retention.runs_days * DAY).start
        if before == self._done_before:
            return False
        for stream in self._log.streams():
            # The owner's own stream has no decisions.
            if stream.deployment and self._step_of(stream, before):
                return True
        self._done_before = before
        return False

    def _step_of(self, stream: Stream, before: int) -> bool:
        log = self._log
        after = max(self._looked.get(stream, 0), log.packed_until(stream))
        first = log.event(stream, after + 1)
        if first is None or first.known_at >= before:
            return False
        looked, left = log.archive_events(
            stream,
            after=after,
            # A file is of one month.
            before=min(before, period_of("month", first.known_at).end),
            leaves=may_be_archived,
            put=partial(put_cold, self._archive, f"runs/{stream.name}/{iso_text(first.known_at)[:7]}"),
            most=EVENTS_PER_STEP,
        )
        self._looked[stream] = looked
        self.left += left
        return True


def roll_up_all_agents(rooms: Rooms) -> int:
    """Brings the layers of all agents together up to the end of yesterday; returns how many events that took."""
    written = 0
    while drafts := owner_layers_due(rooms, seq=(seq := rooms.book.head())):
        with shared_lock(rooms.home):
            rooms.book.append("", drafts, expected_seq=seq)
        written += len(drafts)
        rooms.leases.heartbeat_if_due()
    return written


_LEFTOVER_MIN_AGE_MS = HOUR


def clean_archive(archive: Archive, *, everywhere: bool = False) -> int:
    """Deletes what writers that were killed left half written an hour ago or earlier; returns how many files."""
    # Files know the machine's time, whatever the clock of the home is.
    return archive.delete_partial_writes(before_ms=SystemClock().now() - _LEFTOVER_MIN_AGE_MS, everywhere=everywhere)


class Librarian:
    """One who syncs when it is time to; what a person has to put right does not stop the desk."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._every = 60.0 * rooms.config.recall.sync_minutes
        self._due = elapsed_seconds()
        self._old_runs, self._moves = OldRunArchiver(rooms.archive, rooms.log, rooms.clock, config=rooms.config), True
        self._rolled_up_on = -1
        self.syncs = self.changed = 0
        self.problem: str | None = None

    def turn(self) -> bool:
        """Syncs if it is time to, or moves some old decisions; True when there are more of those."""
        if elapsed_seconds() < self._due:
            return self._move()
        self._due, self._moves = elapsed_seconds() + self._every, True
        try:
            waiting = self._rooms.archive.drain(when_due=True)
            clean_archive(self._rooms.archive)
            if self._rolled_up_on != (today := self._rooms.clock.now() // DAY):
                roll_up_all_agents(self._rooms)
                self._rolled_up_on = today
            for refused in adopt_manual_files(self._rooms):
                self.problem = f"{refused.path}: {refused.why}"
            report = sync_documents(self._rooms)
        except DatabaseAway:
            self._due = elapsed_seconds()
            raise
        except Retry:
            raise
        except Exception as error:
            # Two memories of many: whatever is wrong with them, the desk goes on without the newest.
            self.problem = str(error) if isinstance(error, Fix) else f"{type(error).__name__}: {error}"
            return False
        if waiting.problem is not None:
            self.problem = f"{plural(waiting.left, 'object')} not in the archive yet: {waiting.problem}"
        self.syncs += 1
        self.changed += report.kept + report.removed + report.derived
        return False

    def _move(self) -> bool:
        """One step; what went wrong is tried again after the next sync."""
        if not self._moves:
            return False
        try:
            self._moves = self._old_runs.archive_step()
        except (Stop, OSError) as error:
            self._moves = False
            # They stay where they are, which is worse for nobody.
            self.problem = f"old decisions stay in the book: {error}"
        return self._moves

    def progress_line(self) -> str:
        """How many things it has done, in words."""
        moved = f", {plural(self._old_runs.left, 'old event')} archived" if self._old_runs.left else ""
        return f"{plural(self.syncs, 'sync')}, {plural(self.changed, 'document')} changed{moved}"

    def close(self) -> None:
        """Nothing is in hand."""
