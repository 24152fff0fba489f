"""What an import takes and gives: a request, and a file as facts, problems and findings. Nothing is written here.

1. `recognise_format` tells from the first bytes what a file is, and a reader makes a table of it (`tables.py`);
2. `find_columns` and `rows_of_symbol` find out which column is which and which rows are meant (`table_columns.py`);
3. `parse_candles`, `parse_funding` and `parse_marks` make facts of the rows (`series.py`); `parse_stream` replays
   recorded frames and answers instead (`recorded_stream.py`).

`parse_file` is the whole of it (`import_file.py`). A row that is no fact becomes a `RowProblem`; what the file looks
like becomes `FileFindings`, so that it can be read before anything is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from tapebook.domain.market import (
    AssetContext,
    Candle,
    FeatureRow,
    FundingRate,
    Liquidity,
    Mid,
    Observation,
    PredictedFunding,
    RegistryRecord,
    SubjectKind,
)
from tapebook.domain.units import SECOND
from tapebook.tape.source import SourceReplay
from tapebook.tape.view import GRACE_MS

ImportKind = Literal["candles", "funding", "marks", "stream"]
Imported = Candle | FundingRate | Mid | Liquidity | AssetContext | PredictedFunding | FeatureRow | RegistryRecord
Progress = Callable[[int], None]
KnownAt = Callable[[Observation], int]


MID_BUCKET_MS = 5 * SECOND
SHOWN_PROBLEMS = 20


class ImportRequest(msgspec.Struct, frozen=True):
    """What is to be imported: rows of which kind, about whom, how far apart; nothing later than `now` is history.

    `replays` make facts of what sources beside the exchange have recorded, by their name.
    """

    kind: ImportKind
    symbol: str | None
    step_ms: int | None
    now: int
    replays: Mapping[str, SourceReplay] = {}


class RowProblem(msgspec.Struct, frozen=True):
    """A row that cannot be used, and why."""

    row: int
    why: str


class RowProblems:
    """The bad rows of a file: all are counted, the first are kept."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[RowProblem] = []

    def add(self, row: int, why: str) -> None:
        """Counts a row."""
        self.count += 1
        worst = self._first[-1].row if len(self._first) >= SHOWN_PROBLEMS else row
        if row <= worst:
            self._first.append(RowProblem(row, why))
            self._first = sorted(self._first, key=lambda problem: problem.row)[:SHOWN_PROBLEMS]

    def first(self) -> tuple[RowProblem, ...]:
        """The first bad rows in the order of the file."""
        return tuple(self._first)


class FileFindings(msgspec.Struct, frozen=True):
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


class ParsedFile(msgspec.Struct, frozen=True):
    """A file as facts in order of time, with the rule when each was known, beside what is wrong with the rest.

    `stated` names the fields that stand in the file, the others are zeros or estimates; empty when all of them do.
    `kinds` are those of symbols that are no perps.
    """

    rows: Sequence[Imported]
    known_at: KnownAt
    stated: tuple[str, ...]
    problems: tuple[RowProblem, ...]
    problem_count: int
    told: FileFindings
    kinds: Mapping[str, SubjectKind] = {}


def assumed_known_at(fact: Observation) -> int:
    """When a fact of imported history would have been known: the end of its bucket and the grace of a live bar."""
    if isinstance(fact, Candle):
        return fact.end + GRACE_MS
    # A rate is settled at its hour, which is the moment of its bucket; a price belongs to five seconds.
    return fact.bucket_ts + GRACE_MS + (MID_BUCKET_MS if isinstance(fact, Mid) else 0)
