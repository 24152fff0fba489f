"""Who is due: each pair once per slot, whatever the clock does in between."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.desk.scheduler import Pair, due_pairs
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.units import HOUR, MINUTE

NOON = 500_000 * HOUR


def deployment(name: str, minutes: int, *symbols: str) -> Deployment:
    """An agent that decides every so many minutes."""
    return Deployment("local", f"{name}.paper", AgentProfile(name, symbols, cadence_ms=minutes * MINUTE), 1)


FAST = deployment("fast", 5, "BTC", "ETH")
SLOW = deployment("slow", 15, "BTC")


@pytest.mark.parametrize(
    ("now", "done", "expected"),
    [
        pytest.param(0, {}, [("fast", "BTC", 0), ("fast", "ETH", 0), ("slow", "BTC", 0)], id="nothing done yet"),
        pytest.param(
            7 * MINUTE, {}, [("fast", "BTC", 5), ("fast", "ETH", 5), ("slow", "BTC", 0)], id="the slot has begun"
        ),
        pytest.param(
            0,
            {("fast.paper", "BTC"): 0, ("fast.paper", "ETH"): 0, ("slow.paper", "BTC"): 0},
            [],
            id="everything done",
        ),
        pytest.param(
            5 * MINUTE,
            {("fast.paper", "BTC"): 0, ("fast.paper", "ETH"): 5, ("slow.paper", "BTC"): 0},
            [("fast", "BTC", 5)],
            id="one is behind",
        ),
        pytest.param(
            5 * MINUTE - 1,
            {("fast.paper", "BTC"): 0, ("fast.paper", "ETH"): 0, ("slow.paper", "BTC"): 0},
            [],
            id="a millisecond early",
        ),
        pytest.param(
            60 * MINUTE,
            {("fast.paper", "BTC"): 0, ("fast.paper", "ETH"): 0, ("slow.paper", "BTC"): 45},
            [("fast", "BTC", 60), ("fast", "ETH", 60), ("slow", "BTC", 60)],
            id="slots that were missed are not made up",
        ),
        pytest.param(
            5 * MINUTE,
            {("fast.paper", "BTC"): 10, ("slow.paper", "BTC"): 0},
            [("fast", "BTC", 5), ("fast", "ETH", 5)],
            id="a slot of the future was done by a clock that was ahead",
        ),
        pytest.param(
            0,
            {("slow.paper", "ETH"): 0, ("fast.paper", "BTC"): 0},
            [("fast", "ETH", 0), ("slow", "BTC", 0)],
            id="what others did does not count",
        ),
    ],
)
def test_due(now: int, done: dict[Pair, int], expected: list[tuple[str, str, int]]) -> None:
    found = due_pairs([FAST, SLOW], {pair: NOON + slot * MINUTE for pair, slot in done.items()}, now=NOON + now)
    assert [(each.agent.name, symbol, (slot - NOON) // MINUTE) for each, symbol, slot in found] == expected


def test_order_is_that_of_deployments_and_watchlists() -> None:
    found = due_pairs([SLOW, FAST, deployment("c", 5, "SOL", "BTC")], {}, now=NOON)
    assert [(each.agent.name, symbol) for each, symbol, _ in found] == [
        ("slow", "BTC"),
        ("fast", "BTC"),
        ("fast", "ETH"),
        ("c", "SOL"),
        ("c", "BTC"),
    ]
    assert due_pairs([], {}, now=NOON) == []


@given(st.lists(st.integers(0, 12 * MINUTE), max_size=30))
def test_each_slot_once_per_pair(pauses: list[int]) -> None:
    now = NOON
    done: dict[Pair, int] = {}
    made: Counter[tuple[str, str, int]] = Counter()
    for pause in pauses:
        now += pause
        for each, symbol, slot in due_pairs([FAST, SLOW], done, now=now):
            assert slot <= now < slot + each.agent.cadence_ms
            assert slot % each.agent.cadence_ms == 0
            made[each.id, symbol, slot] += 1
            done[each.id, symbol] = slot
        # Nothing is left to do at this moment, and every pair has decided the slot it is in.
        assert due_pairs([FAST, SLOW], done, now=now) == []
        for each in (FAST, SLOW):
            slot = now - now % each.agent.cadence_ms
            assert all(made[each.id, symbol, slot] == 1 for symbol in each.agent.watchlist)
    assert set(made.values()) <= {1}


@given(st.integers(0, 2**42), st.integers(1, 10**9))
def test_slot_holds_the_moment(now: int, cadence: int) -> None:
    agent = Deployment("local", "a.paper", AgentProfile("a", ("BTC",), cadence_ms=cadence), 1)
    ((_, _, slot),) = due_pairs([agent], {}, now=now)
    assert slot <= now < slot + cadence and slot % cadence == 0
