"""The seed's API: its examples, its best practices, and the faults of its origin that must not come back."""

from typing import Any

import pytest
from hypothesis import given, settings

from tapebook.clock import VirtualClock
from tapebook.db import Database, Query
from tapebook.domain.units import DAY, parse_instant
from tapebook.errors import BadInput
from tapebook.horizons import ContextLayer, ContextStore
from tapebook.horizons.aggregate import TradeExit
from tapebook.horizons.contexts import LayerConnection
from tapebook.horizons.events import PROJECTION
from tapebook.log import Log
from tests.horizons.makers import NOW, SCOPE, Ledger, exit_at, in_memory, ledgers, opened, roll
from tests.matrix import examples

PRINCIPLES = ["Cut losses fast", "Let winners run", "Never average down on losing positions"]


@pytest.fixture
def conn(db: Database) -> LayerConnection:
    """A connection on both databases, in the middle of February."""
    return opened(db, Ledger(), now=parse_instant("2026-02-15T12:00"))


def test_touching_an_old_day_does_not_make_it_the_latest(conn: LayerConnection) -> None:
    store = ContextStore(conn)
    for day, value in (("2026-02-04", 4), ("2026-02-03", 3), ("2026-02-05", 5), ("2026-02-03", 33)):
        store.set_context(ContextLayer.L6_DAILY, day, "total_pnl", value)
    assert store.get_latest_timeframe(ContextLayer.L6_DAILY) == "2026-02-05"
    assert store.get_all_contexts(ContextLayer.L6_DAILY) == {"total_pnl": 5}
    assert [store.get_context(ContextLayer.L6_DAILY, "2026-02-03", "total_pnl", seq=seq) for seq in (1, 2, 3, 4)] == [
        *(None, 3, 3, 33)
    ]


def test_reads_as_of_a_moment(db: Database) -> None:
    clock = VirtualClock(NOW)
    conn = LayerConnection(db, Log(db, [PROJECTION], clock=clock), owner="me", clock=clock)
    store = ContextStore(conn)
    for value in (1, 2):
        store.set_context(ContextLayer.L7_REALTIME, "2027-02-01", "live_price_BTC", value)
        clock.advance(clock.now() + 1_000)
    read = [
        store.get_context(ContextLayer.L7_REALTIME, "2027-02-01", "live_price_BTC", as_of=NOW + at)
        for at in (-1, 0, 1_000)
    ]
    assert read == [None, 1, 2]
    assert store.get_latest_timeframe(ContextLayer.L7_REALTIME, as_of=NOW - 1) is None
    assert store.get_all_contexts(ContextLayer.L7_REALTIME, as_of=NOW) == {"live_price_BTC": 1}


def test_what_people_write_stands_beside_the_roll_up_and_is_never_summed(conn: LayerConnection) -> None:
    ledger, store = conn.days, ContextStore(conn, scope=SCOPE)
    assert isinstance(ledger, Ledger)
    store.set_context(ContextLayer.L5_WEEKLY, "2026-W06", "weekly_pnl", 999_999)
    store.set_context(ContextLayer.L4_MONTHLY, "2026-02", "rebalancing_notes", "less leverage")
    store.set_context(ContextLayer.L6_DAILY, "2026-02-05", "total_pnl", 888_888)
    assert store.get_context(ContextLayer.L5_WEEKLY, "2026-W06", "weekly_pnl") == 999_999
    ledger.learn([exit_at("2026-02-04T10:00", 5.0)])
    roll(conn)
    week = store.get_all_contexts(ContextLayer.L5_WEEKLY, "2026-W06")
    assert (week["weekly_pnl"], week["weekly_pnl_curated"]) == (5.0, 999_999)
    assert store.get_context(ContextLayer.L5_WEEKLY, "2026-W06", "weekly_pnl", origin="curated") == 999_999
    assert store.get_context(ContextLayer.L4_MONTHLY, "2026-02", "monthly_pnl") == 5.0
    assert store.get_context(ContextLayer.L4_MONTHLY, "2026-02", "rebalancing_notes") == "less leverage"
    # Where there are trades, a day is what they say; what somebody wrote of another day is not in any sum.
    assert store.get_context(ContextLayer.L1_LEGACY, "LEGACY", "total_pnl") == 5.0


def test_nothing_takes_a_value_back(conn: LayerConnection) -> None:
    store = ContextStore(conn)
    for value in (["martingale"], None):
        store.set_context(ContextLayer.L1_LEGACY, "LEGACY", "never_again", value)
    assert store.get_all_contexts(ContextLayer.L1_LEGACY) == {}
    assert store.get_all_contexts(ContextLayer.L1_LEGACY, "LEGACY", seq=1) == {"never_again": ["martingale"]}


def test_a_scope_is_a_room_of_its_own(conn: LayerConnection) -> None:
    one, all_of_them = ContextStore(conn, scope=SCOPE), ContextStore(conn)
    one.set_context(ContextLayer.L1_LEGACY, "LEGACY", "never_again", ["martingale"])
    assert all_of_them.get_all_contexts(ContextLayer.L1_LEGACY) == {}
    assert one.get_all_contexts(ContextLayer.L1_LEGACY) == {"never_again": ["martingale"]}


def test_cleanup_goes_by_the_end_of_the_period_and_earlier_reads_replay(db: Database) -> None:
    clock = VirtualClock(parse_instant("2026-02-15T12:00"))
    conn = LayerConnection(db, Log(db, [PROJECTION], clock=clock), owner="me", clock=clock, days=Ledger())
    store = ContextStore(conn)
    for day in ("2026-02-03", "2026-02-04", "2026-02-15"):
        store.set_context(ContextLayer.L7_REALTIME, day, "live_price_BTC", 1)
        store.set_context(ContextLayer.L6_DAILY, day, "note", day)
    store.set_context(ContextLayer.L1_LEGACY, "LEGACY", "core_principles", PRINCIPLES)
    before = conn.head("")
    deleted = store.cleanup_expired_contexts()
    assert {layer.short: count for layer, count in deleted.items() if count} == {"L7": 2}
    assert set(store.cleanup_expired_contexts().values()) == {0} and conn.head("") == before + 1
    assert store.get_context(ContextLayer.L7_REALTIME, "2026-02-03", "live_price_BTC") is None
    assert store.get_context(ContextLayer.L7_REALTIME, "2026-02-03", "live_price_BTC", seq=before) == 1
    # Rows are old, the period is not: written at the same moment, the day of the write stays.
    clock.advance(parse_instant("2026-05-05T00:00"))
    assert store.cleanup_expired_contexts()[ContextLayer.L6_DAILY] == 1
    assert store.get_all_contexts(ContextLayer.L6_DAILY, "2026-02-03") == {}
    assert store.get_all_contexts(ContextLayer.L6_DAILY, "2026-02-04") == {"note": "2026-02-04"}
    clock.advance(parse_instant("2126-01-01"))
    store.cleanup_expired_contexts()
    assert store.get_latest_timeframe(ContextLayer.L6_DAILY) is None
    assert store.get_latest_timeframe(ContextLayer.L6_DAILY, seq=before) == "2026-02-15"
    assert store.get_context(ContextLayer.L1_LEGACY, "LEGACY", "core_principles") == PRINCIPLES
    with pytest.raises(BadInput, match="past its time"):
        store.set_context(ContextLayer.L6_DAILY, "2026-02-04", "note", "again")


@settings(max_examples=examples(25))
@given(ledgers(most=15))
def test_nothing_written_later_changes_an_earlier_read(exits: list[TradeExit]) -> None:
    """Roll-ups, people, ticks and cleanups behind a sequence number: what was read at it is read again."""
    ledger = Ledger()
    with in_memory(ledger) as conn:
        store, seen = ContextStore(conn, scope=SCOPE), {}
        for at, each in enumerate(exits):
            ledger.learn([each])
            roll(conn)
            if at % 3 == 0:
                store.set_context(ContextLayer.L1_LEGACY, "LEGACY", "core_principles", at)
            if at % 4 == 0:
                store.cleanup_expired_contexts()
            seen[conn.head(SCOPE)] = everything(store, conn.head(SCOPE))
        assert {seq: everything(store, seq) for seq in seen} == seen


def everything(store: ContextStore, seq: int) -> list[Any]:
    """All there is to read at a sequence number."""
    return [
        (layer, store.get_latest_timeframe(layer, seq=seq), store.get_all_contexts(layer, seq=seq))
        for layer in ContextLayer
    ]


def test_the_table_is_that_of_the_seed_with_an_owner(db: Database) -> None:
    clock = VirtualClock(NOW)
    store = ContextStore(LayerConnection(db, Log(db, [PROJECTION], clock=clock), owner="me", clock=clock))
    store.set_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl", 1.5)
    clock.advance(NOW + DAY)
    store.set_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl", 2)
    columns = "owner, deployment, layer, timeframe, key, origin, value, created_at, updated_at, seq"
    rows = db.all(Query.compile("rows", "", f"SELECT {columns} FROM contexts"))
    assert rows == [("me", "", "L6_DAILY", "2026-02-04", "total_pnl", "observed", "2", NOW, NOW + DAY, 2)]


@pytest.mark.parametrize(
    ("layer", "timeframe", "key", "value"),
    [
        (ContextLayer.L6_DAILY, "2026-W06", "total_pnl", 1),
        (ContextLayer.L5_WEEKLY, "2026-02-04", "weekly_pnl", 1),
        (ContextLayer.L1_LEGACY, "2026", "total_pnl", 1),
        (ContextLayer.L6_DAILY, "2026-02-04", "", 1),
        (ContextLayer.L6_DAILY, "2026-02-04", "total_pnl", float("nan")),
    ],
)
def test_what_cannot_be_kept_is_refused(layer: ContextLayer, timeframe: str, key: str, value: Any) -> None:
    with in_memory() as conn:
        with pytest.raises(BadInput):
            ContextStore(conn).set_context(layer, timeframe, key, value)
        assert conn.head("") == 0


def test_layers_belong_to_somebody() -> None:
    with in_memory() as conn, pytest.raises(BadInput, match="owner"):
        LayerConnection(conn._db, conn._log, owner="", clock=VirtualClock(NOW))
