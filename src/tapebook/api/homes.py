"""Homes: whether they are whole, and what makes them so again."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tapebook.api.open_home import HomePart
from tapebook.archive.backups import Manifest
from tapebook.clock import SystemClock
from tapebook.desk.backup import BackupReport, RestoreReport, RestoreTerms, backup_home, backup_place, backup_store
from tapebook.desk.backup import restore_home as restore_from
from tapebook.desk.librarian import clean_archive
from tapebook.desk.verify import rebuild_book, verify_home
from tapebook.lab.replay import replay_runs
from tapebook.log import Finding, RebuiltTables
from tapebook.wiring import Rooms

if TYPE_CHECKING:
    from tapebook.desk.health import Check


class ChannelLag(msgspec.Struct, frozen=True):
    """How long ago a channel of the market was heard last; None for one of which all was imported."""

    name: str
    rows: int
    lag_seconds: float | None


class HomeHealth(HomePart):
    """Whether a home is whole."""

    def run_counts(self) -> dict[str, int]:
        """How many decisions there are, by status."""
        with self._home.read() as rooms:
            return rooms.book.run_counts()

    def channels(self) -> list[ChannelLag]:
        """The channels of the market, and how far each is behind."""
        with self._home.read() as rooms:
            now = self._home.moment(None)
            return [
                ChannelLag(
                    each.name, each.rows, max(0, now - each.newest_known_at) / 1000 if each.newest_known_at else None
                )
                for each in rooms.tape.channels()
            ]

    def verify(
        self,
        *,
        tape: bool = False,
        archive: bool = False,
        progress: Callable[[str], None] = lambda words: None,
        notice: Callable[[str], None] = lambda words: None,
    ) -> list[Finding]:
        """Everything that contradicts itself; empty when all is whole.

        `tape` compares every row of the tape with its checksum, `archive` reads every object.
        `progress` is told how far it has come; `notice` what cannot be checked, such as rows older than checksums.
        """
        with self._home.read() as rooms:
            return verify_home(rooms, tape=tape, archive=archive, progress=progress, notice=notice)

    def rebuild(self, *, progress: Callable[[str], None] = lambda words: None) -> RebuiltTables:
        """Computes tables of the book again that contradict its log, in one transaction; nothing else may run."""
        with self._home.write() as rooms:
            try:
                return rebuild_book(rooms, progress=progress)
            finally:
                self._home.discard_readers()

    def doctor(self, *, fix: bool = False) -> "list[Check]":
        """The state of the home, point by point.

        With `fix`, after what waits for the archive was moved there and what killed writers left in it was deleted.
        """
        if fix:
            with self._home.write() as rooms:
                rooms.archive.drain()
                clean_archive(rooms, everywhere=True)
        with self._home.read() as rooms:
            # Health knows the sources of the desk, which bring an event loop.
            from tapebook.desk.health import health_checks

            return health_checks(rooms)

    def backup(self, place: str | None = None, *, progress: Callable[[str], None] = lambda words: None) -> BackupReport:
        """Makes a backup while others may write: at a place, else where the settings say, else in the archive."""
        with self._home.write() as rooms:
            return backup_home(rooms, place or backup_place(rooms), progress=progress)

    def backups(self, place: str | None = None) -> list[Manifest]:
        """The backups at a place, newest first."""
        with self._home.read() as rooms:
            return backup_store(rooms, place or backup_place(rooms)).manifests()


def restore(
    place: str,
    home: str | Path,
    *,
    terms: RestoreTerms | None = None,
    progress: Callable[[str], None] = lambda words: None,
) -> RestoreReport:
    """Makes a new home from a backup, and has it prove itself before it is one."""
    return restore_from(
        place,
        Path(home),
        terms=terms or RestoreTerms(),
        replay=lambda rooms, run_ids: replay_runs(rooms, run_ids).different,
        progress=progress,
    )


def find_damage(home: str | Path, *, archive: bool = False) -> list[Finding]:
    """What `Tapebook.verify` finds in a home that may be too damaged to be opened; every row of the tape is read."""
    rooms = Rooms(Path(home), clock=SystemClock())
    try:
        return verify_home(rooms, tape=True, archive=archive, progress=_ignore_words, notice=_ignore_words)
    finally:
        rooms.close()


def _ignore_words(words: str) -> None:
    """Nobody is told."""
