"""The seven layers: how long each is kept, what its timeframes look like, and what it is built from.

Everything above the days is built from day leaves, never from the layer just below it: a week may lie in two
months, and a sum of weeks would count its days twice.
"""

import json
from enum import StrEnum
from typing import Any

import msgspec

from tapebook.domain.instants import DAY
from tapebook.domain.text import has_hidden
from tapebook.errors import BadInput
from tapebook.horizons.period import Kind, Period, parse_period, period_of

MOST_KEY_CHARACTERS = 80
MOST_VALUE_CHARACTERS = 20_000


class ContextLayer(StrEnum):
    """A time horizon, from all time to now."""

    L1_LEGACY = "L1_LEGACY"
    L2_ANNUAL = "L2_ANNUAL"
    L3_QUARTERLY = "L3_QUARTERLY"
    L4_MONTHLY = "L4_MONTHLY"
    L5_WEEKLY = "L5_WEEKLY"
    L6_DAILY = "L6_DAILY"
    L7_REALTIME = "L7_REALTIME"

    @property
    def short(self) -> str:
        """`L6`."""
        return self.value[:2]


class Spec(msgspec.Struct, frozen=True):
    """What is fixed about a layer. `curated` are keys that people write; no roll-up computes them."""

    layer: ContextLayer
    kind: Kind
    retention_days: int | None
    source: ContextLayer | None
    description: str
    curated: tuple[str, ...] = ()

    def period(self, timeframe: str) -> Period:
        """The period a timeframe names; BadInput when it names none of this layer."""
        return parse_period(self.kind, timeframe)

    def first_kept(self, *, now: int) -> str | None:
        """The oldest timeframe that is still kept: its period ended less than `retention_days` ago."""
        if self.retention_days is None:
            return None
        return period_of(self.kind, now - self.retention_days * DAY).key


_L6 = ContextLayer.L6_DAILY

SPECS: dict[ContextLayer, Spec] = {
    spec.layer: spec
    for spec in (
        Spec(
            *(ContextLayer.L1_LEGACY, "legacy", None, _L6, "All time: history, core principles, permanent warnings"),
            curated=("core_principles", "never_again"),
        ),
        Spec(ContextLayer.L2_ANNUAL, "year", 3_650, _L6, "Years: returns, Sharpe ratio, what worked"),
        Spec(
            *(ContextLayer.L3_QUARTERLY, "quarter", 1_095, _L6, "Quarters: market phase, strategy pivots"),
            curated=("strategy_adjustments", "lessons_learned"),
        ),
        Spec(
            *(ContextLayer.L4_MONTHLY, "month", 730, _L6, "Months: rebalancing, exposure, drawdown and recovery"),
            curated=("rebalancing_notes",),
        ),
        Spec(ContextLayer.L5_WEEKLY, "week", 365, _L6, "Weeks: selection, sectors, volatility regime"),
        Spec(ContextLayer.L6_DAILY, "day", 90, None, "Days: closed trades by the day of their exit"),
        Spec(ContextLayer.L7_REALTIME, "day", 7, None, "Now: positions, prices, short volatility"),
    )
}

LAYER_OF: dict[Kind, ContextLayer] = {
    spec.kind: spec.layer for spec in SPECS.values() if spec.layer is not ContextLayer.L7_REALTIME
}
"""The layer that a kind of period rolls up into."""


def is_leaf(layer: ContextLayer) -> bool:
    """Whether a layer takes what was observed; above it people only comment."""
    return layer in (ContextLayer.L6_DAILY, ContextLayer.L7_REALTIME)


def check_key(key: str) -> None:
    """BadInput for what cannot be a key."""
    if not 0 < len(key) <= MOST_KEY_CHARACTERS or has_hidden(key):
        raise BadInput(f"{key[:40]!r} is no key: 1 to {MOST_KEY_CHARACTERS} characters that can be seen")


def value_text(value: Any) -> str:
    """A value as JSON; BadInput when it has none, or is too long to be a summary."""
    try:
        # Not msgspec: it writes a number that is none as null, without a word.
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"a value must be JSON: {error}; use dicts, lists, text and finite numbers") from error
    if len(text) > MOST_VALUE_CHARACTERS:
        raise BadInput(f"a value has at most {MOST_VALUE_CHARACTERS} characters of JSON: keep documents in recall")
    return text
