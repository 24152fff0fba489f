"""From a ledger to the layers in the log: complete, idempotent, in any order, after any pause."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database
from tapebook.domain.units import parse_instant
from tapebook.horizons.aggregate import TradeExit
from tapebook.horizons.contexts import LayerConnection
from tapebook.horizons.events import PROJECTION
from tapebook.horizons.layers import ContextLayer, parse_period
from tapebook.horizons.rollup import catch_up, expire_layers, roll_up_period, rollup_values
from tapebook.horizons.store import MIGRATIONS
from tapebook.log import Log, verify_log
from tapebook.log.store import MIGRATIONS as LOG
from tests.horizons.makers import NOW, SCOPE, Ledger, exit_at, in_memory, ledgers, opened, roll
from tests.horizons.oracle import check_conservation, from_scratch, stored
from tests.matrix import examples

DAYS = ContextLayer.L6_DAILY


@settings(max_examples=examples(40))
@given(ledgers(), st.data())
def test_incremental_is_from_scratch(exits: list[TradeExit], data: st.DataObject) -> None:
    """Any order of arrival, any number of roll-ups in between; sums agree over all layers after each of them."""
    arriving = data.draw(st.permutations(exits))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(exits)), max_size=4)))
    ledger, start = Ledger(), 0
    with in_memory(ledger) as conn:
        for end in [*cuts, len(arriving)]:
            ledger.learn(arriving[start:end])
            roll(conn)
            start = end
            check_conservation(conn, arriving[:end])
        assert stored(conn, exits) == from_scratch(exits)
        assert roll(conn) == 0


def test_only_days_with_news_are_read() -> None:
    ledger = Ledger()
    with in_memory(ledger) as conn:
        ledger.learn([exit_at(f"2026-02-{day:02d}T10:00") for day in range(1, 11)])
        roll(conn)
        ledger.read_days.clear()
        ledger.learn([exit_at("2026-02-03T11:00", 7.0)])
        roll(conn)
        assert ledger.read_days == ["2026-02-03"]
        assert rollup_values(conn.store, SCOPE, DAYS, "2026-02-03", seq=conn.head(SCOPE))["total_pnl"] == "8.0"


def test_years_of_history_become_events_of_a_month_each() -> None:
    exits = [exit_at(f"2026-{month:02d}-{day:02d}T10:00") for month in range(1, 7) for day in range(1, 29)]
    ledger = Ledger()
    with in_memory(ledger) as conn:
        ledger.learn(exits)
        assert roll(conn) == 6
        assert stored(conn, exits) == from_scratch(exits)
        assert roll(conn) == 0 and conn.store.rollup_marks(SCOPE) == {SCOPE: len(exits)}


def test_one_period_alone_leaves_the_rest_for_later() -> None:
    exits = [exit_at("2026-02-03T10:00"), exit_at("2026-05-03T10:00")]
    ledger = Ledger()
    with in_memory(ledger) as conn:
        ledger.learn(exits)
        february = parse_period("month", "2026-02")
        drafts = roll_up_period(conn.store, ledger, SCOPE, february, seq=0, at=NOW)
        conn.append(SCOPE, drafts, expected_seq=0)
        check_conservation(conn, exits[:1])
        roll(conn)
        check_conservation(conn, exits)


def test_the_tables_are_what_the_log_says(db: Database) -> None:
    """On both databases: rolled up in three runs, cleaned up, rolled up again with a trade older than what is kept."""
    ledger, clock = Ledger(), VirtualClock(parse_instant("2026-02-10"))
    log = Log(db, [PROJECTION], clock=clock)
    conn = LayerConnection(db, log, owner="me", clock=clock, days=ledger)
    exits = [exit_at(f"2026-02-{day:02d}T10:00", day, confidence_e4=5_000 + day) for day in range(1, 10)]
    for part in (exits[:3], exits[3:4], exits[4:]):
        ledger.learn(part)
        roll(conn)
    assert stored(conn, exits) == from_scratch(exits)
    clock.advance(parse_instant("2026-05-07"))
    counts, drafts = expire_layers(conn.store, SCOPE, seq=conn.head(SCOPE), now=clock.now())
    conn.append(SCOPE, drafts, expected_seq=conn.head(SCOPE))
    # The days up to 5 February, with eleven keys each.
    assert {layer.short: count for layer, count in counts.items() if count} == {"L6": 5 * 11}
    late = exit_at("2026-02-03T11:00", 100.0)
    ledger.learn([late])
    roll(conn)
    assert rollup_values(conn.store, SCOPE, DAYS, "2026-02-03", seq=conn.head(SCOPE)) == {}
    legacy = rollup_values(conn.store, SCOPE, ContextLayer.L1_LEGACY, "LEGACY", seq=conn.head(SCOPE))
    assert legacy["total_pnl"] == "145.0"
    assert verify_log(log, db, packages=(LOG, MIGRATIONS), anchors={}) == []


def test_owners_do_not_see_each_other(db: Database) -> None:
    mine, yours = Ledger(), Ledger()
    mine.learn([exit_at("2026-02-03T10:00", 5.0)])
    one, other = opened(db, mine), opened(db, yours, owner="you")
    roll(one)
    roll(other)
    assert rollup_values(one.store, SCOPE, DAYS, "2026-02-03", seq=9)["total_pnl"] == "5.0"
    assert rollup_values(other.store, SCOPE, DAYS, "2026-02-03", seq=9) == {}
    assert rollup_values(one.store, "b.paper", DAYS, "2026-02-03", seq=9) == {}


@pytest.mark.parametrize("names", [10, 100])
def test_events_are_small(names: int) -> None:
    """One close writes what changed: a few kilobytes, whatever was before."""
    ledger = Ledger()
    with in_memory(ledger) as conn:
        ledger.learn(
            [exit_at(f"2026-02-01T{at // 60:02d}:{at % 60:02d}", symbol=f"S{at % names}") for at in range(1_000)]
        )
        roll(conn)
        ledger.learn([exit_at("2026-02-02T10:00", symbol="S1")])
        (draft,) = catch_up(conn.store, ledger, SCOPE, seq=conn.head(SCOPE), at=NOW)
        assert len(draft.body) < 8_000 + 300 * names
