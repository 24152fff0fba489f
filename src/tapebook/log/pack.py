"""How events are stored in few bytes: a long body within its row, or many events as one pack.

An event's hash covers its canonical text, never how that is stored, so both may change with the number of the codec
that every stored form begins with. What a codec wrote can be read for ever: its dictionary is never edited, a better
one gets the next number.

A pack holds events of one stream in their order, not all of them next to each other. Their hashes are not in it: each
follows from the one before, and where the event before is not in the pack its hash stands there instead.
"""

import zlib
from collections.abc import Iterable, Iterator
from importlib import resources

from tapebook.errors import Damaged
from tapebook.log.event import Draft, Event, Stream, chained

CODEC = 1
DICTIONARIES = {CODEC: resources.files("tapebook.log").joinpath("dictionary_1.txt").read_bytes()}

# A shorter text saves less than its dictionary costs to look through.
_SHORTEST = 300
_FAST, _SMALL = 2, 9
_WINDOW, _ROW_WINDOW, _ROW_MEMORY = -15, -13, 6
# Copied for every body: to set a new one up takes longer than most bodies do.
_ROW_PACKER = zlib.compressobj(6, zlib.DEFLATED, _ROW_WINDOW, _ROW_MEMORY, zdict=DICTIONARIES[CODEC])
_UNREADABLE = (zlib.error, ValueError, KeyError, IndexError, TypeError)

Link = tuple[str, Event]
"""An event, behind the hash of the one before it."""


def pack_body(body: str) -> bytes | None:
    """A body in few bytes, the first of which is the codec; None when it is so short that it stays as it is."""
    if len(body) < _SHORTEST:
        return None
    packer = _ROW_PACKER.copy()
    return bytes([CODEC]) + packer.compress(body.encode()) + packer.flush()


def unpack_body(packed: bytes) -> str:
    """The body that was packed; Damaged when it is none."""
    try:
        return _inflated(packed[0], packed[1:])
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
    previous = ""
    for seq, before, draft, known_at in _entries(content):
        events += chained(before or previous, [draft], stream=stream, seq=seq - 1, known_at=known_at)
        previous = events[-1].hash
    return events


def known_times(content: bytes) -> list[tuple[int, int]]:
    """The number of each event of a pack and when it was known: a quarter of the time it takes to unpack it."""
    return [(seq, known_at) for seq, _, _, known_at in _entries(content)]


def _entries(content: bytes) -> Iterator[tuple[int, str, Draft, int]]:
    """What a pack holds: number, the hash before it (empty behind another), what happened, and when it was known."""
    try:
        lines = iter(_inflated(content[0], content[1:]).split("\n"))
        seq = 0
        for line in lines:
            before = ""
            if line.startswith("@"):
                seq, before, line = int(line[1:]) - 1, next(lines), next(lines)
            seq += 1
            schema, happened_at, known_at = int(next(lines)), int(next(lines)), int(next(lines))
            yield seq, before, Draft(line[1:], happened_at, next(lines), schema), known_at
    except (*_UNREADABLE, StopIteration) as error:
        raise Damaged("a pack cannot be read: it was changed, or a newer tapebook wrote it") from error


def _inflated(codec: int, packed: bytes) -> str:
    reader = zlib.decompressobj(_WINDOW, zdict=DICTIONARIES[codec])
    text = reader.decompress(packed) + reader.flush()
    if not reader.eof or reader.unused_data:
        raise ValueError("more or less than one packed text")
    return text.decode()
