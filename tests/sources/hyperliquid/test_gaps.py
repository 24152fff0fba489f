"""The bounds of gaps, to the millisecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Gap, subject_of
from tapebook.domain.units import MINUTE
from tapebook.sources.hyperliquid.gaps import KEPT_BARS, Cadence, first_kept_minute, missing_ranges


def beat(*buckets: int, newest: int | None = None, slack: int = 1) -> list[tuple[int, int]]:
    cadence = Cadence("mids", "*", step=5, slack=slack)
    cadence.resume(newest)
    gaps = [cadence.record_bucket(bucket, "lost") for bucket in buckets]
    assert all(gap is None or (gap.source, gap.channel, gap.subject, gap.reason) == NAMED for gap in gaps)
    return [(gap.from_ts, gap.to_ts) for gap in gaps if gap]


NAMED = ("hyperliquid", "mids", "*", "lost")


@pytest.mark.parametrize(
    ("buckets", "newest", "slack", "gaps"),
    [
        ((), 10, 1, []),
        ((10, 15, 20), None, 1, []),
        ((10, 20, 30), None, 1, []),
        ((10, 25), None, 1, [(15, 25)]),
        ((10, 20), None, 0, [(15, 20)]),
        ((10, 100, 105, 120), None, 1, [(15, 100), (110, 120)]),
        ((40,), 10, 1, [(15, 40)]),
        ((15,), 10, 1, []),
        ((10,), 10, 1, []),
        ((5,), 10, 1, []),
        ((5, 40), 10, 1, [(15, 40)]),
        ((40, 45), 12, 0, [(15, 40)]),
        ((40,), None, 0, []),
    ],
)
def test_a_beat_too_late_names_the_buckets_before_it(
    buckets: tuple[int, ...], newest: int | None, slack: int, gaps: list[tuple[int, int]]
) -> None:
    assert beat(*buckets, newest=newest, slack=slack) == gaps


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 3))
def test_gaps_and_buckets_never_overlap_and_leave_out_nothing_but_the_slack(beats: set[int], slack: int) -> None:
    buckets = sorted(number * 5 for number in beats)
    named = {bucket for begin, end in beat(*buckets, slack=slack) for bucket in range(begin, end, 5)}
    assert named.isdisjoint(buckets)
    missing = sorted(set(range(buckets[0], buckets[-1], 5)) - set(buckets) - named)
    runs = [bucket for bucket in missing if all(bucket + 5 * more in missing for more in range(slack + 1))]
    assert not runs


def test_a_process_killed_and_started_again_names_its_outage_once() -> None:
    """The gap is given with the beat that ends it: what is not committed is named again, what is, is not."""
    stored = [5, 10]
    first = Cadence("mids", "*", step=5, slack=1)
    first.resume(stored[-1])
    assert first.record_bucket(60, "not running") == Gap("hyperliquid", "mids", "*", 15, 60, "not running")
    killed_before_the_commit = Cadence("mids", "*", step=5, slack=1)
    killed_before_the_commit.resume(stored[-1])
    assert killed_before_the_commit.record_bucket(70, "not running") == Gap(
        "hyperliquid", "mids", "*", 15, 70, "not running"
    )
    stored.append(70)
    killed_after_it = Cadence("mids", "*", step=5, slack=1)
    killed_after_it.resume(stored[-1])
    assert killed_after_it.record_bucket(75, "not running") is None


@pytest.mark.parametrize(
    ("buckets", "found"),
    [
        ([], []),
        ([10], []),
        ([10, 15, 20], []),
        ([10, 20], [(15, 20)]),
        ([30, 10, 15, 10], [(20, 30)]),
        ([10, 25, 30, 50], [(15, 25), (35, 50)]),
    ],
)
def test_holes_lie_between_the_first_and_the_last(buckets: list[int], found: list[tuple[int, int]]) -> None:
    assert missing_ranges(buckets, step=5) == found


def test_what_the_exchange_does_not_keep_is_a_gap() -> None:
    now = 10_000 * MINUTE + 30_000
    oldest = 10_000 * MINUTE - (KEPT_BARS - 1) * MINUTE
    assert first_kept_minute(oldest, now) == (oldest, None)
    since, gap = first_kept_minute(oldest - MINUTE, now)
    assert since == oldest and gap is not None
    assert (gap.channel, gap.subject, gap.from_ts, gap.to_ts) == ("candles", "*", oldest - MINUTE, oldest)


def test_a_builder_dex_has_a_subject_of_its_own() -> None:
    assert (subject_of(""), subject_of("xyz")) == ("*", "xyz:*")
