"""What an importer is: a file of market history becomes facts, problems and findings. Nothing is written here.

1. `importers/formats.py` tells from the first bytes what a file is;
2. a reader makes a table of it: `delimited` (CSV), `json_rows`, `columnar` (Parquet, feather);
3. `columns` and `subject` find out which column is which and which rows are meant;
4. `candles`, `funding` and `marks` make facts of the rows; `raw_stream` replays recorded frames and answers instead.

`importers/parse.py` is the whole of it. A row that is no fact becomes a `Problem`; what the file looks like becomes
`Told`, so that it can be read before anything is stored.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from tapebook.domain.instants import SECOND
from tapebook.domain.market import (
    AssetContext,
    Candle,
    FundingRate,
    Liquidity,
    Mid,
    Observation,
    PredictedFunding,
)
from tapebook.errors import BadInput

Kind = Literal["candles", "funding", "marks", "stream"]
Imported = Candle | FundingRate | Mid | Liquidity | AssetContext | PredictedFunding
Progress = Callable[[int], None]
KnownAt = Callable[[Observation], int]

INTERVALS = {"1m": 60, "5m": 300, "15m": 900, "1h": 3_600, "4h": 14_400, "1d": 86_400}
"""The bars the tape keeps, in seconds."""

EARLIEST = 946_684_800_000
"""The year 2000: there are no rows before it, and a time before it is a damaged number."""

GRACE_MS = 2 * SECOND
"""How long after its end a live bar counts as final; imported rows count as known then."""

MID_BUCKET = 5 * SECOND
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SPAN = re.compile(r"([1-9]\d{0,5})([smhd])")
SHOWN_PROBLEMS = 20


class Ask(msgspec.Struct, frozen=True):
    """What is to be imported: rows of which kind, about whom, how far apart; nothing later than `now` is history."""

    kind: Kind
    symbol: str | None
    step_ms: int | None
    now: int


class Problem(msgspec.Struct, frozen=True):
    """A row that cannot be used, and why."""

    row: int
    why: str


class Problems:
    """The bad rows of a file: all are counted, the first are kept."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[Problem] = []

    def add(self, row: int, why: str) -> None:
        """Counts a row."""
        self.count += 1
        worst = self._first[-1].row if len(self._first) >= SHOWN_PROBLEMS else row
        if row <= worst:
            self._first.append(Problem(row, why))
            self._first = sorted(self._first, key=lambda problem: problem.row)[:SHOWN_PROBLEMS]

    def first(self) -> tuple[Problem, ...]:
        """The first bad rows in the order of the file."""
        return tuple(self._first)


class Told(msgspec.Struct, frozen=True):
    """What a file turned out to be. A gap goes from the first missing moment to the next row there is."""

    format: str
    row_name: Literal["line", "row"]
    columns: dict[str, str]
    unused: tuple[str, ...]
    times: str
    values: str
    rows_read: int
    duplicates: int
    first_ts: int | None
    last_ts: int | None
    spacing_ms: int | None
    gap_count: int
    longest_gaps: tuple[tuple[int, int], ...]
    missing: int
    notes: tuple[str, ...]


class Parsed(msgspec.Struct, frozen=True):
    """A file as facts in order of time, with the rule when each was known, beside what is wrong with the rest.

    `stated` names the fields that stand in the file, the others are zeros or estimates; empty when all of them do.
    """

    rows: Sequence[Imported]
    known_at: KnownAt
    stated: tuple[str, ...]
    problems: tuple[Problem, ...]
    problem_count: int
    told: Told


def bar_ms(text: str) -> int:
    """The length of a bar of the tape."""
    if text not in INTERVALS:
        raise BadInput(f"there are no bars of {text!r}: choose one of {', '.join(INTERVALS)}")
    return INTERVALS[text] * SECOND


def span_ms(text: str) -> int:
    """A length of time such as `8h`."""
    span = read_span(text)
    if span is None:
        raise BadInput(f"{text!r} is no interval: write it like 1m, 1h or 8h")
    return span


def read_span(text: str) -> int | None:
    """A length of time such as `8h`; None when it is none."""
    found = _SPAN.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] * SECOND if found else None


def span_text(span_ms: int) -> str:
    """A length of time as intervals are written: `5m`, `8h`, `1.5s`."""
    seconds = span_ms / SECOND
    fits = (unit for unit, length in _UNITS.items() if seconds >= length and seconds % length == 0)
    unit = next(fits, "s")
    return f"{seconds / _UNITS[unit]:g}{unit}"


def known_at(fact: Observation) -> int:
    """When a fact of imported history would have been known: the end of its bucket and the grace of a live bar."""
    if isinstance(fact, Candle):
        return fact.end + GRACE_MS
    # A rate is settled at its hour, which is the moment of its bucket; a price belongs to five seconds.
    return fact.bucket_ts + GRACE_MS + (MID_BUCKET if isinstance(fact, Mid) else 0)
