"""What surfaces show: people's units, names a person knows, and nothing that JSON cannot carry."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from tapebook.context import assemble_packet
from tapebook.domain import views
from tapebook.domain.order import Fill, Order
from tapebook.domain.run import Usage, Verdict, Vote
from tapebook.domain.units import E6, E8
from tests.context.situations import NOW, action, closed, run, situation, trade


def same_after_json(view: Mapping[str, Any]) -> bool:
    """Whether a view says the same after it was sent; a tuple arrives as a list."""
    text = json.dumps(view, allow_nan=False)
    return json.dumps(json.loads(text)) == text


def test_packet() -> None:
    packet = assemble_packet(situation())
    view = views.packet_view(packet)
    assert (view["agent"], view["symbol"], view["as_of"]) == ("btc-5m", "BTC", "2026-06-04T12:30:00.000Z")
    assert (view["text"], view["system"], view["tokens"]) == (packet.text, packet.system, packet.tokens)
    assert (view["sha256"], view["inputs_sha256"], view["renderer"]) == (
        packet.sha256,
        packet.inputs_sha256,
        packet.renderer,
    )
    assert [section["name"] for section in view["sections"]] == [section.name for section in packet.sections]
    for shown, section in zip(view["sections"], packet.sections, strict=True):
        assert (shown["title"], shown["dropped"]) == (section.title, section.dropped)
        assert shown["columns"] == list(section.columns)
        assert shown["rows"] == [list(row) for row in section.rows]
        assert shown["tokens"] == packet.section_tokens[section.name]
    assert same_after_json(view)


def test_run() -> None:
    limited = action(order_type="limit", limit_price_e8=65_000 * E8 + E8 // 2, cites=("c1",))
    view = views.run_view(
        run(
            (limited, Verdict(True, flags=("71,000",))), (action("hold"), Verdict(False, "R2_SYMBOL_NOT_ENABLED", "no"))
        )
    )
    assert (view["as_of"], view["scheduled_for"]) == ("2026-06-04T12:25:00.000Z", "2026-06-04T12:25:00.000Z")
    assert (view["run_id"], view["status"]) == ("r1", "held")
    assert view["watermarks"] == {"tape": 1, "book": 1, "docs": 0, "curated": 0}
    assert view["actions"] == [
        {
            "action": "open",
            "symbol": "BTC",
            "side": "long",
            "notional_usd": 250.0,
            "leverage": 2,
            "order_type": "limit",
            "limit_price": 65000.5,
            "confidence": 0.64,
            "reason": "breakout",
            "cites": ["c1"],
            "verdict": "allowed",
            "rule": None,
            "detail": "",
            "flags": ["71,000"],
        },
        {
            "action": "hold",
            "symbol": "BTC",
            "side": None,
            "notional_usd": 250.0,
            "leverage": 2,
            "order_type": "market",
            "limit_price": None,
            "confidence": 0.64,
            "reason": "breakout",
            "cites": [],
            "verdict": "refused",
            "rule": "R2_SYMBOL_NOT_ENABLED",
            "detail": "no",
            "flags": [],
        },
    ]
    assert len(view["verdicts"]) == 2
    assert same_after_json(view)


STATE = trade(
    exited_e8=383_436,
    exited_usd_e6=252_837_698,
    realised_usd_e6=2_837_426,
    fees_usd_e6=100_000,
    funding_usd_e6=-50_000,
    mfe_usd_e6=3 * E6,
    mae_usd_e6=-E6,
)


def test_closed_trade() -> None:
    view = views.trade_view(closed(STATE), deployment="btc-5m.paper", maker=("btc-5m", 3))
    assert view == {
        "id": "t1",
        "deployment_id": "btc-5m.paper",
        "skill_id": "btc-5m",
        "skill_version": 3,
        "symbol": "BTC",
        "side": "long",
        "status": "closed",
        "entry_tick_at": "2026-06-04T10:00:00.000Z",
        "entry_price": 65200.0,
        "entry_mark": 65200.0,
        "entry_size_usd": 250.000272,
        "turnover_usd": 502.83797,
        "entry_leverage": 2,
        "entry_reason": "breakout above prior swing high",
        "entry_snapshot_id": "r1",
        "entry_lessons_hash": None,
        "entry_regime_tag": "trend_up_lowvol",
        "exit_tick_at": "2026-06-04T12:30:00.000Z",
        "exit_price": view["exit_price"],
        "exit_reason": "target reached",
        "exit_snapshot_id": "r2",
        "holding_minutes": 150.0,
        "realized_pnl_usd": 2.837426,
        "fees_usd": 0.1,
        "funding_usd": -0.05,
        "net_pnl_usd": 2.687426,
        "mfe_usd": 3.0,
        "mae_usd": -1.0,
    }
    assert round(view["exit_price"] or 0) == 65_940
    assert same_after_json(view)


def test_size_of_a_trade_is_its_notional_at_entry_and_turnover_stands_beside_it() -> None:
    """A trade of 250 USD that later decisions added to and took from is no trade of thousands."""
    added = msgspec.structs.replace(STATE, entered_usd_e6=2_500 * E6, exited_usd_e6=2_300 * E6, entry_usd_e6=250 * E6)
    view = views.trade_view(added, deployment="btc-5m.paper", maker=("btc-5m", 3))
    assert (view["entry_size_usd"], view["turnover_usd"]) == (250.0, 4_800.0)


def test_open_trade_has_the_same_columns_and_no_exit() -> None:
    shown = views.trade_view(STATE, deployment="btc-5m.paper", maker=("btc-5m", 3))
    ended = views.trade_view(closed(STATE, at=NOW), deployment="btc-5m.paper", maker=("btc-5m", 3))
    assert shown.keys() == ended.keys()
    assert shown["status"] == "open"
    exits = {"exit_tick_at", "exit_price", "exit_reason", "exit_snapshot_id", "holding_minutes"}
    assert {name for name, value in shown.items() if value is None} == exits | {"entry_lessons_hash"}
    before, after = dict(shown), dict(ended)
    assert {name for name in before if before[name] != after[name]} == exits | {"status"}
    assert same_after_json(shown)


def test_votes_and_usage_of_a_run() -> None:
    decided = msgspec.structs.replace(
        run((action(), Verdict(True))),
        as_of=NOW,
        scheduled_for=NOW - 250,
        votes=(Vote("trend", "open", "long", 6_200, 12_000, "up"),),
        usage=Usage("gpt-6-luna", 1_200, 80, 2_100, 2),
    )
    view = views.run_view(decided)
    vote = {"engine": "trend", "action": "open", "side": "long", "reason": "up", "confidence": 0.62, "weight": 1.2}
    assert (view["votes"], view["late_ms"]) == ([vote], 250)
    tokens = {"model": "gpt-6-luna", "input_tokens": 1_200, "output_tokens": 80, "attempts": 2}
    assert view["usage"] == tokens | {"cost_usd": 0.0021, "reused": False}
    assert same_after_json(view)


def test_order() -> None:
    order = Order("c1", "r1", "BTC", "sell", E8 // 2, "limit", 65_000 * E8, True, 2, NOW)
    view = views.order_view(
        order, deployment="btc-5m.paper", status="cancelled", detail="expired", times=(NOW, NOW + 1)
    )
    assert view == {
        "client_id": "c1",
        "run_id": "r1",
        "deployment_id": "btc-5m.paper",
        "symbol": "BTC",
        "side": "sell",
        "size": 0.5,
        "order_type": "limit",
        "limit_price": 65000.0,
        "reduce_only": True,
        "leverage": 2,
        "intended_at": "2026-06-04T12:30:00.000Z",
        "status": "cancelled",
        "detail": "expired",
        "dry": False,
        "created_at": "2026-06-04T12:30:00.000Z",
        "updated_at": "2026-06-04T12:30:00.001Z",
    }
    assert same_after_json(view)
    assert views.order_view(order, deployment="btc-5m.paper-dry", status="dry", detail="", times=(NOW, NOW))["dry"]


def test_fill() -> None:
    view = views.fill_view(Fill("f1", "BTC", NOW, -E8 // 2, 65_000 * E8, -E6 // 4, True, "c1"))
    assert view == {
        "fill_id": "f1",
        "client_id": "c1",
        "symbol": "BTC",
        "happened_at": "2026-06-04T12:30:00.000Z",
        "side": "sell",
        "size": 0.5,
        "price": 65000.0,
        "value_usd": 32500.0,
        "fee_usd": -0.25,
        "maker": True,
        "liquidation": False,
    }
    assert same_after_json(view)


def test_views_are_new_mappings() -> None:
    decided = run((action(), Verdict(True)))
    before = msgspec.json.encode(decided)
    views.run_view(decided)["actions"].clear()
    assert msgspec.json.encode(decided) == before
