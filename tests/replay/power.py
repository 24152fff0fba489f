"""Power cuts: a process and its children run with every act on their files noted, and the disk after a cut is rebuilt.

1. `Recorder` compiles `power.c` and gives the environment in which a command's acts below a folder are noted.
2. `Disk` goes through the notes up to a moment. It knows what was synced: contents by `fsync` of the file, names by
   `fsync` of the folder that holds them.
3. `Disk.after_cut` writes the folder as a cut leaves it. What was synced is there. Of the rest:

       lost       nothing is there, neither contents nor names
       journaled  all names are there and none of the contents, as with a file system that journals names alone
       torn       of the names in each folder the first some; of the contents any sectors, and zeros for the others

       kept       all is there, as after a kill: to compare with

A folder that nobody synced is gone with all that is in it, however often that was synced.

4. `survivors` checks a home that went through a cut: nothing its rows name is missing, nothing contradicts itself, and
   every decision that is left can be replayed.
"""

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from tapebook.api import app
from tapebook.archive import ArchiveReference
from tapebook.clock import VirtualClock
from tapebook.wiring import Rooms
from tests.db.places import sql

Cut = Literal["lost", "journaled", "torn", "kept"]
CUTS: tuple[Cut, ...] = ("lost", "journaled", "torn")

SOURCE = Path(__file__).with_name("power.c")
SECTOR = 512
_HEAD = struct.Struct("=QQqQQ")
# An index in shared memory that is made anew whenever a database is opened.
_VOLATILE = "-shm"


def compiler() -> str | None:
    """The C compiler of this machine."""
    return shutil.which("cc") or shutil.which("gcc")


class Act(NamedTuple):
    """One act on a file or folder."""

    op: str
    inode: int
    offset: int
    first: bytes
    second: bytes

    @property
    def names(self) -> tuple[str, str]:
        """What it names."""
        return os.fsdecode(self.first), os.fsdecode(self.second)


class Recorder:
    """Notes everything that happens below a folder."""

    def __init__(self, root: Path, work: Path) -> None:
        self.root, self.log = root, work / "acts.log"
        self._library = work / "power.so"
        if not self._library.exists():
            flags = ["-shared", "-fPIC", "-O1", "-lpthread"]
            subprocess.run([compiler() or "cc", str(SOURCE), "-o", str(self._library), *flags], check=True)
        self.log.unlink(missing_ok=True)

    def environment(self) -> dict[str, str]:
        """What a process needs to be noted."""
        return {"LD_PRELOAD": str(self._library), "POWER_ROOT": str(self.root), "POWER_LOG": str(self.log)}

    def acts(self) -> list[Act]:
        """All acts so far; of a last one that is being noted, nothing."""
        return list(_read(self.log.read_bytes()))


def _read(content: bytes) -> Iterator[Act]:
    at = 0
    while at + _HEAD.size <= len(content):
        op, inode, offset, first, second = _HEAD.unpack_from(content, at)
        begin, end = at + _HEAD.size, at + _HEAD.size + first + second
        if end > len(content):
            return
        yield Act(chr(op), inode, offset, content[begin : begin + first], content[begin + first : end])
        at = end


class File:
    """A file: what of it is on the disk, and what was done since; a write is a place and bytes, else a new size."""

    def __init__(self, synced: bytes = b"") -> None:
        self.synced = bytearray(synced)
        self.pending: list[tuple[int, bytes | None]] = []

    def sync(self) -> None:
        """All that was done is on the disk."""
        for offset, data in self.pending:
            _apply(self.synced, offset, data)
        self.pending = []

    def after_cut(self, cut: Cut, chance: random.Random) -> bytes:
        """What is left of it."""
        content = bytearray(self.synced)
        for offset, data in self.pending if cut in ("torn", "kept") else ():
            if cut == "torn":
                self._tear(content, offset, data, chance)
            else:
                _apply(content, offset, data)
        return bytes(content)

    def _tear(self, content: bytearray, offset: int, data: bytes | None, chance: random.Random) -> None:
        if data is None:
            if chance.random() < 0.5:
                _apply(content, offset, None)
            return
        at = offset
        while at < offset + len(data):
            end = min(offset + len(data), (at // SECTOR + 1) * SECTOR)
            if chance.random() < 0.5:
                _apply(content, at, data[at - offset : end - offset])
            at = end


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    size = offset if data is None else offset + len(data)
    if data is None:
        del content[size:]
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    if data is not None:
        content[offset:size] = data


Target = File | None
"""What a name stands for: a file, or a folder (None)."""


class Disk:
    """The files below a folder, with what of them is synced."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[int, File] = {}
        # What each name stands for now, and what is on the disk of it; a name that was removed is missing.
        self._now: dict[str, Target] = {}
        self._synced: dict[str, Target] = {}
        # What happened to the names of each folder since it was synced: a name, and what it stands for or that it went.
        self._pending: dict[str, list[tuple[str, bool, Target]]] = {}
        for path in sorted(root.rglob("*")):
            # By contents, so that the folder can be written anew later.
            file = None if path.is_dir() else self._files.setdefault(path.stat().st_ino, File(path.read_bytes()))
            self._now[str(path)] = self._synced[str(path)] = file

    def play(self, acts: list[Act]) -> None:
        """What was done."""
        for act in acts:
            self._play(act)

    def _play(self, act: Act) -> None:
        first, second = act.names
        if act.op == "c":
            # A number is used again once its file is gone.
            self._files[act.inode] = File()
            self._name(first, self._files[act.inode])
        elif act.op == "w" or act.op == "t":
            self._files[act.inode].pending.append((act.offset, act.first if act.op == "w" else None))
        elif act.op == "F":
            self._files[act.inode].sync()
        elif act.op == "D":
            for name, is_there, target in self._pending.pop(first, []):
                _set(self._synced, name, is_there, target)
        elif act.op == "m":
            self._name(first, None)
        elif act.op == "u":
            self._unname(first)
        else:
            self._name(second, self._now[first])
            if act.op == "r":
                self._unname(first)

    def _name(self, name: str, target: Target) -> None:
        self._now[name] = target
        self._pending.setdefault(os.path.dirname(name), []).append((name, True, target))

    def _unname(self, name: str) -> None:
        self._now.pop(name, None)
        self._pending.setdefault(os.path.dirname(name), []).append((name, False, None))

    def unsynced(self) -> int:
        """How much a cut may take away: names and files with contents that are not on the disk."""
        return sum(map(len, self._pending.values())) + sum(bool(file.pending) for file in self._files.values())

    def after_cut(self, cut: Cut, *, seed: int) -> None:
        """Writes the folder as a power cut at this moment leaves it."""
        chance = random.Random(seed)
        names = dict(self._synced)
        for changes in self._pending.values():
            kept = {"lost": 0, "torn": chance.randint(0, len(changes))}.get(cut, len(changes))
            for name, is_there, target in changes[:kept]:
                _set(names, name, is_there, target)
        shutil.rmtree(self._root)
        self._root.mkdir(mode=0o700)
        for name in sorted(names):
            target, place = names[name], Path(name)
            # What lies in a folder that is gone is gone.
            if not place.parent.is_dir() or name.endswith(_VOLATILE):
                continue
            if target is None:
                place.mkdir(mode=0o700)
            else:
                place.write_bytes(target.after_cut(cut, chance))
                place.chmod(0o600)


def _set(names: dict[str, Target], name: str, is_there: bool, target: Target) -> None:
    if is_there:
        names[name] = target
    else:
        names.pop(name, None)


class Survivors(NamedTuple):
    """What a cut left of a home: decisions, keys that rows name, and what is wrong with any of it."""

    runs: int
    references: int
    wrong: list[str]


def survivors(home: Path) -> Survivors:
    """Opens a home after a cut and reads all of it."""
    with app.open(home, clock=VirtualClock(0)) as book:
        named = list(_references(book._rooms))
        dangling = [f"{found.kind}: {found.problem} ({found.by})" for found in book._rooms.archive.check(named)]
        contradictions = [f"{found.where}: {found.problem}" for found in book.verify()]
        replayed = book.replay()
        return Survivors(replayed.checked, len(named), dangling + contradictions + replayed.different)


_KEYS = {
    "book_db": {
        "packet of": "SELECT run_id, packet_key FROM decision_runs WHERE packet_key IS NOT NULL",
        "reply of": "SELECT run_id, reply_key FROM decision_runs WHERE reply_key IS NOT NULL",
        "document": "SELECT path, sha256 FROM document_versions WHERE sha256 <> ''",
        "entry": "SELECT path, sha256 FROM document_entries",
        "proposal": "SELECT proposal_id, sha256 FROM manual_proposals",
    },
    "tape_db": {
        "rows of": "SELECT table_name, archive_key FROM tape_archived",
        "recording of": "SELECT from_ts, archive_key FROM tape_recordings",
    },
}


def _references(rooms: Rooms) -> Iterator[ArchiveReference]:
    for database, queries in _KEYS.items():
        for what, query in queries.items():
            for name, key in getattr(rooms, database).all(sql(query)):
                yield ArchiveReference(key if "/" in key else f"sha256/{key[:2]}/{key}", f"{what} {name}")
