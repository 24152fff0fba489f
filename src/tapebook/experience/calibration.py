"""Confidence against what became of it: hit rates per bucket of stated confidence, with n and interval.

Pairs exist from the exit on, since they are records of outcomes (kind `confidence`). The curve is
shrunk towards the overall rate and made monotone (pool adjacent violators): a higher confidence
never stands for a lower rate by the luck of small buckets.
"""

from collections.abc import Sequence

import msgspec

from tapebook.domain.estimate import Estimate, rate

BUCKETS = 10
_ONE_E4 = 10_000


class Point(msgspec.Struct, frozen=True):
    """One bucket: the observed rate, and the one to believe."""

    bucket: str
    observed: Estimate
    believed: float


def bucket_of(confidence_e4: int) -> str:
    """The bucket of a confidence, such as `0.6-0.7`; the highest holds 1.0 too."""
    place = min(max(confidence_e4, 0) * BUCKETS // _ONE_E4, BUCKETS - 1)
    return f"{place / BUCKETS:.1f}-{(place + 1) / BUCKETS:.1f}"


def curve(counts: Sequence[tuple[str, int, int]], *, prior: float) -> tuple[Point, ...]:
    """The curve of (bucket, n, wins): buckets without trades have no point."""
    filled = sorted((bucket, n, wins) for bucket, n, wins in counts if n)
    if not filled:
        return ()
    overall = sum(wins for *_, wins in filled) / sum(n for _, n, _ in filled)
    shrunk = [(wins + prior * overall) / (n + prior) for _, n, wins in filled]
    believed = isotonic(shrunk, [n + prior for _, n, _ in filled])
    return tuple(
        Point(bucket, rate(wins, n), level) for (bucket, n, wins), level in zip(filled, believed, strict=True)
    )


def calibrated(points: Sequence[Point], confidence_e4: int) -> float | None:
    """What a confidence has been worth: the believed rate of the nearest bucket that has one; None without any."""
    if not points:
        return None
    wanted = float(bucket_of(confidence_e4)[:3])
    return min(points, key=lambda point: (abs(float(point.bucket[:3]) - wanted), point.bucket)).believed


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to the values in weighted squares."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (low, low_weight, low_count), (high, high_weight, high_count) = pools[-2:]
            total = low_weight + high_weight
            pools[-2:] = [((low * low_weight + high * high_weight) / total, total, low_count + high_count)]
    return [value for value, _, count in pools for _ in range(count)]
