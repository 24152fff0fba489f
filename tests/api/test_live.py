"""L7 in a home: computed from book and tape as of any moment, and never stored."""

import math
from itertools import pairwise
from pathlib import Path

import pytest

from tapebook.api.horizons import HomeLayers
from tapebook.api.open_home import OpenHome
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, E8, MINUTE, SECOND
from tapebook.horizons import ContextLayer, ContextStore
from tests.desk.desks import START, Desk, desk, reply

L7 = ContextLayer.L7_REALTIME
TODAY = "2026-01-05"


def layers(floor: Desk) -> HomeLayers:
    """The layers of a desk's home."""
    return HomeLayers(OpenHome(floor.rooms))


def long(floor: Desk, agent: Deployment) -> None:
    """The agent holds 100 USD of BTC at 100."""
    floor.quote(BTC=100, ETH=10)
    floor.say(agent, reply("open", "long", 100))
    floor.later(10_000, BTC=100, ETH=10)
    floor.work(agent)


def test_positions_and_prices_of_this_moment_and_of_any_other(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        store = ContextStore(layers(floor), scope=agent.id)
        assert store.get_context(L7, TODAY, "live_price_BTC") is None
        assert store.get_latest_timeframe(L7) is None
        long(floor, agent)
        held = floor.rooms.book.account(agent.id, seq=floor.rooms.book.head(agent.id)).portfolio.positions["BTC"]
        entered = floor.clock.now()
        floor.later(MINUTE, BTC=103)
        head = floor.rooms.book.head(agent.id)
        assert store.get_context(L7, TODAY, "live_price_BTC") == 103.0
        expected = {"size": held.size_e8 / E8, "cost_usd": held.cost_usd_e6 / 1e6}
        assert store.get_context(L7, TODAY, "current_position_BTC") == expected
        assert store.get_all_contexts(L7, TODAY) == {
            "current_position_BTC": expected,
            "live_price_BTC": 103.0,
            "live_price_ETH": 10.0,
        }
        assert store.get_all_contexts(L7) == store.get_all_contexts(L7, TODAY)
        assert store.get_latest_timeframe(L7) == TODAY
        assert store.get_context(L7, TODAY, "live_price_BTC", as_of=entered) == 100.0
        assert store.get_context(L7, TODAY, "live_price_BTC", seq=head) == 100.0
        assert store.get_context(L7, TODAY, "live_price_BTC", seq=0) is None
        assert store.get_context(L7, TODAY, "current_position_BTC", as_of=START) is None
        for nothing in ("live_price_SOL", "current_position_ETH", "volatility_5m_BTC", "live_price_", "mood"):
            assert store.get_context(L7, TODAY, nothing) is None
        assert floor.rooms.book.head(agent.id) == head


def test_a_day_that_is_over_is_as_it_ended_and_goes_after_a_week(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        store = ContextStore(layers(floor), scope=agent.id)
        long(floor, agent)
        floor.later(DAY, BTC=120)
        days = [
            store.get_context(L7, day, "live_price_BTC") for day in ("2026-01-04", TODAY, "2026-01-06", "2026-01-07")
        ]
        assert days == [None, 100.0, 120.0, None]
        # Nobody has said a price of ETH today.
        assert store.get_context(L7, "2026-01-06", "live_price_ETH") is None
        assert store.get_context(L7, TODAY, "live_price_ETH") == 10.0
        floor.clock.advance(START // DAY * DAY + 8 * DAY - 1)
        assert store.get_context(L7, TODAY, "live_price_BTC") == 100.0
        floor.clock.advance(START // DAY * DAY + 8 * DAY)
        assert store.get_context(L7, TODAY, "live_price_BTC") is None
        assert store.get_context(L7, TODAY, "live_price_BTC", as_of=START + DAY) == 100.0


def test_volatility_is_that_of_the_last_five_full_minutes(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        store = ContextStore(layers(floor), scope=agent.id)
        closes = [100.0, 101.0, 100.0, 102.0, 101.0, 103.0, 103.0]
        bars = [bar(START + at * MINUTE, close) for at, close in enumerate(closes)]
        floor.clock.advance(START + 7 * MINUTE)
        floor.rooms.tape.commit(bars)
        moves = [math.log(after / before) for before, after in pairwise(closes[1:])]
        expected = math.sqrt(sum(move * move for move in moves))
        floor.later(30 * SECOND)
        assert store.get_context(L7, TODAY, "volatility_5m_BTC") == pytest.approx(expected, abs=1e-8)
        assert store.get_context(L7, TODAY, "live_price_BTC") == 103.0
        floor.later(2 * MINUTE)
        assert store.get_context(L7, TODAY, "volatility_5m_BTC") is None


def bar(start: int, close: float) -> Candle:
    """A minute that ended at a price."""
    price = round(close * E8)
    return Candle("BTC", 60, start, price, price, price, price, 1.0, close, 1)


def test_all_agents_together_and_what_somebody_writes_beside_it(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        one, other = floor.hire(), floor.hire(AgentProfile("b", ("BTC",)))
        long(floor, one)
        long(floor, other)
        home = layers(floor)
        alone = ContextStore(home, scope=one.id).get_context(L7, TODAY, "current_position_BTC")
        both = ContextStore(home).get_context(L7, TODAY, "current_position_BTC")
        assert both["size"] == 2 * alone["size"] > 0
        store = ContextStore(home)
        store.set_context(L7, TODAY, "live_price_BTC", 99)
        store.set_context(L7, "2026-01-04", "live_price_BTC", 98)
        assert store.get_context(L7, TODAY, "live_price_BTC") == 100.0
        assert store.get_context(L7, TODAY, "live_price_BTC", origin="observed") == 99
        assert store.get_all_contexts(L7, TODAY)["live_price_BTC_observed"] == 99
        assert store.get_context(L7, "2026-01-04", "live_price_BTC") == 98
        floor.later(DAY, BTC=105)
        assert "live_price_BTC_observed" not in store.get_all_contexts(L7)
        assert [each.timeframe for each in store.entries(L7) if each.origin == "observed"] == [TODAY, "2026-01-04"]
