"""Dry run: an agent decides and is guarded, its orders are written down and marked, and no broker ever hears of one."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.book import events as ev
from tapebook.broker import BookedAccount, BrokerActivity, MarketListing, OpenOrder, OrderState
from tapebook.clock import VirtualClock
from tapebook.decision import EngineAnswer
from tapebook.desk import agents, control
from tapebook.desk.agents import DeploymentDirectory
from tapebook.desk.executor import Executor
from tapebook.desk.worker import Worker
from tapebook.domain.agent import AgentProfile, RiskCaps
from tapebook.domain.order import Increments, Order
from tapebook.domain.position import Portfolio
from tapebook.domain.units import E6, E8, MINUTE
from tapebook.errors import BadInput
from tapebook.library.log_documents import write_log_documents
from tapebook.log import Draft, Event
from tapebook.tick.decide import PreparedDecision, Slot
from tapebook.tick.story import conclude_decision, prepare_decision, tick
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.desk.desks import BRIEF, Desk, desk, reply
from tests.matrix import examples

DRY = msgspec.structs.replace(BRIEF, mode="dry_run")


class Untouchable:
    """A broker that must not be called."""

    def place(self, order: Order) -> OrderState:
        """Fails the test."""
        return _called(order.client_id)

    def cancel(self, client_id: str, booked: BookedAccount) -> OrderState:
        """Fails the test."""
        return _called(client_id)

    def order_state(self, client_id: str, booked: BookedAccount) -> OrderState:
        """Fails the test."""
        return _called(client_id)

    def open_orders(self, booked: BookedAccount) -> tuple[OpenOrder, ...]:
        """Fails the test."""
        return _called("open orders")

    def activity_since(self, booked: BookedAccount) -> BrokerActivity:
        """Fails the test."""
        return _called(f"{len(booked.orders)} orders")

    def account_state(self, booked: BookedAccount) -> Portfolio:
        """Fails the test."""
        return _called("account state")

    def increments(self, symbol: str, listing: MarketListing) -> Increments | None:
        """The steps of sizes and prices are no secret of an account, so they may be asked for."""
        return None

    @property
    def account(self) -> str:
        """Fails the test."""
        return _called("account")


def _called(what: str) -> NoReturn:
    pytest.fail(f"a broker was asked about a dry run: {what}")


def forbid_broker(rooms: Rooms) -> None:
    """From now on whoever asks the paper broker fails the test."""
    rooms._brokers["paper"] = Untouchable()


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def dry_floor(floor: Desk) -> Desk:
    """A desk whose broker must not be called."""
    forbid_broker(floor.rooms)
    return floor


def ledger(rooms: Rooms, deployment: str) -> list[tuple[str, int, int, int]]:
    """Kind, amount, balance and mark of every line, in their order."""
    lines = "SELECT kind, amount_usd_e6, balance_usd_e6, dry FROM wallet_ledger WHERE deployment = :d ORDER BY seq"
    rows = rooms.book_db.all(sql(lines), d=deployment)
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def test_order_and_ledger_row_are_marked_and_nothing_is_held(dry_floor: Desk) -> None:
    agent = dry_floor.hire(DRY)
    dry_floor.quote(BTC=100)
    run = dry_floor.say(agent, reply("open", "long", 500))
    assert (run.status, [verdict.allowed for verdict in run.verdicts]) == ("done", [True])
    (known,) = dry_floor.rooms.book.orders(agent.id, working=False, most=10)
    assert (known.status, known.dry, known.order.size_e8) == ("dry", True, 5 * E8)
    assert known.detail == "dry run, never sent: 500.00 USD at the mark of 100.00"
    deposit = BRIEF.starting_cash_usd_e6
    assert ledger(dry_floor.rooms, agent.id) == [("deposit", deposit, deposit, 0), ("dry_order", -500 * E6, deposit, 1)]
    dry_floor.later(MINUTE, BTC=120)
    dry_floor.work(agent)
    assert dry_floor.held(agent) == {} and dry_floor.working(agent) == [] and dry_floor.is_whole()
    account = dry_floor.rooms.book.account(agent.id, seq=dry_floor.rooms.book.head(agent.id))
    assert account.portfolio.cash_usd_e6 == deposit
    assert dry_floor.rooms.book.newest_snapshot(agent.id, seq=account.seq) is None


def test_sell_would_have_brought_what_a_buy_costs(dry_floor: Desk) -> None:
    agent = dry_floor.hire(DRY)
    dry_floor.quote(BTC=100)
    dry_floor.say(agent, reply("open", "short", 300, order_type="limit", limit_price=101.0))
    assert ledger(dry_floor.rooms, agent.id)[1][:2] == ("dry_order", 300 * E6)


def test_dry_agent_is_guarded(dry_floor: Desk) -> None:
    agent = dry_floor.hire(msgspec.structs.replace(DRY, caps=RiskCaps(max_orders_per_hour=1)))
    dry_floor.quote(BTC=100)
    assert dry_floor.say(agent, reply("open", "long", 5_000)).verdicts[0].rule == "R3_POSITION_CAP"
    dry_floor.later(1_000, BTC=100)
    assert dry_floor.say(agent, reply("open", "long", 500)).status == "done"
    dry_floor.later(1_000, BTC=100)
    assert dry_floor.say(agent, reply("open", "long", 500)).verdicts[0].rule == "R6_RATE_LIMIT"
    control.halt(dry_floor.rooms.book, dry_floor.rooms.log, dry_floor.rooms.clock, agent.id, reason="storm")
    dry_floor.later(1_000, BTC=100)
    assert dry_floor.say(agent, reply("open", "long", 500)).verdicts[0].rule == "R1_KILL_SWITCH"
    assert len(dry_floor.rooms.book.orders(agent.id, working=False, most=10)) == 1


def test_next_packet_says_that_the_order_was_not_sent(dry_floor: Desk) -> None:
    agent = dry_floor.hire(DRY)
    dry_floor.quote(BTC=100)
    dry_floor.say(agent, reply("open", "long", 500))
    dry_floor.later(MINUTE, BTC=100)
    opened = prepare_decision(dry_floor.rooms, Slot(agent, "BTC", dry_floor.clock.now()))
    assert isinstance(opened, PreparedDecision) and "allowed, not sent: dry run" in opened.packet().text


def test_switching_to_trade_starts_clean(floor: Desk) -> None:
    dry = floor.hire(DRY)
    floor.quote(BTC=100)
    floor.say(dry, reply("open", "long", 500, reason="a dry reason"))
    real = floor.hire(msgspec.structs.replace(DRY, mode="trade"))
    assert real.id != dry.id and ledger(floor.rooms, real.id) == [("deposit", 10_000 * E6, 10_000 * E6, 0)]
    floor.later(MINUTE, BTC=100)
    opened = prepare_decision(floor.rooms, Slot(real, "BTC", floor.clock.now()))
    assert isinstance(opened, PreparedDecision)
    assert "a dry reason" not in opened.packet().text and opened.situation.last_run is None
    assert opened.situation.activity is not None and opened.situation.activity.orders_last_hour == 0
    floor.say(real, reply("open", "long", 500))
    floor.later(10_000, BTC=100)
    floor.work(real)
    assert floor.held(real) == {"BTC": 5 * E8} and floor.held(dry) == {} and floor.is_whole()


def test_what_was_held_before_goes_on_and_is_warned_of(floor: Desk) -> None:
    real = floor.hire()
    floor.quote(BTC=100)
    floor.say(real, reply("open", "long", 500))
    floor.later(10_000, BTC=100)
    floor.work(real)
    saved = agents.edit_agent(floor.rooms, "a", {"mode": "dry_run"})
    assert saved.warnings == [
        "a holds BTC long 500.00 USD: nobody decides on it any more; margin and funding go on; "
        "`tapebook flatten a --symbol BTC` closes it"
    ]
    control.flatten(floor.rooms, [real.id], reason="done")
    floor.later(10_000, BTC=100)
    floor.work(real)
    assert floor.held(real) == {}


def test_order_that_waits_does_not_leave_once_its_agent_is_dry(floor: Desk) -> None:
    real = floor.hire()
    floor.quote(BTC=100)
    opened = prepare_decision(floor.rooms, Slot(real, "BTC", floor.clock.now()))
    assert isinstance(opened, PreparedDecision)
    conclude_decision(floor.rooms, opened, EngineAnswer(reply("open", "long", 500)))
    floor.rooms.book.save_agent(DRY, at=floor.clock.now())
    floor.work(real)
    assert floor.order(real) == ("rejected", "R1_KILL_SWITCH at send: a is in dry run")


# Crash and restart


class Killed(Exception):
    """Stands for the end of a process."""


def reopened(home: Path, at: int) -> Rooms:
    """A new process on a home; its broker must not be called."""
    rooms = Rooms(home, clock=VirtualClock(at))
    forbid_broker(rooms)
    return rooms


@pytest.mark.parametrize("written", [False, True])
def test_no_broker_is_called_after_a_crash(dry_floor: Desk, written: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = dry_floor.hire(DRY)
    dry_floor.quote(BTC=100)
    slot, text = Slot(agent, "BTC", dry_floor.clock.now()), reply("open", "long", 500)
    append = dry_floor.rooms.book.append

    def killed(deployment: str, drafts: Sequence[Draft], *, expected_seq: int) -> list[Event]:
        if written:
            append(deployment, drafts, expected_seq=expected_seq)
        raise Killed

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(dry_floor.rooms.book, "append", killed)
        tick(dry_floor.rooms, slot, ask=lambda _decide, _packet: EngineAnswer(text))
    with contextlib.closing(reopened(dry_floor.rooms.home, dry_floor.clock.now())) as rooms:
        for _ in range(2):
            Executor(rooms).turn()
            with rooms.leases.holding(rooms.book.stream(agent.id)):
                tick(rooms, slot, ask=lambda _decide, _packet: EngineAnswer(text))
        assert [known.status for known in rooms.book.orders(agent.id, working=False, most=10)] == ["dry"]
        assert [line[0] for line in ledger(rooms, agent.id)] == ["deposit", "dry_order"]


def test_desk_of_a_dry_agent_never_asks_for_its_account(dry_floor: Desk) -> None:
    dry_floor.hire(DRY)
    (found,) = DeploymentDirectory(
        dry_floor.rooms.book, dry_floor.rooms.work, dry_floor.rooms.broker
    ).enabled_deployments()
    assert found.id == "a.paper-dry"


def test_slots_of_an_agent_that_became_dry_expire_where_they_were_listed(floor: Desk) -> None:
    """A worker finds decisions of the trading deployment after the switch: they are nobody's any more."""
    from tapebook.book.decision_queue import QueuedDecision

    real = floor.hire()
    floor.quote(BTC=100)
    slot = Slot(real, "BTC", floor.clock.now())
    floor.rooms.work.enqueue([QueuedDecision(slot.run_id(), real.id, "BTC", slot.scheduled_for)])
    floor.rooms.book.save_agent(DRY, at=floor.clock.now())
    worker = Worker(floor.rooms)
    worker.turn()
    worker.close()
    run = floor.rooms.book.run(slot.run_id())
    assert run is not None and (run.status, run.deployment) == ("expired", real.id)
    assert floor.rooms.work.counts_by_state() == {}


# What others are told


def test_dry_run_becomes_no_document_and_takes_no_fills(dry_floor: Desk) -> None:
    from tapebook.history.book_import import import_fills

    agent = dry_floor.hire(DRY)
    dry_floor.quote(BTC=100)
    said = json.loads(reply("open", "long", 500)) | {"note": "a dry thought"}
    dry_floor.say(agent, json.dumps(said))
    assert write_log_documents(dry_floor.rooms) == 0
    with pytest.raises(BadInput, match="a is in dry run"):
        import_fills(dry_floor.rooms, Path("fills.csv"), agent, dry_run=False)


# The invariant, in any order of trading, dry runs and switching between them

Step = tuple[str, tuple[str, str | None], int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["trade", "dry_run"]),
        st.sampled_from([("open", "long"), ("open", "short"), ("close", None), ("hold", None)]),
        st.integers(20, 900),
        st.integers(80, 120),
    ),
    max_size=6,
)


def test_cash_is_the_sum_of_the_ledger_without_dry_rows(tmp_path: Path) -> None:
    """After any steps the account is what the trading steps alone come to."""
    names = (f"a{number}" for number in count())
    with desk(tmp_path / "both") as both, desk(tmp_path / "alone") as alone:

        @settings(max_examples=examples(12), deadline=None)
        @given(STEPS)
        def check(steps: list[Step]) -> None:
            name = next(names)
            for step in steps:
                _take(both, name, step, decides=True)
                _take(alone, name, step, decides=step[0] == "trade")
            real, dry = f"{name}.paper", f"{name}.paper-dry"
            assert _account(both, real) == _account(alone, real)
            traded, noted = ledger(both.rooms, real), ledger(both.rooms, dry)
            assert sum(amount for _, amount, _, _ in traded) == _account(both, real)[0]
            assert sum(amount for _, amount, _, marked in noted if not marked) == _account(both, dry)[0]
            assert all((kind == "dry_order") == bool(marked) for kind, _, _, marked in traded + noted)
            assert not any(marked for _, _, _, marked in traded) and _account(both, dry)[1:] == ([], 0)

        check()
        assert both.is_whole()


def _take(floor: Desk, name: str, step: Step, *, decides: bool) -> None:
    """A minute passes; then the agent may decide, and what is held goes on, whatever its mode is."""
    mode, (action, side), usd, price = step
    floor.later(MINUTE, BTC=price)
    if decides:
        floor.say(floor.hire(msgspec.structs.replace(BRIEF, name=name, mode=mode)), reply(action, side, usd))
    floor.clock.advance(floor.clock.now() + 5_000)
    found = DeploymentDirectory(floor.rooms.book, floor.rooms.work, floor.rooms.broker).opened_deployment(
        f"{name}.paper"
    )
    if found is not None:
        floor.work(found)


def _account(floor: Desk, deployment: str) -> tuple[int, list[str], int]:
    """Cash, symbols held and the number of fills."""
    book = floor.rooms.book
    portfolio = book.account(deployment, seq=book.head(deployment)).portfolio
    kinds = [event.kind for event in floor.rooms.log.events(book.stream(deployment))]
    return portfolio.cash_usd_e6, sorted(portfolio.positions), kinds.count("fill.observed")


def test_profile_of_before_trades() -> None:
    """A profile that was stored before there was a mode is that of an agent that trades."""
    old = msgspec.json.decode(b'{"name":"a","watchlist":["BTC"]}', type=AgentProfile)
    assert old.mode == "trade"
    assert ev.EVENT_KINDS[ev.OrderDryRun] == "order.dry_run"
