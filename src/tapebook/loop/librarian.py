"""Keeps documents up to date while the desk runs: a sync at the start, and one every few minutes."""

from tapebook.clock import elapsed_seconds
from tapebook.errors import DatabaseAway, Fix, Retry
from tapebook.loop.sync import sync
from tapebook.wiring import Rooms


class Librarian:
    """One who syncs when it is time to; what a person has to put right does not stop the desk."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._every = 60.0 * rooms.config.recall.sync_minutes
        self._due = elapsed_seconds()
        self.syncs = self.changed = 0
        self.problem: str | None = None

    def turn(self) -> bool:
        """Syncs if it is time to."""
        if elapsed_seconds() < self._due:
            return False
        self._due = elapsed_seconds() + self._every
        try:
            waiting = self._rooms.archive.drain()
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
            self.problem = f"{waiting.left:,} objects wait for the archive: {waiting.problem}"
        self.syncs += 1
        self.changed += report.kept + report.removed + report.derived
        return False

    def words(self) -> str:
        """How it goes."""
        return f"{self.syncs:,} syncs, {self.changed:,} documents changed"

    def close(self) -> None:
        """Nothing is in hand."""
