"""Experience as rows of a packet, the most important first. Every rate and mean carries n and interval, or is left out.

1. the weights an ensemble reads;
2. situations like this one and how they ended, or that there is none;
3. records: providers in this regime, the regime, the asset, the recent past, stated confidence.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tapebook.domain.estimate import Estimate
from tapebook.domain.memory import ExperienceRow
from tapebook.experience.calibration import curve
from tapebook.experience.records import (
    ASSET,
    CONFIDENCE,
    PROVIDER,
    PROVIDER_REGIME,
    REGIME,
    Key,
    Record,
    within,
)
from tapebook.experience.weights import weight_rows

if TYPE_CHECKING:
    # It brings numpy, which `tapebook --help` has no use for.
    from tapebook.experience.situations import Nearest

FEWEST_SHOWN = 5
FEWEST_CALIBRATED = 20
_MOST_BUCKETS = 3


class Question(msgspec.Struct, frozen=True):
    """What a decision is about; `providers` are the members of its ensemble, or its engine."""

    as_of: int
    symbol: str
    regime: str
    providers: tuple[str, ...]


def experience_rows(
    question: Question, records: Mapping[Key, Record], *, nearest: "Nearest | None", recent: Record, prior: float
) -> tuple[ExperienceRow, ...]:
    """Everything there is to say to a decision."""
    weights = weight_rows(records, question.providers, regime=question.regime, prior=prior)
    shown = [*weights, *(_similar(nearest) if nearest else ())]
    for name in question.providers:
        shown += _record(within(name, question.regime), records.get((PROVIDER_REGIME, within(name, question.regime))))
    shown += _record(question.regime, records.get((REGIME, question.regime)))
    shown += _record(question.symbol, records.get((ASSET, question.symbol)))
    shown += _record(recent.name, recent)
    shown += _calibration(records, prior)
    for name in question.providers:
        shown += _record(name, records.get((PROVIDER, name)))
    return tuple(shown)


def bps_text(mean: Estimate) -> str:
    """A mean result, such as `+12.1 bps a trade (n=34, 95% +3.0 to +21.2)`; below two trades there is no interval."""
    if mean.n < 2:
        return f"too few trades (n={mean.n})"
    value, low, high = _signed(mean.value), _signed(mean.low), _signed(mean.high)
    return f"{value} bps a trade (n={mean.n}, 95% {low} to {high})"


def rate_text(share: Estimate) -> str:
    """A hit rate, such as `won 61% (n=34, 95% 45% to 75%)`."""
    return f"won {share.value:.0%} (n={share.n}, 95% {share.low:.0%} to {share.high:.0%})"


def _similar(nearest: "Nearest") -> list[ExperienceRow]:
    if nearest.unlike:
        far = f"the nearest of {nearest.searched} situations is {nearest.times_usual:.1f} times as far as is usual"
        return [ExperienceRow("similar", "none", f"unlike anything seen: {far}")]
    rows = []
    for name, side in ((f"{len(nearest.neighbours)} nearest", ""), ("those long", "long"), ("those short", "short")):
        record = nearest.record(side)
        if record.n >= FEWEST_SHOWN and not (side and record.n == len(nearest.neighbours)):
            value = f"{bps_text(record.mean_bps)}; {rate_text(record.win_rate)}"
            rows.append(ExperienceRow("similar", name, value))
    return rows


def _record(name: str, record: Record | None) -> list[ExperienceRow]:
    if record is None or record.n < FEWEST_SHOWN:
        return []
    return [ExperienceRow("record", name, bps_text(record.mean_bps))]


def _calibration(records: Mapping[Key, Record], prior: float) -> list[ExperienceRow]:
    """The buckets of stated confidence with the most trades, in the order of confidence."""
    counts = [(record.name, record.n, record.wins) for record in records.values() if record.kind == CONFIDENCE]
    enough = [point for point in curve(counts, prior=prior) if point.observed.n >= FEWEST_CALIBRATED]
    largest: Sequence[str] = [
        point.bucket for point in sorted(enough, key=lambda point: -point.observed.n)[:_MOST_BUCKETS]
    ]
    return [
        ExperienceRow("record", f"confidence {point.bucket}", rate_text(point.observed))
        for point in enough
        if point.bucket in largest
    ]


def _signed(value: float) -> str:
    text = f"{value:+.1f}"
    return "+0.0" if text == "-0.0" else text
