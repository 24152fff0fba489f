"""The layers as ticks use them: rows for packets and roll-ups of finished days, cached by `LayerCache`.

Rows come nearest layer first, in each its newest timeframe, estimates with n and interval. In two rounds, for a
section that is full drops what stands last: first a line of every layer with the owner's principles, then the rest.
What people wrote is shown for the period of the roll-up and for the current one. L7 is in neither round: positions
and prices have sections of their own.

The rows change when something of the layers is written, or at midnight; a roll-up can be due when a trade ended, or
at midnight. Until then the cache answers both with one lookup. It changes no byte: a new process gives the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tapebook.domain.agent import LayerRow
from tapebook.domain.instants import DAY, floor_to_step
from tapebook.domain.money import E6, decimal_text, to_units
from tapebook.horizons.layers import LAYER_SPECS, ContextLayer, period_of
from tapebook.horizons.rollup import NO_VALUE, LeafSource, catch_up, expire_layers
from tapebook.horizons.store import Horizons, LayerValue
from tapebook.horizons.values import RollupTerms
from tapebook.log import Draft

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

_MONEY = ("total_pnl", "weekly_pnl", "monthly_pnl", "quarterly_pnl", "annual_pnl", "max_drawdown")
_DIGITS = {"win_rate": (0, "%"), "avg_confidence": (2, ""), "sharpe_ratio": (1, "")}
# A Sharpe ratio of fewer days says nothing, whatever its interval.
_FEWEST_SHOWN = {"sharpe_ratio": 20}


def layer_rows(store: Horizons, scope: str, *, seq: int, as_of: int, curated: int = 0) -> tuple[LayerRow, ...]:
    """What a decision is told of a scope's layers as of a sequence number.

    `curated` is one of the owner's own stream: what the owner wrote for every scope is told up to it.
    """
    first: list[LayerRow] = []
    then: list[LayerRow] = []
    for layer in FIRST_ROUND:
        now = period_of(LAYER_SPECS[layer].kind, as_of).key
        newest = store.latest_timeframe(scope, layer, seq=seq, last=now, origin="rollup")
        found = store.values(scope, layer, newest, seq=seq) if newest else ()
        first += _rollup_rows(layer, found, FIRST_ROUND[layer])
        then += _rollup_rows(layer, found, SECOND_ROUND[layer])
        if newest != now:
            found = (*found, *store.values(scope, layer, now, seq=seq))
        comments = list(_curated_rows(layer, found, "curated"))
        if curated:
            comments += _curated_rows(layer, store.values("", layer, now, seq=curated), "curated for all")
        # What holds for all time is the owner's word on every decision.
        (first if layer is ContextLayer.L1_LEGACY else then).extend(comments)
    return (*first, *then)


def _rollup_rows(layer: ContextLayer, found: Sequence[LayerValue], keys: Sequence[str]) -> Iterator[LayerRow]:
    rolled_up = [each for each in found if each.origin == "rollup"]
    values = {each.key: msgspec.json.decode(each.value) for each in rolled_up}
    for key in keys:
        text = _value_text(key, values)
        if text is not None:
            name = f"{key}_usd" if key in _MONEY else key
            yield LayerRow(layer.short, rolled_up[0].timeframe, name, text)


def _curated_rows(layer: ContextLayer, found: Sequence[LayerValue], mark: str) -> Iterator[LayerRow]:
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
    text = value_line(value)
    return f"{text} (n={n} trades)" if n is not None else text or None


def value_line(value: Any) -> str:
    """A value as a line: lists item by item, anything deeper as JSON."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, list):
        text = "; ".join(value_line(each) for each in value)
    else:
        text = msgspec.json.encode(value).decode()
    return text[:_MOST_CHARACTERS]


STEP_DAYS = 93
"""How many days are rolled up at once, so that leases are kept alive in between."""

# 1970 began on a Thursday.
_FIRST_MONDAY = 4 * DAY

_CacheKey = tuple[int, int, int]
"""All that the rows of a scope depend on: its newest change, the owner's, and the day."""


class LayerCache:
    """The layers of one owner, for reading and rolling up again and again."""

    def __init__(self, store: Horizons) -> None:
        self.store = store
        self._rows: dict[str, tuple[_CacheKey, tuple[LayerRow, ...]]] = {}
        self._quiet: dict[str, tuple[int, int]] = {}

    def packet_rows(self, scope: str, *, seq: int, as_of: int, curated: int = 0) -> tuple[LayerRow, ...]:
        """What a decision is told; see `layer_rows`."""
        changed = self.store.last_change(scope, seq=seq)
        if not changed and not curated:
            return ()
        known, kept = (changed, curated, as_of // DAY), self._rows.get(scope)
        if kept is None or kept[0] != known:
            kept = self._rows[scope] = known, layer_rows(self.store, scope, seq=seq, as_of=as_of, curated=curated)
        return kept[1]

    def nothing_to_roll_up_at(self, scope: str, *, now: int) -> int | None:
        """The sequence number at which there was last nothing to roll up; None when that was on another day.

        As long as no trade ended after it, there still is nothing.
        """
        today, seq = self._quiet.get(scope, (None, 0))
        return seq if today == floor_to_step(now, DAY) else None

    def roll_up_finished_days(
        self, days: LeafSource, scope: str, *, seq: int, now: int, terms: RollupTerms | None = None
    ) -> list[Draft]:
        """The events that roll up days that are over, and late trades of such days; on Mondays a cleanup too.

        They are one step of `STEP_DAYS` at most: the next call goes on behind them.
        """
        today = floor_to_step(now, DAY)
        drafts = catch_up(self.store, days, scope, seq=seq, at=today, terms=terms, before=today, most=STEP_DAYS)
        if not drafts:
            self._quiet[scope] = today, seq
        elif today % (7 * DAY) == _FIRST_MONDAY:
            drafts += expire_layers(self.store, scope, seq=seq, now=today)[1]
        return drafts
