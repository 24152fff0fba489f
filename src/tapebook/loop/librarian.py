"""Keeps documents up to date while the desk runs, and moves old decisions to the archive.

A sync at the start, and one every few minutes; decisions that are old enough leave a step at a time in between.
"""

from tapebook.clock import SystemClock, elapsed_seconds
from tapebook.domain.instants import HOUR
from tapebook.domain.text import plural
from tapebook.errors import DatabaseAway, Fix, Retry, Stop
from tapebook.loop.old_runs import OldRuns
from tapebook.loop.sync import sync
from tapebook.wiring import Rooms

_LEFTOVER_MS = HOUR


def clean_archive(rooms: Rooms, *, everywhere: bool = False) -> int:
    """Deletes what writers that were killed left half written an hour ago or earlier; returns how many files."""
    # Files know the machine's time, whatever the clock of the home is.
    return rooms.archive.clean(before_ms=SystemClock().now() - _LEFTOVER_MS, everywhere=everywhere)


class Librarian:
    """One who syncs when it is time to; what a person has to put right does not stop the desk."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._every = 60.0 * rooms.config.recall.sync_minutes
        self._due = elapsed_seconds()
        self._old_runs, self._moves = OldRuns(rooms), True
        self.syncs = self.changed = 0
        self.problem: str | None = None

    def turn(self) -> bool:
        """Syncs if it is time to, or moves some old decisions; True when there are more of those."""
        if elapsed_seconds() < self._due:
            return self._move()
        self._due, self._moves = elapsed_seconds() + self._every, True
        try:
            waiting = self._rooms.archive.drain()
            clean_archive(self._rooms)
            report = sync(self._rooms)
        except DatabaseAway:
            self._due = elapsed_seconds()
            raise
        except Retry:
            raise
        except Exception as error:
            # Documents are one memory of many: whatever is wrong with them, the desk goes on without the newest.
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
            self._moves = self._old_runs.step()
        except (Stop, OSError) as error:
            self._moves = False
            # They stay where they are, which is worse for nobody.
            self.problem = f"old decisions stay in the book: {error}"
        return self._moves

    def words(self) -> str:
        """How it goes."""
        moved = f", {plural(self._old_runs.left, 'old event')} archived" if self._old_runs.left else ""
        return f"{plural(self.syncs, 'sync')}, {plural(self.changed, 'document')} changed{moved}"

    def close(self) -> None:
        """Nothing is in hand."""
