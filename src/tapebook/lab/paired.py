"""Two series of daily returns of one market, day by day: is their difference more than luck?

Two intervals of the mean difference must both exclude zero before anything is claimed: Student's, which takes days as
independent, and that of a circular block bootstrap, which keeps days that hang together in blocks. Beside them stands
the smallest true difference that so many days would probably have shown.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from tapebook.domain.estimate import Estimate, mean, student_cdf, student_quantile
from tapebook.lab.dice import below, throw
from tapebook.lab.result import fixed, rounded

RESAMPLES = 2_000
FEWEST_DAYS = 20
"""Days below which nothing is claimed, whatever the intervals say."""

DIGITS = 3
_LEVEL = 0.95
_POWER_Z = 0.8416212335729143

Verdict = Literal["first", "second", "not enough evidence"]


class Paired(msgspec.Struct, frozen=True):
    """The mean daily difference, first less second, in bps; `detectable_bps` is what a power of 80 of 100 needs."""

    days: int
    student_bps: Estimate
    blocks_bps: Estimate
    block_days: int
    chance: float
    detectable_bps: float
    verdict: Verdict


def paired(first: Sequence[float], second: Sequence[float], *, seed: str) -> Paired | None:
    """What the daily returns of two backtests say; None below two days."""
    gaps = [10_000 * (one - other) for one, other in zip(first, second, strict=True)]
    n = len(gaps)
    if n < 2:
        return None
    student, size = mean(gaps), block_days(n)
    blocks = block_interval(gaps, size, seed=seed)
    return Paired(
        days=n,
        student_bps=rounded(student, DIGITS),
        blocks_bps=rounded(blocks, DIGITS),
        block_days=size,
        chance=fixed(chance_of(gaps), 6),
        detectable_bps=fixed(detectable(gaps), DIGITS),
        verdict=_verdict(student, blocks),
    )


def block_days(n: int) -> int:
    """How long a block is: the cube root of the days, the usual rate at which it may grow."""
    return max(1, round(math.pow(n, 1 / 3)))


def block_interval(gaps: Sequence[float], size: int, *, seed: str) -> Estimate:
    """The mean with the interval of means of series put together from blocks, which may run over the end."""
    values, n = np.array(gaps), len(gaps)
    count = -(-n // size)
    starts = below(throw(seed, RESAMPLES * count), np.full(RESAMPLES * count, n)).reshape(RESAMPLES, count)
    places = (starts[:, :, None] + np.arange(size)).reshape(RESAMPLES, -1)[:, :n] % n
    low, high = np.quantile(values[places].mean(axis=1), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(math.fsum(gaps) / n, float(low), float(high), n)


def chance_of(gaps: Sequence[float]) -> float:
    """How likely a mean this far from zero is by luck alone: the paired t-test, two-sided."""
    n, middle, error = len(gaps), math.fsum(gaps) / len(gaps), _error(gaps)
    if error <= 0:
        return 1.0 if middle == 0 else 0.0
    return 2 * student_cdf(-abs(middle) / error, n - 1)


def detectable(gaps: Sequence[float]) -> float:
    """The true mean difference that a two-sided test at 5 of 100 finds with a power of 80 of 100."""
    return (student_quantile((1 + _LEVEL) / 2, len(gaps) - 1) + _POWER_Z) * _error(gaps)


def _error(gaps: Sequence[float]) -> float:
    n, middle = len(gaps), math.fsum(gaps) / len(gaps)
    return math.sqrt(math.fsum((gap - middle) ** 2 for gap in gaps) / (n - 1) / n)


def _verdict(*intervals: Estimate) -> Verdict:
    if intervals[0].n < FEWEST_DAYS:
        return "not enough evidence"
    if all(each.low > 0 for each in intervals):
        return "first"
    return "second" if all(each.high < 0 for each in intervals) else "not enough evidence"
