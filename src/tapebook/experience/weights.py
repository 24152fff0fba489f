"""How much a provider's word counts in an ensemble: 1 without evidence, between 0.5 and 1.5 with it.

    elsewhere = Σ results in other regimes / (n there + prior)
    expected  = (Σ results in this regime + prior × elsewhere) / (n here + prior)
    weight    = 1 + expected / scale, kept within 0.5 and 1.5

This is the posterior mean of a normal prior around zero, whose strength is `prior` trades, and of a
second one that draws the record in a regime towards the record elsewhere. `scale` is the root mean
square of all results of the deployment: a provider whose trades earn a fifth of it weighs 1.20.
One scale for all keeps the order of providers that of their results.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

from tapebook.domain.memory import ExperienceRow
from tapebook.experience.records import ALL, PROVIDER, PROVIDER_REGIME, Key, Record, within

MOST_SHIFT = 0.5


def weight(overall: Record, here: Record, *, scale_ppm: float, prior: float) -> float:
    """A provider's weight from its record in all and in the regime at hand; never falls as the results rise."""
    if scale_ppm <= 0:
        return 1.0
    elsewhere = (overall.total_ppm - here.total_ppm) / (overall.n - here.n + prior)
    expected = (here.total_ppm + prior * elsewhere) / (here.n + prior)
    return 1 + max(-MOST_SHIFT, min(MOST_SHIFT, expected / scale_ppm))


def scale_ppm(records: Mapping[Key, Record]) -> float:
    """The root mean square of all results; 0 when there are none."""
    every = records.get((ALL, ""))
    return sqrt(every.square_ppm2 / every.n) if every and every.n else 0.0


def weight_rows(
    records: Mapping[Key, Record], providers: Sequence[str], *, regime: str, prior: float
) -> tuple[ExperienceRow, ...]:
    """The rows an ensemble reads, such as ("provider", "trend", "1.20"), in the order of the providers."""
    scale = scale_ppm(records)
    rows = []
    for name in providers:
        overall = records.get((PROVIDER, name), Record(PROVIDER, name))
        here = records.get((PROVIDER_REGIME, within(name, regime)), Record(PROVIDER_REGIME, within(name, regime)))
        rows.append(ExperienceRow("provider", name, f"{weight(overall, here, scale_ppm=scale, prior=prior):.2f}"))
    return tuple(rows)
