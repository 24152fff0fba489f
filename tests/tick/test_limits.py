"""What the guard is told: the whole account at this moment, halts and working orders included."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tapebook.domain.agent import Deployment, RiskCaps
from tapebook.domain.units import DAY, E6, E8, HOUR, MINUTE
from tapebook.tick.decide import PreparedDecision, Slot, limits_now
from tapebook.tick.story import prepare_decision
from tests.desk.desks import BRIEF, Desk, desk, reply


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "home") as opened:
        yield opened


def slot(floor: Desk, deployment: Deployment, symbol: str = "BTC") -> Slot:
    return Slot(deployment, symbol, floor.clock.now())


def test_fresh_account(floor: Desk) -> None:
    agent = floor.hire()
    known = limits_now(floor.rooms, slot(floor, agent))
    assert (known.position, known.mark_e8, known.data_age_ms, known.halted) == (None, None, None, None)
    assert known.equity_usd_e6 == known.activity.day_start_equity_usd_e6 == 10_000 * E6
    assert (known.working, known.seq) == ((), floor.rooms.book.head(agent.id))


def test_positions_orders_and_prices_of_all_symbols(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    floor.say(agent, reply("open", "long", 500))
    floor.later(10_000, BTC=110, ETH=10)
    floor.work(agent)
    floor.say(agent, reply("open", "short", 300, symbol="ETH", order_type="limit", limit_price=10.1), symbol="ETH")
    floor.later(7_000)
    known = limits_now(floor.rooms, slot(floor, agent, "ETH"))
    assert known.position is None and known.held_usd_e6("BTC") == 550 * E6
    assert (known.mark_e8, known.data_age_ms) == (10 * E8, 7_000)
    (move,) = known.working
    assert (move.symbol, move.buys, move.usd_e6, move.limit_price_e8) == ("ETH", False, 300 * E6, 1_010_000_000)
    assert known.activity.orders_last_hour == 2
    assert known.equity_usd_e6 == known.portfolio.equity_usd_e6({"BTC": 110 * E8})


def test_what_was_read_for_the_packet_is_read_again_only_when_the_book_moved(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100)
    opened = prepare_decision(floor.rooms, slot(floor, agent))
    assert isinstance(opened, PreparedDecision)
    marked = msgspec.structs.replace(opened.situation.portfolio, cash_usd_e6=7)
    before = msgspec.structs.replace(opened.situation, portfolio=marked)
    assert limits_now(floor.rooms, opened.slot, before=before).portfolio.cash_usd_e6 == 7
    floor.later(DAY)
    assert limits_now(floor.rooms, opened.slot, before=before).portfolio.cash_usd_e6 == 10_000 * E6
    floor.later(MINUTE, BTC=100)
    floor.say(agent, reply("hold"))
    again = msgspec.structs.replace(before, as_of=floor.clock.now())
    assert limits_now(floor.rooms, opened.slot, before=again).portfolio.cash_usd_e6 == 10_000 * E6


def test_halts_and_disabled_agents_are_read_fresh(floor: Desk) -> None:
    agent = floor.hire()

    def why() -> str | None:
        return limits_now(floor.rooms, slot(floor, agent)).halted

    floor.halt(agent.id, reason="odd fills")
    assert why() == "a is halted: odd fills"
    floor.halt("", reason="storm")
    assert why() == "the desk is halted: storm"
    floor.resume("", reason="over")
    floor.resume(agent.id, reason="over")
    assert why() is None
    floor.halt("other.paper", reason="x")
    assert why() is None
    floor.rooms.book.save_agent(msgspec.structs.replace(BRIEF, enabled=False), at=floor.clock.now())
    assert why() == "a is not enabled"


def test_losses_and_orders_stop_an_agent(floor: Desk) -> None:
    caps = RiskCaps(max_daily_loss_usd_e6=50 * E6, cooldown_ms=HOUR, max_orders_per_hour=3)
    agent = floor.hire(msgspec.structs.replace(BRIEF, caps=caps))
    floor.quote(BTC=100, ETH=10)
    floor.say(agent, reply("open", "long", 1_000))
    floor.later(10_000, BTC=100, ETH=10)
    floor.work(agent)
    floor.later(10_000, BTC=94, ETH=10)

    def rule(text: str, symbol: str = "BTC") -> str | None:
        floor.later(1)
        return floor.say(agent, text, symbol=symbol).verdicts[0].rule

    assert rule(reply("open", "long", 100)) == "R5_DAILY_LOSS"
    assert rule(reply("close")) is None
    floor.later(10_000, BTC=94, ETH=10)
    floor.work(agent)
    assert floor.held(agent) == {}
    assert rule(reply("open", "long", 100)) == "R5_DAILY_LOSS"
    # The day after, the loss is history and the symbol has rested; another loss begins a rest.
    floor.later(DAY, BTC=100, ETH=10)
    assert rule(reply("open", "long", 200)) is None
    floor.later(10_000, BTC=100, ETH=10)
    floor.work(agent)
    floor.later(10_000, BTC=99, ETH=10)
    assert rule(reply("close")) is None
    floor.later(10_000, BTC=99, ETH=10)
    floor.work(agent)
    assert rule(reply("open", "long", 100)) == "R10_COOLDOWN"
    assert rule(reply("open", "long", 100, symbol="ETH"), "ETH") is None
    assert rule(reply("open", "long", 100, symbol="ETH"), "ETH") == "R6_RATE_LIMIT"
    floor.later(HOUR, BTC=99, ETH=10)
    assert rule(reply("open", "long", 100)) is None
