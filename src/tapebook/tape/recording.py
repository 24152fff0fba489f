"""Raw payloads as they were received, stored in the archive when the settings ask for them.

A line is a payload and the moment it was received: `ms<TAB>payload`, or `{"at": ms, "frame": "…"}` for one that is
no JSON object on one line. That is what `tapebook import stream` reads. Lines are packed as they come. Once a
minute, or when there are many, they become one object of the archive, and the tape notes where it lies.

A killed process loses the lines since then, a minute at most. The tape itself does not depend on them: facts are
committed on their own, several times a second.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw

from tapebook.db import Database, Queries
from tapebook.domain.units import MINUTE
from tapebook.errors import Busy, Damaged, StoreFailed
from tapebook.tape.seals import SealWriter

ROTATE_MS = MINUTE
# An object of the archive that is packed and written in a few hundredths of a second.
ROTATE_BYTES = 4 * 2**20
MOST_WAITING_BYTES = 64 * 2**20
"""Packed lines kept in memory while the archive refuses to take them; beyond it the oldest are given up."""

# The container of gzip, without a time in it: equal lines are one object.
_GZIP = 31
_QUERIES = Queries.load("tapebook.tape")


class _Stamped(msgspec.Struct):
    at: int
    frame: Raw


_stamped = msgspec.json.Decoder(_Stamped)
_text = msgspec.json.Decoder(str)


def format_line(at: int, payload: bytes) -> bytes:
    """A payload as a line of a recording."""
    if payload[:1] == b"{" and b"\n" not in payload:
        return b"%d\t%b\n" % (at, payload)
    # What is no text at all is kept as far as it is.
    return msgspec.json.encode({"at": at, "frame": payload.decode(errors="replace")}) + b"\n"


def parse_line(line: bytes) -> tuple[int, bytes]:
    """The moment and the payload of a line. ValueError or DecodeError when it is none."""
    if line.lstrip()[:1] != b"{":
        at, _, content = line.partition(b"\t")
        if not at.strip().isdigit():
            raise ValueError("it does not begin with the milliseconds of its receipt and a tab")
        return int(at), content.strip()
    stamped = _stamped.decode(line)
    content = bytes(stamped.frame)
    # A frame may have been recorded as the text it was.
    return stamped.at, _text.decode(content).encode() if content[:1] == b'"' else content


class _PackedLines(msgspec.Struct, frozen=True):
    """Packed lines that wait for the archive, and what the tape is to know of them."""

    from_ts: int
    to_ts: int
    payloads: int
    content: bytes


class _LinePacker:
    """Packs lines one by one."""

    def __init__(self, at: int) -> None:
        self.from_ts, self.to_ts = at, at
        self.size = self._count = 0
        self._pack = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._packed = bytearray()

    def add(self, line: bytes, *, at: int) -> None:
        self.to_ts, self.size, self._count = at, self.size + len(line), self._count + 1
        self._packed += self._pack.compress(line)

    def part(self) -> _PackedLines:
        self._packed += self._pack.flush()
        return _PackedLines(self.from_ts, self.to_ts, self._count, bytes(self._packed))


class Recorder:
    """Takes payloads at once and puts them into the archive when it is asked to."""

    def __init__(self, db: Database, put: Callable[[bytes], str]) -> None:
        self._db = db
        self._put = put
        self._waiting: deque[_PackedLines] = deque()
        self._packer: _LinePacker | None = None
        self._given_up = 0
        # Lines never go back in time, whatever the machine's clock does between two processes.
        self._newest: int = self._db.all(_QUERIES.newest_recording)[0][0] or 0

    def __call__(self, at: int, payload: str | bytes) -> None:
        """Takes a payload."""
        self._newest = max(at, self._newest)
        line = format_line(self._newest, payload.encode() if isinstance(payload, str) else payload)
        if self._packer is None:
            self._packer = _LinePacker(self._newest)
        self._packer.add(line, at=self._newest)
        if self._packer.size >= ROTATE_BYTES:
            self._rotate()

    def archive_due(self, now: int) -> str | None:
        """Archives what is due; returns why it could not, with everything kept for the next attempt."""
        if self._packer is not None and now - self._packer.from_ts >= ROTATE_MS:
            self._rotate()
        try:
            self._store()
        except (StoreFailed, Busy) as error:
            lost = f", {self._given_up} given up" if self._given_up else ""
            return f"{error} ({len(self._waiting)} recordings are waiting{lost})"
        return None

    def close(self) -> None:
        """Archives everything for the last time."""
        # What cannot be written now is lost, so that is an error.
        self._rotate()
        self._store()

    def _rotate(self) -> None:
        if self._packer is not None:
            self._waiting.append(self._packer.part())
            self._packer = None
        while sum(len(part.content) for part in self._waiting) > MOST_WAITING_BYTES:
            self._waiting.popleft()
            self._given_up += 1

    def _store(self) -> None:
        while self._waiting:
            part = self._waiting[0]
            # A process killed in between leaves an object nobody knows of.
            key = self._put(part.content)
            note = {"from_ts": part.from_ts, "to_ts": part.to_ts, "payloads": part.payloads}
            with self._db.transaction():
                if noted := self._db.one(_QUERIES.add_recording, archive_key=key, **note):
                    SealWriter(self._db).add_row("tape_recordings", noted)
            self._waiting.popleft()


def recorded_range(db: Database) -> tuple[int, int] | None:
    """The first and the last moment of which payloads were recorded; None when there are none."""
    first, last = db.all(_QUERIES.recorded_range)[0]
    return None if first is None else (first, last)


def recorded_lines(
    db: Database, fetch: Callable[[str], bytes | None], *, since: int, until: int
) -> Iterator[tuple[int, bytes]]:
    """The recorded lines from a moment up to, not including, another, each with its own moment."""
    for (key,) in db.all(_QUERIES.recordings, since=since, until=until):
        content = fetch(key)
        if content is None:
            raise Damaged(f"the archive has lost {key}, which holds recorded payloads; restore it from a backup")
        # A payload may hold a return, so lines end with a line feed and nothing else.
        for line in zlib.decompress(content, _GZIP).split(b"\n")[:-1]:
            at = parse_line(line)[0]
            if since <= at < until:
                yield at, line + b"\n"
