"""Workers: each decision once, by whoever holds it; what goes wrong is recorded, and the rest goes on."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.api import app
from tapebook.decision import EngineAnswer
from tapebook.desk import worker as worker_module
from tapebook.domain.agent import AgentProfile, ContextProfile
from tapebook.domain.packet import Packet
from tapebook.domain.run import Usage
from tapebook.domain.units import MINUTE
from tapebook.errors import Busy, StaleWriter, StoreFailed
from tests.db.places import sql
from tests.desk.worker_harness import START, Later, Shop, buys, holds, shops, work
from tests.replay.stage import Stage

AGENT = AgentProfile("a", ("BTC", "ETH"), cadence_ms=5 * MINUTE)
OTHER = AgentProfile("b", ("BTC",), cadence_ms=5 * MINUTE)


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An empty home with its book in each store."""
    dsn = str(request.getfixturevalue("postgres_dsn")) if request.param == "PostgreSQL" else ""
    stage = Stage(tmp_path, dsn)
    yield stage.make("home")
    stage.clear()


@pytest.fixture
def two(home: Path) -> Iterator[tuple[Shop, Shop]]:
    """Two processes; two agents have three decisions to make."""
    with shops(home) as (one, other):
        one.hire(AGENT, OTHER)
        one.quote("BTC", "ETH")
        assert one.list_due() == 3
        yield one, other


def holders(shop: Shop) -> list[str]:
    """Deployments that somebody holds."""
    rows = shop.rooms.book_db.all(sql("SELECT deployment FROM leases WHERE holder <> '' ORDER BY deployment"))
    return [row[0] for row in rows]


def verified(shop: Shop) -> bool:
    """Whether nothing contradicts itself."""
    with app.open(shop.rooms.home, clock=shop.clock) as book:
        return book.verify() == [] and book.replay().different == []


def test_decides_all_that_is_listed_once(two: tuple[Shop, Shop]) -> None:
    one, other = two
    work(worker := one.worker())
    assert (worker.made, one.rooms.work.counts_by_state(), holders(one)) == (3, {}, [])
    assert Counter((run.deployment, run.symbol, run.status) for run in one.runs()) == {
        ("a.paper", "BTC", "held"): 1,
        ("a.paper", "ETH", "held"): 1,
        ("b.paper", "BTC", "held"): 1,
    }
    assert other.list_due() == 0
    work(late := other.worker())
    assert late.made == 0 and len(other.runs()) == 3 and verified(one)


def test_what_one_holds_the_other_leaves_alone(two: tuple[Shop, Shop]) -> None:
    one, other = two
    asks = Later()
    first = one.worker(asks)
    first.turn(wait_seconds=0)
    assert holders(one) == ["a.paper", "b.paper"] and other.rooms.work.counts_by_state() == {"running": 3}
    work(second := other.worker())
    assert second.made == 0 and not other.engine.packets
    asks.ask()
    work(first)
    assert first.made == 3 and verified(one)


def test_taken_over_with_what_it_knew_and_the_first_writes_nothing(two: tuple[Shop, Shop]) -> None:
    one, other = two
    asks = Later()
    first = one.worker(asks)
    first.turn(wait_seconds=0)
    began = {item.run_id: item.known for name in ("a.paper", "b.paper") for item in one.rooms.work.queued_for(name)}
    one.clock.advance(START + MINUTE)
    one.quote("BTC", "ETH", price_e8=2 * 10**10)
    other.wait()
    work(second := other.worker())
    assert second.made == 3
    assert {run.run_id: (run.as_of, run.watermarks) for run in other.runs()} == {
        run_id: (known.as_of, known.watermarks) for run_id, known in began.items() if known
    }
    before = other.rooms.book_db.all(sql("SELECT COUNT(*) FROM log_events"))
    assert asks.ask() == 3
    work(first)
    assert (first.made, first.lost) == (0, 3) and first.progress_line().endswith("3 taken over by others")
    assert one.rooms.book_db.all(sql("SELECT COUNT(*) FROM log_events")) == before
    # Both asked the same question, though the market had moved in between.
    questions = [sorted(packet.sha256 for packet in shop.engine.packets) for shop in two]
    assert questions[0] == questions[1] and verified(one)


def test_woken_in_the_middle_of_recording_several_writes_none(two: tuple[Shop, Shop]) -> None:
    """The lease goes between the look at it and the write: the write itself finds out."""
    one, other = two
    first = one.worker()
    stopped: list[bool] = []

    def while_it_sleeps(packet: Packet) -> EngineAnswer:
        if len(one.engine.packets) == 3 and not stopped:
            stopped.append(True)
            other.wait()
            work(other.worker())
        return holds(packet)

    one.engine._says = while_it_sleeps
    work(first)
    assert stopped and (first.made, first.lost) == (0, 3)
    assert len(one.runs()) == 3 and verified(one)


def test_slot_whose_time_is_over_is_recorded_as_expired(two: tuple[Shop, Shop]) -> None:
    one, _ = two
    one.clock.advance(START + 5 * MINUTE)
    one.quote("BTC", "ETH")
    assert one.list_due() == 3
    work(worker := one.worker())
    assert (worker.expired, worker.made, one.rooms.work.counts_by_state()) == (3, 3, {})
    by_slot = Counter((run.scheduled_for, run.status) for run in one.runs())
    assert by_slot == {(START, "expired"): 3, (START + 5 * MINUTE, "held"): 3}
    expired = [run for run in one.runs() if run.status == "expired"]
    assert all(run.error and not run.packet_sha256 and not run.actions for run in expired)
    # It is nobody's last decision, and replay has nothing to rebuild.
    assert not any("Last decision" in packet.text for packet in one.engine.packets)
    assert verified(one)


def test_slot_of_a_disabled_agent_is_recorded_as_expired(two: tuple[Shop, Shop]) -> None:
    one, _ = two
    one.hire(msgspec.structs.replace(OTHER, enabled=False))
    work(worker := one.worker())
    assert (worker.made, worker.expired) == (2, 1)
    assert {run.deployment for run in one.runs() if run.status == "expired"} == {"b.paper"}
    one.clock.advance(START + 5 * MINUTE)
    one.quote("BTC", "ETH")
    assert one.list_due() == 2


def test_engine_that_breaks_fails_its_run_and_no_other(two: tuple[Shop, Shop]) -> None:
    one, _ = two

    def says(packet: Packet) -> EngineAnswer:
        if packet.symbol == "ETH":
            raise ZeroDivisionError("nobody expected this")
        return holds(packet)

    one.engine._says = says
    work(worker := one.worker())
    assert worker.made == 3
    found = {(run.symbol, run.status, run.error) for run in one.runs() if run.deployment == "a.paper"}
    broke = "the engine broke: ZeroDivisionError: nobody expected this"
    assert found == {("BTC", "held", None), ("ETH", "failed", broke)}
    assert verified(one)


def test_answer_that_cannot_be_kept_fails_its_run_and_no_other(two: tuple[Shop, Shop]) -> None:
    """An engine of somebody's own may name a cost that fits into no column."""
    one, _ = two

    def says(packet: Packet) -> EngineAnswer:
        cost = 2**70 if packet.symbol == "ETH" else 5
        return msgspec.structs.replace(holds(packet), usage=Usage("own", 10, 1, cost, 1))

    one.engine._says, one.engine.identity = says, "own model"
    work(worker := one.worker())
    assert (worker.made, worker.failed, one.rooms.work.counts_by_state(), holders(one)) == (2, 1, {}, [])
    failed = [run for run in one.runs() if run.status == "failed"]
    assert [(run.agent, run.symbol) for run in failed] == [("a", "ETH")] and failed[0].error
    assert verified(one)


@pytest.mark.parametrize("step", ["prepare_decision", "conclude_decision"])
def test_step_that_breaks_fails_its_run_and_no_other(
    two: tuple[Shop, Shop], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = two
    whole = getattr(worker_module, step)

    def breaks(rooms: object, subject: Any, *rest: object, **more: object) -> object:
        slot = getattr(subject, "slot", subject)
        if slot.symbol == "ETH":
            raise LookupError("nobody expected this")
        return whole(rooms, subject, *rest, **more)

    monkeypatch.setattr(worker_module, step, breaks)
    work(worker := one.worker())
    assert (worker.made, worker.failed, one.rooms.work.counts_by_state(), holders(one)) == (2, 1, {}, [])
    assert worker.problem is None, "its run says it"
    failed = [(run.symbol, run.error) for run in one.runs() if run.status == "failed"]
    assert failed == [("ETH", "LookupError: nobody expected this")]
    assert verified(one)


def test_busy_database_leaves_everything_to_whoever_comes_first(
    two: tuple[Shop, Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    worker = one.worker()
    with monkeypatch.context() as patch:
        patch.setattr(worker_module, "stored_answer", refuse(Busy("held by another process")))
        with pytest.raises(Busy):
            worker.turn(wait_seconds=0)
    assert holders(one) == [] and not worker.is_busy
    work(helper := other.worker())
    work(worker)
    assert helper.made == 3 and worker.made == 0 and verified(one)


def test_disk_that_refuses_ends_the_worker(two: tuple[Shop, Shop], monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = two
    monkeypatch.setattr(worker_module, "conclude_decision", refuse(StoreFailed("no room")))
    with pytest.raises(StoreFailed):
        work(one.worker())
    assert one.runs() == [] and one.rooms.work.counts_by_state() == {"running": 3}


def refuse(error: Exception) -> object:
    """A step that always raises."""

    def refusing(*_: object, **__: object) -> None:
        raise error

    return refusing


def test_orders_leave_once(home: Path) -> None:
    with shops(home, says=buys) as (one, other):
        one.hire(AGENT)
        one.quote("BTC", "ETH")
        one.list_due()
        asks = Later()
        first = one.worker(asks)
        first.turn(wait_seconds=0)
        other.wait()
        work(other.worker())
        asks.ask()
        work(first)
        orders = one.rooms.book_db.all(sql("SELECT run_id, status FROM orders"))
        assert len(orders) == 2 == len({run_id for run_id, _ in orders})
        assert {status for _, status in orders} == {"placed"}
        placed = one.rooms.book_db.all(sql("SELECT COUNT(*) FROM log_events WHERE kind = 'order.placed'"))
        assert placed == [(2,)] and verified(one)


def test_shadows_follow_their_decisions_with_the_same_knowledge(home: Path) -> None:
    beside = msgspec.structs.replace(AGENT, shadow=ContextProfile(memory=False))
    with shops(home, 1) as (one,):
        one.hire(beside)
        one.quote("BTC", "ETH")
        assert one.list_due() == 4
        work(worker := one.worker())
        assert (worker.made, one.rooms.work.counts_by_state()) == (4, {})
        main, shadow = ([run for run in one.runs() if run.branch == branch] for branch in ("main", "shadow"))
        known = [sorted((run.symbol, run.as_of, run.watermarks.book) for run in runs) for runs in (main, shadow)]
        assert known[0] == known[1] and len(main) == 2
        assert verified(one)


def test_room_in_flight_and_batches_are_kept(home: Path) -> None:
    text = (home / "tapebook.toml").read_text().replace("calls_in_flight = 200", "calls_in_flight = 3")
    (home / "tapebook.toml").write_text(text.replace("batch = 50", "batch = 2"))
    with shops(home, 1) as (one,):
        one.hire(*(AgentProfile(f"a{number}", ("BTC", "ETH"), cadence_ms=5 * MINUTE) for number in range(5)))
        one.quote("BTC", "ETH")
        assert one.list_due() == 10
        asks = Later()
        worker = one.worker(asks)
        most = 0
        while one.rooms.work.counts_by_state():
            worker.turn(wait_seconds=0)
            assert len(holders(one)) <= 4
            most = max(most, asks.ask())
        assert (worker.made, most) == (10, 2)
        work(worker)
        assert holders(one) == []


def test_worker_takes_deployments_for_the_room_it_has_and_leaves_the_others(home: Path) -> None:
    text = (home / "tapebook.toml").read_text().replace("calls_in_flight = 200", "calls_in_flight = 3")
    (home / "tapebook.toml").write_text(text)
    with shops(home) as (one, other):
        one.hire(*(AgentProfile(f"a{number}", ("BTC", "ETH"), cadence_ms=5 * MINUTE) for number in range(5)))
        one.quote("BTC", "ETH")
        assert one.list_due() == 10
        asks, late = Later(), Later()
        first, second = one.worker(asks), other.worker(late)
        first.turn(wait_seconds=0)
        taken = holders(one)
        assert len(taken) == 2, "four decisions for three places"
        second.turn(wait_seconds=0)
        assert len(holders(one)) == 4 and set(taken) < set(holders(one))
        while one.rooms.work.counts_by_state():
            asks.ask()
            late.ask()
            first.turn(wait_seconds=0)
            second.turn(wait_seconds=0)
        assert first.made + second.made == 10 and abs(first.made - second.made) <= 2
        assert verified(one)


def test_worker_that_was_too_late_looks_again_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (home / "tapebook.toml").read_text().replace("calls_in_flight = 200", "calls_in_flight = 1")
    (home / "tapebook.toml").write_text(text)
    with shops(home) as (one, other):
        one.hire(*(AgentProfile(f"a{number}", ("BTC",), cadence_ms=5 * MINUTE) for number in range(3)))
        one.quote("BTC")
        assert one.list_due() == 3
        first, second = one.worker(Later()), other.worker(Later())
        choose = second._deployments_for_room

        def choose_and_sleep() -> Any:
            chosen = choose()
            if not first.is_busy:
                first.turn(wait_seconds=0)
                assert holders(one) == [chosen[0][0].deployment]
            return chosen

        monkeypatch.setattr(second, "_deployments_for_room", choose_and_sleep)
        second.turn(wait_seconds=0)
        assert first.is_busy and second.is_busy and len(holders(one)) == 2


def test_what_is_over_is_recorded_for_all_while_there_is_room_for_few(home: Path) -> None:
    """Too much to decide: the list never has more than the newest slot and what is being decided."""
    text = (home / "tapebook.toml").read_text().replace("calls_in_flight = 200", "calls_in_flight = 2")
    (home / "tapebook.toml").write_text(text)
    with shops(home, 1) as (one,):
        one.hire(*(AgentProfile(f"a{number}", ("BTC", "ETH"), cadence_ms=5 * MINUTE) for number in range(8)))
        asks = Later()
        worker = one.worker(asks)
        for slot in range(4):
            one.clock.advance(START + slot * 5 * MINUTE)
            one.quote("BTC", "ETH")
            assert one.list_due() == 16
            for _ in range(2):
                asks.ask()
                worker.turn(wait_seconds=0)
            assert sum(one.rooms.work.counts_by_state().values()) <= 16 + 2
        assert worker.made and worker.expired >= 3 * 16 - worker.made - 4
        assert Counter(run.status for run in one.runs()) == {"held": worker.made, "expired": worker.expired}


def test_stale_worker_cannot_fail_a_run_either(two: tuple[Shop, Shop]) -> None:
    """What was lost is not ours to record as failed, even when nobody holds it any more."""
    one, other = two
    asks = Later()
    first = one.worker(asks)
    first.turn(wait_seconds=0)
    other.wait()
    work(other.worker())
    one.rooms.leases.heartbeat()
    with pytest.raises(StaleWriter):
        one.rooms.book.append("a.paper", [], expected_seq=one.rooms.book.head("a.paper"))


class Slow:
    """A pool in which every question takes so long, in the time of the market."""

    def __init__(self, shop: Shop, takes_ms: int) -> None:
        self._shop = shop
        self._takes_ms = takes_ms
        self._calls: list[tuple[int, Any, tuple[Any, ...]]] = []

    def submit(self, call: Any, /, *args: Any) -> None:
        """Notes a question and when it will be answered."""
        self._calls.append((self._shop.clock.now() + self._takes_ms, call, args))

    def answer(self) -> None:
        """Answers what has been thought about for long enough."""
        now = self._shop.clock.now()
        due = [each for each in self._calls if each[0] <= now]
        self._calls = [each for each in self._calls if each[0] > now]
        for _, call, args in due:
            call(*args)


def decided_under_load(home: Path, *, slots: int, takes_ms: int, batch: int, at_once: int = 3) -> list[Counter[str]]:
    """Twenty agents on a desk that asks so many engines at once: the statuses of each one's runs, by its name."""
    text = (home / "tapebook.toml").read_text().replace("calls_in_flight = 200", f"calls_in_flight = {at_once}")
    (home / "tapebook.toml").write_text(text.replace("batch = 50", f"batch = {batch}"))
    names = [f"a{number:02d}" for number in range(20)]
    with shops(home, 1) as (one,):
        one.hire(*(AgentProfile(name, ("BTC",), cadence_ms=5 * MINUTE) for name in names))
        pool = Slow(one, takes_ms)
        worker = one.worker(pool)
        for moment in range(START, START + slots * 5 * MINUTE, 20_000):
            one.clock.advance(moment)
            if moment % MINUTE == 0:
                one.quote("BTC")
            one.list_due()
            pool.answer()
            for _ in range(4):
                worker.turn(wait_seconds=0)
        runs = one.runs()
        late = [run for run in runs if run.status == "held" and run.as_of >= run.scheduled_for + 5 * MINUTE]
        assert not late, "a slot that was over was decided"
        assert f"{sum(run.status == 'expired' for run in runs):,} expired" in worker.progress_line()
    return [Counter(run.status for run in runs if run.agent == name) for name in names]


@pytest.mark.parametrize(
    ("at_once", "takes_ms", "capacity", "batch"),
    [
        (3, MINUTE, 15, 2),
        pytest.param(3, MINUTE, 15, 50, marks=pytest.mark.proof),
        pytest.param(3, 2 * MINUTE, 7, 50, marks=pytest.mark.proof),
        pytest.param(13, 4 * MINUTE, 13, 50, marks=pytest.mark.proof),
    ],
)
def test_under_overload_every_agent_loses_the_same_share(
    tmp_path: Path, at_once: int, takes_ms: int, capacity: int, batch: int
) -> None:
    slots, home = 16, Stage(tmp_path).make("home")
    made = decided_under_load(home, slots=slots, takes_ms=takes_ms, batch=batch, at_once=at_once)
    held = [each["held"] for each in made]
    # Those that are asked together wait for their next turn in an order that is drawn anew.
    assert max(held) - min(held) <= (2 if at_once == 3 else 4), held
    assert sum(held) >= 0.85 * capacity * (slots - 1), held
    # What was shed is recorded: every slot but the newest ones is one or the other.
    assert all(slots - 2 <= each.total() <= slots for each in made) and all(each["expired"] for each in made)


def test_the_order_of_an_overloaded_desk_is_a_function_of_its_state(tmp_path: Path) -> None:
    first, second = (
        decided_under_load(Stage(tmp_path).make(name), slots=5, takes_ms=2 * MINUTE, batch=50) for name in ("a", "b")
    )
    assert first == second
