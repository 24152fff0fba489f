"""Layers as rows of a packet: the nearest layer first, in each its newest timeframe, estimates with n and interval.

In two rounds, for a section that is full drops what stands last: first what every layer has to say in a line, with
the owner's principles, then the rest. What people wrote is told of the period the roll-up tells of, and of the one we
are in. L7 is in neither round: positions and prices have sections of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tapebook.domain.memory import LayerRow
from tapebook.domain.money import E6, decimal_text, scaled
from tapebook.horizons.layers import SPECS, ContextLayer
from tapebook.horizons.period import period_of
from tapebook.horizons.plan import GONE
from tapebook.horizons.store import Found, Horizons

_MOST_WORDS = 120

FIRST: dict[ContextLayer, tuple[str, ...]] = {
    ContextLayer.L6_DAILY: ("total_pnl", "win_rate"),
    ContextLayer.L5_WEEKLY: ("weekly_pnl",),
    ContextLayer.L4_MONTHLY: ("monthly_pnl",),
    ContextLayer.L3_QUARTERLY: ("market_phase",),
    ContextLayer.L2_ANNUAL: ("annual_pnl",),
    ContextLayer.L1_LEGACY: ("total_pnl",),
}
THEN: dict[ContextLayer, tuple[str, ...]] = {
    ContextLayer.L6_DAILY: ("trade_count", "avg_confidence"),
    ContextLayer.L5_WEEKLY: ("win_rate", "top_performers", "sector_focus", "volatility_regime"),
    ContextLayer.L4_MONTHLY: ("max_drawdown", "recovery", "sharpe_ratio"),
    ContextLayer.L3_QUARTERLY: ("quarterly_pnl",),
    ContextLayer.L2_ANNUAL: ("win_rate", "sharpe_ratio", "best_strategy"),
    ContextLayer.L1_LEGACY: ("years_traded",),
}
"""The keys of the roll-up that a decision is told, in the two rounds; what people wrote of a period comes behind it."""

_MONEY = ("total_pnl", "weekly_pnl", "monthly_pnl", "quarterly_pnl", "annual_pnl", "max_drawdown")
_DIGITS = {"win_rate": (0, "%"), "avg_confidence": (2, ""), "sharpe_ratio": (1, "")}
# A Sharpe ratio of fewer days says nothing, whatever its interval.
_FEWEST = {"sharpe_ratio": 20}


def layer_rows(store: Horizons, scope: str, *, seq: int, as_of: int, curated: int = 0) -> tuple[LayerRow, ...]:
    """What a decision is told of a scope's layers as of a sequence number.

    `curated` is one of the owner's own stream: what the owner wrote for every scope is told up to it.
    """
    first: list[LayerRow] = []
    then: list[LayerRow] = []
    for layer in FIRST:
        now = period_of(SPECS[layer].kind, as_of).key
        newest = store.latest(scope, layer, seq=seq, last=now, origin="rollup")
        found = store.values(scope, layer, newest, seq=seq) if newest else ()
        first += _rows(layer, found, FIRST[layer])
        then += _rows(layer, found, THEN[layer])
        if newest != now:
            found = (*found, *store.values(scope, layer, now, seq=seq))
        comments = list(_curated(layer, found, "curated"))
        if curated:
            comments += _curated(layer, store.values("", layer, now, seq=curated), "curated for all")
        # What holds for all time is the owner's word on every decision.
        (first if layer is ContextLayer.L1_LEGACY else then).extend(comments)
    return (*first, *then)


def _rows(layer: ContextLayer, found: Sequence[Found], keys: Sequence[str]) -> Iterator[LayerRow]:
    told = [each for each in found if each.origin == "rollup"]
    values = {each.key: msgspec.json.decode(each.value) for each in told}
    for key in keys:
        text = _told(key, values)
        if text is not None:
            name = f"{key}_usd" if key in _MONEY else key
            yield LayerRow(layer.short, told[0].timeframe, name, text)


def _curated(layer: ContextLayer, found: Sequence[Found], mark: str) -> Iterator[LayerRow]:
    for each in found:
        if each.origin == "curated" and each.value != GONE:
            text = words(msgspec.json.decode(each.value))
            yield LayerRow(layer.short, each.timeframe, f"{each.key} ({mark})", text)


def _told(key: str, values: Mapping[str, Any]) -> str | None:
    value, n = values.get(key), values.get(f"{key}_n")
    if value is None or (n is not None and n < _FEWEST.get(key, 1)):
        return None
    if key in _MONEY:
        return decimal_text(scaled(value, E6), E6, 2)
    if key in _DIGITS:
        digits, unit = _DIGITS[key]
        low, high = (f"{each:.{digits}f}{unit}" for each in values[f"{key}_interval"])
        return f"{value:.{digits}f}{unit} (n={n}, 95% {low} to {high})"
    if key == "recovery":
        return f"{100 * value:.0f}% of the drawdown"
    text = words(value)
    return f"{text} (n={n} trades)" if n is not None else text or None


def words(value: Any) -> str:
    """A value as a line: lists item by item, anything deeper as JSON."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, list):
        text = "; ".join(words(each) for each in value)
    else:
        text = msgspec.json.encode(value).decode()
    return text[:_MOST_WORDS]
