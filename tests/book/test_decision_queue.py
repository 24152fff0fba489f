"""The to-do list: each decision once, what it may know fixed at its first attempt, written only under a lease."""

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapebook.book import events as ev
from tapebook.book.decision_queue import DecisionQueue, KnownAsOf, QueuedDecision
from tapebook.book.events import PROJECTION
from tapebook.book.store import MIGRATIONS, Book
from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.order import Order, OrderEnd
from tapebook.domain.run import DecisionRun, RunStatus, Watermarks
from tapebook.errors import StaleWriter
from tapebook.log import Leases, Log
from tapebook.log.store import MIGRATIONS as LOG
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.db.places import sql
from tests.matrix import examples

NOON = 1_700_000_000_000
KNOWN = KnownAsOf(NOON + 5, Watermarks(7, 3, 2, 4))


class Bench:
    """A book, its to-do list and the leases of one process."""

    def __init__(self, database: Database, holder: str = "me") -> None:
        migrate(database, (LOG, MIGRATIONS))
        self.db = database
        self.seconds = 0.0
        self.leases = Leases(database, holder=holder, ttl_seconds=10, elapsed=lambda: self.seconds)
        log = Log(database, [PROJECTION], clock=VirtualClock(NOON))
        self.book = Book(log, database, owner="ann", leases=self.leases)
        self.work = DecisionQueue(database, owner="ann", leases=self.leases)

    def take(self, deployment: str) -> None:
        """Takes the lease of a deployment."""
        self.leases.watch_others()
        assert self.leases.acquire([self.book.stream(deployment)], most=1)

    def decide(self, run_id: str, deployment: str, status: RunStatus = "held") -> None:
        """Records a run."""
        places = {"run_id": run_id, "owner": "ann", "deployment": deployment, "agent": "a", "agent_version": 1}
        made = {"renderer": 1, "inputs_sha256": "", "packet_sha256": "", "tokens": 0, "engine": "h", "status": status}
        when = {"symbol": "BTC", "scheduled_for": NOON, "trigger": "schedule", "branch": "main", "as_of": NOON}
        empty = {"packet_key": None, "reply_key": None, "actions": (), "verdicts": ()}
        run = msgspec.convert(places | made | when | empty | {"watermarks": KNOWN.watermarks}, DecisionRun)
        draft = ev.draft_event(NOON, ev.RunDecided(run))
        self.book.append(deployment, [draft], expected_seq=self.book.head(deployment))


@pytest.fixture(params=["sqlite", "postgres"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """An empty book on each database."""
    place = ":memory:" if request.param == "sqlite" else str(request.getfixturevalue("empty_postgres"))
    with closing(connect(place)) as database:
        yield Bench(database)


def item(number: int, deployment: str = "d1", **more: object) -> QueuedDecision:
    """A decision to make."""
    return msgspec.structs.replace(QueuedDecision(f"run-{number}", deployment, "BTC", NOON + number), **more)


def test_listed_once(bench: Bench) -> None:
    assert bench.work.enqueue([]) == 0
    assert bench.work.enqueue([item(1), item(2)]) == 2
    assert bench.work.enqueue([item(1), item(2), item(3, trigger="manual", branch="b")]) == 1
    assert bench.work.queued_for("d1") == [item(1), item(2), item(3, trigger="manual", branch="b")]
    assert (bench.work.queued_for("d2"), bench.work.counts_by_state()) == ([], {"pending": 3})


def test_decision_that_is_made_leaves_the_list_with_its_run_and_does_not_come_back(bench: Bench) -> None:
    bench.work.enqueue([item(1), item(2)])
    bench.decide("run-1", "d1")
    assert bench.work.queued_for("d1") == [item(2)]
    assert bench.work.enqueue([item(1), item(2)]) == 0
    assert bench.work.queued_for("d1") == [item(2)]


def test_run_that_cannot_be_written_stays_on_the_list(bench: Bench) -> None:
    bench.work.enqueue([item(1)])
    Bench(bench.db, "other").take("d1")
    with pytest.raises(StaleWriter):
        bench.decide("run-1", "d1")
    assert bench.work.queued_for("d1") == [item(1)]


def test_longest_waiting_deployments_come_first(bench: Bench) -> None:
    bench.work.enqueue([item(5, "b"), item(3, "c"), item(4, "a"), item(9, "c"), item(4, "d", run_id="other")])
    found = list(bench.work.waiting_deployments(most=10))
    assert (found[0], set(found[1:3]), found[3:]) == ("c", {"a", "d"}, ["b"])
    assert list(bench.work.waiting_deployments(most=2)) == found[:2]


def test_what_a_decision_may_know_is_fixed_by_the_first(bench: Bench) -> None:
    bench.work.enqueue([item(1), item(2)])
    bench.take("d1")
    bench.work.record_known([item(1, known=KNOWN)])
    later = KnownAsOf(NOON + 99, Watermarks(8, 8, 8))
    bench.work.record_known([item(1, known=later), item(2, known=later)])
    assert bench.work.queued_for("d1") == [item(1, known=KNOWN), item(2, known=later)]
    assert bench.work.counts_by_state() == {"running": 2}


def test_opening_needs_every_lease(bench: Bench) -> None:
    bench.work.enqueue([item(1, "d1"), item(2, "d2")])
    bench.take("d1")
    with pytest.raises(StaleWriter):
        bench.work.record_known([item(1, "d1", known=KNOWN), item(2, "d2", known=KNOWN)])
    other = Bench(bench.db, "other")
    other.leases.watch_others()
    other.seconds = 11
    assert other.leases.acquire([bench.book.stream("d1")], most=1)
    with pytest.raises(StaleWriter):
        bench.work.record_known([item(1, "d1", known=KNOWN)])
    assert bench.work.counts_by_state() == {"pending": 2}


def test_another_owner_sees_nothing(bench: Bench) -> None:
    bench.work.enqueue([item(1)])
    bo = DecisionQueue(bench.db, owner="bo", leases=bench.leases)
    assert (bo.waiting_deployments(most=9), bo.queued_for("d1"), bo.counts_by_state()) == ({}, [], {})


def test_exposure_is_an_order_under_way(bench: Bench) -> None:
    assert not bench.book.has_exposure("d1")
    order = Order("c1", "run-1", "BTC", "buy", 1, "market", None, False, 1, NOON)
    bench.book.append("d1", [ev.draft_event(NOON, ev.OrderIntended(order))], expected_seq=0)
    assert bench.book.has_exposure("d1") and not bench.book.has_exposure("d2")
    assert (bench.work.deployments_with_orders(), bench.work.deployments_with_positions(before=NOON)) == (["d1"], [])
    ended = ev.draft_event(NOON, ev.OrderEnded(OrderEnd("c1", NOON, "filled")))
    bench.book.append("d1", [ended], expected_seq=1)
    assert not bench.book.has_exposure("d1") and bench.work.deployments_with_orders() == []


STEPS = st.lists(st.tuples(st.sampled_from(["add", "decide"]), st.integers(1, 6)), max_size=25)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_listed_or_made_and_never_both(bench: Bench, steps: list[tuple[str, int]]) -> None:
    """A model: a set of what is listed, a set of what is made."""
    with bench.db.transaction():
        for table in ("work", "decision_runs", "log_events"):
            bench.db.execute(sql(f"DELETE FROM {table}"))
    listed: set[int] = set()
    made: set[int] = set()
    for what, number in steps:
        if what == "add":
            assert bench.work.enqueue([item(number)]) == (number not in listed | made)
            listed |= {number} - made
        elif number not in made:
            bench.decide(f"run-{number}", "d1")
            made.add(number)
            listed.discard(number)
        assert bench.work.queued_for("d1") == [item(each) for each in sorted(listed)]
