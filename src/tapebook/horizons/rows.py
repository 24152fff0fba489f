"""What a decision is told of the layers, as rows of its packet.

Rows come nearest layer first, in each its newest timeframe, estimates with n and interval. In two rounds, for a
section that is full drops what stands last: first a line of every layer with the owner's principles, then the rest.
What people wrote is shown for the period of the roll-up and for the current one. L7 is in neither round: positions
and prices have sections of their own.

Packets of renderer 5 (`market_phases`) are told exposure and correlation as well, the day that is running
(`running_day_rows`) and what is held at the same time (`held_rows`); a period without trades then says only what the
market did.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tapebook.domain.agent import LayerRow
from tapebook.domain.position import DayResults, Position
from tapebook.domain.text import plural
from tapebook.domain.units import E6, decimal_text, to_units
from tapebook.horizons.events import NO_VALUE
from tapebook.horizons.layers import LAYER_SPECS, ContextLayer, period_of
from tapebook.horizons.markets import sector_of

if TYPE_CHECKING:
    from tapebook.horizons.store import Horizons, LayerValue

# A value of a person may be a page; a row of a packet is one line.
_MOST_CHARACTERS = 120

FIRST_ROUND: dict[ContextLayer, tuple[str, ...]] = {
    ContextLayer.L6_DAILY: ("total_pnl", "win_rate"),
    ContextLayer.L5_WEEKLY: ("weekly_pnl",),
    ContextLayer.L4_MONTHLY: ("monthly_pnl",),
    ContextLayer.L3_QUARTERLY: ("market_phase",),
    ContextLayer.L2_ANNUAL: ("annual_pnl",),
    ContextLayer.L1_LEGACY: ("total_pnl",),
}
SECOND_ROUND: dict[ContextLayer, tuple[str, ...]] = {
    ContextLayer.L6_DAILY: ("trade_count", "avg_confidence"),
    ContextLayer.L5_WEEKLY: ("win_rate", "top_performers", "sector_focus", "volatility_regime"),
    ContextLayer.L4_MONTHLY: ("max_drawdown", "recovery", "sharpe_ratio"),
    ContextLayer.L3_QUARTERLY: ("quarterly_pnl",),
    ContextLayer.L2_ANNUAL: ("win_rate", "sharpe_ratio", "best_strategy"),
    ContextLayer.L1_LEGACY: ("years_traded",),
}
"""The keys of the roll-up that a decision is told, in the two rounds; what people wrote of a period comes behind it."""

MARKET_ROUND: dict[ContextLayer, tuple[str, ...]] = SECOND_ROUND | {
    ContextLayer.L4_MONTHLY: ("max_drawdown", "recovery", "sharpe_ratio", "exposure", "correlation")
}
"""The second round of packets with `market_phases`."""

_MONEY = ("total_pnl", "weekly_pnl", "monthly_pnl", "quarterly_pnl", "annual_pnl", "max_drawdown", "exposure")
_DIGITS = {"win_rate": (0, "%"), "avg_confidence": (2, ""), "sharpe_ratio": (1, "")}
# A Sharpe ratio of fewer days says nothing, whatever its interval.
_FEWEST_SHOWN = {"sharpe_ratio": 20}
# What is said of the market, also in a period without trades.
_OF_THE_MARKET = {"market_phase": "market_return", "volatility_regime": "market_volatility"}
_MOST_PAIRS = 3
_MOST_SYMBOLS = 3
# The normal quantile of a 95 % interval.
_Z = 1.959963984540054


def layer_rows(
    store: "Horizons", scope: str, *, seq: int, as_of: int, curated: int = 0, market_phases: bool = True
) -> tuple[LayerRow, ...]:
    """What a decision is told of a scope's layers as of a sequence number.

    `curated` is one of the owner's own stream: what the owner wrote for every scope is told up to it.
    """
    first: list[LayerRow] = []
    then: list[LayerRow] = []
    for layer in FIRST_ROUND:
        now = period_of(LAYER_SPECS[layer].kind, as_of).key
        newest = store.latest_timeframe(scope, layer, seq=seq, last=now, origin="rollup")
        found = store.values(scope, layer, newest, seq=seq) if newest else ()
        first += _rollup_rows(layer, found, FIRST_ROUND[layer], market_phases=market_phases)
        second = (MARKET_ROUND if market_phases else SECOND_ROUND)[layer]
        then += _rollup_rows(layer, found, second, market_phases=market_phases)
        if newest != now:
            found = (*found, *store.values(scope, layer, now, seq=seq))
        comments = list(_curated_rows(layer, found, "curated"))
        if curated:
            comments += _curated_rows(layer, store.values("", layer, now, seq=curated), "curated for all")
        # What holds for all time is the owner's word on every decision.
        (first if layer is ContextLayer.L1_LEGACY else then).extend(comments)
    return (*first, *then)


def _rollup_rows(
    layer: ContextLayer, found: "Sequence[LayerValue]", keys: Sequence[str], *, market_phases: bool
) -> Iterator[LayerRow]:
    rolled_up = [each for each in found if each.origin == "rollup"]
    values = {each.key: msgspec.json.decode(each.value) for each in rolled_up}
    # A period without a trade has zeros to tell, and what the market did.
    silent = market_phases and values.get("trade_count") == 0
    for key in keys:
        text = None if silent and key not in _OF_THE_MARKET else _value_text(key, values)
        if text is not None:
            name = f"{key}_usd" if key in _MONEY else key
            yield LayerRow(layer.short, rolled_up[0].timeframe, name, text)


def _curated_rows(layer: ContextLayer, found: "Sequence[LayerValue]", mark: str) -> Iterator[LayerRow]:
    for each in found:
        if each.origin == "curated" and each.value != NO_VALUE:
            text = value_line(msgspec.json.decode(each.value))
            yield LayerRow(layer.short, each.timeframe, f"{each.key} ({mark})", text)


def _value_text(key: str, values: Mapping[str, Any]) -> str | None:
    value, n = values.get(key), values.get(f"{key}_n")
    if value is None or (n is not None and n < _FEWEST_SHOWN.get(key, 1)):
        return None
    if key in _MONEY:
        return decimal_text(to_units(value, E6), E6, 2)
    if key in _DIGITS:
        digits, unit = _DIGITS[key]
        low, high = (f"{each:.{digits}f}{unit}" for each in values[f"{key}_interval"])
        return f"{value:.{digits}f}{unit} (n={n}, 95% {low} to {high})"
    if key == "recovery":
        return f"{100 * value:.0f}% of the drawdown"
    if key == "correlation":
        return _correlation_text(value, values["correlation_n"])
    text = value_line(value)
    if days := values.get(f"{key}_days"):
        return f"{text} (n={days} days): {_figures_text(key, values)}"
    return f"{text} (n={n} trades)" if n is not None else text or None


def _figures_text(key: str, values: Mapping[str, Any]) -> str:
    """The symbols behind a word about the market, as many as fit a line."""
    figures = list((values.get(_OF_THE_MARKET[key]) or {}).items())
    shown = [f"{symbol} {100 * figure:+.1f}%" for symbol, figure in figures[:_MOST_SYMBOLS]]
    if key == "volatility_regime":
        shown = [f"{symbol} {100 * figure:.0f}% a year" for symbol, figure in figures[:_MOST_SYMBOLS]]
    more = len(figures) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])])


def _correlation_text(value: float, n: int) -> str | None:
    """A correlation with its interval, by Fisher's transformation; of three days it has none."""
    if n <= 3:
        return None
    middle, half = math.atanh(max(-0.9999, min(0.9999, value))), _Z / math.sqrt(n - 3)
    return f"{value:.2f} (n={n}, 95% {math.tanh(middle - half):.2f} to {math.tanh(middle + half):.2f})"


def value_line(value: Any) -> str:
    """A value as a line: lists item by item, anything deeper as JSON."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, list):
        text = "; ".join(value_line(each) for each in value)
    else:
        text = msgspec.json.encode(value).decode()
    return text[:_MOST_CHARACTERS]


def running_day_rows(ended: DayResults, *, as_of: int) -> tuple[LayerRow, ...]:
    """What the day that is running has come to: the trades that ended on it so far; nothing without any."""
    if not ended.trades:
        return ()
    text = f"{decimal_text(ended.net_usd_e6, E6, 2)}, {plural(ended.trades, 'trade')} so far, {ended.won} won"
    return (LayerRow("L6", period_of("day", as_of).key, "running_pnl_usd", text),)


def held_rows(positions: Mapping[str, Position], values: Mapping[str, Any], *, as_of: int) -> tuple[LayerRow, ...]:
    """What is held at the same time, at cost: by side, by sector, and how far it moves together.

    `values` are `sectors`, `market_correlation` and `market_correlation_days` of the layers. One position alone is
    told by the portfolio.
    """
    if len(positions) < 2:
        return ()
    costs = {symbol: held.cost_usd_e6 for symbol, held in positions.items()}
    long = sum(cost for cost in costs.values() if cost > 0)
    short = long - sum(costs.values())
    sides = f"long {decimal_text(long, E6, 2)}, short {decimal_text(short, E6, 2)}"
    sectors: dict[str, int] = {}
    for symbol, cost in costs.items():
        sector = (values.get("sectors") or {}).get(symbol) or sector_of(symbol)
        sectors[sector] = sectors.get(sector, 0) + abs(cost)
    largest = sorted(sectors, key=lambda sector: (-sectors[sector], sector))[:_MOST_SYMBOLS]
    shares = [f"{sector} {100 * sectors[sector] / (long + short):.0f}%" for sector in largest] if long + short else []
    day = period_of("day", as_of).key
    rows = [LayerRow("L7", day, "exposure_usd", "; ".join(filter(None, [sides, ", ".join(shares)])))]
    pairs, n = values.get("market_correlation") or {}, values.get("market_correlation_days") or 0
    both = [(pair.split(" "), value) for pair, value in pairs.items() if positions.keys() >= set(pair.split(" "))]
    for (one, other), value in sorted(both, key=lambda each: (-abs(each[1]), each[0]))[:_MOST_PAIRS]:
        if text := _correlation_text(value, n):
            held = [f"{symbol} {'long' if costs[symbol] > 0 else 'short'}" for symbol in (one, other)]
            rows.append(LayerRow("L7", day, "correlation", f"{' and '.join(held)}: {text}"))
    return tuple(rows)


class HeldNow(msgspec.Struct, frozen=True):
    """What a packet with `market_phases` tells of this moment: the day's results so far, and what is held."""

    ended: DayResults
    positions: Mapping[str, Position]
