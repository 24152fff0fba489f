"""Two series day by day: intervals and chances as scipy has them, and no claim where there is nothing."""

import math
import random

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.report.comparison import block_days, block_interval, detectable_difference, paired_chance, paired_test
from tests.matrix import examples

gaps = st.lists(st.floats(-0.1, 0.1), min_size=2, max_size=60)


@given(gaps, gaps)
@settings(max_examples=examples(50), deadline=None)
def test_the_paired_test_is_scipys(one: list[float], other: list[float]) -> None:
    n = min(len(one), len(other))
    first, second = one[:n], other[:n]
    found = paired_test(first, second, seed="x")
    assert found is not None and found.days == n
    spread = float(np.std(np.subtract(first, second), ddof=1))
    if spread < 1e-9:
        return
    test = scipy.stats.ttest_rel(first, second)
    interval = test.confidence_interval(0.95)
    each = found.student_bps
    assert [each.low, each.high] == pytest.approx([1e4 * interval.low, 1e4 * interval.high], rel=1e-9, abs=6e-4)
    differences = [10_000 * (a - b) for a, b in zip(first, second, strict=True)]
    assert paired_chance(differences) == pytest.approx(test.pvalue, rel=1e-9, abs=1e-12)


def test_blocks_of_one_day_give_what_independent_days_give() -> None:
    rng = random.Random(3)
    values = [rng.gauss(1.0, 20.0) for _ in range(300)]
    found = block_interval(values, 1, seed="one")
    middle, error = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(300)
    assert found.value == pytest.approx(middle)
    assert [found.low, found.high] == pytest.approx([middle - 1.96 * error, middle + 1.96 * error], abs=0.25 * error)
    assert block_interval(values, 1, seed="one") == found != block_interval(values, 1, seed="two")


def test_days_that_hang_together_widen_the_interval() -> None:
    rng = random.Random(4)
    runs = [shock for shock in (rng.gauss(0, 20) for _ in range(60)) for _ in range(6)]
    alone, blocks = (block_interval(runs, size, seed="runs") for size in (1, 7))
    assert (blocks.high - blocks.low) > 1.6 * (alone.high - alone.low)


def test_what_is_detectable_is_found_four_times_of_five() -> None:
    rng, hits = random.Random(9), 0
    effect = detectable_difference([rng.gauss(0, 20) for _ in range(2_000)]) * math.sqrt(2_000 / 100)
    for _ in range(300):
        hits += paired_chance([rng.gauss(effect, 20) for _ in range(100)]) < 0.05
    assert 0.72 <= hits / 300 <= 0.88


def test_two_alike_are_hardly_ever_told_apart() -> None:
    rng, claims = random.Random(11), 0
    for number in range(150):
        one, other = ([rng.gauss(0, 0.01) for _ in range(90)] for _ in range(2))
        found = paired_test(one, other, seed=str(number))
        assert found is not None
        claims += found.verdict != "not enough evidence"
    assert claims <= 15


def test_a_clear_difference_is_claimed_for_its_side_only_with_enough_days() -> None:
    rng = random.Random(12)
    base = [rng.gauss(0, 0.01) for _ in range(120)]
    better = [each + rng.gauss(0.004, 0.002) for each in base]
    forward, back = paired_test(better, base, seed="a"), paired_test(base, better, seed="a")
    assert forward is not None and back is not None
    assert (forward.verdict, back.verdict) == ("first", "second")
    assert forward.student_bps.value == pytest.approx(-back.student_bps.value, abs=2e-3)
    few = paired_test(better[:19], base[:19], seed="a")
    assert few is not None and few.student_bps.low > 0 and few.verdict == "not enough evidence"


def test_one_interval_alone_claims_nothing() -> None:
    split = 0
    for seed in range(40):
        rng = random.Random(seed)
        # Shocks that last six days: days by themselves look surer than they are.
        better = [shock for shock in (rng.gauss(0.004, 0.01) for _ in range(20)) for _ in range(6)]
        found = paired_test(better, [0.0] * 120, seed=str(seed))
        assert found is not None
        if found.student_bps.low > 0 > found.blocks_bps.low:
            split += 1
            assert found.verdict == "not enough evidence"
    assert split > 3


def test_one_day_says_nothing_and_a_zero_difference_is_none() -> None:
    assert paired_test([0.1], [0.2], seed="x") is None and paired_test([], [], seed="x") is None
    same = paired_test([0.01, -0.01] * 20, [0.01, -0.01] * 20, seed="x")
    assert same is not None and (same.chance, same.verdict, same.detectable_bps) == (1.0, "not enough evidence", 0.0)
    assert [block_days(n) for n in (1, 8, 27, 365)] == [1, 2, 3, 7]
