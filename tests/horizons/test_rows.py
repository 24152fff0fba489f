"""Layers as rows of a packet."""

import re
from typing import Any

from hypothesis import given, settings

from tapebook.domain.agent import LayerRow
from tapebook.domain.units import parse_instant
from tapebook.horizons.aggregate import TradeExit
from tapebook.horizons.contexts import ContextStore
from tapebook.horizons.layers import ContextLayer
from tapebook.horizons.rows import layer_rows, value_line
from tests.horizons.makers import NOW, SCOPE, Ledger, exit_at, in_memory, ledgers, roll
from tests.matrix import examples

AS_OF = parse_instant("2026-02-05T12:00")


def test_the_nearest_layer_comes_first_and_estimates_have_their_interval() -> None:
    ledger = Ledger()
    ledger.learn([exit_at("2026-02-04T10:00", 12.504, regime="trend_up_lowvol"), exit_at("2026-02-05T10:00", -20)])
    with in_memory(ledger) as conn:
        roll(conn)
        ContextStore(conn, scope=SCOPE).set_context(ContextLayer.L1_LEGACY, "LEGACY", "never_again", ["a", "b"])
        rows = layer_rows(conn.store, SCOPE, seq=conn.head(SCOPE), as_of=AS_OF)
    layers = "".join(row.layer[1] for row in rows)
    assert layers == "66543211" + "".join(sorted(layers[8:], reverse=True))
    assert rows[0] == LayerRow("L6", "2026-02-05", "total_pnl_usd", "-20.00")
    assert LayerRow("L6", "2026-02-05", "win_rate", "0% (n=1, 95% 0% to 79%)") in rows
    assert LayerRow("L5", "2026-W06", "weekly_pnl_usd", "-7.50") in rows
    assert not [row for row in rows if row.key == "top_performers" or not row.value]
    assert LayerRow("L3", "2026-Q1", "market_phase", "Bull (n=1 trades)") in rows
    assert rows[7] == LayerRow("L1", "LEGACY", "never_again (curated)", "a; b")


@settings(max_examples=examples(25))
@given(ledgers(most=15))
def test_no_rate_is_bare_and_nothing_lies_in_the_future(exits: list[TradeExit]) -> None:
    ledger = Ledger()
    ledger.learn(sorted(exits, key=lambda each: each.exited_at))
    with in_memory(ledger) as conn:
        roll(conn)
        rows = layer_rows(conn.store, SCOPE, seq=conn.head(SCOPE), as_of=NOW)
        assert bool(rows) == bool(exits)
        for row in rows:
            if row.key in ("win_rate", "avg_confidence", "sharpe_ratio"):
                assert re.search(r"\(n=\d+, 95% \S+ to \S+\)$", row.value)
        early = layer_rows(conn.store, SCOPE, seq=conn.head(SCOPE), as_of=parse_instant("2025-12-19"))
        assert {row.layer for row in early} <= {"L1", "L2", "L3", "L4", "L5"}


def test_rows_do_not_move_when_something_comes_later() -> None:
    ledger = Ledger()
    with in_memory(ledger) as conn:
        ledger.learn([exit_at("2026-02-04T10:00", 1.0)])
        roll(conn)
        seq, store = conn.head(SCOPE), ContextStore(conn, scope=SCOPE)
        before = layer_rows(conn.store, SCOPE, seq=seq, as_of=AS_OF)
        ledger.learn(
            [exit_at("2026-02-03T10:00", 5.0), exit_at("2026-02-04T11:00", 5.0), exit_at("2026-02-05T11:00", 5.0)]
        )
        roll(conn)
        store.set_context(ContextLayer.L4_MONTHLY, "2026-02", "rebalancing_notes", "none")
        store.cleanup_expired_contexts()
        assert layer_rows(conn.store, SCOPE, seq=seq, as_of=AS_OF) == before
        assert layer_rows(conn.store, SCOPE, seq=conn.head(SCOPE), as_of=AS_OF) != before


def test_the_owners_word_for_all_stands_behind_that_for_one() -> None:
    with in_memory() as conn:
        for scope, said in ((SCOPE, ["Trade less"]), ("", ["Cut losses fast"])):
            ContextStore(conn, scope=scope).set_context(ContextLayer.L1_LEGACY, "LEGACY", "core_principles", said)
        ContextStore(conn).set_context(ContextLayer.L4_MONTHLY, "2026-02", "rebalancing_notes", "none")
        ContextStore(conn).set_context(ContextLayer.L4_MONTHLY, "2026-01", "rebalancing_notes", "of another month")
        own = LayerRow("L1", "LEGACY", "core_principles (curated)", "Trade less")
        alls = LayerRow("L1", "LEGACY", "core_principles (curated for all)", "Cut losses fast")
        month = LayerRow("L4", "2026-02", "rebalancing_notes (curated for all)", "none")
        told = [layer_rows(conn.store, SCOPE, seq=1, as_of=AS_OF, curated=curated) for curated in range(4)]
        assert told == [(own,), (own, alls), (own, alls, month), (own, alls, month)]
        assert layer_rows(conn.store, SCOPE, seq=0, as_of=AS_OF) == ()


def test_a_comment_on_the_period_we_are_in_does_not_hide_the_newest_roll_up() -> None:
    ledger = Ledger()
    ledger.learn([exit_at("2026-01-30T10:00", 7.0)])
    with in_memory(ledger) as conn:
        roll(conn)
        store = ContextStore(conn, scope=SCOPE)
        store.set_context(ContextLayer.L5_WEEKLY, "2026-W06", "plan", "rest")
        store.set_context(ContextLayer.L5_WEEKLY, "2026-W05", "plan", "go on")
        store.set_context(ContextLayer.L6_DAILY, "2026-02-05", "mood", "fine")
        rows = layer_rows(conn.store, SCOPE, seq=conn.head(SCOPE), as_of=AS_OF)
    assert LayerRow("L6", "2026-01-30", "total_pnl_usd", "7.00") in rows
    assert LayerRow("L5", "2026-W05", "weekly_pnl_usd", "7.00") in rows
    assert [row.value for row in rows if row.key == "plan (curated)"] == ["go on", "rest"]


def test_words_are_one_short_line() -> None:
    cases: list[tuple[Any, str]] = [
        ("a", "a"),
        (["a", 1, {"b": 2}], 'a; 1; {"b":2}'),
        (True, "true"),
        ("x" * 500, "x" * 120),
    ]
    for value, expected in cases:
        assert value_line(value) == expected
