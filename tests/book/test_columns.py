"""Times, keys and orders of runs and actions as columns: each follows from the log, on SQLite and on PostgreSQL."""

import msgspec
import pytest

from tapebook.book import events as ev
from tapebook.book.events import PROJECTION, order_client_id
from tapebook.book.materializer import Account, TradeCause, settle_fill
from tapebook.book.store import MIGRATIONS, Book
from tapebook.clock import VirtualClock
from tapebook.db import Database
from tapebook.db.database import _migration_files
from tapebook.domain.order import Fill, Order, OrderEnd
from tapebook.domain.position import Portfolio
from tapebook.domain.run import Action, DecisionRun, Verdict, Watermarks
from tapebook.domain.units import E6, E8, MINUTE
from tapebook.log import Log, verify_log
from tapebook.log.store import MIGRATIONS as LOG
from tests.book.test_projection import without_columns
from tests.book.test_store import NOON
from tests.book.test_store import db as db
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.db.places import sql

OPEN = Action("open", "BTC", "long", 500 * E6, 2, "market", None, 6_400, "up")
HOLD = Action("hold", "BTC", None, 0, 1, "market", None, 5_000, "flat")
NAME = order_client_id("r1", 1)
ORDER = Order(NAME, "r1", "BTC", "buy", 5 * E8, "market", None, False, 2, NOON)


class Desk:
    """A book whose clock a test moves: every append is known a minute after the one before."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.clock = VirtualClock(NOON)
        self.log = Log(db, [PROJECTION], clock=self.clock)
        self.book = Book(self.log, db, owner="local")

    def write(self, *bodies: msgspec.Struct) -> int:
        """Appends bodies; returns when they became known."""
        self.clock.advance(self.clock.now() + MINUTE)
        drafts = [ev.draft_event(NOON, body) for body in bodies]
        return self.book.append("d1", drafts, expected_seq=self.book.head("d1"))[-1].known_at

    def is_whole(self) -> bool:
        """Whether the tables follow from the log."""
        return not verify_log(self.log, self.db, packages=(LOG, MIGRATIONS), anchors={})


@pytest.fixture
def desk(db: Database) -> Desk:
    return Desk(db)


def decided(
    *judged: tuple[Action, Verdict], run_id: str = "r1", status: str = "placed", **fields: object
) -> ev.RunDecided:
    run = DecisionRun(
        run_id=run_id,
        owner="local",
        deployment="d1",
        agent="a",
        agent_version=1,
        symbol="BTC",
        scheduled_for=NOON,
        trigger="schedule",
        branch="main",
        as_of=NOON + 10,
        watermarks=Watermarks(1, 1),
        renderer=3,
        inputs_sha256="1" * 64,
        packet_sha256="2" * 64,
        tokens=10,
        engine="trend",
        packet_key="packet",
        reply_key="reply",
        status=status,  # type: ignore[arg-type]
        actions=tuple(action for action, _ in judged),
        verdicts=tuple(verdict for _, verdict in judged),
    )
    return ev.RunDecided(msgspec.structs.replace(run, **fields))


def test_times_of_a_run_and_its_order_are_those_at_which_they_were_known(desk: Desk) -> None:
    refused = (OPEN, Verdict(False, "R3_POSITION_CAP", "too much"))
    made = desk.write(decided((HOLD, Verdict(True)), (OPEN, Verdict(True)), refused), ev.OrderIntended(ORDER))
    record = desk.book.run_record("r1")
    assert record is not None
    assert (record.started_at, record.completed_at) == (NOON + 10, None)
    assert (record.created_at, record.updated_at) == (made, made)
    assert [(each.status, each.order_id, each.quantity_e8) for each in record.actions] == [
        ("held", None, None),
        ("intended", NAME, 5 * E8),
        ("refused", None, None),
    ]
    doubted = desk.write(ev.OrderUnanswered(NAME, "no answer"))
    (known,) = desk.book.orders_of_run("r1")
    assert (known.created_at, known.updated_at) == (made, doubted)
    placed = desk.write(ev.OrderPlaced(NAME))
    assert desk.book.orders_of_run("r1")[0].updated_at == placed
    ended = desk.write(ev.OrderEnded(OrderEnd(NAME, NOON + 20, "filled")), ev.RunEnded("r1", "done"))
    record = desk.book.run_record("r1")
    assert record is not None and (record.created_at, record.updated_at, record.completed_at) == (made, ended, ended)
    assert record.actions[1].status == "filled" and desk.is_whole()


def test_run_without_orders_is_complete_when_it_is_written(desk: Desk) -> None:
    made = desk.write(decided((HOLD, Verdict(True)), status="held", reason_key="sha256/ab/abc"))
    record, run = desk.book.run_record("r1"), desk.book.run("r1")
    assert record is not None and (record.completed_at, record.updated_at) == (made, made)
    assert run is not None and run.reason_key == "sha256/ab/abc"
    never = desk.write(decided(run_id="r2", status="expired", packet_sha256="", packet_key=None, reply_key=None))
    record = desk.book.run_record("r2")
    assert record is not None and (record.started_at, record.completed_at) == (None, never)
    assert desk.book.run_record("r3") is None and desk.is_whole()


def test_rows_have_the_columns_that_people_ask_for(desk: Desk, db: Database) -> None:
    made = desk.write(decided((OPEN, Verdict(True)), reason_key="reasons"), ev.OrderIntended(ORDER))
    columns = "prompt_key, context_key, response_key, reason_key, error_message, started_at, completed_at, dry"
    row = db.one(sql(f"SELECT {columns} FROM run_report WHERE id = 'r1'"))
    assert row == ("packet", "packet", "reply", "reasons", None, NOON + 10, None, 0)
    columns = "id, status, quantity_e8, order_id, reason_summary, reason_key, error_message, created_at"
    row = db.one(sql(f"SELECT {columns} FROM action_report WHERE run_id = 'r1'"))
    assert row == ("r1/0", "intended", 5 * E8, NAME, "up", "reasons", "", made)


def test_dry_order_is_the_status_of_its_action(desk: Desk) -> None:
    noted = ev.OrderDryRun(ORDER, E8, -E6, 0, "never sent")
    made = desk.write(decided((HOLD, Verdict(True)), (OPEN, Verdict(True)), status="done"), noted)
    record = desk.book.run_record("r1")
    assert record is not None and record.completed_at == made
    assert [each.status for each in record.actions] == ["held", "dry"] and desk.is_whole()


def test_rows_of_before_get_their_times_from_their_events(desk: Desk, db: Database) -> None:
    """What the migration writes into a book of before is what its events write into an empty one."""
    other = msgspec.structs.replace(ORDER, client_id="other", run_id="r2")
    desk.write(decided((OPEN, Verdict(True))), ev.OrderIntended(ORDER))
    desk.write(decided((OPEN, Verdict(True)), run_id="r2"), ev.OrderIntended(other))
    desk.write(ev.OrderUnanswered("other", "no answer"))
    desk.write(ev.OrderPlaced(NAME))
    desk.write(ev.OrderEnded(OrderEnd(NAME, NOON + 20, "filled")), ev.RunEnded("r1", "done"))
    account, said = settle_fill(
        Account(0, Portfolio({}, 0), {}),
        Fill("f1", "BTC", NOON, E8, 100 * E8, 0, False),
        TradeCause("a", 1),
        mark_e8=None,
    )
    desk.write(*said)
    desk.write(*settle_fill(account, Fill("f2", "BTC", NOON, -E8, E8, 0, False), TradeCause("a", 1), mark_e8=None)[1])
    without_columns(db)
    db.execute_script(dict(_migration_files(MIGRATIONS))["0012_columns.sql"])
    assert desk.is_whole()


def test_times_of_a_trade(desk: Desk) -> None:
    account, cause = Account(0, Portfolio({}, 0), {}), TradeCause("a", 1)
    account, said = settle_fill(account, Fill("f1", "BTC", NOON, E8, 100 * E8, 0, False), cause, mark_e8=None)
    opened = desk.write(*said)
    (trade,) = account.open_trades.values()
    assert desk.book.trade_times(trade.trade_id) == (opened, opened)
    account, said = settle_fill(account, Fill("f2", "BTC", NOON, -E8, 110 * E8, 0, False), cause, mark_e8=None)
    closed = desk.write(*said)
    assert desk.book.trade_times(trade.trade_id) == (opened, closed) and desk.is_whole()
