"""A desk whose PostgreSQL server restarts: every role waits for it, and every decision is made once."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.clock import SystemClock, elapsed_seconds
from tapebook.database_wait import DatabaseWait, when_database_answers
from tapebook.db.postgres import PostgresDatabase
from tapebook.desk.executor import Executor
from tapebook.desk.librarian import Librarian
from tapebook.desk.roles import ROLES, RoleName, RoleProgress, StopSignal, run_role
from tapebook.desk.supervisor import serve_role
from tapebook.domain.agent import AgentProfile
from tapebook.domain.units import MINUTE
from tapebook.errors import DatabaseAway, HomeError
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.db.servers import Server, Shutdown, own_server
from tests.desk.busy_desk import assert_once_each, await_idle, settle
from tests.desk.worker_harness import Later, Shop, buys, shops, work
from tests.replay.stage import Stage

AGENT = AgentProfile("a", ("BTC", "ETH"), cadence_ms=5 * MINUTE)
# The librarian sleeps for minutes between two syncs, and needs no database meanwhile.
BUSY: tuple[RoleName, ...] = ("scheduler", "worker", "executor")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of this module's own."""
    with own_server() as running:
        yield running


@pytest.fixture
def stage(server: Server, tmp_path: Path) -> Stage:
    """Homes with their books on that server."""
    return Stage(tmp_path, server.url)


@pytest.fixture
def one(stage: Stage) -> Iterator[Shop]:
    """A process with two decisions to make."""
    with shops(stage.make("home"), 1, buys) as (shop,):
        shop.hire(AGENT)
        shop.quote("BTC", "ETH")
        assert shop.list_due() == 2
        yield shop


def assert_made_once(shop: Shop, *, runs: int = 2) -> None:
    """Every decision is there once, with its order; nothing contradicts itself, and nobody holds anything."""
    db = shop.rooms.book_db
    assert Counter((run.symbol, run.status) for run in shop.runs()) == {("BTC", "placed"): 1, ("ETH", "placed"): 1}
    assert db.one(sql("SELECT COUNT(*) FROM log_events WHERE kind = 'run.decided'")) == (runs,)
    assert db.one(sql("SELECT COUNT(*), COUNT(DISTINCT run_id) FROM orders")) == (2, 2)
    assert db.all(sql("SELECT deployment FROM leases WHERE holder <> ''")) == []
    with app.open(shop.rooms.home, clock=shop.clock) as book:
        assert book.verify() == [] and book.replay().different == []


@pytest.mark.parametrize("how", ["fast", pytest.param("immediate", marks=pytest.mark.soak), "kill"])
def test_answers_that_come_while_the_server_is_away_are_recorded_when_it_is_back(
    one: Shop, server: Server, how: Shutdown
) -> None:
    asks = Later()
    worker = one.worker(asks)
    worker.turn(wait_seconds=0)
    server.stop(how)
    assert asks.ask() == 2
    for _ in range(2):
        with pytest.raises(DatabaseAway):
            worker.turn(wait_seconds=0)
    server.start()
    one.rooms.leases.recover_after_outage()
    work(worker)
    assert (worker.made, worker.lost, len(one.engine.packets)) == (2, 0, 2)
    assert_made_once(one)


def test_a_cut_at_any_statement_of_a_worker_neither_loses_nor_doubles(
    stage: Stage, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection dies just before or just after one commit more each time, until none is left."""
    cuts, survived, begun = Cuts(monkeypatch), 0, stage.make("begun")
    with shops(begun, 1) as (shop,):
        shop.hire(AGENT)
        shop.quote("BTC", "ETH")
        shop.list_due()
    for number in range(1_000):
        with shops(stage.copy(begun, f"home{number}"), 1, buys) as (shop,):
            cuts.cut_after(number // 2, committed=number % 2 == 1)
            worker = shop.worker()
            while work_through(worker.turn, shop) or shop.rooms.work.counts_by_state():
                pass
            cut = cuts.done
            cuts.cut_after(None)
            assert_made_once(shop)
        if not cut:
            break
        survived += 1
    assert survived >= 10


def work_through(turn: Callable[..., bool], shop: Shop) -> bool:
    """A turn, as a role takes it: after an outage it recovers."""
    try:
        return turn(wait_seconds=0)
    except DatabaseAway:
        shop.rooms.leases.recover_after_outage()
        return True


class Cuts:
    """Cuts a connection once: at the commit of its nth transaction, which is written or is not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left: int | None = None
        self._committed = False
        self.done = False
        real = PostgresDatabase.transaction

        @contextmanager
        def transaction(db: PostgresDatabase) -> Iterator[None]:
            due = self._left == 0
            self._left = None if self._left is None or due else self._left - 1
            self.done |= due
            with real(db):
                yield
                if due and not self._committed:
                    db._connection.close()
            if due and self._committed:
                db._connection.close()
                raise DatabaseAway("PostgreSQL does not answer: it was cut; try again")

        monkeypatch.setattr(PostgresDatabase, "transaction", transaction)

    def cut_after(self, transactions: int | None, *, committed: bool = False) -> None:
        """Cuts after so many more, or never."""
        self._left, self._committed, self.done = transactions, committed, False


def test_a_lease_that_could_not_be_released_is_released_afterwards(
    one: Shop, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(one.worker())
    executor = Executor(one.rooms)
    with monkeypatch.context() as patch:
        patch.setattr("tapebook.desk.executor.execute_and_reconcile", lambda rooms, deployment: server.kill_backends())
        with pytest.raises(DatabaseAway):
            executor.turn()
    held = sql("SELECT deployment FROM leases WHERE holder <> ''")
    assert one.rooms.book_db.all(held) == [("a.paper",)]
    one.rooms.leases.recover_after_outage()
    assert one.rooms.book_db.all(held) == []


def test_a_sync_that_was_cut_is_due_again_at_once(one: Shop, server: Server) -> None:
    librarian = Librarian(one.rooms)
    server.kill_backends()
    with pytest.raises(DatabaseAway):
        librarian.turn()
    one.rooms.leases.recover_after_outage()
    librarian.turn()
    assert (librarian.syncs, librarian.problem) == (1, None)


def test_nobody_is_taken_for_dead_because_the_server_was_away(stage: Stage, server: Server) -> None:
    with shops(stage.make("home")) as (one, other):
        one.hire(AGENT)
        one.quote("BTC", "ETH")
        one.list_due()
        first = one.worker(asks := Later())
        first.turn(wait_seconds=0)
        other.wait()
        server.kill_backends()
        with pytest.raises(DatabaseAway):
            other.rooms.leases.watch_others()
        other.rooms.leases.recover_after_outage()
        work(second := other.worker())
        assert second.made == 0, "the first could not give a sign of life meanwhile"
        with pytest.raises(DatabaseAway):
            first.turn(wait_seconds=0)
        one.rooms.leases.recover_after_outage()
        asks.ask()
        work(first)
        assert first.made == 2


def test_every_role_goes_on_after_restarts(stage: Stage, server: Server) -> None:
    pairs = 60
    home = settle(stage, pairs=pairs, engine="trend", lease_seconds=2.0, batch=2)
    with roles_at_work(home) as said:
        restarts: tuple[Shutdown, ...] = ("fast", "immediate")
        for how in restarts:
            wanted = {role: len(backs(said[role])) + 1 for role in BUSY}
            server.stop(how)
            # A role that was busy with something else while a server was away for a moment has nothing to say of it.
            wait_until(partial(have_missed_it, said, wanted))
            server.start()
            wait_until(partial(have_said, said, wanted))
        server.kill_backends()
        await_idle(home)
    assert sum(assert_once_each(home, pairs=pairs).values()) == pairs
    for role in BUSY:
        aways = outages(said[role])
        assert len(aways) == len(backs(said[role])), "each outage is said once, and its end too"
        # A connection that was cut, beside a server that answers, may be replaced before the turn is over.
        assert 2 <= len(aways) <= 3
        assert all(re.match(r"database away since 20\S+Z, trying again \(PostgreSQL does not ans", a) for a in aways)


def outages(said: list[RoleProgress]) -> list[str]:
    """What a role said of each outage."""
    lines = [None, *(each.problem for each in said)]
    return [line for before, line in pairwise(lines) if line and line.startswith("database") and line != before]


def have_missed_it(said: dict[RoleName, list[RoleProgress]], wanted: dict[RoleName, int]) -> bool:
    """Whether each role has said so often that the database is away."""
    return all(len(outages(said[role])) >= count for role, count in wanted.items())


def have_said(said: dict[RoleName, list[RoleProgress]], wanted: dict[RoleName, int]) -> bool:
    """Whether each role has said so often that the database is back."""
    return all(len(backs(said[role])) >= count for role, count in wanted.items())


def backs(said: list[RoleProgress]) -> list[str]:
    """What a role said when the database was back."""
    return [each.notice for each in said if each.notice]


def wait_until(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    """Waits until a condition holds."""
    until = elapsed_seconds() + seconds
    while not condition():
        assert elapsed_seconds() < until, "it never came"
        threading.Event().wait(0.02)


@contextmanager
def roles_at_work(home: Path) -> Iterator[dict[RoleName, list[RoleProgress]]]:
    """Every role with rooms of its own, each in a thread; gives what they report."""
    stop = StopSignal()
    said: dict[RoleName, list[RoleProgress]] = {role: [] for role in ROLES}

    def run(role: RoleName) -> None:
        with closing(Rooms(home, clock=SystemClock())) as rooms:
            run_role(rooms, role, stop=stop, seconds=120, report=said[role].append)

    threads = [threading.Thread(target=run, args=(role,)) for role in ROLES]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(said.values()))
        yield said
    finally:
        stop.asked = True
        for thread in threads:
            thread.join(60)


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_a_server_that_is_away_all_the_time_ends_a_role_on_time(stage: Stage, server: Server, role: RoleName) -> None:
    home, said = stage.make("home"), list[RoleProgress]()
    server.stop()
    try:
        with pytest.raises(DatabaseAway):
            serve_role(home, role, url="https://example.invalid", seconds=0.5, report=said.append)
    finally:
        server.start()
    assert len({each.problem for each in said}) == 1


def test_a_server_that_is_away_at_the_end_ends_a_role_on_time(stage: Stage, server: Server) -> None:
    home = stage.make("home")
    stopped = threading.Event()

    def report(now: RoleProgress) -> None:
        if not stopped.is_set():
            server.stop()
            stopped.set()

    try:
        with pytest.raises(DatabaseAway):
            # A server takes a second to stop on a busy machine; who ends before that has not met it.
            serve_role(home, "worker", url="https://example.invalid", seconds=5.0, report=report)
    finally:
        server.start()


def test_what_waiting_does_not_change_ends_at_once(stage: Stage) -> None:
    home = stage.make("home")
    file = home / "tapebook.toml"
    file.write_text(re.sub(r"/tapebook_\w+", "/never_made", file.read_text("utf-8")), "utf-8")
    with pytest.raises(HomeError, match="does not exist"):
        serve_role(home, "worker", url="https://example.invalid", seconds=60, report=lambda now: None)


def test_pauses_grow_up_to_a_limit_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr("tapebook.database_wait.elapsed_seconds", lambda: seconds[0])
    wait, pauses = DatabaseWait(), []
    for _ in range(2):
        for _ in range(7):
            wait.note_away(DatabaseAway("gone; come back"))
            pauses.append(round(wait._try_at - seconds[0], 3))
            assert wait.is_away and not wait.should_retry
            seconds[0] = wait._try_at
            assert wait.should_retry
        assert wait.note_back() == "database back after 7.1 s" and wait.note_back() is None
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0] * 2


def test_a_call_is_tried_again_until_it_works_or_a_stop_is_asked_for() -> None:
    lines: list[str] = []
    answers = iter([DatabaseAway("gone; come back"), DatabaseAway("gone; come back"), None])

    def call() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "here"

    assert when_database_answers(call, until=None, stopped=lambda: False, report=lines.append) == "here"
    assert len(lines) == 3 and lines[0] == lines[1] and lines[2].startswith("database back after")
    answers = iter([DatabaseAway("gone; come back")])
    with pytest.raises(DatabaseAway):
        when_database_answers(call, until=None, stopped=lambda: True, report=lines.append)
