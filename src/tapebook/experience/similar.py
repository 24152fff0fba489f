"""What is similar to a moment of the market: other moments with what came after them, and own trades.

Windows of neighbours may overlap, and what overlaps is not independent: two windows of one length h that begin d apart
share 1 − d / h of their steps, and that is the correlation of their moves. The mean of n moves with correlations ρ has
the variance of n² / Σ ρ independent ones. `move_estimate` counts so many, and takes its interval from them.
"""

import math
from collections.abc import Sequence
from operator import sub

import msgspec

from tapebook.domain.estimate import student_quantile
from tapebook.domain.units import DAY, HOUR
from tapebook.experience.features import FeatureVector
from tapebook.experience.records import PPM_PER_BP

MOVE_SPANS = (HOUR, 4 * HOUR, DAY)
"""After which times it is looked what the market did."""
# Both ends of a 95 % interval.
_TWO_SIDED = 0.975


class MoveEstimate(msgspec.Struct, frozen=True):
    """What the market did in a span after similar moments, in basis points: the mean and its 95 % interval.

    `n` moments were counted, which say as much as `independent` ones whose windows do not overlap.
    """

    span_ms: int
    mean_bps: float
    low_bps: float
    high_bps: float
    n: int
    independent: float


class SimilarMoment(msgspec.Struct, frozen=True):
    """A past moment by its time and symbol, its squared distance, and the moves after it in millionths."""

    symbol: str
    at: int
    distance: int
    moves_ppm: tuple[int | None, ...]


class MomentNeighbours(msgspec.Struct, frozen=True):
    """The most similar of `searched` moments, nearest first; `usual` is the distance that 99 of 100 have to theirs.

    `until` is how many had joined by then, and `oldest` the place of the one among them that joined first.
    """

    moments: tuple[SimilarMoment, ...]
    searched: int
    usual: int
    until: int = 0
    oldest: int = 0

    @property
    def is_novel(self) -> bool:
        """Whether nothing like this was seen before."""
        return not self.moments or self.moments[0].distance > self.usual

    @property
    def times_usual(self) -> float:
        """How far the nearest one is, in usual distances."""
        return math.sqrt(self.moments[0].distance / max(self.usual, 1)) if self.moments else math.inf

    def move_estimates(self) -> tuple[MoveEstimate, ...]:
        """What the market did after them, one estimate for each span with two moves or more that are independent."""
        found: list[MoveEstimate] = []
        starts = [each.at for each in self.moments]
        ordered = sorted(starts)
        gap = min(map(sub, ordered[1:], ordered), default=0)
        for span, moves in zip(MOVE_SPANS, zip(*[each.moves_ppm for each in self.moments], strict=True), strict=False):
            if None in moves:
                known = [(at, move) for at, move in zip(starts, moves, strict=True) if move is not None]
                estimate = move_estimate([at for at, _ in known], [move for _, move in known], span=span)
            else:
                # In the order of time, which no sum here depends on: the next span need not sort them again.
                estimate = move_estimate(ordered, moves, span=span, gap=gap)
            if estimate is not None:
                found.append(estimate)
        return tuple(found)


def independent_count(starts: Sequence[int], span: int, *, gap: int = 0) -> float:
    """How many windows that do not overlap say as much as these, which begin at some moments and last a span.

    No two of them begin nearer to one another than a `gap` apart.
    """
    if not starts:
        return 0.0
    n = len(starts)
    if gap >= span:
        # Neighbours are hours apart, so that short windows mostly do not overlap.
        return float(n)
    ordered, shared = sorted(starts), 0.0
    for place, start in enumerate(ordered, 1):
        for later in ordered[place:]:
            if later - start >= span:
                break
            shared += 1 - (later - start) / span
    return n**2 / (n + 2 * shared)


def move_estimate(starts: Sequence[int], moves_ppm: Sequence[int], *, span: int, gap: int = 0) -> MoveEstimate | None:
    """The mean of moves over windows that may overlap, if none begins nearer to another than a `gap` apart.

    None where they say less than two independent ones.
    """
    n, independent = len(starts), independent_count(starts, span, gap=gap)
    if independent < 2:
        return None
    mean = sum(moves_ppm) / n
    # Moves that hang together spread less around their own mean than around the true one; n / independent is by how
    # much, as n − 1 is for independent ones.
    variance = math.fsum([(each - mean) ** 2 for each in moves_ppm]) / (n - n / independent)
    half = student_quantile(_TWO_SIDED, math.floor(independent) - 1) * math.sqrt(variance / independent)
    low, high = (mean - half) / PPM_PER_BP, (mean + half) / PPM_PER_BP
    return MoveEstimate(span, mean / PPM_PER_BP, low, high, n, independent)


class PastTrade(msgspec.Struct, frozen=True):
    """An own trade that ended: what it was, its result in millionths, and what the decision saw that entered it."""

    seq: int
    symbol: str
    side: int
    entered_at: int
    result_ppm: int
    vector: FeatureVector


class SimilarPast(msgspec.Struct, frozen=True):
    """What is most alike to a moment: other moments, and own trades nearest first with their squared distances."""

    moments: MomentNeighbours
    trades: tuple[tuple[int, PastTrade], ...] = ()

    def tells_as(self, other: "SimilarPast | None") -> bool:
        """Whether a packet says the same of both; how many moments were searched it says only when none is near."""
        if other is None or self.moments.is_novel:
            return False
        return self.moments.moments is other.moments.moments and self.trades is other.trades
