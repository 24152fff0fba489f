"""What a sample says of the truth: estimates with their n and interval, so that no bare rate is ever shown.

Plain Python floats in a fixed order of operations: the same numbers on every machine.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import msgspec

# Stands in for zero in a continued fraction, which divides by its terms.
_TINY = 1e-300
_LEVEL = 0.95
_Z_95 = 1.959963984540054
# The fraction settles within some tens of steps; more would mean that it does not.
_MOST_STEPS = 200


class Estimate(msgspec.Struct, frozen=True):
    """A value, the interval that holds the truth 95 times of 100, and how many observations it rests on."""

    value: float
    low: float
    high: float
    n: int


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean with its Student interval; without a second observation nothing is known of its spread."""
    n = len(values)
    if n < 2:
        return Estimate(math.fsum(values) if n else 0.0, -math.inf, math.inf, n)
    middle = math.fsum(values) / n
    half = student_quantile((1 + _LEVEL) / 2, n - 1) * math.sqrt(_variance(values, middle) / n)
    return Estimate(middle, middle - half, middle + half, n)


def rate_estimate(hits: int, n: int) -> Estimate:
    """A share with Wilson's interval, which is honest for small n and at the ends."""
    if n == 0:
        return Estimate(0.0, 0.0, 1.0, 0)
    share, z2 = hits / n, _Z_95 * _Z_95
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return Estimate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)), n)


def mean_difference(one: Sequence[float], other: Sequence[float]) -> tuple[Estimate, float]:
    """How far two means are apart (Welch's interval; n of the first), and the p-value; nothing is known below two."""
    if len(one) < 2 or len(other) < 2:
        return Estimate(0.0, -math.inf, math.inf, len(one)), 1.0
    middle, second = math.fsum(one) / len(one), math.fsum(other) / len(other)
    a, b = _variance(one, middle) / len(one), _variance(other, second) / len(other)
    spread, gap = a * a / (len(one) - 1) + b * b / (len(other) - 1), middle - second
    if spread < _TINY:
        return Estimate(gap, gap, gap, len(one)), 1.0 if gap == 0 else 0.0
    freedom, error = (a + b) ** 2 / spread, math.sqrt(a + b)
    half = student_quantile((1 + _LEVEL) / 2, freedom) * error
    return Estimate(gap, gap - half, gap + half, len(one)), 2 * student_cdf(-abs(gap) / error, freedom)


def mean_p_value(values: Sequence[float]) -> float:
    """How likely a mean is this far from zero by luck alone: Student's test, two-sided; 1 below two observations."""
    n = len(values)
    if n < 2:
        return 1.0
    middle = math.fsum(values) / n
    error = math.sqrt(_variance(values, middle) / n)
    if error < _TINY:
        return 1.0 if middle == 0 else 0.0
    return 2 * student_cdf(-abs(middle) / error, n - 1)


def holm(chances: Sequence[float], *, error: float) -> list[bool]:
    """Which of many tests may be believed when the chance that any of them is luck may be this large (Holm 1979)."""
    believed = [False] * len(chances)
    for place, at in enumerate(sorted(range(len(chances)), key=lambda at: chances[at])):
        if chances[at] > error / (len(chances) - place):
            break
        believed[at] = True
    return believed


def benjamini_hochberg(chances: Sequence[float], *, false_share: float) -> list[bool]:
    """Which of many tests may be believed when at most this share of them may be luck (Benjamini and Hochberg)."""
    ranked = sorted(range(len(chances)), key=lambda at: chances[at])
    last = 0
    for place, at in enumerate(ranked, start=1):
        if chances[at] <= false_share * place / len(chances):
            last = place
    believed = set(ranked[:last])
    return [at in believed for at in range(len(chances))]


def student_cdf(t: float, freedom: float) -> float:
    """The chance that a Student variable lies below t."""
    square = freedom + t * t
    tail = 0.5 * _incomplete_beta(freedom / square, t * t / square, freedom / 2, 0.5)
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4_096)
def student_quantile(chance: float, freedom: float) -> float:
    """The t below which a Student variable lies with this chance, by Newton's method; remembered all the same.

    A normal variable has the lighter tails, so its quantile lies before t; from there on the curve bends down, and
    every step ends at t or before it. A step back is the rounding of the last digit.
    """
    if chance < 0.5:
        return -student_quantile(1 - chance, freedom)
    t = NormalDist().inv_cdf(chance)
    for _ in range(_MOST_STEPS):
        further = t + (chance - student_cdf(t, freedom)) / _student_density(t, freedom)
        if further <= t:
            break
        t = further
    return t


def _student_density(t: float, freedom: float) -> float:
    front = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    return math.exp(front - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def _variance(values: Sequence[float], middle: float) -> float:
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function at x; `rest` is 1 - x."""
    # Given, since the subtraction would lose digits near one.
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    # The continued fraction converges fast on one side of the bulk only.
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _beta_continued_fraction(x, a, b) / a
    return 1 - math.exp(log_front) * _beta_continued_fraction(rest, b, a) / b


def _beta_continued_fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation: numerator and denominator grow together, so neither overflows."""
    first = 1 - (a + b) * x / (a + 1)
    c, d = 1.0, 1 / (first if abs(first) > _TINY else _TINY)
    result = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            below, c = 1 + step * d, 1 + step / c
            d = 1 / (below if abs(below) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            result *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return result
