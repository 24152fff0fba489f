"""The rows of experience that a packet shows, and their words.

Pure functions of records and of what is similar. Every rate and mean carries n and its interval, or is left out, and a
row is short enough that no packet cuts it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from tapebook.domain.agent import ExperienceRow
from tapebook.domain.estimate import Estimate, rate_estimate
from tapebook.domain.packet import AnalogFacts
from tapebook.domain.units import HOUR, minute_text
from tapebook.experience.features import FeatureVector
from tapebook.experience.records import (
    ASSET,
    CONFIDENCE,
    LONG,
    PPM_PER_BP,
    PROVIDER,
    PROVIDER_REGIME,
    REGIME,
    SHORT,
    Record,
    RecordKey,
    calibration_curve,
    provider_in_regime,
    records_by_side,
    weight_rows,
)
from tapebook.experience.similar import MOVE_SPANS, MoveEstimate, SimilarMoment, SimilarPast

if TYPE_CHECKING:
    # It brings numpy, which only a search or a fit needs: `tapebook --help` starts without it.
    from tapebook.experience.situations import Neighbours


# Below five trades an interval spans everything, and a row would cost tokens to say nothing.
FEWEST_SHOWN = 5
# With fewer trades the interval of a rate is more than forty points wide.
FEWEST_CALIBRATED = 20
_MOST_BUCKETS = 3
ANALOG_SPAN = 4 * HOUR
"""How far ahead an engine looks: an hour seldom pays its costs, and days of a few weeks are too few to tell."""


class ExperienceQuery(msgspec.Struct, frozen=True):
    """What a decision is about; `providers` are the members of its ensemble, or its engine.

    `moment` is the vector of the market, None where it has no bars. `held` is 1 for a long in the symbol and -1 for a
    short: what is held says for whom moves are good, and no moment is more alike because of it.
    """

    as_of: int
    symbol: str
    regime: str
    providers: tuple[str, ...]
    moment: FeatureVector | None = None
    held: int = 0


class PacketExperience(msgspec.Struct, frozen=True):
    """What a decision is told: the rows of its packet, and what the market did after moments like this one.

    `moves` is empty where nothing like it was seen; `analog` has that of `ANALOG_SPAN` for engines, with what entering
    and leaving costs.
    """

    rows: tuple[ExperienceRow, ...] = ()
    moves: tuple[MoveEstimate, ...] = ()
    analog: AnalogFacts | None = None


class StableRows(msgspec.Struct, frozen=True):
    """The rows that hold until the next outcome is learned: before, between and after those that change every time.

    A packet that looks back is told no such weights: those of its members are what their twins have earned.
    """

    weights: tuple[ExperienceRow, ...]
    here: tuple[ExperienceRow, ...]
    rest: tuple[ExperienceRow, ...]


def stable_rows(question: ExperienceQuery, records: Mapping[RecordKey, Record], *, prior: float) -> StableRows:
    """What the records say, whenever it is asked."""
    regime, providers = question.regime, question.providers
    asset = record_rows(question.symbol, records.get((ASSET, question.symbol)))
    return StableRows(
        weights=weight_rows(records, providers, regime=regime, prior=prior),
        here=(*regime_rows(regime, providers, records), *asset),
        rest=overall_rows(providers, records, prior=prior),
    )


def regime_rows(
    regime: str, providers: Sequence[str], records: Mapping[RecordKey, Record]
) -> tuple[ExperienceRow, ...]:
    """What the records say of a regime: of each provider in it, and of all together."""
    rows: list[ExperienceRow] = []
    for provider in providers:
        name = provider_in_regime(provider, regime)
        rows += record_rows(name, records.get((PROVIDER_REGIME, name)))
    return (*rows, *record_rows(regime, records.get((REGIME, regime))))


def overall_rows(
    providers: Sequence[str], records: Mapping[RecordKey, Record], *, prior: float
) -> tuple[ExperienceRow, ...]:
    """What the records say wherever a decision is made: of stated confidence, and of each provider."""
    rows = _calibration_rows(records, prior)
    for name in providers:
        rows += record_rows(name, records.get((PROVIDER, name)))
    return tuple(rows)


def similar_experience(past: SimilarPast, *, held: int, costs_bps: float) -> PacketExperience:
    """What the market did after similar moments, for the side that is held if one is, and how similar trades ended."""
    near = past.moments
    if near.is_novel:
        far = f"the nearest of {near.searched:,} moments is {near.times_usual:.1f} times as far as is usual"
        return PacketExperience((ExperienceRow("similar", "none", f"unlike anything seen: {far}"),))
    estimates = near.move_estimates()
    rows = [_move_row(each, held, costs_bps) for each in estimates]
    rows.append(_nearest_moment_row(near.moments[0]))
    trades = [trade for distance, trade in past.trades if distance <= near.usual]
    sides, results = tuple(each.side for each in trades), tuple(each.result_ppm for each in trades)
    rows += _neighbour_rows(sides, results, nearest="nearest trades")
    if trades:
        nearest = trades[0]
        side, result = LONG if nearest.side > 0 else SHORT, _signed_text(nearest.result_ppm / PPM_PER_BP)
        when = minute_text(nearest.entered_at)
        rows.append(ExperienceRow("similar", "nearest trade", f"{nearest.symbol} {side} {when}: {result} bps net"))
    analog = None
    for each in estimates:
        if each.span_ms == ANALOG_SPAN:
            figures = each.mean_bps, each.low_bps, each.high_bps, each.independent
            analog = AnalogFacts(*figures, horizon_ms=each.span_ms, costs_bps=costs_bps)
    return PacketExperience(tuple(rows), estimates, analog)


def _nearest_moment_row(first: SimilarMoment) -> ExperienceRow:
    moves = [
        f"{_span_text(span)} {_whole_text(move / PPM_PER_BP)}"
        for span, move in zip(MOVE_SPANS, first.moves_ppm, strict=True)
        if move is not None
    ]
    text = f"{first.symbol} {minute_text(first.at)}: {', '.join(moves)} bps"
    return ExperienceRow("similar", "nearest moment", text)


def _move_row(move: MoveEstimate, held: int, costs_bps: float) -> ExperienceRow:
    """What the market did in a span: the gain of the side that is held, or else with what trading it would leave."""
    sign = held or 1
    mean, low, high = sign * move.mean_bps, *sorted((sign * move.low_bps, sign * move.high_bps))
    known = f"95% {_whole_text(low)} to {_whole_text(high)}, n={move.n}, {move.independent:.0f} independent"
    name = f"next {_span_text(move.span_ms)}"
    if held:
        side = LONG if held > 0 else SHORT
        return ExperienceRow("similar", f"{name} for the {side} held", f"{_whole_text(mean)} bps ({known})")
    side, left = (LONG if mean > 0 else SHORT), _whole_text(abs(mean) - costs_bps)
    return ExperienceRow("similar", name, f"{_whole_text(mean)} bps ({known}); {side} {left} after costs")


def _whole_text(bps: float) -> str:
    # Whole ones: a decimal of such a mean says nothing, and three rows must leave room for the records.
    return f"{round(bps):+d}"


def _span_text(span_ms: int) -> str:
    return f"{span_ms // HOUR} h"


_RowGroups = tuple[StableRows, tuple[ExperienceRow, ...], tuple[ExperienceRow, ...]]
"""Rows that hold until the next outcome, those of what is similar, and that of the recent past."""


def joined_rows(groups: _RowGroups) -> tuple[ExperienceRow, ...]:
    """All rows of experience for a packet, the most important first."""
    stable, similar, recent = groups
    return (*stable.weights, *similar, *stable.here, *recent, *stable.rest)


def experience_rows(
    stable: StableRows,
    *,
    similar: tuple[ExperienceRow, ...],
    recent: Record,
    join: Callable[[_RowGroups], tuple[ExperienceRow, ...]] = joined_rows,
) -> tuple[ExperienceRow, ...]:
    """All rows of experience for a packet.

    `join` may be a cache of `joined_rows`: it gives the rows of before as long as they say the same, so that whoever
    shows them sees at once that nothing changed.
    """
    return join((stable, similar, record_rows(recent.name, recent)))


def bps_text(mean: Estimate) -> str:
    """A mean result, such as `+12.1 bps a trade (n=34, 95% +3.0 to +21.2)`; below two trades there is no interval."""
    if mean.n < 2:
        return f"too few trades (n={mean.n})"
    value, low, high = _signed_text(mean.value), _signed_text(mean.low), _signed_text(mean.high)
    return f"{value} bps a trade (n={mean.n}, 95% {low} to {high})"


def rate_text(share: Estimate) -> str:
    """A hit rate, such as `won 61% (n=34, 95% 45% to 75%)`."""
    return f"won {share.value:.0%} (n={share.n}, 95% {share.low:.0%} to {share.high:.0%})"


@lru_cache(maxsize=4_096)
def _won_text(wins: int, n: int) -> str:
    return rate_text(rate_estimate(wins, n))


def old_similar_rows(company: "Neighbours") -> tuple[ExperienceRow, ...]:
    if company.is_novel:
        far = f"the nearest of {company.searched} situations is {company.times_usual:.1f} times as far as is usual"
        return (ExperienceRow("similar", "none", f"unlike anything seen: {far}"),)
    return _neighbour_rows(company.sides, company.results_ppm)


def _neighbour_rows(
    sides: tuple[int, ...], results_ppm: tuple[int, ...], *, nearest: str = "nearest"
) -> tuple[ExperienceRow, ...]:
    """How neighbours ended: all of them, and where some were long and some short, each side with enough of them."""
    if len(sides) < FEWEST_SHOWN:
        return ()
    every, long, short = records_by_side(sides, results_ppm)
    rows = [_neighbour_row(f"{every.n} {nearest}", every)]
    for name, record in (("those long", long), ("those short", short)):
        if FEWEST_SHOWN <= record.n < every.n:
            rows.append(_neighbour_row(name, record))
    return tuple(rows)


@lru_cache(maxsize=256)
def _neighbour_row(name: str, record: Record) -> ExperienceRow:
    """The row of some neighbours."""
    # Cached, since a few minutes later most neighbours are the same, if in another order.
    return ExperienceRow("similar", name, f"{bps_text(record.mean_bps)}; {_won_text(record.wins, record.n)}")


@lru_cache(maxsize=4_096)
def record_rows(name: str, record: Record | None) -> tuple[ExperienceRow, ...]:
    """The row of a record, if there is enough of it."""
    # Cached, since few records change between two decisions.
    if record is None or record.n < FEWEST_SHOWN:
        return ()
    return (ExperienceRow("record", name, bps_text(record.mean_bps)),)


def _calibration_rows(records: Mapping[RecordKey, Record], prior: float) -> list[ExperienceRow]:
    """The buckets of stated confidence with the most trades, in the order of confidence."""
    counts = [(record.name, record.n, record.wins) for record in records.values() if record.kind == CONFIDENCE]
    enough = [point for point in calibration_curve(counts, prior=prior) if point.observed.n >= FEWEST_CALIBRATED]
    largest: Sequence[str] = [
        point.bucket for point in sorted(enough, key=lambda point: -point.observed.n)[:_MOST_BUCKETS]
    ]
    return [
        ExperienceRow("record", f"confidence {point.bucket}", rate_text(point.observed))
        for point in enough
        if point.bucket in largest
    ]


def _signed_text(value: float) -> str:
    text = f"{value:+.1f}"
    # A rounded zero has no sign: equal results must read the same.
    return "+0.0" if text == "-0.0" else text
