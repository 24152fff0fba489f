"""A period: a day, an ISO week, a month, a quarter, a year, or all time. Half-open, in UTC, named by a key that sorts.

    day  2026-02-04    week  2026-W06    month  2026-02    quarter  2026-Q1    year  2026    legacy  LEGACY

A week carries the year of its Thursday: 1 January 2027 lies in 2026-W53.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Literal

import msgspec

from tapebook.domain.instants import DAY
from tapebook.errors import BadInput

Kind = Literal["day", "week", "month", "quarter", "year", "legacy"]

KINDS: tuple[Kind, ...] = ("day", "week", "month", "quarter", "year", "legacy")
LEGACY = "LEGACY"

_EPOCH = date(1970, 1, 1)
# The years 1 to 9998: the end of a period must be a date too.
_BEGIN, _END = (date(1, 1, 1) - _EPOCH).days * DAY, (date(9999, 1, 1) - _EPOCH).days * DAY
_FORMS: dict[Kind, str] = {
    "day": r"(\d{4})-(\d\d)-(\d\d)",
    "week": r"(\d{4})-W(\d\d)",
    "month": r"(\d{4})-(\d\d)",
    "quarter": r"(\d{4})-Q([1-4])",
    "year": r"(\d{4})",
    "legacy": LEGACY,
}
_SAMPLES: dict[Kind, str] = {
    "day": "2026-02-04",
    "week": "2026-W06",
    "month": "2026-02",
    "quarter": "2026-Q1",
    "year": "2026",
    "legacy": LEGACY,
}


class Period(msgspec.Struct, frozen=True, order=True):
    """One period of a kind, by the instant it begins at."""

    kind: Kind
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
        year, month = divmod(12 * day.year + day.month - 1 + months, 12)
        return _instant(date(year, month + 1, 1))

    @property
    def next(self) -> "Period":
        """The period that begins where this one ends; there is none after all time."""
        return period_of(self.kind, self.end)

    def __contains__(self, instant: int) -> bool:
        return self.start <= instant < self.end


def period_of(kind: Kind, instant: int) -> Period:
    """The period of a kind that an instant lies in."""
    if not _BEGIN <= instant < _END:
        raise BadInput(f"{instant} is no moment of the years 1 to 9998: give milliseconds since 1970")
    return _period(kind, instant // DAY)


# A roll-up asks for the periods and the names of the same few days again and again.
@lru_cache(maxsize=8_192)
def _period(kind: Kind, number: int) -> Period:
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
def parse_period(kind: Kind, key: str) -> Period:
    """The period of that name; BadInput for a name that no period of the kind has."""
    found = re.fullmatch(_FORMS[kind], key, re.ASCII)
    try:
        parts = [int(part) for part in found.groups()] if found else []
        period = period_of(kind, _instant(_first_day(kind, parts))) if found else None
    except ValueError:
        period = None
    if period is None or period.key != key:
        raise BadInput(f"{key!r} is no {kind}: write it like {_SAMPLES[kind]}")
    return period


@lru_cache(maxsize=8_192)
def _key(kind: Kind, start: int) -> str:
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


def _first_day(kind: Kind, parts: list[int]) -> date:
    if kind == "week":
        return date.fromisocalendar(parts[0], parts[1], 1)
    if kind == "quarter":
        return date(parts[0], 3 * parts[1] - 2, 1)
    return date(*[*(parts or [1]), 1, 1][:3])


def _date(instant: int) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)).date()


def _instant(day: date) -> int:
    return (day - _EPOCH).days * DAY
