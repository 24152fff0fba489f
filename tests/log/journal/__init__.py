"""A small room for tests of the log: entries are added, settled and noted; two tables are computed from them."""

import msgspec

from tapebook.clock import VirtualClock
from tapebook.db import Database, Queries, Query, migrate
from tapebook.log import Draft, Event, Log, Projection, Stream, Write

PACKAGES = ("tapebook.log", "tests.log.journal")
START = 1_700_000_000_000
TABLES = ("journal_entries", "journal_tags")
STREAMS = (Stream("ann", "d1"), Stream("ann", ""), Stream("bo", "d1"))

_QUERIES = Queries.load("tests.log.journal")


class Entry(msgspec.Struct, frozen=True):
    """An entry of the journal, with everything its rows need."""

    title: str
    amount_e8: int
    tags: tuple[str, ...] = ()


class Settled(msgspec.Struct, frozen=True):
    """An earlier entry is done."""

    entry_seq: int


def added(title: str, *, at: int = START, tags: tuple[str, ...] = ()) -> Draft:
    """A draft of an entry."""
    return Draft.from_body("entry.added", at, Entry(title, len(title) * 10**17, tags))


def settled(entry_seq: int, *, at: int = START) -> Draft:
    """A draft that settles an entry."""
    return Draft.from_body("entry.settled", at, Settled(entry_seq))


def noted(text: str, *, at: int = START) -> Draft:
    """A draft that no table is computed from."""
    return Draft.from_body("note.made", at, Entry(text, 0))


def open_journal(db: Database, *, clock: VirtualClock | None = None) -> Log:
    """A log with the journal's tables."""
    migrate(db, PACKAGES)
    return Log(db, [PROJECTION], clock=clock or VirtualClock(START))


def fill(log: Log, clock: VirtualClock) -> None:
    """Ten events in each of three streams, in appends of one to three; the last of each has rows."""
    for turn in range(5):
        for number, stream in enumerate(STREAMS):
            clock.advance(START + 1_000 * turn + number)
            seq = log.head(stream).seq
            log.append(stream, _turn(turn, name=f"{stream.name} {turn}", at=clock.now()), expected_seq=seq)


def _turn(turn: int, *, name: str, at: int) -> list[Draft]:
    if turn == 0:
        return [added(f"{name} first ü", at=at - 5, tags=("new", "both"))]
    if turn == 1:
        return [noted(name, at=at), settled(1, at=at), added(f"{name} second", at=at, tags=("both",))]
    if turn in (2, 3):
        return [added(f"{name} more", at=at, tags=("new", "new")), noted(name, at=at - 1)]
    return [noted(name, at=at), added(f"{name} last", at=at)]


def rows_of(db: Database) -> dict[str, list[tuple[object, ...]]]:
    """What the computed tables hold."""
    return {table: sorted(db.all(Query.whole_table(table)), key=repr) for table in TABLES}


def _add_entry(event: Event) -> list[Write]:
    entry = msgspec.json.decode(event.body, type=Entry)
    place = {"owner": event.stream.owner, "deployment": event.stream.deployment}
    share = entry.amount_e8 / 3e8
    row = {"seq": event.seq, "title": entry.title, "amount_e8": entry.amount_e8, "share": share}
    entry_row = Write(_QUERIES.add_entry, place | row | {"bytes": entry.title.encode(), "known_at": event.known_at})
    return [entry_row, *(Write(_QUERIES.add_tag, place | {"tag": tag}) for tag in entry.tags)]


def _settle_entry(event: Event) -> list[Write]:
    body = msgspec.json.decode(event.body, type=Settled)
    place = {"owner": event.stream.owner, "deployment": event.stream.deployment}
    return [Write(_QUERIES.settle_entry, place | {"seq": body.entry_seq, "settled_seq": event.seq})]


PROJECTION = Projection(tables=TABLES, projectors={"entry.added": _add_entry, "entry.settled": _settle_entry})
