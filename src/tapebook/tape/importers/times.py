"""A column of times as UTC milliseconds: the first readable value decides how all of them are written.

Numbers are counted since 1970 in s, ms, µs or ns, told apart by their size; text is ISO-8601, year first. A text
without a zone is UTC. What is written differently from the first, or lies outside 2000 to 2099, is bad.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tapebook.tape.importer import EARLIEST

BAD = -1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LATEST = 4_102_444_800_000
# The largest instant of each unit, and how many of the unit make a millisecond; a second has a thousand of them.
_UNITS = {"s": (10**11, 0.001), "ms": (10**14, 1), "µs": (10**17, 1_000), "ns": (10**20, 1_000_000)}
_WORDS = {"s": "seconds", "ms": "milliseconds", "µs": "microseconds", "ns": "nanoseconds"}
_DATE_DIGITS = 8


class Times:
    """Reads one column, block after block."""

    def __init__(self, declared: str = "") -> None:
        # A column that holds instants by its type comes as milliseconds.
        self._unit = "ms" if declared else ""
        self._declared = declared

    @property
    def words(self) -> str:
        """How the times are written."""
        if self._declared:
            return self._declared
        if self._unit in _WORDS:
            return f"{_WORDS[self._unit]} since 1970, UTC"
        return {"zone": "ISO-8601 with a zone, turned into UTC", "": "no readable time"}.get(
            self._unit, "ISO-8601 without a zone, taken as UTC"
        )

    def read(self, values: Sequence[Any]) -> list[int]:
        """The instants of a block; BAD for what is none."""
        if not self._unit:
            self._unit = next((unit for unit in map(_unit_of, values) if unit), "")
        if self._unit in _UNITS:
            return self._counted(values)
        if self._unit:
            aware = self._unit == "zone"
            return [_checked(_written(value, aware)) for value in values]
        return [BAD] * len(values)

    def _counted(self, values: Sequence[Any]) -> list[int]:
        most, each = _UNITS[self._unit]
        least = most // 1000
        if each == 1 and (counts := _milliseconds(values)):
            return counts
        found = []
        for number in map(_number, values):
            if number is None or not least <= number < most:
                found.append(BAD)
            elif isinstance(each, float):
                found.append(_checked(round(number * 1000)))
            else:
                found.append(_checked(int(number // each)))
        return found


def _milliseconds(values: Sequence[Any]) -> list[int]:
    """A whole block at once; empty unless all of it are instants in milliseconds."""
    kinds = set(map(type, values))
    try:
        counts = list(map(int, values)) if kinds in ({int}, {str}) else []
    except ValueError:
        return []
    return counts if counts and min(counts) >= EARLIEST and max(counts) < _LATEST else []


def why_bad(value: Any) -> str:
    """Why a time cannot be used, in words."""
    if value is None or value == "":
        return "has no time"
    if not _unit_of(value):
        return f"time {str(value)[:40]!r} cannot be read: write it like 2026-01-31T12:05:00Z or as epoch milliseconds"
    return f"time {str(value)[:40]!r} is not between 2000 and 2099, or is written unlike the first"


def _checked(instant: int) -> int:
    return instant if EARLIEST <= instant < _LATEST else BAD


def _number(value: Any) -> int | float | None:
    """A count since 1970; None for what is none, dates in eight digits among them."""
    if isinstance(value, str):
        if value.isdecimal():
            return int(value) if len(value) != _DATE_DIGITS else None
        try:
            return float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _unit_of(value: Any) -> str:
    """s, ms, µs or ns for a count; `zone` or `naive` for a text; empty for neither."""
    number = _number(value)
    if number is not None:
        return next((unit for unit, (most, _) in _UNITS.items() if most // 1000 <= number < most), "")
    moment = _moment(value)
    return "" if moment is None else "naive" if moment.tzinfo is None else "zone"


def _written(value: Any, aware: bool) -> int:
    moment = _moment(value)
    if moment is None or (moment.tzinfo is not None) != aware:
        return BAD
    return ((moment if aware else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text[4:5] in ("/", "."):
        text = text[:10].replace(text[4], "-") + text[10:]
    if text.endswith(" UTC"):
        text = f"{text[:-4]}+00:00"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
