"""Checks a whole home: the files, the book against its log, both against the anchors; and on request every row of the
tape and every object of the archive.

What is wrong is named with what it can be rebuilt from. Everything is read, nothing is changed.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain

import msgspec

from tapebook.archive import Reference
from tapebook.book.runs import run_id
from tapebook.db import Database, Queries, Query, connect, migrate
from tapebook.decision import Answer
from tapebook.domain.text import plural
from tapebook.errors import Damaged, TapebookError
from tapebook.log import Finding, Stream, verify_log
from tapebook.loop.maintain import AnchorCheck
from tapebook.tape.seals import Unsealed, check_tape
from tapebook.wiring import BOOK_PACKAGES, TAPE_PACKAGES, Rooms

OPERATIONAL = frozenset({"work", "kept_replies"})
"""Tables of the book that are neither computed from the log nor fixed: what is being done just now."""

_QUERIES = Queries.load("tapebook.loop", "verify.sql")
_OF_BOOK = (
    *(_QUERIES.packets, _QUERIES.run_replies, _QUERIES.reasonings, _QUERIES.packs),
    *(_QUERIES.documents, _QUERIES.entries, _QUERIES.proposed, _QUERIES.proposed_for),
)
_OF_TAPE = (_QUERIES.chunks, _QUERIES.recordings)
_REBUILT_FROM = {
    "packet": "`tapebook replay` makes the packet again from book and tape and compares it with its hash",
    "reply": "a reply is in no other place: restore the archive from a backup",
    "document": "`tapebook recall sync` stores it again if the file is as it was; else restore the archive",
    "rows": "import candles and funding again; of other rows there is no other copy: restore the archive from a backup",
}
_ARCHIVE = "restore the archive from a backup"
_RESTORE = "stop what runs on this home, and restore {} from a backup"
_INDEX = "delete {}: `tapebook recall reindex` builds it again from the book and the archive"

Told = Callable[[str], None]


def verify_home(rooms: Rooms, *, tape: bool, archive: bool, progress: Told, notice: Told) -> list[Finding]:
    """Every contradiction in a home; an empty list when it is whole."""
    progress("the files of the databases")
    found = [*_files(rooms)]
    if any(each.problem.startswith(("the table", "the index")) for each in found):
        # Nothing can be asked of a database whose tables are others.
        return found
    progress("the anchors")
    anchors = AnchorCheck(rooms)
    found += _readable("anchors", anchors.findings)
    found += _book(rooms, progress)
    if tape:
        found += _tape(rooms, anchors, progress=progress, notice=notice)
    if archive:
        found += _readable("archive", partial(_archive, rooms, progress))
    return found


def _readable(where: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The findings of a check; what cannot even be read is one."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except (TapebookError, TypeError, ValueError) as error:
        # A damaged value may be of another type than what it is compared with.
        found.append(Finding(where, f"cannot be read to its end: {error}", _RESTORE.format("it")))
    return found


def book_file_findings(rooms: Rooms) -> list[Finding]:
    """What is wrong with the book's file or the layout of its tables, whatever they say."""
    return list(_file(rooms.config.store.book, rooms.book_db, BOOK_PACKAGES))


def _file(name: str, db: Database, packages: tuple[str, ...]) -> Iterator[Finding]:
    file = "the database" if "://" in name else name
    yield from (Finding(file, each, _RESTORE.format(file)) for each in db.integrity())
    yield from _readable(file, partial(_schema, db, file, packages))


def _files(rooms: Rooms) -> Iterator[Finding]:
    """What the databases' own checks say of their files, and whether their tables are those of the migrations."""
    yield from _file(rooms.config.store.book, rooms.book_db, BOOK_PACKAGES)
    yield from _file(rooms.config.store.tape, rooms.tape_db, TAPE_PACKAGES)
    for place in sorted(rooms.home.glob("recall*.db")):
        try:
            with closing(connect(str(place), create=False)) as index:
                problems = index.integrity()
        except Damaged as error:
            problems = [str(error)]
        yield from (Finding(place.name, each, _INDEX.format(place.name)) for each in problems)


def _schema(db: Database, file: str, packages: tuple[str, ...]) -> Iterator[Finding]:
    if not db.description.startswith("SQLite"):
        return
    with closing(connect(":memory:")) as fresh:
        migrate(fresh, packages)
        stored, made = (set(place.all(_QUERIES.schema)) for place in (db, fresh))
    for kind, name, _ in sorted(made - stored):
        yield Finding(file, f"the {kind} {name} is missing or was changed", _RESTORE.format(file))
    for kind, name, _ in sorted(stored - made):
        if (kind, name) not in {each[:2] for each in made}:
            yield Finding(file, f"the {kind} {name} is none of tapebook's", "look at who made it, and drop it")


def _book(rooms: Rooms, progress: Told) -> Iterator[Finding]:
    """The log, the tables computed from it, cash against the ledger, and what is being done just now."""
    found = verify_log(
        rooms.log, rooms.book_db, packages=BOOK_PACKAGES, operational=OPERATIONAL, progress=progress
    )
    yield from found
    if found:
        return
    for difference in rooms.book.cash_differences():
        yield Finding("wallet_ledger", difference, _RESTORE.format("book.db"))
    yield from _readable("work", partial(_work, rooms))
    yield from _readable("kept_replies", partial(_replies, rooms))


def _work(rooms: Rooms) -> Iterator[Finding]:
    """Decisions that wait are what their name says, and may know no more than there is."""
    lost = "stop the desk and delete the row: the slot is recorded as missed"
    tape_head = rooms.tape.head()[0]
    for owner, deployment, symbol, at, trigger, branch, name, *known in rooms.book_db.all(_QUERIES.work):
        stream, (state, as_of, tape_seq, book_seq) = Stream(owner, deployment), known
        if name != run_id(stream.name, symbol, scheduled_for=at, trigger=trigger, branch=branch):
            yield Finding("work", f"run {name} is not the one its columns name", lost)
        elif state not in ("pending", "running") or (state == "running") != (as_of is not None):
            yield Finding("work", f"run {name} is {state!r}, as of {as_of}", lost)
        elif as_of is not None and (as_of < at or tape_seq > tape_head or book_seq > rooms.log.head(stream).seq):
            yield Finding("work", f"run {name} may know more than there is", lost)


def _replies(rooms: Rooms) -> Iterator[Finding]:
    """A kept answer can be read, and costs what it says; of a run that is recorded it says what the run does."""
    remedy = "delete the row: the model is asked again if the decision is not made yet"
    for _, key, name, cost, answer_json in rooms.book_db.all(_QUERIES.replies):
        try:
            answer = msgspec.json.decode(answer_json, type=Answer)
        except (msgspec.MsgspecError, UnicodeError) as error:
            yield Finding("kept_replies", f"the answer {key[:16]}… cannot be read: {error}", remedy)
            continue
        run = rooms.book.run(name)
        if cost != (answer.usage.cost_usd_e6 if answer.usage else 0):
            yield Finding("kept_replies", f"the answer {key[:16]}… costs something else than its row says", remedy)
        elif run is not None and run.reply_key and rooms.archive.get(run.reply_key) != answer.reply.encode():
            yield Finding("kept_replies", f"the answer {key[:16]}… is not the one its run has", remedy)


def _tape(rooms: Rooms, anchors: AnchorCheck, *, progress: Told, notice: Told) -> list[Finding]:
    counts = Unsealed()
    found = list(
        check_tape(
            rooms.tape_db,
            anchored=anchors.sealed,
            counts=counts,
            progress=lambda table, rows: progress(f"{plural(rows, 'row')} of {table}"),
        )
    )
    if counts.rows:
        notice(f"not compared, being older than checksums: {plural(counts.rows, 'row')} of the tape")
    return found


def _archive(rooms: Rooms, progress: Told) -> Iterator[Finding]:
    """Every object of the archive against its key, and every key that a row names."""
    for found in rooms.archive.check(_references(rooms), progress=lambda objects: progress(plural(objects, 'object'))):
        remedy = _REBUILT_FROM.get(found.by.partition(" ")[0], _ARCHIVE)
        yield Finding(f"archive: {found.by or found.key}", found.problem, remedy)


def _references(rooms: Rooms) -> Iterator[Reference]:
    """Every object that a row of the book or the tape names."""
    yield from _named_by(rooms.book_db, _OF_BOOK)
    yield from _named_by(rooms.tape_db, _OF_TAPE)


def _named_by(db: Database, queries: tuple[Query, ...]) -> Iterator[Reference]:
    with db.snapshot():
        for key, by in chain.from_iterable(map(db.stream, queries)):
            yield Reference(key if "/" in key else f"sha256/{key[:2]}/{key}", by)
