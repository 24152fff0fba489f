"""The scheduler and the roster: what is due is listed once, however many ask; no two agents on one account."""

from pathlib import Path

import msgspec
import pytest

from tapebook.book.decision_queue import QueuedDecision
from tapebook.desk.agents import DeploymentDirectory, refuse_shared_accounts
from tapebook.desk.scheduler import MAX_MISSED_SLOTS, Scheduler
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.units import MINUTE, parse_instant
from tapebook.errors import BadInput, Busy
from tapebook.home import make_home
from tapebook.tick.story import deploy_agent
from tests.desk.worker_harness import START, Shop, shops, work

FAST = AgentProfile("fast", ("BTC", "ETH"), cadence_ms=5 * MINUTE)
SLOW = AgentProfile("slow", ("BTC",), cadence_ms=15 * MINUTE)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A new home."""
    make_home(tmp_path / "home")
    return tmp_path / "home"


def test_lists_what_is_due_and_nothing_twice(home: Path) -> None:
    with shops(home) as (one, other):
        one.hire(FAST, SLOW)
        one.quote("BTC", "ETH")
        first, second = Scheduler(one.rooms), Scheduler(other.rooms)
        assert first.turn() and first.added == 3
        assert not first.turn()
        assert second.turn() and second.added == 0
        one.clock.advance(START + 5 * MINUTE)
        one.quote("BTC", "ETH")
        assert second.turn() and second.added == 2
        assert first.turn() and first.added == 3
        listed = [(item.symbol, item.scheduled_for) for item in one.rooms.work.queued_for("fast.paper")]
        assert listed == [(symbol, at) for at in (START, START + 5 * MINUTE) for symbol in ("BTC", "ETH")]
        assert first.progress_line() == "3 decisions listed, 5 waiting"


def test_started_again_it_does_not_list_what_was_decided(home: Path) -> None:
    with shops(home, 1) as (one,):
        one.hire(FAST)
        one.quote("BTC", "ETH")
        one.list_due()
        work(one.worker())
        assert one.list_due() == 0 and one.rooms.work.counts_by_state() == {}


def test_agents_are_found_when_they_come_and_left_out_when_they_are_disabled(home: Path) -> None:
    with shops(home, 1) as (one,):
        scheduler = Scheduler(one.rooms)
        assert not scheduler.turn()
        one.hire(FAST)
        one.quote("BTC", "ETH")
        assert scheduler.turn() and scheduler.added == 2
        one.hire(msgspec.structs.replace(FAST, enabled=False), SLOW)
        one.clock.advance(START + 5 * MINUTE)
        one.quote("BTC", "ETH")
        assert scheduler.turn() and scheduler.added == 3


def test_roster_knows_the_version_that_runs(home: Path) -> None:
    with shops(home, 1) as (one,):
        one.hire(FAST)
        roster = DeploymentDirectory(one.rooms.book, one.rooms.work, one.rooms.broker)
        assert roster.opened_deployment("fast.paper") is None
        deploy_agent(one.rooms.book, one.rooms.clock, "fast")
        newer = msgspec.structs.replace(FAST, strategy="another")
        one.hire(newer)
        assert [(each.id, each.version) for each in roster.enabled_deployments()] == [("fast.paper", 2)]
        assert roster.opened_deployment("fast.paper") == Deployment("local", "fast.paper", FAST, 1)
        deploy_agent(one.rooms.book, one.rooms.clock, "fast")
        assert roster.opened_deployment("fast.paper") == Deployment("local", "fast.paper", newer, 2)


def test_two_agents_on_one_exchange_account_are_refused(home: Path) -> None:
    both = [Deployment("local", f"{name}.live", FAST, 1) for name in ("a", "b")]
    refuse_shared_accounts(both, {"a.live": "0x1", "b.live": "0x2"}.get)  # type: ignore[arg-type]
    refuse_shared_accounts(both, lambda deployment: None)
    with pytest.raises(BadInput, match=r"a\.live and b\.live are on one account \(0x1\): disable one"):
        refuse_shared_accounts(both, lambda deployment: "0x1")


def test_roster_asks_the_broker_for_its_account(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shops(home, 1) as (one,):
        one.hire(FAST, SLOW)
        broker = one.rooms.broker("paper")
        assert len(DeploymentDirectory(one.rooms.book, one.rooms.work, one.rooms.broker).enabled_deployments()) == 2
        monkeypatch.setattr(type(broker), "account", "0xabc", raising=False)
        with pytest.raises(BadInput, match="0xabc"):
            DeploymentDirectory(one.rooms.book, one.rooms.work, one.rooms.broker).enabled_deployments()


def expired(shop: Shop, symbol: str = "BTC") -> list[int]:
    """Minutes after the start of the slots of a symbol that are recorded as expired."""
    runs = [run for run in shop.runs() if run.symbol == symbol and run.status == "expired"]
    return sorted((run.scheduled_for - START) // MINUTE for run in runs)


def back_after(shop: Shop, minutes: int) -> Scheduler:
    """Another process begins to schedule after so many minutes without a desk, and a worker works."""
    shop.clock.advance(START + minutes * MINUTE)
    shop.quote("BTC", "ETH")
    scheduler = Scheduler(shop.rooms)
    scheduler.turn()
    work(shop.worker())
    return scheduler


def test_slots_missed_while_nobody_scheduled_are_recorded_as_expired(home: Path) -> None:
    with shops(home, 1) as (one,):
        one.hire(FAST)
        # A pair begins with its first slot: nothing was missed before it.
        scheduler = back_after(one, 12)
        assert (expired(one), scheduler.missed) == ([], 0)
        scheduler = back_after(one, 37)
        assert expired(one) == expired(one, "ETH") == [15, 20, 25, 30]
        assert (scheduler.missed, scheduler.progress_line()) == (
            8,
            "2 decisions listed, 0 waiting, 8 found that were missed",
        )
        (error,) = {run.error for run in one.runs() if run.status == "expired"}
        assert error == "no desk ran or no worker was free before the next slot was due, or the agent was disabled"
        # A restart records nothing twice.
        head = one.rooms.book.head("fast.paper")
        assert back_after(one, 37).missed == 0 and one.rooms.book.head("fast.paper") == head
        assert {run.status for run in one.runs() if run.status != "expired"} == {"held"}


def test_scheduler_that_stood_still_finds_what_it_missed(home: Path) -> None:
    with shops(home, 1) as (one,):
        one.hire(FAST)
        one.quote("BTC", "ETH")
        scheduler = Scheduler(one.rooms)
        scheduler.turn()
        one.clock.advance(START + 20 * MINUTE)
        one.quote("BTC", "ETH")
        scheduler.turn()
        assert scheduler.missed == 6
        work(one.worker())
        # The first was listed in time, and nobody came for it.
        assert expired(one) == [0, 5, 10, 15]


def test_scheduler_killed_before_the_newest_slot_goes_on_where_it_stopped(home: Path) -> None:
    with shops(home, 1) as (one,):
        one.hire(FAST)
        back_after(one, 0)
        one.clock.advance(START + 30 * MINUTE)
        one.quote("BTC", "ETH")
        killed, add = Scheduler(one.rooms), one.rooms.work.enqueue
        lists: list[int] = []

        def die(items: list[QueuedDecision]) -> int:
            lists.append(len(items))
            if len(lists) > 1:
                raise Busy("killed here")
            return add(items[:3])

        with pytest.MonkeyPatch.context() as patch, pytest.raises(Busy):
            patch.setattr(one.rooms.work, "enqueue", die)
            killed.turn()
        back_after(one, 30)
        assert expired(one) == expired(one, "ETH") == [5, 10, 15, 20, 25]


def test_nothing_was_missed_while_an_agent_was_disabled_or_did_not_watch(home: Path) -> None:
    with shops(home, 1) as (one,):
        only_btc = msgspec.structs.replace(FAST, watchlist=("BTC",))
        one.hire(FAST)
        back_after(one, 0)
        one.hire(msgspec.structs.replace(FAST, enabled=False))
        one.clock.advance(START + 21 * MINUTE)
        one.hire(only_btc)
        one.clock.advance(START + 31 * MINUTE)
        one.hire(msgspec.structs.replace(FAST, strategy="both again"))
        back_after(one, 44)
        assert (expired(one), expired(one, "ETH")) == ([25, 30, 35], [35])


def test_long_absence_is_recorded_in_brief_and_nothing_of_it_is_dropped(home: Path) -> None:
    with shops(home, 1) as (one,):
        one.hire(SLOW)
        back_after(one, 0)
        days = 30
        back_after(one, days * 24 * 60)
        found = sorted((run for run in one.runs() if run.status == "expired"), key=lambda run: run.scheduled_for)
        assert len(found) == MAX_MISSED_SLOTS
        passed, (first, *others) = days * 96 - 1, found
        assert (first.error or "").endswith(
            f"; the next {passed - MAX_MISSED_SLOTS:,} slots passed as well, until 2026-02-01T06:00:00.000Z"
        )
        assert len({run.error for run in others}) == 1
        assert others[0].scheduled_for == parse_instant("2026-02-01T06:15:00Z")
