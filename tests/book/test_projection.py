"""Rows that are given by their places say what they would say by their names, and older tables keep their rows."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.book import events as ev
from tapebook.book.events import PROJECTION
from tapebook.book.store import MIGRATIONS, Book
from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.db.database import _migration_files
from tapebook.domain.canonical import canonical_json
from tapebook.domain.position import ClosedTrade, Position
from tapebook.domain.run import Action, DecisionRun, Trigger, Usage, Verdict, Vote, Watermarks
from tapebook.log import Draft, Event, Log, Stream, verify_log
from tapebook.log.store import MIGRATIONS as LOG
from tests.context.situations import run as some_run
from tests.context.situations import trade
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres

TRIGGERS: tuple[Trigger, ...] = ("schedule", "manual", "shadow", "backtest")
WORDS = st.text("abc", max_size=3)
TEXTS = st.lists(WORDS, max_size=2).map(tuple)
MARKS = st.builds(Watermarks, *[st.integers(0, 9)] * 4)
ACTIONS = st.builds(Action, cites=TEXTS)
VERDICTS = st.builds(Verdict, st.booleans(), st.none() | WORDS, WORDS, TEXTS)


@st.composite
def runs(draw: st.DrawFn) -> DecisionRun:
    judged = draw(st.lists(st.tuples(ACTIONS, VERDICTS), max_size=3))
    made: DecisionRun = draw(st.builds(DecisionRun, watermarks=MARKS, trigger=st.sampled_from(TRIGGERS)))
    actions, verdicts = tuple(action for action, _ in judged), tuple(verdict for _, verdict in judged)
    return msgspec.structs.replace(made, actions=actions, verdicts=verdicts)


def event(body: msgspec.Struct) -> Event:
    """An event with this body, at a place of its own."""
    made = ev.draft_event(7, body)
    return Event(Stream("own", "dep"), 11, made.kind, made.schema, made.happened_at, 13, made.body, "hash")


def written(body: msgspec.Struct) -> list[tuple[str, dict[str, Any]]]:
    """What a body writes, by the name of the statement and of its values."""
    made = event(body)
    writes = PROJECTION.projectors[made.kind](made)
    return [(each.query.name, dict(zip(each.query.params, each.values, strict=True))) for each in writes]


def text(value: object) -> str:
    return canonical_json(value).decode()


PLACE = {"owner": "own", "deployment": "dep", "seq": 11, "known_at": 13}
# What the migration of these columns added, table by table.
ADDED = {
    "decision_runs": ("created_at", "ended_at", "reason_key"),
    "orders": ("dry", "created_at", "updated_at"),
    "wallet_ledger": ("dry",),
    "trade_history": ("created_at", "updated_at"),
}


def without_columns(db: Database) -> None:
    """Takes a database back to before the migration `0012_columns.sql`."""
    db.execute_script("DROP VIEW action_report; DROP VIEW run_report;")
    for table, columns in ADDED.items():
        for column in columns:
            db.execute_script(f"ALTER TABLE {table} DROP COLUMN {column}")


@given(runs())
def test_a_run_is_written_by_its_names(run: DecisionRun) -> None:
    usage = msgspec.structs.asdict(run.usage or Usage("", 0, 0, 0, 0))
    marks = {f"{name}_seq": seq for name, seq in msgspec.structs.asdict(run.watermarks).items()}
    known = msgspec.structs.asdict(run) | PLACE | usage | marks | {"run_trigger": run.trigger}
    known |= {"degraded_json": text(run.degraded)}
    known |= {"degraded_causes_json": text(run.degraded_causes), "created_at": 13}
    (name, row), *others = written(ev.RunDecided(run))
    assert (name, row) == ("run", {column: known[column] for column in row})
    assert [each for each in others if each[0] == "done"] == (
        [] if run.trigger == "backtest" else [("done", {"run_id": run.run_id})]
    )
    lines = [row for name, row in others if name == "action"]
    assert len(lines) == len(run.actions)
    for number, (action, verdict, line) in enumerate(zip(run.actions, run.verdicts, lines, strict=True)):
        said = msgspec.structs.asdict(action) | msgspec.structs.asdict(verdict) | PLACE
        said |= {"position": number, "run_id": run.run_id}
        said |= {"cites_json": text(action.cites), "flags_json": text(verdict.flags)}
        assert line == {column: said[column] for column in line}


@given(st.builds(ev.MarksObserved))
def test_marks_are_written_by_their_names(body: ev.MarksObserved) -> None:
    known = msgspec.structs.asdict(body) | PLACE | {"happened_at": 7, "marks_json": text(body.marks)}
    ((name, row),) = written(body)
    assert (name, row) == ("snapshot", {column: known[column] for column in row})


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        yield opened


def test_actions_of_before_are_found_by_their_place(db: Database) -> None:
    migrate(db, (LOG,))
    files = dict(_migration_files(MIGRATIONS))
    last = files.pop("0007_actions.sql")
    for sql in files.values():
        db.execute_script(sql)
    book = Book(Log(db, [PROJECTION], clock=VirtualClock(9)), db, owner="local")
    some = some_run()
    two = (
        Action("hold", "BTC", None, 0, 1, "market", None, 1, "b", ("c",)),
        Action("open", "BTC", "long", 5, 2, "limit", 3, 4, "a"),
    )
    judged = (Verdict(True, flags=("7",)), Verdict(False, "R1_KILL_SWITCH", "halted"))
    vote = Vote("trend", "hold", None, 1, 2, "flat")
    made = [
        msgspec.structs.replace(some, run_id=f"{9 - n}", deployment="d", actions=two, verdicts=judged, votes=(vote,))
        for n in range(4)
    ]
    for run in made:
        book.append("d", [ev.draft_event(1, ev.RunDecided(run))], expected_seq=book.head("d"))
    without_columns(db)
    db.execute_script(last)
    db.execute_script(files["0012_columns.sql"])
    assert [book.run(run.run_id) for run in made] == made
    assert book.action_counts() == [("hold", "", 4), ("open", "R1_KILL_SWITCH", 4)]


def test_trade_from_before_its_size_was_recorded_writes_what_the_migration_left() -> None:
    """Its events have no such fields: a row that is rebuilt of them has NULL there, as the new column has."""
    said = trade(entry_usd_e6=5, entry_order_id="o")
    for body in (
        ev.TradeOpened("a", 1, said, Position("BTC", 1, 1)),
        ev.TradeUpdated(said, Position("BTC", 1, 1)),
        ev.TradeClosed(ClosedTrade(said, 1, "x", None)),
    ):
        made = event(body)
        old = msgspec.json.decode(made.body)
        inner = old["trade"].get("state", old["trade"])
        del inner["entry_usd_e6"], inner["entry_order_id"]
        before = msgspec.structs.replace(made, body=text(old))
        project = PROJECTION.projectors[made.kind]
        for new, was in zip(project(made), project(before), strict=True):
            assert isinstance(new.values, dict) and isinstance(was.values, dict)
            changed = {name: was.values[name] for name in new.query.params if new.values[name] != was.values[name]}
            assert changed and changed.items() <= {"entry_usd_e6": None, "entry_order_id": None}.items()


def test_runs_of_before_have_no_causes_and_their_rows_are_those_their_events_write(db: Database) -> None:
    migrate(db, (LOG,))
    files = dict(_migration_files(MIGRATIONS))
    last = files.pop("0009_degraded_causes.sql")
    for sql in files.values():
        db.execute_script(sql)
    # An event and a row as they were written before there were causes.
    old = msgspec.to_builtins(msgspec.structs.replace(some_run(), degraded=("lessons",)))
    del old["degraded_causes"]
    log = Log(db, [PROJECTION], clock=VirtualClock(9))
    db.execute_script("ALTER TABLE decision_runs ADD COLUMN degraded_causes_json TEXT NOT NULL DEFAULT 'x'")
    kind = ev.EVENT_KINDS[ev.RunDecided]
    log.append(Stream("local", "d"), [Draft(kind, 1, canonical_json({"run": old}).decode())], expected_seq=0)
    db.execute_script("ALTER TABLE decision_runs DROP COLUMN degraded_causes_json")
    without_columns(db)
    db.execute_script(last)
    db.execute_script(files["0012_columns.sql"])
    book = Book(log, db, owner="local")
    (found,) = (book.run(run_id) for run_id in book.run_ids(most=9))
    assert found is not None and (found.degraded, found.degraded_causes) == (("lessons",), ())
    assert book.degraded_runs(since=0) == []
    findings = verify_log(log, db, packages=(LOG, MIGRATIONS), anchors={})
    # The scripts were run by hand, so that nobody noted them.
    assert {each.where for each in findings} <= {"schema_migrations"}
