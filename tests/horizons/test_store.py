"""Reads as of a sequence number: nothing beyond it is seen, and time orders timeframes, not the order of writing."""

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.db import Database
from tapebook.horizons.contexts import LayerConnection, checked_values, draft_values_written
from tapebook.horizons.layers import ContextLayer
from tests.horizons.makers import NOW, in_memory, opened
from tests.matrix import examples

LAYER = ContextLayer.L5_WEEKLY
WEEKS = ("2026-W05", "2026-W06", "2026-W07", "2026-W53")
WRITES = st.lists(st.tuples(st.sampled_from(WEEKS), st.sampled_from(("a", "b", "c")), st.integers(0, 9)), max_size=20)

Writes = list[tuple[str, str, int]]


def write(conn: LayerConnection, writes: Writes) -> None:
    """Each in an event of its own, from 1 on."""
    for week, key, value in writes:
        draft = draft_values_written(checked_values(LAYER, week, {key: value}), owner="me", at=NOW)
        conn.append("", [draft], expected_seq=conn.head(""))


def naive(writes: Writes, seq: int) -> dict[str, dict[str, int]]:
    """What was written up to a sequence number, by timeframe."""
    found: dict[str, dict[str, int]] = {}
    for week, key, value in writes[:seq]:
        found.setdefault(week, {})[key] = value
    return found


@settings(max_examples=examples(50))
@given(WRITES)
def test_every_moment_reads_as_it_was(writes: Writes) -> None:
    with in_memory() as conn:
        write(conn, writes)
        for seq in range(len(writes) + 1):
            check(conn, naive(writes, seq), seq)


def test_on_both_databases(db: Database) -> None:
    writes = [
        ("2026-W07", "a", 1),
        ("2026-W05", "a", 2),
        ("2026-W05", "b", 3),
        ("2026-W53", "c", 4),
        ("2026-W07", "a", 5),
    ]
    conn = opened(db)
    write(conn, writes)
    for seq in range(len(writes) + 1):
        check(conn, naive(writes, seq), seq)


def check(conn: LayerConnection, expected: dict[str, dict[str, int]], seq: int) -> None:
    """Timeframes, their values, the latest one, and the latest of each key."""
    store = conn.store
    for week in WEEKS:
        assert shown(store.values("", LAYER, week, seq=seq)) == expected.get(week, {})
    assert store.latest_timeframe("", LAYER, seq=seq) == max(expected, default=None)
    earlier = [week for week in expected if week <= "2026-W06"]
    assert store.latest_timeframe("", LAYER, seq=seq, last="2026-W06") == max(earlier, default=None)
    newest = {key: values[key] for week, values in sorted(expected.items()) for key in values}
    assert shown(store.newest_values("", LAYER, seq=seq)) == newest
    assert store.count_before("", LAYER, "2026-W07", seq=seq) == sum(len(expected.get(week, {})) for week in WEEKS[:2])


def shown(found: Sequence[Any]) -> dict[str, int]:
    return {each.key: msgspec.json.decode(each.value) for each in found}
