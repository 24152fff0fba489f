"""Sends texts that wait in a spool to an archive elsewhere, for processes that run on machines of their own.

The spool is a folder of one machine. Where a librarian runs, it packs what waits there (`desk/librarian.py`). A machine
that runs workers, ingestion or the HTTP API alone has a spool too and no librarian: each of them sends what is due
itself (`SpoolUploads`, `send_due_texts`). Documents, which others must read at once, are sent as soon as they are
written (`send_documents`).
"""

from contextlib import closing
from pathlib import Path

from tapebook.archive import Archive, DrainResult, SpooledArchive
from tapebook.background import BackgroundCall
from tapebook.clock import SystemClock, elapsed_seconds
from tapebook.domain.text import plural
from tapebook.settings.config import Config

UPLOAD_SECONDS = 300.0
"""How often a process looks whether the spool of its machine is to be packed."""


class SpoolUploads:
    """Packs what is due in the spool of a machine and sends it, in a thread; nothing where the archive is a folder."""

    def __init__(self, archive: SpooledArchive, config: Config, home: Path) -> None:
        self._archive, self._spool = archive.behind, home / config.archive.spool
        self._call = BackgroundCall[DrainResult]("spool")
        self._due = elapsed_seconds() + UPLOAD_SECONDS
        self._problem: str | None = None

    def upload_if_due(self) -> str | None:
        """Begins when it is time to; returns why the archive did not take everything, until it does."""
        if self._call.has_ended:
            result = self._call.take_result()
            waits = f"{plural(result.left, 'object')} not in the archive yet: {result.problem}"
            self._problem = waits if result.problem else None
        if not self._archive.is_local and not self._call.is_pending and elapsed_seconds() >= self._due:
            self._due = elapsed_seconds() + UPLOAD_SECONDS
            self._call.start(self._drain)
        return self._problem

    def _drain(self) -> DrainResult:
        return _send_what_is_due(self._archive, self._spool)


def send_due_texts(archive: SpooledArchive, config: Config, home: Path) -> DrainResult:
    """Packs what is due in the spool of a machine and sends it to an archive elsewhere; waits for the archive."""
    behind = archive.behind
    return DrainResult() if behind.is_local else _send_what_is_due(behind, home / config.archive.spool)


def _send_what_is_due(archive: Archive, spool: Path) -> DrainResult:
    # An opening of its own: that of the rooms is not for another thread.
    with closing(SpooledArchive(archive, spool, now=SystemClock().now)) as spooled:
        return spooled.drain(when_due=True)


def send_documents(archive: SpooledArchive, config: Config) -> None:
    """Sends what waits at once where other machines read the same book: they cannot look into this spool.

    Nothing is lost when the archive does not take it: it waits, and goes with the next pack.
    """
    if "://" in config.store.book and not archive.is_local:
        archive.drain()
