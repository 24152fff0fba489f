"""Snapshots: a chunk is the difference of two states, and the trajectory puts chunks side by side."""

import random

import pytest

from tapebook.experience.records import (
    PROVIDER,
    REGIME,
    Outcome,
    Record,
    outcome_of,
    records_by_chunk,
    records_from_scratch,
    snapshot_of,
    trend_of,
)
from tests.experience.makers import T0, closed, run_of


def outcome(number: int, net_bps: float, engine: str) -> Outcome:
    trade = closed(number, net_bps=net_bps)
    return outcome_of(trade, run_of(trade, engine=engine))


FIRST = [outcome(1, 10, "trend"), outcome(2, -30, "carry")]
SECOND = [outcome(3, 20, "trend"), outcome(4, 40, "trend")]


def test_snapshot_is_of_its_chunk_alone() -> None:
    before, after = records_from_scratch(FIRST), records_from_scratch(FIRST + SECOND)
    found = snapshot_of("Q2", before, after, started_at=T0, ended_at=T0 + 1)
    assert (found.result.n, found.result.wins, found.net_usd) == (2, 2, "6.00")
    assert found.sharpe_e4 == round(10_000 * 30 / 200**0.5)
    assert [record.name for record in found.parts if record.kind == PROVIDER] == ["trend"]
    own = records_from_scratch(SECOND)
    assert all(own[record.key] == record for record in found.parts)


def test_trajectory_follows_each_provider_over_chunks() -> None:
    first, both = records_from_scratch(FIRST), records_from_scratch(FIRST + SECOND)
    one = snapshot_of("Q1", {}, first, started_at=0, ended_at=1)
    two = snapshot_of("Q2", first, both, started_at=1, ended_at=2)
    lines = records_by_chunk([two, one])
    assert [(chunk, record.n) for chunk, record in lines["trend"]] == [("Q1", 1), ("Q2", 2)]
    assert [chunk for chunk, _ in lines["carry"]] == ["Q1"]
    assert list(records_by_chunk([one], REGIME)) == ["chop_lowvol"]


def test_empty_chunk_has_no_parts() -> None:
    found = snapshot_of("Q1", records_from_scratch(FIRST), records_from_scratch(FIRST), started_at=0, ended_at=1)
    assert (found.result.n, found.parts, found.sharpe_e4, found.net_usd) == (0, (), 0, "0.00")


def chunks(*means: float, n: int = 50, seed: int = 1) -> list[Record]:
    """The records of one provider over chunks with these means and a deviation of 30 bps."""
    rng = random.Random(seed)
    found = []
    for mean in means:
        results = [round(100 * rng.gauss(mean, 30)) for _ in range(n)]
        found.append(Record(PROVIDER, "p", n, 0, sum(results), sum(each**2 for each in results)))
    return found


def test_trend_compares_the_newer_half_with_the_older() -> None:
    up, down = trend_of(chunks(-20, -10, 10, 20)), trend_of(chunks(20, 10, 0, -10, -20))
    assert up is not None and up.direction == "improving" and up.change_bps.low > 0
    assert down is not None and down.direction == "declining" and down.change_bps.value == pytest.approx(-30, abs=15)
    # Three chunks: the one in the middle belongs to neither half.
    assert trend_of(chunks(0, 99, 0)) == trend_of([chunks(0, 99, 0)[place] for place in (0, 2)])
    assert trend_of(chunks(5)) is None and trend_of([]) is None
    assert trend_of(chunks(1, 2, n=1)) is None


def test_without_a_change_a_trend_is_called_no_oftener_than_its_interval_says() -> None:
    found = [trend_of(chunks(5, 5, 5, 5, seed=seed)) for seed in range(400)]
    called = sum(each is not None and each.direction != "unclear" for each in found)
    # At 5 % of 400, more than 36 would need luck of 1 in 10,000.
    assert called <= 36
