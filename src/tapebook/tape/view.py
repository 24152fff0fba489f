"""How far a read of the tape may see, which lengths of bars there are, and what reads give beside facts.

Everything that reads the tape shares these: `View` (what was known at a moment, up to a commit), the lengths of bars
a tape may hold and how they are written (`5m`), the grace after which a bar counts as final, and the records of
gaps, problems, channels and delistings.
"""

import re

import msgspec

from tapebook.domain.market import Gap
from tapebook.domain.units import SECOND
from tapebook.errors import BadInput
from tapebook.tape.source import SourceProblem

# Larger than any sequence number: a read without a limit.
NO_WATERMARK = 2**62

INTERVALS = {"1m": 60, "5m": 300, "15m": 900, "1h": 3_600, "4h": 14_400, "1d": 86_400}
"""The bars the tape keeps, in seconds."""

EARLIEST = 946_684_800_000
"""The year 2000: there are no rows before it, and a time before it is a damaged number."""

GRACE_MS = 2 * SECOND
"""How long after its end a live bar counts as final; imported rows count as known then."""

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

_SPAN = re.compile(r"([1-9]\d{0,5})([smhd])")


class View(msgspec.Struct, frozen=True):
    """What was known at a moment, up to a commit."""

    as_of: int
    watermark: int = NO_WATERMARK


class Channel(msgspec.Struct, frozen=True):
    """What a channel has delivered so far; its newest moments are 0 while all its rows are imported."""

    name: str
    rows: int
    newest_bucket_ts: int
    newest_known_at: int


class RecordedGap(msgspec.Struct, frozen=True):
    """A gap, when it was found, and when it was filled, if it was."""

    gap: Gap
    found_at: int
    filled_at: int | None


class RecordedProblem(msgspec.Struct, frozen=True):
    """What went wrong, as it was said last, how often, and when for the first and the last time."""

    problem: SourceProblem
    times: int
    first_at: int
    last_at: int


class SetBack(msgspec.Struct, frozen=True):
    """A commit at which the clock was found to have gone back, and from what to what."""

    seq: int
    known_before: int
    known_at: int


class UnrolledHour(msgspec.Struct, frozen=True):
    """An hour of a symbol whose minutes have changed since its bar was made, up to a commit."""

    symbol: str
    hour_ts: int
    seq: int


class KnownDelisting(msgspec.Struct, frozen=True):
    """From when on it was known that a perp is not listed any more, and the price at which positions are settled."""

    known_at: int
    settlement_e8: int


def bar_length_ms(text: str) -> int:
    """The length of a bar of the tape."""
    if text not in INTERVALS:
        raise BadInput(f"there are no bars of {text!r}: choose one of {', '.join(INTERVALS)}")
    return INTERVALS[text] * SECOND


def span_ms(text: str) -> int:
    """A length of time such as `8h`."""
    span = parse_span(text)
    if span is None:
        raise BadInput(f"{text!r} is no interval: write it like 1m, 1h or 8h")
    return span


def parse_span(text: str) -> int | None:
    """A length of time such as `8h`; None when it is none."""
    found = _SPAN.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] * SECOND if found else None


def span_text(span_ms: int) -> str:
    """A length of time as intervals are written: `5m`, `8h`, `1.5s`."""
    seconds = span_ms / SECOND
    fits = (unit for unit, length in _UNITS.items() if seconds >= length and seconds % length == 0)
    unit = next(fits, "s")
    return f"{seconds / _UNITS[unit]:g}{unit}"
