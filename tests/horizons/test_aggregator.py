"""The seed's aggregator: every method, and the sums its origin got wrong."""

from typing import Any

import pytest

from tapebook.domain.units import parse_instant
from tapebook.horizons.contexts import ContextAggregator, ContextStore, LayerConnection
from tapebook.horizons.layers import ContextLayer
from tests.horizons.makers import Ledger, exit_at, in_memory

PLACES = {
    **{"weekly_pnl": (ContextLayer.L5_WEEKLY, "2026-W06"), "monthly_pnl": (ContextLayer.L4_MONTHLY, "2026-02")},
    **{"quarterly_pnl": (ContextLayer.L3_QUARTERLY, "2026-Q1"), "annual_pnl": (ContextLayer.L2_ANNUAL, "2026")},
    "total_pnl": (ContextLayer.L1_LEGACY, "LEGACY"),
}


def test_eight_dollars_are_eight_dollars_in_every_layer() -> None:
    """A dollar on each of eight days over two weeks and two months: its origin makes forty of them."""
    with in_memory() as conn:
        store, aggregator = ContextStore(conn), ContextAggregator(conn)
        days = [f"2026-01-{day}" for day in range(26, 32)] + ["2026-02-01", "2026-02-02"]
        for day in days:
            store.set_context(ContextLayer.L6_DAILY, day, "total_pnl", 1.0)
        aggregator.run_all_aggregations()
        weeks = [store.get_context(ContextLayer.L5_WEEKLY, week, "weekly_pnl") for week in ("2026-W05", "2026-W06")]
        months = [store.get_context(ContextLayer.L4_MONTHLY, month, "monthly_pnl") for month in ("2026-01", "2026-02")]
        assert (weeks, months) == ([7.0, 1.0], [6.0, 2.0])
        above = [store.get_context(*PLACES[key], key) for key in ("quarterly_pnl", "annual_pnl", "total_pnl")]
        assert above == [8.0, 8.0, 8.0]


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("aggregate_daily_from_trades", "2026-02-04"),
        ("aggregate_weekly_from_daily", "2026-W06"),
        ("aggregate_monthly_from_weekly", "2026-02"),
        ("aggregate_quarterly_from_monthly", "2026-Q1"),
        ("aggregate_annual_from_quarterly", "2026"),
        ("aggregate_legacy_from_annual", None),
        ("run_all_aggregations", None),
    ],
)
def test_each_method_alone_leaves_sums_that_agree(method: str, key: str | None) -> None:
    ledger = Ledger()
    ledger.learn([exit_at("2026-02-04T10:00", 2.5), exit_at("2026-02-04T11:00", -1.0)])
    with in_memory(ledger) as conn:
        call: Any = getattr(ContextAggregator(conn, scope="a.paper"), method)
        call(*([key] if key else []))
        store = ContextStore(conn, scope="a.paper")
        found = [store.get_context(*place, name) for name, place in PLACES.items()]
        assert found == [1.5] * 5 and store.get_context(ContextLayer.L6_DAILY, "2026-02-04", "win_rate") == 50.0
        head = conn.head("a.paper")
        call(*([key] if key else []))
        assert conn.head("a.paper") == head


def test_without_a_key_it_is_now() -> None:
    ledger = Ledger()
    ledger.learn([exit_at("2026-02-04T10:00", 2.5), exit_at("2026-02-05T10:00", 1.0)])
    with in_memory(ledger, now=parse_instant("2026-02-05T12:00")) as conn:
        ContextAggregator(conn).aggregate_daily_from_trades()
        assert ContextStore(conn).get_all_contexts(ContextLayer.L6_DAILY)["total_pnl"] == 1.0
        assert ContextStore(conn).get_all_contexts(ContextLayer.L6_DAILY, "2026-02-04") == {}


def test_a_stated_day_counts_its_trades() -> None:
    with in_memory() as conn:
        store = ContextStore(conn)
        said = {"total_pnl": 10, "trade_count": 10, "win_rate": 60.0, "avg_confidence": 80, "note": "calm"}
        for key, value in said.items():
            store.set_context(ContextLayer.L6_DAILY, "2026-02-04", key, value)
        for key, value in {"total_pnl": "none", "trade_count": True, "win_rate": 1e300}.items():
            store.set_context(ContextLayer.L6_DAILY, "2026-02-05", key, value)
        ContextAggregator(conn).run_all_aggregations()
        year = store.get_all_contexts(ContextLayer.L2_ANNUAL, "2026")
        assert (year["annual_pnl"], year["trade_count"], year["win_count"], year["win_rate"]) == (10.0, 10, 6, 60.0)
        assert store.get_context(ContextLayer.L5_WEEKLY, "2026-W06", "avg_confidence") == 80.0


def test_a_day_that_is_stated_again_is_what_was_said_last() -> None:
    with in_memory() as conn:
        store, aggregator = ContextStore(conn), ContextAggregator(conn)
        for value in (5, 7):
            store.set_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl", value)
            aggregator.run_all_aggregations()
            assert store.get_context(ContextLayer.L1_LEGACY, "LEGACY", "total_pnl") == value


def test_it_takes_what_holds_a_connection() -> None:
    class Home:
        def __init__(self, horizons: LayerConnection) -> None:
            self.horizons = horizons

    with in_memory() as conn:
        ContextStore(Home(conn)).set_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl", 3)
        ContextAggregator(Home(conn)).run_all_aggregations()
        assert ContextStore(conn).get_context(ContextLayer.L1_LEGACY, "LEGACY", "total_pnl") == 3.0
