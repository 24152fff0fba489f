"""Derived rows of the tape: features of every symbol, each five minutes and whenever one has changed enough."""

from collections.abc import Iterable

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE, floor
from tapebook.domain.market import AssetContext, FeatureRow, Liquidity
from tapebook.tape.features import (
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
from tapebook.tape.store import Tape, View

CADENCE = 5 * MINUTE


class Features(msgspec.Struct, frozen=True):
    """All features of one symbol at one moment; None where too little is known."""

    liquidity: LiquidityProfile | None = None
    pressure: FundingPressure | None = None
    volatility: VolatilityProfile | None = None
    positioning: PositioningPressure | None = None


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
        self._last: dict[str, Features] = {}

    def rows(self, symbols: Iterable[str], *, now: int) -> list[FeatureRow]:
        """The rows due at a moment: all of them each five minutes, in between those that changed enough."""
        found = []
        for symbol in symbols:
            current = features_of(self._tape, symbol, view=View(now))
            before = Features() if now % CADENCE == 0 else self._last.get(symbol, Features())
            rows = _changed(symbol, before, current, now)
            if rows:
                self._last[symbol] = current
            found += rows
        return found


def _changed(symbol: str, before: Features, after: Features, now: int) -> list[FeatureRow]:
    families = {
        "pressure": (before.pressure, after.pressure),
        "volatility": (before.volatility, after.volatility),
        "positioning": (before.positioning, after.positioning),
    }
    return [
        FeatureRow(symbol, now, metrics_json(new), family)
        for family, (old, new) in families.items()
        if new is not None and changed_enough(old, new)
    ]
