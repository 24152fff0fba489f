"""Periods and the seven layers: what a timeframe is called, how long a layer is kept, what it is built from.

A period is a day, an ISO week, a month, a quarter, a year, or all time; half-open, in UTC, named by a key that sorts:

    day  2026-02-04    week  2026-W06    month  2026-02    quarter  2026-Q1    year  2026    legacy  LEGACY

A week carries the year of its Thursday: 1 January 2027 lies in 2026-W53. Everything above the days is built from
day leaves, never from the layer just below it: a week may lie in two months, and a sum of weeks would count its
days twice.
"""

import json
import re
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

import msgspec

from tapebook.domain.text import has_hidden_characters
from tapebook.domain.units import DAY
from tapebook.errors import BadInput

PeriodKind = Literal["day", "week", "month", "quarter", "year", "legacy"]

PERIOD_KINDS: tuple[PeriodKind, ...] = ("day", "week", "month", "quarter", "year", "legacy")
LEGACY = "LEGACY"

_EPOCH = date(1970, 1, 1)
# The years 1 to 9998: the end of a period must be a date too.
_BEGIN, _END = (date(1, 1, 1) - _EPOCH).days * DAY, (date(9999, 1, 1) - _EPOCH).days * DAY
_FORMS: dict[PeriodKind, str] = {
    "day": r"(\d{4})-(\d\d)-(\d\d)",
    "week": r"(\d{4})-W(\d\d)",
    "month": r"(\d{4})-(\d\d)",
    "quarter": r"(\d{4})-Q([1-4])",
    "year": r"(\d{4})",
    "legacy": LEGACY,
}
_SAMPLES: dict[PeriodKind, str] = {
    "day": "2026-02-04",
    "week": "2026-W06",
    "month": "2026-02",
    "quarter": "2026-Q1",
    "year": "2026",
    "legacy": LEGACY,
}


class Period(msgspec.Struct, frozen=True, order=True):
    """One period of a kind, by the instant it begins at."""

    kind: PeriodKind
    start: int

    @property
    def key(self) -> str:
        """Its name; of one kind, the order of names is the order of time."""
        return _key(self.kind, self.start)

    @property
    def end(self) -> int:
        """The first instant after it."""
        if self.kind == "legacy":
            return _END
        if self.kind in ("day", "week"):
            return self.start + (DAY if self.kind == "day" else 7 * DAY)
        day = _date(self.start)
        months = {"month": 1, "quarter": 3, "year": 12}[self.kind]
        # In months since year 0: a year's end needs no case of its own.
        year, month = divmod(12 * day.year + day.month - 1 + months, 12)
        return _instant(date(year, month + 1, 1))

    @property
    def next(self) -> "Period":
        """The period that begins where this one ends; there is none after all time."""
        return period_of(self.kind, self.end)

    def __contains__(self, instant: int) -> bool:
        return self.start <= instant < self.end


def period_of(kind: PeriodKind, instant: int) -> Period:
    """The period of a kind that an instant lies in."""
    if not _BEGIN <= instant < _END:
        raise BadInput(f"{instant} is no moment of the years 1 to 9998: give milliseconds since 1970")
    return _period(kind, instant // DAY)


# A roll-up asks for the periods and the names of the same few days again and again.
@lru_cache(maxsize=8_192)
def _period(kind: PeriodKind, number: int) -> Period:
    """The period that a day, counted since 1970, lies in."""
    day = _EPOCH + timedelta(days=number)
    first = {
        "day": day,
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "quarter": day.replace(month=day.month - (day.month - 1) % 3, day=1),
        "year": day.replace(month=1, day=1),
        "legacy": date(1, 1, 1),
    }[kind]
    return Period(kind, _instant(first))


@lru_cache(maxsize=8_192)
def parse_period(kind: PeriodKind, key: str) -> Period:
    """The period of that name; BadInput for a name that no period of the kind has."""
    found = re.fullmatch(_FORMS[kind], key, re.ASCII)
    try:
        parts = [int(part) for part in found.groups()] if found else []
        period = period_of(kind, _instant(_first_day(kind, parts))) if found else None
    except ValueError:
        period = None
    # Compared with its own key: 2026-W54 would parse as a week of the next year.
    if period is None or period.key != key:
        raise BadInput(f"{key!r} is no {kind}: write it like {_SAMPLES[kind]}")
    return period


@lru_cache(maxsize=8_192)
def _key(kind: PeriodKind, start: int) -> str:
    day = _date(start)
    year, week, _ = day.isocalendar()
    return {
        "day": f"{day.year:04d}-{day.month:02d}-{day.day:02d}",
        "week": f"{year:04d}-W{week:02d}",
        "month": f"{day.year:04d}-{day.month:02d}",
        "quarter": f"{day.year:04d}-Q{(day.month + 2) // 3}",
        "year": f"{day.year:04d}",
        "legacy": LEGACY,
    }[kind]


def _first_day(kind: PeriodKind, parts: list[int]) -> date:
    if kind == "week":
        # ISO weeks: the week of 1 January 2027 is 2026-W53.
        return date.fromisocalendar(parts[0], parts[1], 1)
    if kind == "quarter":
        return date(parts[0], 3 * parts[1] - 2, 1)
    return date(*[*(parts or [1]), 1, 1][:3])


def _date(instant: int) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)).date()


def _instant(day: date) -> int:
    return (day - _EPOCH).days * DAY


# Keys and values come from people: capped, so that none of them fills a packet or a page.
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


class LayerSpec(msgspec.Struct, frozen=True):
    """What is fixed about a layer. `curated` are keys that people write; no roll-up computes them."""

    layer: ContextLayer
    kind: PeriodKind
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
        # Keys of a kind sort by time, so one key says where the past begins.
        return period_of(self.kind, now - self.retention_days * DAY).key


_L6 = ContextLayer.L6_DAILY

LAYER_SPECS: dict[ContextLayer, LayerSpec] = {
    spec.layer: spec
    for spec in (
        LayerSpec(
            *(ContextLayer.L1_LEGACY, "legacy", None, _L6, "All time: history, core principles, permanent warnings"),
            curated=("core_principles", "never_again"),
        ),
        LayerSpec(ContextLayer.L2_ANNUAL, "year", 3_650, _L6, "Years: returns, Sharpe ratio, what worked"),
        LayerSpec(
            *(ContextLayer.L3_QUARTERLY, "quarter", 1_095, _L6, "Quarters: market phase, strategy pivots"),
            curated=("strategy_adjustments", "lessons_learned"),
        ),
        LayerSpec(
            *(ContextLayer.L4_MONTHLY, "month", 730, _L6, "Months: rebalancing, exposure, drawdown and recovery"),
            curated=("rebalancing_notes",),
        ),
        LayerSpec(ContextLayer.L5_WEEKLY, "week", 365, _L6, "Weeks: selection, sectors, volatility regime"),
        LayerSpec(ContextLayer.L6_DAILY, "day", 90, None, "Days: closed trades by the day of their exit"),
        LayerSpec(ContextLayer.L7_REALTIME, "day", 7, None, "Now: positions, prices, short volatility"),
    )
}

LAYER_OF: dict[PeriodKind, ContextLayer] = {
    spec.kind: spec.layer for spec in LAYER_SPECS.values() if spec.layer is not ContextLayer.L7_REALTIME
}
"""The layer that a kind of period rolls up into."""


def is_leaf(layer: ContextLayer) -> bool:
    """Whether a layer takes what was observed; above it people only comment."""
    return layer in (ContextLayer.L6_DAILY, ContextLayer.L7_REALTIME)


def check_key(key: str) -> None:
    """BadInput for what cannot be a key."""
    if not 0 < len(key) <= MOST_KEY_CHARACTERS or has_hidden_characters(key):
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
