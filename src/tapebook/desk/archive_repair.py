"""Compares the archive with what rows name (`compare_archive`), and brings back what is lost (`repair_archive`).

What rows name and the archive does not have is *missing*; what it has and no row names is *unnamed*: texts of a writer
that was killed before its row, or of what a restore has lost. Unnamed objects are counted and stay: they harm nobody,
and an older backup may name them.

Lost objects come back from wherever their bytes still are: the place of the backups, which holds all that the archive
had; for a packet, the book and the tape it was made from; for a reply, the answers the book keeps. A key is the hash
of its bytes, so nothing comes back that is not what was lost.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from tapebook.archive import Archive, ArchiveReference, SpooledArchive, open_archive
from tapebook.archive.port import digest_of_key, is_content_key, matches_key
from tapebook.book.decision_queue import StoredReplies
from tapebook.book.store import Book
from tapebook.clock import SystemClock
from tapebook.db import connect
from tapebook.decision import EngineAnswer
from tapebook.desk.verify import archive_references, book_references
from tapebook.domain.run import DecisionRun
from tapebook.errors import TapebookError
from tapebook.settings.config import Config
from tapebook.wiring import Rooms

# Missing objects that are remembered to be told or brought back at a time.
_MOST = 10_000

PacketText = Callable[[DecisionRun], bytes]
"""Makes the text of a run's packet again."""


class ArchiveComparison(msgspec.Struct, frozen=True):
    """How many objects rows name, those of them that are missing, and how many no row names."""

    named: int
    missing: tuple[ArchiveReference, ...]
    unnamed: int


class ArchiveRepair(msgspec.Struct, frozen=True):
    """What came back, with where from, and what did not, with why."""

    repaired: tuple[str, ...]
    left: tuple[str, ...]


def compare_archive(
    archive: SpooledArchive, home: Path, references: Iterable[ArchiveReference], *, owner: str
) -> ArchiveComparison:
    """Looks for every object that a row names, by its name alone; `SpooledArchive.check` reads them.

    What is missing of other owners of the database is theirs to be told.
    """
    stored, whose = archive.stored_digests(), ("", owner)
    named, missing = set[bytes](), list[ArchiveReference]()
    for reference in references:
        digest = digest_of_key(reference.key)
        is_new = digest not in stored and digest not in named
        if is_new and reference.owner in whose and len(missing) < _MOST:
            missing.append(reference)
        named.add(digest)
    # The backtests of a home keep their texts in its archive, and lose nothing that cannot be made again.
    for digest in _digests_of_backtests(home):
        named.add(digest)
    return ArchiveComparison(len(named), tuple(missing), len(stored - named))


def _digests_of_backtests(home: Path) -> Iterator[bytes]:
    for place in sorted(home.glob("backtests/*/book.db")):
        try:
            with closing(connect(str(place), create=False, read_only=True)) as db:
                yield from [digest_of_key(each.key) for each in book_references(db)]
        except TapebookError:
            # Being made just now by a version of its own, or damaged: `backtests show` says so.
            continue


def repair_archive(rooms: Rooms, *, packet_text: PacketText, everything: bool) -> ArchiveRepair:
    """Brings back what is missing; with `everything`, each object is read, and torn or altered ones come back too."""
    named = archive_references(rooms.book_db, rooms.tape_db)
    if everything:
        found = rooms.archive.check(named)
        lost = [ArchiveReference(each.key, each.by) for each in found if each.kind != "misplaced"]
    else:
        lost = list(compare_archive(rooms.archive, rooms.home, named, owner=rooms.config.owner).missing)
    repaired, left = list[str](), list[str]()
    if not lost:
        return ArchiveRepair((), ())
    with closing(_CopyOfArchive(rooms.config, rooms.home)) as copies:
        for reference in lost:
            name = reference.by or reference.key
            place, content = _bytes_of(rooms.book, reference, copies, packet_text, replies=rooms.replies)
            if content is None:
                left.append(f"{name}: no copy of it is anywhere")
                continue
            # Into the archive itself, where it replaces what is torn.
            rooms.archive.create(reference.key, content)
            repaired.append(f"{name} from {place}")
    return ArchiveRepair(tuple(repaired), tuple(left))


class _CopyOfArchive:
    """The archive's copy beside the backups, if the settings name a place for them that is another."""

    def __init__(self, config: Config, home: Path) -> None:
        place = config.backup.place
        self.place = place
        self._archive: Archive | None = None
        self._packed: SpooledArchive | None = None
        self._index = home / ".backup-index"
        if place and place != config.archive.place:
            self._archive = open_archive(place, home=home, durable=False)
            # A spool of its own, for the index of its packs.
            self._packed = SpooledArchive(self._archive, self._index, now=SystemClock().now, durable=False)

    def get(self, key: str) -> bytes | None:
        """An object's bytes, if the copy has them whole; the reason why not is the copy's own affair."""
        source = self._packed if is_content_key(key) else self._archive
        try:
            return None if source is None else source.get(key)
        except TapebookError:
            return None

    def close(self) -> None:
        """Ends it."""
        if self._packed is not None:
            self._packed.close()
            shutil.rmtree(self._index, ignore_errors=True)


def _bytes_of(
    book: Book, lost: ArchiveReference, copies: _CopyOfArchive, packet_text: PacketText, *, replies: StoredReplies
) -> tuple[str, bytes | None]:
    """Where the bytes of a lost object still are, and they."""
    copy = copies.get(lost.key)
    if copy is not None and matches_key(lost.key, copy):
        return f"the backups in {copies.place}", copy
    what, _, run_id = lost.by.partition(" of run ")
    run = book.run(run_id) if run_id else None
    if run is None or not is_content_key(lost.key):
        return "", None
    try:
        content = packet_text(run) if what == "packet" else _stored_answer(replies, what, run_id)
    except TapebookError:
        # What it was made of is lost as well.
        return "", None
    if content is None or not matches_key(lost.key, content):
        return "", None
    return "the book and the tape" if what == "packet" else "the answers that the book keeps", content


def _stored_answer(replies: StoredReplies, what: str, run_id: str) -> bytes | None:
    kept = replies.reply_of_run(run_id)
    if kept is None or what != "reply":
        return None
    return msgspec.json.decode(kept.answer_json, type=EngineAnswer).reply.encode()
