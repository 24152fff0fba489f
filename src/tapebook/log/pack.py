"""How events are stored in few bytes: a long body within its row, or many events as one pack.

An event's hash covers its canonical text, never how that is stored, so both may change with the number of the codec
that every stored form begins with. What a codec wrote can be read for ever: its dictionary is never edited, a better
one gets the next number.

A pack holds events of one stream in their order, not all of them next to each other. Their hashes are not in it: each
follows from the one before, and where the event before is not in the pack its hash stands there instead.
"""

import base64
import binascii
import zlib
from collections.abc import Iterable
from importlib import resources

from tapebook.errors import Damaged
from tapebook.log.event import Draft, Event, Stream, chained

CODEC = 1
DICTIONARIES = {CODEC: resources.files("tapebook.log").joinpath("dictionary_1.txt").read_bytes()}

# No canonical body begins with it: those are JSON.
_MARK = "~"
# A shorter text saves less than its dictionary costs to look through.
_SHORTEST = 300
_FAST, _SMALL = 2, 9
_WINDOW, _ROW_WINDOW, _ROW_MEMORY = -15, -13, 6
# Copied for every body: to set a new one up takes longer than most bodies do.
_ROW_PACKER = zlib.compressobj(6, zlib.DEFLATED, _ROW_WINDOW, _ROW_MEMORY, zdict=DICTIONARIES[CODEC])
_UNREADABLE = (zlib.error, binascii.Error, ValueError, KeyError, IndexError)

Link = tuple[str, Event]
"""An event, behind the hash of the one before it."""


def stored_body(body: str) -> str:
    """A body as its row has it: as it is when it is short, else `~`, the codec, a space, and its packed bytes in base64."""
    if len(body) < _SHORTEST and not body.startswith(_MARK):
        return body
    packer = _ROW_PACKER.copy()
    packed = packer.compress(body.encode()) + packer.flush()
    return f"{_MARK}{CODEC} {base64.b64encode(packed).decode('ascii')}"


def body_of_row(stored: str) -> str:
    """The body that a row stands for; Damaged when nothing can have been stored like that."""
    if stored[:1] != _MARK:
        return stored
    try:
        codec, packed = stored[1:].split(" ", 1)
        return _inflated(int(codec), base64.b64decode(packed, validate=True))
    except _UNREADABLE as error:
        raise Damaged("its packed body cannot be read: it was changed, or a newer tapebook wrote it") from error


def pack(links: Iterable[Link], *, small: bool = False) -> bytes:
    """Events of a stream as one pack; `small` takes longer."""
    lines, after = [], -1
    for previous, event in links:
        if event.seq != after:
            lines.append(f"@{event.seq}\n{previous}")
        lines.append(f".{event.kind}\n{event.schema}\n{event.happened_at}\n{event.known_at}\n{event.body}")
        after = event.seq + 1
    packer = zlib.compressobj(_SMALL if small else _FAST, zlib.DEFLATED, _WINDOW, zdict=DICTIONARIES[CODEC])
    return bytes([CODEC]) + packer.compress("\n".join(lines).encode()) + packer.flush()


def unpack(content: bytes, stream: Stream) -> list[Event]:
    """The events of a pack, each with the hash it must have; Damaged when it is none."""
    events: list[Event] = []
    try:
        lines = iter(_inflated(content[0], content[1:]).split("\n"))
        seq, previous = 0, ""
        for line in lines:
            if line.startswith("@"):
                seq, previous, line = int(line[1:]) - 1, next(lines), next(lines)
            schema, happened_at, known_at = int(next(lines)), int(next(lines)), int(next(lines))
            draft = Draft(line[1:], happened_at, next(lines), schema)
            events += chained(previous, [draft], stream=stream, seq=seq, known_at=known_at)
            seq, previous = seq + 1, events[-1].hash
    except (*_UNREADABLE, StopIteration) as error:
        raise Damaged("a pack cannot be read: it was changed, or a newer tapebook wrote it") from error
    return events


def _inflated(codec: int, packed: bytes) -> str:
    reader = zlib.decompressobj(_WINDOW, zdict=DICTIONARIES[codec])
    text = reader.decompress(packed) + reader.flush()
    if not reader.eof or reader.unused_data:
        raise ValueError("more or less than one packed text")
    return text.decode()
