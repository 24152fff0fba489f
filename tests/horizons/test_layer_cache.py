"""What ticks ask of the layers: days when they are over, rows until something changes."""

from typing import Any

import pytest

from tapebook.domain.agent import LayerRow
from tapebook.domain.units import DAY, HOUR, parse_instant
from tapebook.horizons import store as module
from tapebook.horizons.contexts import ContextStore, LayerConnection
from tapebook.horizons.layers import ContextLayer
from tapebook.horizons.rollup import roll_up_finished_days
from tapebook.horizons.rows import layer_rows
from tapebook.horizons.store import Horizons, LayerCache
from tests.horizons.makers import SCOPE, Ledger, exit_at, in_memory

NOON = parse_instant("2026-02-05T12:00")


def over(conn: LayerConnection, almanac: LayerCache, *, now: int) -> int:
    """Rolls up what is over by a moment; how many events that took."""
    seq = conn.head(SCOPE)
    drafts = roll_up_finished_days(almanac, conn.days, SCOPE, seq=seq, now=now)
    conn.append(SCOPE, drafts, expected_seq=seq)
    return len(drafts)


def days(conn: LayerConnection) -> list[str]:
    """The days that are in the layers."""
    return conn.store.timeframes(SCOPE, ContextLayer.L6_DAILY, seq=conn.head(SCOPE))


def test_a_day_is_rolled_up_when_it_is_over_and_a_late_trade_at_once() -> None:
    ledger = Ledger()
    with in_memory(ledger) as conn:
        almanac = LayerCache(conn.store)
        ledger.learn([exit_at("2026-02-04T10:00"), exit_at(NOON - HOUR)])
        assert over(conn, almanac, now=NOON) == 1 and days(conn) == ["2026-02-04"]
        # The mark stays before what was left for later.
        assert conn.store.rollup_marks(SCOPE) == {SCOPE: 1}
        assert over(conn, almanac, now=NOON) == 0
        ledger.learn([exit_at("2026-02-03T10:00")])
        assert over(conn, almanac, now=NOON) == 1 and days(conn) == ["2026-02-04", "2026-02-03"]
        assert conn.store.rollup_marks(SCOPE) == {SCOPE: 1}
        assert over(conn, almanac, now=NOON) == 0
        assert over(conn, almanac, now=NOON + DAY) == 1 and days(conn)[0] == "2026-02-05"
        assert conn.store.rollup_marks(SCOPE) == {SCOPE: 3}


def test_it_remembers_until_where_there_was_nothing_to_do() -> None:
    ledger = Ledger()
    with in_memory(ledger) as conn:
        almanac = LayerCache(conn.store)
        assert almanac.nothing_to_roll_up_at(SCOPE, now=NOON) is None
        ledger.learn([exit_at("2026-02-04T10:00")])
        over(conn, almanac, now=NOON)
        assert almanac.nothing_to_roll_up_at(SCOPE, now=NOON) is None
        over(conn, almanac, now=NOON)
        assert almanac.nothing_to_roll_up_at(SCOPE, now=NOON + HOUR) == conn.head(SCOPE) == 1
        assert almanac.nothing_to_roll_up_at("b.paper", now=NOON) is None
        assert almanac.nothing_to_roll_up_at(SCOPE, now=NOON + DAY) is None


def test_rows_are_made_again_when_something_was_written_or_the_day_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def rows(store: Horizons, scope: str, **known: Any) -> tuple[LayerRow, ...]:
        made.append(scope)
        return layer_rows(store, scope, **known)

    monkeypatch.setattr(module, "layer_rows", rows)
    ledger = Ledger()
    with in_memory(ledger) as conn:
        almanac = LayerCache(conn.store)
        assert almanac.packet_rows(SCOPE, seq=9, as_of=NOON) == () and not made
        ledger.learn([exit_at("2026-02-04T10:00")])
        over(conn, almanac, now=NOON)
        first = almanac.packet_rows(SCOPE, seq=1, as_of=NOON)
        assert [almanac.packet_rows(SCOPE, seq=seq, as_of=NOON + seq * HOUR) for seq in (1, 2, 7)] == [first] * 3
        assert len(made) == 1
        almanac.packet_rows(SCOPE, seq=1, as_of=NOON + DAY)
        assert len(made) == 2
        ContextStore(conn, scope=SCOPE).set_context(ContextLayer.L1_LEGACY, "LEGACY", "never_again", "x")
        assert len(almanac.packet_rows(SCOPE, seq=2, as_of=NOON)) == len(first) + 1
        assert almanac.packet_rows(SCOPE, seq=1, as_of=NOON) == first
        ContextStore(conn).set_context(ContextLayer.L1_LEGACY, "LEGACY", "never_again", "y")
        assert len(almanac.packet_rows(SCOPE, seq=2, as_of=NOON, curated=1)) == len(first) + 2
        assert [row.value for row in almanac.packet_rows("b.paper", seq=0, as_of=NOON, curated=1)] == ["y"]
