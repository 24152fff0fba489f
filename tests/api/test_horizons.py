"""The layers of a home by hand: shown, rolled up, cleaned up, written, under the lease of their stream."""

from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.api.horizons import layer_named
from tapebook.clock import VirtualClock
from tapebook.domain.agent import AgentProfile
from tapebook.domain.units import DAY, HOUR
from tapebook.errors import BadInput, Busy, UnknownName
from tapebook.horizons import ContextAggregator, ContextLayer, ContextStore
from tapebook.log import Leases
from tests.api.test_live import layers
from tests.desk.desks import START, desk
from tests.desk.exits import booked
from tests.horizons.makers import exit_at


def test_shows_the_newest_of_every_layer_or_all_of_one(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent, home = floor.hire(), layers(floor)
        booked(floor.rooms, agent, [exit_at(START - DAY, 3.0), exit_at(START, 5.0)])
        before = floor.clock.now()
        # The day that is running is there before any roll-up.
        assert {(row["layer"], row["origin"]) for row in home.show("a")} == {("L6_DAILY", "live")}
        assert home.show("a", as_of=START - HOUR) == home.show() == []
        floor.later(HOUR)
        assert home.rollup("a") == {agent.id: True}
        home.set("L5", "2026-W02", "plan", ["rest"], agent="a")
        shown = home.show("a")
        assert [row["layer"] for row in shown] == sorted(row["layer"] for row in shown)
        assert {(row["layer"][:2], row["timeframe"]) for row in shown} == {
            *(("L1", "LEGACY"), ("L2", "2026"), ("L3", "2026-Q1"), ("L4", "2026-01"), ("L5", "2026-W02")),
            ("L6", "2026-01-05"),
        }
        assert {
            "layer": "L6_DAILY",
            "timeframe": "2026-01-05",
            "scope": agent.id,
            "key": "total_pnl",
            "value": 5.0,
            "origin": "live",
        } in shown
        weeks = home.show("a", layer="L5")
        assert [row["timeframe"] for row in weeks] == sorted((row["timeframe"] for row in weeks), reverse=True)
        assert {row["timeframe"] for row in weeks} == {"2026-W01", "2026-W02"}
        assert [row["value"] for row in weeks if row["origin"] == "curated"] == [["rest"]]
        assert home.show("a", as_of=before) == []
        assert {row["layer"] for row in home.show()} == {"L6_DAILY"}
        home.set("L5", "2026-W02", "plan", None, agent="a")
        assert [row for row in home.show("a") if row["origin"] == "curated"] == []


def test_an_agent_that_has_not_begun_begins_with_what_is_written(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        floor.rooms.book.save_agent(AgentProfile("a", ("BTC",)), at=START)
        home = layers(floor)
        with pytest.raises(UnknownName, match=r"no deployment 'a\.paper' yet"):
            ContextStore(home, scope="a.paper").set_context(ContextLayer.L1_LEGACY, "LEGACY", "never_again", "x")
        assert home.rollup("a") == {"a.paper": False} and home.rollup() == {"": False}
        home.set("L1", "LEGACY", "never_again", "martingale", agent="a")
        head = floor.rooms.book.head("a.paper")
        assert floor.rooms.book.account("a.paper", seq=head).portfolio.cash_usd_e6 > 0
        assert [row["value"] for row in home.show("a")] == ["martingale"]
        assert floor.is_whole()


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        home = layers(floor)
        floor.hire()
        for layer, timeframe in (("L8", "2026"), ("L2", "2026-01"), ("weekly", "2026-W01")):
            with pytest.raises(BadInput):
                home.set(layer, timeframe, "k", 1)
        with pytest.raises(BadInput, match=r"L1 .* to L7"):
            home.show(layer="nine")
        assert [layer_named(name) for name in ("l5", "L5", "l5_weekly")] == [ContextLayer.L5_WEEKLY] * 3


def test_a_stream_in_the_hands_of_another_is_left_alone(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent, home = floor.hire(), layers(floor)
        ticks = iter(range(10**6))
        other = Leases(floor.rooms.book_db, holder="other", ttl_seconds=60, elapsed=lambda: float(next(ticks)))
        stream = floor.rooms.book.stream(agent.id)
        with other.holding(stream):
            floor.rooms.leases._sleep = lambda _: other.heartbeat()  # type: ignore[assignment]
            with pytest.raises(Busy, match="other, which is at work"):
                home.set("L1", "LEGACY", "never_again", "x", agent="a")
        home.set("L1", "LEGACY", "never_again", "x", agent="a")
        assert floor.rooms.leases.in_hand.get(stream) is None


def test_cleanup_counts_every_scope(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent, home = floor.hire(), layers(floor)
        booked(floor.rooms, agent, [exit_at(START)])
        home.rollup()
        assert set(home.cleanup().values()) == {0}
        floor.clock.advance(START + 120 * DAY)
        days = len(home.show("a", layer="L6"))
        assert home.cleanup() == dict.fromkeys(map(str, ContextLayer), 0) | {"L6_DAILY": 2 * days}
        assert home.show("a", layer="L6") == [] and len(home.show("a", layer="L6", as_of=START + DAY)) == days
        assert floor.is_whole()


def test_the_seeds_classes_work_on_an_opened_home(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        booked(floor.rooms, agent, [exit_at(START, 5.0)])
        floor.quote(BTC=100)
    with app.open(tmp_path / "home", clock=VirtualClock(START + HOUR)) as tb:
        aggregator = ContextAggregator(tb, scope=agent.id)
        aggregator.aggregate_daily_from_trades("2026-01-05")
        aggregator.aggregate_weekly_from_daily("2026-W02")
        aggregator.run_all_aggregations()
        store = ContextStore(tb, scope=agent.id)
        assert store.get_context(ContextLayer.L5_WEEKLY, "2026-W02", "weekly_pnl") == 5.0
        assert store.get_context(ContextLayer.L7_REALTIME, "2026-01-05", "live_price_BTC") == 100.0
        ContextAggregator(tb).run_all_aggregations()
        assert ContextStore(tb).get_context(ContextLayer.L1_LEGACY, "LEGACY", "total_pnl") == 5.0
        assert tb.verify() == []
        with pytest.raises(UnknownName, match="no agent called 'b'"):
            tb.horizons.show("b")
