"""Events, the hash chain that binds each to the one before it, their packs, and the tables computed from them.

An event's hash covers its canonical text, never how that is stored, so both may change with the number of the codec
that every stored form begins with. What a codec wrote can be read for ever: its dictionary is never edited, a
better one gets the next number.

A pack holds events of one stream in their order, not all of them next to each other. Their hashes are not in it:
each follows from the one before, and where the event before is not in the pack its hash stands there instead. In the
archive the same is a Parquet file (`parquet_of_events`); packs of an older tapebook are read as they are.

Projections are tables computed from events by pure functions from one event to the statements it causes. A
projection never reads: everything a row needs is in its event, so rebuilding from the log gives the same rows
whatever the order of streams.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

from tapebook.db import Database, Query, Row
from tapebook.domain.canonical import canonical_json
from tapebook.errors import BadInput, Damaged

# The hash before the first event of a stream.
GENESIS = "0" * 64


class Stream(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Who the events belong to: one stream per deployment, and one per owner (an empty deployment)."""

    owner: str
    deployment: str = ""

    @property
    def name(self) -> str:
        """The stream as it enters the hash; neither part may hold a slash or a line break."""
        return f"{self.owner}/{self.deployment}"


class Draft(msgspec.Struct, frozen=True):
    """An event that is not in the log yet: what happened, when, and its canonical body."""

    kind: str
    happened_at: int
    body: str
    schema: int = 1

    @classmethod
    def from_body(cls, kind: str, happened_at: int, body: msgspec.Struct) -> "Draft":
        """A draft whose body is a typed value."""
        return cls(kind, happened_at, canonical_json(body).decode())


class LateDraft(Draft, frozen=True):
    """A draft whose body is worked out when it is chained (`finish`): what nobody reads before can wait for others.

    Until then `body` is a text that stands for it.
    """

    finish: Callable[[], str] = str


class Event(msgspec.Struct, frozen=True):
    """One fact in its place: `seq` counts within the stream, `known_at` is when it was committed."""

    stream: Stream
    seq: int
    kind: str
    schema: int
    happened_at: int
    known_at: int
    body: str
    hash: str

    def columns(self) -> dict[str, Any]:
        """Where it stands, as every table that is filled from events has it."""
        stream = self.stream
        return {"owner": stream.owner, "deployment": stream.deployment, "seq": self.seq, "known_at": self.known_at}

    def hash_after(self, previous: str) -> str:
        """The hash this event must have after an event with hash `previous`.

        `chain_events` lets no line break into any part, so no other event has the same text.
        """
        what = Draft(self.kind, self.happened_at, self.body, self.schema)
        return _event_hash(previous, what, self.body, stream=self.stream.name, seq=self.seq, known_at=self.known_at)


def chain_events(previous: str, drafts: Sequence[Draft], *, stream: Stream, seq: int, known_at: int) -> list[Event]:
    """Drafts as the events after `seq`, whose hash is `previous`; BadInput where a text could be read in two ways."""
    name, events = stream.name, []
    # Parts of the hashed text are separated by slash and line break: allowed inside a part, two events could have one
    # text.
    is_clear = name.count("/") <= 1 and "\n" not in name
    for draft in drafts:
        kind, body = draft.kind, draft.finish() if isinstance(draft, LateDraft) else draft.body
        if not is_clear or "\n" in body or "\n" in kind:
            raise BadInput(f"{kind!r} in stream {name!r}: use no slash in a stream and no line break")
        seq += 1
        previous = _event_hash(previous, draft, body, stream=name, seq=seq, known_at=known_at)
        events.append(Event(stream, seq, kind, draft.schema, draft.happened_at, known_at, body, previous))
    return events


def _event_hash(previous: str, draft: Draft, body: str, *, stream: str, seq: int, known_at: int) -> str:
    what = f"{draft.kind}\n{draft.schema}\n{draft.happened_at}\n{known_at}\n{body}"
    return hashlib.sha256(f"{previous}\n{stream}\n{seq}\n{what}".encode()).hexdigest()


CODEC = 1
DICTIONARIES = {CODEC: resources.files("tapebook.log").joinpath("dictionary_1.txt").read_bytes()}

# A shorter text saves less than its dictionary costs to look through.
_SHORTEST_PACKED = 300
# A single writer packs while it works.
_PACK_LEVEL = 2
_WINDOW, _ROW_WINDOW, _ROW_MEMORY = -15, -13, 6
# Copied for every body: to set a new one up takes longer than most bodies do.
_ROW_PACKER = zlib.compressobj(6, zlib.DEFLATED, _ROW_WINDOW, _ROW_MEMORY, zdict=DICTIONARIES[CODEC])
_PARQUET_MAGIC = b"PAR1"
_PARQUET_NUMBERS = ("seq", "schema", "happened_at", "known_at")
_UNREADABLE = (zlib.error, ValueError, KeyError, IndexError, TypeError)

LinkedEvent = tuple[str, Event]
"""An event, behind the hash of the one before it."""


def pack_body(body: str) -> bytes | None:
    """A body in few bytes, the first of which is the codec; None when it is so short that it stays as it is."""
    if len(body) < _SHORTEST_PACKED:
        return None
    packer = _ROW_PACKER.copy()
    return bytes([CODEC]) + packer.compress(body.encode()) + packer.flush()


def unpack_body(packed: bytes) -> str:
    """The text that was packed behind the number of its codec; Damaged when it is none."""
    try:
        reader = zlib.decompressobj(_WINDOW, zdict=DICTIONARIES[packed[0]])
        content = reader.decompress(packed[1:]) + reader.flush()
        # Bytes behind the end would be covered by no hash.
        if not reader.eof or reader.unused_data:
            raise ValueError("more or less than one packed text")
        return content.decode()
    except _UNREADABLE as error:
        raise Damaged("its packed body cannot be read: it was changed, or a newer tapebook wrote it") from error


def pack_events(links: Iterable[LinkedEvent]) -> bytes:
    """Events of a stream as one pack."""
    lines, after = [], -1
    for previous, event in links:
        # Events that follow one another need neither number nor hash: both follow from the one before.
        if event.seq != after:
            lines.append(f"@{event.seq}\n{previous}")
        lines.append(f".{event.kind}\n{event.schema}\n{event.happened_at}\n{event.known_at}\n{event.body}")
        after = event.seq + 1
    packer = zlib.compressobj(_PACK_LEVEL, zlib.DEFLATED, _WINDOW, zdict=DICTIONARIES[CODEC])
    return bytes([CODEC]) + packer.compress("\n".join(lines).encode()) + packer.flush()


def unpack_events(content: bytes, stream: Stream) -> list[Event]:
    """The events of a pack, each with the hash it must have; Damaged when it is none."""
    events: list[Event] = []
    previous = ""
    for seq, before, draft, known_at in _pack_entries(content):
        events += chain_events(before or previous, [draft], stream=stream, seq=seq - 1, known_at=known_at)
        previous = events[-1].hash
    return events


def pack_known_times(content: bytes) -> list[tuple[int, int]]:
    """The number of each event of a pack and when it was known."""
    # A quarter of the time it takes to unpack it.
    return [(seq, known_at) for seq, _, _, known_at in _pack_entries(content)]


def parquet_of_events(links: Sequence[LinkedEvent]) -> bytes:
    """Events of a stream as a Parquet file, for the archive; `previous` stands where an event follows none in it."""
    import pyarrow as arrow
    from pyarrow import parquet

    after, previous = -1, list[str | None]()
    for before, event in links:
        previous.append(None if event.seq == after else before)
        after = event.seq + 1
    events = [event for _, event in links]
    columns = {name: [getattr(event, name) for event in events] for name in _PARQUET_NUMBERS}
    texts = {"previous": previous, "kind": [each.kind for each in events], "body": [each.body for each in events]}
    table = arrow.table(
        {name: arrow.array(values, arrow.int64()) for name, values in columns.items()}
        | {name: arrow.array(values, arrow.string()) for name, values in texts.items()}
    )
    out = arrow.BufferOutputStream()
    parquet.write_table(
        table.replace_schema_metadata({"stream": events[0].stream.name}),
        out,
        compression="zstd",
        compression_level=19,
        use_dictionary=["kind"],
        column_encoding=dict.fromkeys(_PARQUET_NUMBERS, "DELTA_BINARY_PACKED"),
        # One body says nearly what the one before it said: pages as large as the file compress them together.
        data_page_size=1 << 26,
    )
    content: bytes = out.getvalue().to_pybytes()
    return content


def _parquet_entries(content: bytes) -> Iterator[tuple[int, str, Draft, int]]:
    """What such a file holds, as `_pack_entries` gives it."""
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(arrow.BufferReader(content))
        names = ("seq", "previous", "kind", "schema", "happened_at", "known_at", "body")
        columns = [table[name].to_pylist() for name in names]
    except (arrow.ArrowException, OSError, KeyError, UnicodeError) as error:
        raise Damaged("a file of old events cannot be read: it was changed, or a newer tapebook wrote it") from error
    for seq, before, kind, schema, happened_at, known_at, body in zip(*columns, strict=True):
        yield seq, before or "", Draft(kind, happened_at, body, schema), known_at


def _pack_entries(content: bytes) -> Iterator[tuple[int, str, Draft, int]]:
    """What a pack holds: number, the hash before it (empty behind another), what happened, and when it was known."""
    if content.startswith(_PARQUET_MAGIC):
        yield from _parquet_entries(content)
        return
    try:
        lines = iter(unpack_body(content).split("\n"))
        seq = 0
        for line in lines:
            before = ""
            if line.startswith("@"):
                seq, before, line = int(line[1:]) - 1, next(lines), next(lines)
            seq += 1
            schema, happened_at, known_at = int(next(lines)), int(next(lines)), int(next(lines))
            yield seq, before, Draft(line[1:], happened_at, next(lines), schema), known_at
    except (*_UNREADABLE, StopIteration, Damaged) as error:
        raise Damaged("a pack cannot be read: it was changed, or a newer tapebook wrote it") from error


def pack_row(events: Sequence[Event], *, key: str | None = None, content: bytes | None = None) -> Row:
    """A pack of events as its table's columns, in their order."""
    first, last = events[0], events[-1]
    place = (first.stream.owner, first.stream.deployment, first.seq, last.seq, len(events))
    return *place, first.known_at, last.known_at, last.hash, key, content


Projector = Callable[[Event], "list[Write]"]


class Write(msgspec.Struct, frozen=True):
    """One statement with its values: by their names, or, for what every tick writes, in the order of `query.params`."""

    query: Query
    values: dict[str, Any] | Row


class Projection(msgspec.Struct, frozen=True):
    """The tables of one room, and what each kind of event writes to them."""

    tables: tuple[str, ...]
    projectors: Mapping[str, Projector]


def projectors_by_kind(projections: Iterable[Projection]) -> dict[str, list[Projector]]:
    """All projectors of each kind of event."""
    found: dict[str, list[Projector]] = {}
    for projection in projections:
        for kind, projector in projection.projectors.items():
            found.setdefault(kind, []).append(projector)
    return found


def apply_event(db: Database, projectors: Mapping[str, Sequence[Projector]], event: Event) -> None:
    """Writes what an event means to every table that knows its kind."""
    for projector in projectors.get(event.kind, ()):
        for write in projector(event):
            values = write.values
            db.execute_row(write.query, write.query.values_in_order(values) if isinstance(values, dict) else values)
