"""Derived rows of the tape: features of every symbol, each five minutes and whenever one has changed enough."""

from collections.abc import Iterable

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE, floor
from tapebook.domain.market import AssetContext, FeatureRow, Liquidity
from tapebook.errors import Damaged
from tapebook.tape.features import (
    Feature,
    FundingPressure,
    LiquidityProfile,
    PositioningPressure,
    VolatilityProfile,
    changed_enough,
    funding_pressure,
    liquidity_profile,
    metrics_json,
    positioning_pressure,
    volatility_profile,
)
from tapebook.tape.source import SourceProblem
from tapebook.tape.store import Tape, View

CADENCE = 5 * MINUTE
_LONGEST = 300

# What odd facts, or a chunk that the archive has lost, can lead to; a disk that refuses concerns all symbols.
_NO_FEATURE = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    *(msgspec.MsgspecError, Damaged),
)


class Features(msgspec.Struct, frozen=True):
    """All features of one symbol at one moment; None where too little is known."""

    liquidity: LiquidityProfile | None = None
    pressure: FundingPressure | None = None
    volatility: VolatilityProfile | None = None
    positioning: PositioningPressure | None = None


class Derived(msgspec.Struct, frozen=True):
    """A row, and the feature it tells of."""

    row: FeatureRow
    feature: Feature


def features_of(tape: Tape, symbol: str, *, view: View) -> Features:
    """Reads a day of one symbol and computes its features."""
    now = view.as_of
    contexts = tape.facts(AssetContext, symbol, since=now - DAY - HOUR, view=view)
    predicted = tape.predicted(symbol, since=now - HOUR, view=view)
    minutes = tape.candles(symbol, granularity_sec=60, since=floor(now, MINUTE) - DAY - MINUTE, view=view)
    liquidity = liquidity_profile(tape.facts(Liquidity, symbol, since=now - DAY, view=view), as_of=now)
    pressure = funding_pressure(contexts, predicted, as_of=now)
    return Features(
        liquidity,
        pressure,
        volatility_profile(minutes, as_of=now),
        positioning_pressure(minutes, pressure, liquidity, as_of=now),
    )


class Deriver:
    """Remembers what was written last, to know what has changed."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._last: dict[tuple[str, str], Feature] = {}
        self._full_at: dict[str, int] = {}

    def due(self, symbols: Iterable[str], *, now: int) -> tuple[list[Derived], list[SourceProblem]]:
        """What is to be written at a moment: everything each five minutes, in between what changed enough.

        A symbol whose facts make no feature is a problem of that symbol and of no other.
        """
        found: list[Derived] = []
        problems: list[SourceProblem] = []
        for symbol in symbols:
            try:
                found += self._due(symbol, now)
            except _NO_FEATURE as error:
                said = f"{type(error).__name__}: {error}"[:_LONGEST]
                problems.append(SourceProblem("tapebook", "features", symbol, said))
        return found, problems

    def _due(self, symbol: str, now: int) -> list[Derived]:
        full = floor(now, CADENCE) > self._full_at.get(symbol, -1)
        found = []
        for family, feature in _by_family(features_of(self._tape, symbol, view=View(now))):
            before = None if full else self._last.get((symbol, family))
            if changed_enough(before, feature):
                found.append(Derived(FeatureRow(symbol, now, metrics_json(feature), family), feature))
        return found

    def written(self, derived: Iterable[Derived], *, now: int) -> None:
        """The rows are on the tape: from now on others are compared with them."""
        for each in derived:
            self._last[each.row.symbol, each.row.family] = each.feature
            self._full_at[each.row.symbol] = floor(now, CADENCE)


def _by_family(features: Features) -> list[tuple[str, Feature]]:
    found = {"pressure": features.pressure, "volatility": features.volatility, "positioning": features.positioning}
    return [(family, feature) for family, feature in found.items() if feature is not None]
