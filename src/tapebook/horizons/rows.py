"""Layers as rows of a packet: the nearest layer first, in each its newest timeframe, estimates with n and interval.

L7 is not among them: positions and prices have sections of their own.
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

SHOWN: dict[ContextLayer, tuple[str, ...]] = {
    ContextLayer.L6_DAILY: ("total_pnl", "trade_count", "win_rate", "avg_confidence"),
    ContextLayer.L5_WEEKLY: ("weekly_pnl", "win_rate", "top_performers", "sector_focus", "volatility_regime"),
    ContextLayer.L4_MONTHLY: ("monthly_pnl", "max_drawdown", "recovery", "sharpe_ratio"),
    ContextLayer.L3_QUARTERLY: ("market_phase", "quarterly_pnl", "strategy_adjustments", "lessons_learned"),
    ContextLayer.L2_ANNUAL: ("annual_pnl", "win_rate", "sharpe_ratio", "best_strategy"),
    ContextLayer.L1_LEGACY: ("total_pnl", "years_traded", "avg_annual_pnl"),
}
"""The keys of the roll-up that a decision is told, in their order; what people wrote comes behind them."""

_MONEY = ("total_pnl", "weekly_pnl", "monthly_pnl", "quarterly_pnl", "annual_pnl", "avg_annual_pnl", "max_drawdown")
_DIGITS = {"win_rate": (0, "%"), "avg_confidence": (2, ""), "sharpe_ratio": (1, "")}
# A Sharpe ratio of fewer days says nothing, whatever its interval.
_FEWEST = {"sharpe_ratio": 20}


def layer_rows(store: Horizons, scope: str, *, seq: int, as_of: int) -> tuple[LayerRow, ...]:
    """What a decision is told of a scope's layers as of a sequence number."""
    rows: list[LayerRow] = []
    for layer, keys in SHOWN.items():
        last = period_of(SPECS[layer].kind, as_of).key
        timeframe = store.latest(scope, layer, seq=seq, last=last)
        if timeframe is not None:
            rows += _rows(layer, timeframe, store.values(scope, layer, timeframe, seq=seq), keys)
    return tuple(rows)


def curated_rows(store: Horizons, scope: str, *, seq: int) -> tuple[LayerRow, ...]:
    """What people wrote into L1 of a scope, such as the owner's own, which has a stream and watermark of its own."""
    layer = ContextLayer.L1_LEGACY
    return tuple(_curated(layer, "LEGACY", store.values(scope, layer, "LEGACY", seq=seq)))


def _rows(layer: ContextLayer, timeframe: str, found: Sequence[Found], keys: Sequence[str]) -> Iterator[LayerRow]:
    values = {each.key: msgspec.json.decode(each.value) for each in found if each.origin == "rollup"}
    for key in keys:
        told = _told(key, values)
        if told is not None:
            name = f"{key}_usd" if key in _MONEY else key
            yield LayerRow(layer.short, timeframe, name, told)
    yield from _curated(layer, timeframe, found)


def _curated(layer: ContextLayer, timeframe: str, found: Sequence[Found]) -> Iterator[LayerRow]:
    for each in found:
        if each.origin == "curated" and each.value != GONE:
            yield LayerRow(layer.short, timeframe, f"{each.key} (curated)", words(msgspec.json.decode(each.value)))


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
    return words(value) + (f" (n={n} trades)" if n is not None else "")


def words(value: Any) -> str:
    """A value as a line: lists item by item, anything deeper as JSON."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, list):
        text = "; ".join(words(each) for each in value)
    else:
        text = msgspec.json.encode(value).decode()
    return text[:_MOST_WORDS]
