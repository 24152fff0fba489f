"""Homes: whether they are whole, what makes them so again, what happened in them, and their settings."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tapebook.api.open_home import AsOf, HomePart, parse_moment
from tapebook.archive.backups import Manifest
from tapebook.clock import SystemClock
from tapebook.desk.archive_repair import repair_archive
from tapebook.desk.backup import BackupReport, RestoreReport, RestoreTerms, backup_home, backup_place, backup_store
from tapebook.desk.backup import restore_home as restore_from
from tapebook.desk.librarian import clean_archive
from tapebook.desk.verify import rebuild_book, verify_home
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import plural, redact_passwords
from tapebook.domain.units import HOUR
from tapebook.errors import StoreFailed
from tapebook.lab.replay import rebuild_packet, replay_runs
from tapebook.log import Finding, RebuiltTables
from tapebook.uploads import send_due_texts
from tapebook.wiring import Rooms

if TYPE_CHECKING:
    from tapebook.desk.health import Check


# A list of what happened that nobody bounds goes back so far.
_EVENTS_SPAN = 6 * HOUR


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

    def events(self, *, since: AsOf = None, most: int = 200) -> list[dict[str, Any]]:
        """What happened since a moment (six hours ago without one), newest first: decisions, orders, fills, market."""
        with self._home.read() as rooms:
            from tapebook.desk.home_events import HomeEvents

            begin = self._home.moment(None) - _EVENTS_SPAN if since is None else parse_moment(since)
            found = HomeEvents(rooms, since=begin).newest_events(most)
            return [event.to_dict() for event in reversed(found)]

    def settings(self) -> dict[str, Any]:
        """The settings of the home as they are read, by section, without passwords."""
        with self._home.read() as rooms:
            text = redact_passwords(msgspec.json.encode(msgspec.to_builtins(rooms.config)).decode())
            return {"home": str(rooms.home), **msgspec.json.decode(text, type=dict[str, Any])}

    def doctor(
        self, *, fix: bool = False, archive: bool = False, notice: Callable[[str], None] = lambda words: None
    ) -> "list[Check]":
        """The state of the home, point by point.

        With `fix`, after what waits for the archive was moved there, what killed writers left in it was deleted, and
        what it has lost was brought back; with `archive` too, what is torn or altered as well, for which every object
        is read. `notice` is told what came back.
        """
        if fix:
            with self._home.write() as rooms:
                rooms.archive.drain()
                clean_archive(rooms.archive, everywhere=True)
                done = repair_archive(rooms, packet_text=partial(_packet_text, rooms), everything=archive)
            for line in done.repaired:
                notice(f"brought back: {line}")
            for line in done.left:
                notice(f"lost: {line}")
        with self._home.read() as rooms:
            # Health knows the sources of the desk, which bring an event loop.
            from tapebook.desk.health import health_checks

            return health_checks(rooms)

    def send_due_texts(self) -> int:
        """Packs texts that have waited long enough for an archive elsewhere, and sends them; returns how many.

        For a program that runs for long on a machine without a librarian, every few minutes: the HTTP API does so.
        StoreFailed when the archive does not take them; they wait, and nothing is lost.
        """
        sent = send_due_texts(self._home.writer.archive, self._home.writer.config, self._home.writer.home)
        if sent.problem is not None:
            raise StoreFailed(f"{plural(sent.left, 'object')} not in the archive yet: {sent.problem}")
        return sent.moved

    def backup(self, place: str | None = None, *, progress: Callable[[str], None] = lambda words: None) -> BackupReport:
        """Makes a backup while others may write: at a place, else where the settings say, else in the archive."""
        with self._home.write() as rooms:
            return backup_home(rooms, place or backup_place(rooms.config), progress=progress)

    def backups(self, place: str | None = None) -> list[Manifest]:
        """The backups at a place, newest first."""
        with self._home.read() as rooms:
            return backup_store(rooms.home, place or backup_place(rooms.config)).manifests()


def _packet_text(rooms: Rooms, run: DecisionRun) -> bytes:
    packet = rebuild_packet(rooms, run)
    return f"{packet.system}\n\n{packet.text}".encode()


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
