"""Instants are UTC milliseconds since 1970, as integers; this module reads and writes them as text."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Fewer digits are a date such as 20260131.
_EPOCH_MS = re.compile(r"-?[0-9]{9,15}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years 1 to 9999: what can be written as a date.
_FIRST_INSTANT, _LAST_INSTANT = -62_135_596_800_000, 253_402_300_799_999
DAY_MINUTES = DAY // MINUTE
# Every time of day there is: a packet writes many.
TIMES_OF_DAY = tuple(f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(DAY_MINUTES))


def parse_instant(text: str) -> int:
    """ISO-8601 (UTC when no zone is named) or epoch milliseconds as an instant. Raises ValueError with the remedy."""
    if _EPOCH_MS.fullmatch(text) and _FIRST_INSTANT <= int(text) <= _LAST_INSTANT:
        return int(text)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a time: write it like 2026-01-31T12:05:00Z or as epoch milliseconds"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def iso_text(instant: int) -> str:
    """An instant as `2026-01-31T12:05:00.000Z`."""
    time = f"{TIMES_OF_DAY[instant // MINUTE % DAY_MINUTES]}:{instant // SECOND % 60:02d}.{instant % SECOND:03d}"
    return f"{_day_text(instant // DAY)}T{time}Z"


def minute_text(instant: int) -> str:
    """An instant as `2026-01-31T12:05`, for lines people and models read."""
    return f"{_day_text(instant // DAY)}T{TIMES_OF_DAY[instant // MINUTE % DAY_MINUTES]}"


def time_of_day_text(instant: int) -> str:
    """The time of day of an instant as `12:05`."""
    return TIMES_OF_DAY[instant // MINUTE % DAY_MINUTES]


@lru_cache(maxsize=1_024)
def _day_text(day: int) -> str:
    """A day as `2026-01-31`."""
    # Cached, since the moments of a run of ticks are of few days.
    return f"{_EPOCH + timedelta(days=day):%Y-%m-%d}"


def floor_to_step(instant: int, step: int) -> int:
    """The newest multiple of `step` at or before the instant."""
    return instant - instant % step
