"""Snapshots: a chunk is the difference of two states, and the trajectory puts chunks side by side."""

from tapebook.experience.outcomes import Outcome, outcome_of
from tapebook.experience.records import PROVIDER, REGIME, recomputed
from tapebook.experience.snapshots import snapshot_of, trajectory
from tests.experience.makers import T0, closed, run_of


def outcome(number: int, net_bps: float, engine: str) -> Outcome:
    trade = closed(number, net_bps=net_bps)
    return outcome_of(trade, run_of(trade, engine=engine))


FIRST = [outcome(1, 10, "trend"), outcome(2, -30, "carry")]
SECOND = [outcome(3, 20, "trend"), outcome(4, 40, "trend")]


def test_snapshot_is_of_its_chunk_alone() -> None:
    before, after = recomputed(FIRST), recomputed(FIRST + SECOND)
    found = snapshot_of("Q2", before, after, started_at=T0, ended_at=T0 + 1)
    assert (found.result.n, found.result.wins, found.net_usd) == (2, 2, "6.00")
    assert found.sharpe_e4 == round(10_000 * 30 / 200**0.5)
    assert [record.name for record in found.parts if record.kind == PROVIDER] == ["trend"]
    own = recomputed(SECOND)
    assert all(own[record.key] == record for record in found.parts)


def test_trajectory_follows_each_provider_over_chunks() -> None:
    first, both = recomputed(FIRST), recomputed(FIRST + SECOND)
    one = snapshot_of("Q1", {}, first, started_at=0, ended_at=1)
    two = snapshot_of("Q2", first, both, started_at=1, ended_at=2)
    lines = trajectory([two, one])
    assert [(chunk, record.n) for chunk, record in lines["trend"]] == [("Q1", 1), ("Q2", 2)]
    assert [chunk for chunk, _ in lines["carry"]] == ["Q1"]
    assert list(trajectory([one], REGIME)) == ["chop_lowvol"]


def test_empty_chunk_has_no_parts() -> None:
    found = snapshot_of("Q1", recomputed(FIRST), recomputed(FIRST), started_at=0, ended_at=1)
    assert (found.result.n, found.parts, found.sharpe_e4, found.net_usd) == (0, (), 0, "0.00")
