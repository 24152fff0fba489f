"""The scheduler and the roster: what is due is listed once, however many ask; no two agents on one account."""

from pathlib import Path

import msgspec
import pytest

from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.instants import MINUTE
from tapebook.errors import BadInput
from tapebook.home import make_home
from tapebook.loop.deploy import deploy
from tapebook.loop.roster import Roster, refuse_shared_accounts
from tapebook.loop.scheduler import Scheduler
from tests.loop.crews import START, shops, work

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
        listed = [(item.symbol, item.scheduled_for) for item in one.rooms.work.of("fast.paper")]
        assert listed == [(symbol, at) for at in (START, START + 5 * MINUTE) for symbol in ("BTC", "ETH")]
        assert first.words() == "3 decisions listed, 5 waiting"


def test_started_again_it_does_not_list_what_was_decided(home: Path) -> None:
    with shops(home, 1) as (one,):
        one.hire(FAST)
        one.quote("BTC", "ETH")
        one.list_due()
        work(one.worker())
        assert one.list_due() == 0 and one.rooms.work.counts() == {}


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
        roster = Roster(one.rooms)
        assert roster.running("fast.paper") is None
        deploy(one.rooms, "fast")
        newer = msgspec.structs.replace(FAST, strategy="another")
        one.hire(newer)
        assert [(each.id, each.version) for each in roster.enabled()] == [("fast.paper", 2)]
        assert roster.running("fast.paper") == Deployment("local", "fast.paper", FAST, 1)
        deploy(one.rooms, "fast")
        assert roster.running("fast.paper") == Deployment("local", "fast.paper", newer, 2)


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
        assert len(Roster(one.rooms).enabled()) == 2
        monkeypatch.setattr(type(broker), "account", "0xabc", raising=False)
        with pytest.raises(BadInput, match="0xabc"):
            Roster(one.rooms).enabled()
