"""Checks a whole home (`verify_home`) and rebuilds damaged tables of the book (`rebuild_book`).

Checked are the files, the book against its log, both against the anchors; and on request every row of the tape and
every object of the archive. A finding names what can be rebuilt from what. `verify_home` only reads; `rebuild_book`
writes tables again from the log, once nobody else writes and the log is known to be whole.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec

from tapebook.anchors import AnchorCheck
from tapebook.archive import Archive, ArchiveReference, SpooledArchive
from tapebook.book.events import decision_run_id
from tapebook.book.store import Book
from tapebook.db import Database, Queries, Query, connect, migrate
from tapebook.decision import EngineAnswer
from tapebook.domain.text import plural
from tapebook.errors import Damaged, TapebookError
from tapebook.log import Finding, Log, RebuiltTables, Stream, rebuild_tables, verify_log
from tapebook.settings.config import Config
from tapebook.tape.seals import UnsealedCounts, check_tape
from tapebook.tape.store import Tape
from tapebook.wiring import BOOK_PACKAGES, Rooms

OPERATIONAL_TABLES = frozenset({"work", "kept_replies"})
"""Tables of the book that are neither computed from the log nor fixed: what is being done just now."""

_QUERIES = Queries.load("tapebook.desk", "verify.sql")
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
_LITESTREAM = "_litestream_"

VerifyProgress = Callable[[str], None]


def verify_home(
    rooms: Rooms, *, tape: bool, archive: bool, progress: VerifyProgress, notice: VerifyProgress
) -> list[Finding]:
    """Every contradiction in a home; an empty list when it is whole."""
    progress("the files of the databases")
    found = book_file_findings(rooms.config, rooms.book_db)
    found += _file_findings(rooms.config.store.tape, rooms.tape_db, rooms.tape_packages)
    found += _index_findings(rooms.home)
    if any(each.problem.startswith(("the table", "the index")) for each in found):
        # Nothing can be asked of a database whose tables are others.
        return found
    progress("the anchors")
    anchors = AnchorCheck(rooms)
    found += _findings_or_unreadable("anchors", anchors.findings)
    found += _book_findings(rooms, progress)
    if tape:
        found += _tape_findings(rooms.tape, rooms.tape_db, anchors, progress=progress, notice=notice)
    if archive:
        found += _findings_or_unreadable(
            "archive", partial(_archive_findings, rooms.archive, rooms.book_db, rooms.tape_db, progress)
        )
    return found


def _findings_or_unreadable(where: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The findings of a check; what cannot even be read is one."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except (TapebookError, TypeError, ValueError) as error:
        # A damaged value may be of another type than what it is compared with.
        found.append(Finding(where, f"cannot be read to its end: {error}", _RESTORE.format("it")))
    return found


def book_file_findings(config: Config, book_db: Database) -> list[Finding]:
    """What is wrong with the book's file or the layout of its tables, whatever they say."""
    return list(_file_findings(config.store.book, book_db, BOOK_PACKAGES))


def _file_findings(name: str, db: Database, packages: tuple[str, ...]) -> Iterator[Finding]:
    """What a database's own check says of its file, and whether its tables are those of the migrations."""
    file = "the database" if "://" in name else name
    yield from (Finding(file, each, _RESTORE.format(file)) for each in db.integrity_problems())
    yield from _findings_or_unreadable(file, partial(_schema_findings, db, file, packages))


def _index_findings(home: Path) -> Iterator[Finding]:
    for place in sorted(home.glob("recall*.db")):
        try:
            with closing(connect(str(place), create=False)) as index:
                problems = index.integrity_problems()
        except Damaged as error:
            problems = [str(error)]
        yield from (Finding(place.name, each, _INDEX.format(place.name)) for each in problems)


def _schema_findings(db: Database, file: str, packages: tuple[str, ...]) -> Iterator[Finding]:
    if not db.description.startswith("SQLite"):
        return
    with closing(connect(":memory:")) as fresh:
        migrate(fresh, packages)
        stored, made = (set(place.all(_QUERIES.schema)) for place in (db, fresh))
    for kind, name, _ in sorted(made - stored):
        yield Finding(file, f"the {kind} {name} is missing or was changed", _RESTORE.format(file))
    for kind, name, _ in sorted(stored - made):
        # Litestream keeps its own small tables in what it replicates.
        if not name.startswith(_LITESTREAM) and (kind, name) not in {each[:2] for each in made}:
            yield Finding(file, f"the {kind} {name} is none of tapebook's", "look at who made it, and drop it")


def _book_findings(rooms: Rooms, progress: VerifyProgress) -> Iterator[Finding]:
    """The log, the tables computed from it, cash against the ledger, and what is being done just now."""
    found = verify_log(
        rooms.log, rooms.book_db, packages=BOOK_PACKAGES, operational=OPERATIONAL_TABLES, progress=progress
    )
    yield from found
    if found:
        return
    for difference in rooms.book.cash_differences():
        yield Finding("wallet_ledger", difference, _RESTORE.format("book.db"))
    yield from _findings_or_unreadable("work", partial(_work_findings, rooms.tape, rooms.log, rooms.book_db))
    yield from _findings_or_unreadable(
        "kept_replies", partial(_reply_findings, rooms.book, rooms.archive, rooms.book_db)
    )


def _work_findings(tape: Tape, log: Log, book_db: Database) -> Iterator[Finding]:
    """Decisions that wait are what their name says, and may know no more than there is."""
    lost = "stop the desk and delete the row: the slot is recorded as missed"
    tape_head = tape.head()[0]
    for owner, deployment, symbol, at, trigger, branch, name, *known in book_db.all(_QUERIES.work):
        stream, (state, as_of, tape_seq, book_seq) = Stream(owner, deployment), known
        if name != decision_run_id(stream.name, symbol, scheduled_for=at, trigger=trigger, branch=branch):
            yield Finding("work", f"run {name} is not the one its columns name", lost)
        elif state not in ("pending", "running") or (state == "running") != (as_of is not None):
            yield Finding("work", f"run {name} is {state!r}, as of {as_of}", lost)
        elif as_of is not None and (as_of < at or tape_seq > tape_head or book_seq > log.head(stream).seq):
            yield Finding("work", f"run {name} may know more than there is", lost)


def _reply_findings(book: Book, archive: Archive, book_db: Database) -> Iterator[Finding]:
    """A kept answer can be read, and costs what it says; of a run that is recorded it says what the run does."""
    remedy = "delete the row: the model is asked again if the decision is not made yet"
    for _, key, name, cost, answer_json in book_db.all(_QUERIES.replies):
        try:
            answer = msgspec.json.decode(answer_json, type=EngineAnswer)
        except (msgspec.MsgspecError, UnicodeError) as error:
            yield Finding("kept_replies", f"the answer {key[:16]}… cannot be read: {error}", remedy)
            continue
        run = book.run(name)
        if cost != (answer.usage.cost_usd_e6 if answer.usage else 0):
            yield Finding("kept_replies", f"the answer {key[:16]}… costs something else than its row says", remedy)
        elif run is not None and run.reply_key and archive.get(run.reply_key) != answer.reply.encode():
            yield Finding("kept_replies", f"the answer {key[:16]}… is not the one its run has", remedy)


def _tape_findings(
    tape: Tape, tape_db: Database, anchors: AnchorCheck, *, progress: VerifyProgress, notice: VerifyProgress
) -> list[Finding]:
    counts = UnsealedCounts()
    found = list(
        check_tape(
            tape_db,
            anchored=anchors.sealed,
            counts=counts,
            families=tape.families,
            progress=lambda table, rows: progress(f"{plural(rows, 'row')} of {table}"),
        )
    )
    if counts.rows:
        notice(f"not compared, being older than checksums: {plural(counts.rows, 'row')} of the tape")
    return found


def _archive_findings(
    archive: SpooledArchive, book_db: Database, tape_db: Database, progress: VerifyProgress
) -> Iterator[Finding]:
    """Every object of the archive against its key, and every key that a row names."""
    for found in archive.check(
        archive_references(book_db, tape_db), progress=lambda objects: progress(plural(objects, "object"))
    ):
        remedy = _REBUILT_FROM.get(found.by.partition(" ")[0], _ARCHIVE)
        yield Finding(f"archive: {found.by or found.key}", found.problem, remedy)


def archive_references(book_db: Database, tape_db: Database) -> Iterator[ArchiveReference]:
    """Every object that a row of the book or the tape names."""
    yield from book_references(book_db)
    yield from _named_by(tape_db, _OF_TAPE)


def book_references(db: Database) -> Iterator[ArchiveReference]:
    """Every object that a row of a book names."""
    yield from _named_by(db, _OF_BOOK)


def _named_by(db: Database, queries: tuple[Query, ...]) -> Iterator[ArchiveReference]:
    with db.snapshot():
        for key, by, owner in chain.from_iterable(map(db.stream, queries)):
            yield ArchiveReference(key if "/" in key else f"sha256/{key[:2]}/{key}", by, owner)


def rebuild_book(rooms: Rooms, *, progress: Callable[[str], None]) -> RebuiltTables:
    """Writes every table anew that contradicts the log; Busy while a desk runs, Damaged when more than tables is."""
    progress("the file of the book")
    lost = book_file_findings(rooms.config, rooms.book_db) or list(AnchorCheck(rooms).findings())
    if lost:
        # A log that was cut off is whole in itself; tables of less would hide that.
        raise Damaged(f"{lost[0].where}: {lost[0].problem}; this is more than tables: {lost[0].remedy}")
    with ExitStack() as held:
        leases = [held.enter_context(rooms.leases.holding(stream)) for stream in rooms.log.streams()]
        return rebuild_tables(
            rooms.log,
            rooms.book_db,
            packages=BOOK_PACKAGES,
            leases=leases,
            operational=OPERATIONAL_TABLES,
            progress=progress,
        )
