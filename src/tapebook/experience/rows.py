"""Experience as rows of a packet, the most important first. Every rate and mean carries n and interval, or is left out.

1. the weights an ensemble reads;
2. situations like this one and how they ended, or that there is none;
3. records: providers in this regime, the regime, the asset, the recent past, stated confidence.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from tapebook.domain.estimate import Estimate, rate
from tapebook.domain.memo import Memo
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
    by_side,
    within,
)
from tapebook.experience.weights import weight_rows

if TYPE_CHECKING:
    # It brings numpy, which `tapebook --help` has no use for.
    from tapebook.experience.situations import Company

FEWEST_SHOWN = 5
FEWEST_CALIBRATED = 20
_MOST_BUCKETS = 3


class Question(msgspec.Struct, frozen=True):
    """What a decision is about; `providers` are the members of its ensemble, or its engine."""

    as_of: int
    symbol: str
    regime: str
    providers: tuple[str, ...]


class StandingRows(msgspec.Struct, frozen=True):
    """The rows that hold until the next outcome is learned: before, between and after those that change every time."""

    weights: tuple[ExperienceRow, ...]
    here: tuple[ExperienceRow, ...]
    rest: tuple[ExperienceRow, ...]


def standing_rows(question: Question, records: Mapping[Key, Record], *, prior: float) -> StandingRows:
    """What the records say, whenever it is asked."""
    regime, providers = question.regime, question.providers
    here = [(within(name, regime), records.get((PROVIDER_REGIME, within(name, regime)))) for name in providers]
    here += [(regime, records.get((REGIME, regime))), (question.symbol, records.get((ASSET, question.symbol)))]
    return StandingRows(
        weights=weight_rows(records, providers, regime=regime, prior=prior),
        here=tuple(row for name, record in here for row in record_rows(name, record)),
        rest=(
            *_calibration(records, prior),
            *(row for name in providers for row in record_rows(name, records.get((PROVIDER, name)))),
        ),
    )


def experience_rows(standing: StandingRows, *, company: "Company | None", recent: Record) -> tuple[ExperienceRow, ...]:
    """Everything there is to say to a decision."""
    return _joined((standing, _similar(company) if company else (), record_rows(recent.name, recent)))


def _join(said: tuple[StandingRows, tuple[ExperienceRow, ...], tuple[ExperienceRow, ...]]) -> tuple[ExperienceRow, ...]:
    standing, similar, recent = said
    return (*standing.weights, *similar, *standing.here, *recent, *standing.rest)


# The rows of before as long as they say the same: whoever shows them sees at once that nothing changed.
_joined = Memo(_join)


def bps_text(mean: Estimate) -> str:
    """A mean result, such as `+12.1 bps a trade (n=34, 95% +3.0 to +21.2)`; below two trades there is no interval."""
    if mean.n < 2:
        return f"too few trades (n={mean.n})"
    value, low, high = _signed(mean.value), _signed(mean.low), _signed(mean.high)
    return f"{value} bps a trade (n={mean.n}, 95% {low} to {high})"


def rate_text(share: Estimate) -> str:
    """A hit rate, such as `won 61% (n=34, 95% 45% to 75%)`."""
    return f"won {share.value:.0%} (n={share.n}, 95% {share.low:.0%} to {share.high:.0%})"


@lru_cache(maxsize=4_096)
def _won_text(wins: int, n: int) -> str:
    return rate_text(rate(wins, n))


def _similar(company: "Company") -> tuple[ExperienceRow, ...]:
    if company.unlike:
        far = f"the nearest of {company.searched} situations is {company.times_usual:.1f} times as far as is usual"
        return (ExperienceRow("similar", "none", f"unlike anything seen: {far}"),)
    return _ended(company.sides, company.results_ppm)


def _ended(sides: tuple[int, ...], results_ppm: tuple[int, ...]) -> tuple[ExperienceRow, ...]:
    """How neighbours ended: all of them, and where some were long and some short, each side with enough of them."""
    every, long, short = by_side(sides, results_ppm)
    rows = [_ended_row(f"{every.n} nearest", every)] if every.n >= FEWEST_SHOWN else []
    for name, record in (("those long", long), ("those short", short)):
        if FEWEST_SHOWN <= record.n < every.n:
            rows.append(_ended_row(name, record))
    return tuple(rows)


@lru_cache(maxsize=256)
def _ended_row(name: str, record: Record) -> ExperienceRow:
    """Cached, since a few minutes later most neighbours are the same, if in another order."""
    return ExperienceRow("similar", name, f"{bps_text(record.mean_bps)}; {_won_text(record.wins, record.n)}")


@lru_cache(maxsize=4_096)
def record_rows(name: str, record: Record | None) -> tuple[ExperienceRow, ...]:
    """The row of a record, if there is enough of it; few records change between two decisions."""
    if record is None or record.n < FEWEST_SHOWN:
        return ()
    return (ExperienceRow("record", name, bps_text(record.mean_bps)),)


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
