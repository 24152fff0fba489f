"""Records: how providers, regimes, assets and stated confidences did, as integer sums that can be added.

A record is (n, wins, Σ result, Σ result², Σ money) with results in millionths of the notional
entered. Sums do not depend on the order of outcomes, two records of one key can be merged, and the
record of a stretch of time is a difference of two versions.

Who is credited with what:

    the engine of the run, the regime, the asset, all      the trade's net result
    a member that voted for the side that was traded       the same
    a member that voted for the other side                 the negative of the result before costs
    a member that voted to hold or to close                nothing

Costs are left out of the mirrored result, since the trade it stands for never paid them.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import sqrt
from operator import mul

import msgspec

from tapebook.domain.estimate import Estimate, rate, student_quantile
from tapebook.experience.calibration import bucket_of
from tapebook.experience.outcomes import PPM, Outcome

ALL, PROVIDER, REGIME, ASSET = "all", "provider", "regime", "asset"
PROVIDER_REGIME, CONFIDENCE = "provider_regime", "confidence"
LONG, SHORT = "long", "short"
KINDS = (ALL, PROVIDER, REGIME, ASSET, PROVIDER_REGIME, CONFIDENCE)
PPM_PER_BP = PPM // 10_000
_TWO_SIDED = 0.975

Key = tuple[str, str]


class Credit(msgspec.Struct, frozen=True):
    """A result that counts for one record."""

    kind: str
    name: str
    result_ppm: int
    usd_e6: int


class Record(msgspec.Struct, frozen=True, array_like=True):
    """The sums of one key."""

    kind: str
    name: str
    n: int = 0
    wins: int = 0
    total_ppm: int = 0
    square_ppm2: int = 0
    usd_e6: int = 0

    @property
    def key(self) -> Key:
        """What it is the record of."""
        return self.kind, self.name

    @property
    def mean_bps(self) -> Estimate:
        """The mean result with its Student interval; without a second trade nothing is known of its spread."""
        if not self.n:
            return Estimate(0.0, -float("inf"), float("inf"), 0)
        middle = self.total_ppm / (self.n * PPM_PER_BP)
        if self.n < 2:
            return Estimate(middle, -float("inf"), float("inf"), self.n)
        half = _quantile(self.n) * self.deviation_ppm / PPM_PER_BP / sqrt(self.n)
        return Estimate(middle, middle - half, middle + half, self.n)

    @property
    def deviation_ppm(self) -> float:
        """The standard deviation of one result (n − 1)."""
        if self.n < 2:
            return 0.0
        return sqrt((self.n * self.square_ppm2 - self.total_ppm**2) / (self.n * (self.n - 1)))

    @property
    def win_rate(self) -> Estimate:
        """The share of wins with Wilson's interval."""
        return rate(self.wins, self.n)


def merged(one: Record, other: Record, *, sign: int = 1, name: str | None = None) -> Record:
    """Two records of one key as one; with sign -1, what `one` has beyond `other`, under a name of its own if given."""
    return Record(
        one.kind,
        one.name if name is None else name,
        one.n + sign * other.n,
        one.wins + sign * other.wins,
        one.total_ppm + sign * other.total_ppm,
        one.square_ppm2 + sign * other.square_ppm2,
        one.usd_e6 + sign * other.usd_e6,
    )


def by_side(sides: Sequence[int], results_ppm: Sequence[int]) -> tuple[Record, Record, Record]:
    """Results in millionths as records: all, those long (1) and those short (-1)."""
    every = _summed("", results_ppm)
    long = _summed(LONG, [ppm for ppm, side in zip(results_ppm, sides, strict=True) if side > 0])
    return every, long, merged(every, long, sign=-1, name=SHORT)


def _summed(side: str, results_ppm: Sequence[int]) -> Record:
    # By functions of the language itself, since every decision asks.
    total, wins = sum(results_ppm), sum(map((0).__lt__, results_ppm))
    return Record("similar", side, len(results_ppm), wins, total, sum(map(mul, results_ppm, results_ppm)), total)


def with_credit(record: Record, credit: Credit) -> Record:
    """A record after one more result."""
    result = credit.result_ppm
    return merged(record, Record(*record.key, 1, int(credit.usd_e6 > 0), result, result * result, credit.usd_e6))


def gap_bps(one: Record, other: Record) -> Estimate | None:
    """By how much the mean of one record lies above another's, with Welch's interval; None when nothing can be said."""
    if one.n < 2 or other.n < 2:
        return None
    a, b = ((each.deviation_ppm / PPM_PER_BP) ** 2 / each.n for each in (one, other))
    if a + b <= 0:
        return None
    freedom = (a + b) ** 2 / (a * a / (one.n - 1) + b * b / (other.n - 1))
    gap = (one.total_ppm / one.n - other.total_ppm / other.n) / PPM_PER_BP
    half = student_quantile(_TWO_SIDED, freedom) * sqrt(a + b)
    return Estimate(gap, gap - half, gap + half, one.n)


def within(provider: str, regime: str) -> str:
    """The name of a provider's record in one regime."""
    return f"{provider} in {regime}"


def credits_of(outcome: Outcome) -> list[Credit]:
    """Everything an outcome counts for."""
    result, usd = outcome.result_ppm, outcome.net_usd_e6
    found = [
        Credit(ALL, "", result, usd),
        Credit(REGIME, outcome.regime, result, usd),
        Credit(ASSET, outcome.symbol, result, usd),
    ]
    if outcome.confidence_e4 is not None:
        found.append(Credit(CONFIDENCE, bucket_of(outcome.confidence_e4), result, usd))
    if outcome.provider:
        found += _of_provider(outcome.provider, outcome.regime, result, usd_e6=usd)
    for vote in outcome.votes:
        if vote.action not in ("open", "adjust") or vote.side is None:
            continue
        with_us = vote.side == outcome.side
        earned = (result, usd) if with_us else (-outcome.gross_ppm, -outcome.gross_usd_e6)
        found += _of_provider(vote.provider, outcome.regime, earned[0], usd_e6=earned[1])
    return found


def learned(known: Mapping[Key, Record], outcome: Outcome) -> tuple[Record, ...]:
    """The next version of every record an outcome counts for, by key; `known` may lack those that begin with it."""
    new: dict[Key, Record] = {}
    for credit in credits_of(outcome):
        key = (credit.kind, credit.name)
        new[key] = with_credit(new.get(key) or known.get(key) or Record(*key), credit)
    return tuple(new[key] for key in sorted(new))


def recomputed(outcomes: Iterable[Outcome]) -> dict[Key, Record]:
    """All records of some outcomes from scratch."""
    known: dict[Key, Record] = {}
    for outcome in outcomes:
        known |= {record.key: record for record in learned(known, outcome)}
    return known


def _of_provider(provider: str, regime: str, result_ppm: int, *, usd_e6: int) -> list[Credit]:
    names = ((PROVIDER, provider), (PROVIDER_REGIME, within(provider, regime)))
    return [Credit(kind, name, result_ppm, usd_e6) for kind, name in names]


@lru_cache(maxsize=1_024)
def _quantile(n: int) -> float:
    # Two digits of the degrees of freedom, rounded down: a little wide, and few enough to be remembered.
    freedom, step = n - 1, 1
    while freedom >= 100:
        freedom, step = freedom // 10, step * 10
    return student_quantile(_TWO_SIDED, freedom * step)
