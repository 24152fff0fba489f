"""The usage examples of the seed run as they are written there; only where things are imported from has changed."""

from pathlib import Path
from typing import Any

import pytest

SETTING = """
from tapebook.horizons import ContextLayer, ContextStore
from tapebook.horizons import init_db

conn = init_db("data/ouroboros.db")
store = ContextStore(conn)

# Store daily P&L
store.set_context(
    layer=ContextLayer.L6_DAILY,
    timeframe="2026-02-04",
    key="total_pnl",
    value=1234.56
)

# Store weekly insight
store.set_context(
    layer=ContextLayer.L5_WEEKLY,
    timeframe="2026-W06",
    key="top_performers",
    value=["005930", "000660", "035720"]  # JSON-serializable
)

# Store legacy wisdom
store.set_context(
    layer=ContextLayer.L1_LEGACY,
    timeframe="LEGACY",
    key="core_principles",
    value=[
        "Cut losses fast",
        "Let winners run",
        "Never average down on losing positions"
    ]
)
"""
RETRIEVING = """
# Get a specific value
pnl = store.get_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl")

# Get all keys for a timeframe
daily_summary = store.get_all_contexts(ContextLayer.L6_DAILY, "2026-02-04")

# Get all data for a layer (any timeframe)
all_daily = store.get_all_contexts(ContextLayer.L6_DAILY)

# Get the latest timeframe
latest = store.get_latest_timeframe(ContextLayer.L6_DAILY)
"""
AGGREGATING = """
from tapebook.horizons import ContextAggregator

aggregator = ContextAggregator(conn)

# Aggregate daily metrics from trades
aggregator.aggregate_daily_from_trades("2026-02-04")

# Roll up weekly from daily
aggregator.aggregate_weekly_from_daily("2026-W06")

# Roll up all layers at once (bottom-up)
aggregator.run_all_aggregations()
"""
CLEANING = """
# Manual cleanup
deleted = store.cleanup_expired_contexts()
"""
PROMPTING = '''
# Build prompt with multi-layer context
def build_enhanced_prompt(stock_code: str, store: ContextStore) -> str:
    # L7: Real-time data
    current_price = store.get_context(ContextLayer.L7_REALTIME, "2026-02-04", f"live_price_{stock_code}")

    # L6: Recent daily performance
    yesterday_pnl = store.get_context(ContextLayer.L6_DAILY, "2026-02-03", "total_pnl")

    # L5: Weekly trend
    weekly_data = store.get_all_contexts(ContextLayer.L5_WEEKLY, "2026-W06")

    # L1: Core principles
    principles = store.get_context(ContextLayer.L1_LEGACY, "LEGACY", "core_principles")

    return f"""
    Analyze {stock_code} for trading decision.

    Current price: {current_price}
    Yesterday's P&L: {yesterday_pnl}
    This week: {weekly_data}

    Core principles:
    {chr(10).join(f'- {p}' for p in principles)}

    Decision (BUY/SELL/HOLD):
    """
'''


def run(code: str, names: dict[str, Any]) -> None:
    """Executes an example with what earlier ones left."""
    exec(compile(code, "seed", "exec"), names)


def test_the_examples_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run(SETTING, names)
    store, layers = names["store"], names["ContextLayer"]
    store.set_context(layers.L7_REALTIME, "2026-02-04", "live_price_005930", 71_000)
    store.set_context(layers.L6_DAILY, "2026-02-03", "total_pnl", -5.5)
    run(RETRIEVING, names)
    assert names["pnl"] == 1234.56
    assert names["daily_summary"] == names["all_daily"] == {"total_pnl": 1234.56}
    assert names["latest"] == "2026-02-04"
    run(AGGREGATING, names)
    week = store.get_all_contexts(layers.L5_WEEKLY, "2026-W06")
    assert week["weekly_pnl"] == 1229.06
    assert week["top_performers_curated"] == ["005930", "000660", "035720"]
    assert store.get_context(layers.L4_MONTHLY, "2026-02", "monthly_pnl") == 1229.06
    run(PROMPTING, names)
    prompt = names["build_enhanced_prompt"]("005930", store)
    assert "Current price: 71000" in prompt and "Yesterday's P&L: -5.5" in prompt
    assert "- Never average down on losing positions" in prompt and "'weekly_pnl': 1229.06" in prompt
    run(CLEANING, names)
    assert set(names["deleted"]) == set(layers)
    names["conn"].close()
    assert (tmp_path / "data" / "ouroboros.db").is_file()
