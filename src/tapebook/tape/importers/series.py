"""A series of facts in order of time: turned round, without repetitions, with its spacing and its gaps."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import gt, lt, sub
from typing import Generic, TypeVar

import msgspec

from tapebook.domain.instants import iso
from tapebook.errors import BadInput
from tapebook.tape.importer import Imported, Problems, span_text

Fact = TypeVar("Fact", bound=Imported)
Rows = list[tuple[int, int, Fact]]
"""The number of each row in the file, its time as the file has it, and what it says."""


class Series(msgspec.Struct, Generic[Fact]):
    """Facts with the number of their rows, each later than the one before."""

    rows: Rows[Fact]
    duplicates: int = 0
    backwards: bool = False

    @property
    def times(self) -> list[int]:
        """The times of the rows."""
        return [at for _, at, _ in self.rows]

    def keep(self, good: Callable[[int], bool], why: str, problems: Problems) -> None:
        """Leaves only the rows whose time is good; the others become problems."""
        bad = [(number, at) for number, at, _ in self.rows if not good(at)]
        for number, at in bad:
            problems.add(number, f"{iso(at)} {why}")
        if bad:
            self.rows = [row for row in self.rows if good(row[1])]


def ordered(rows: Rows[Fact], problems: Problems) -> Series[Fact]:
    """The rows in order; a file that is newest first throughout is read backwards, other disorder is a problem."""
    times = [at for _, at, _ in rows]
    if all(map(lt, times, times[1:])):
        return Series(rows)
    backwards = len(times) > 1 and not any(map(lt, times, times[1:])) and times[0] > times[-1]
    kept: Rows[Fact] = []
    duplicates = 0
    for row in reversed(rows) if backwards else rows:
        number, at, fact = row
        if not kept or at > kept[-1][1]:
            kept.append(row)
        elif at < kept[-1][1]:
            problems.add(number, f"{iso(at)} comes after {iso(kept[-1][1])}: rows must be in order of time")
        elif fact == kept[-1][2]:
            duplicates += 1
        else:
            problems.add(number, f"{iso(at)} is there already with other values, in {kept[-1][0]}")
    return Series(kept, duplicates, backwards)


def spacing(times: Sequence[int]) -> int | None:
    """The usual distance of two neighbours; None of fewer than two."""
    distances = Counter(map(sub, times[1:], times))
    # Of equally usual ones the smallest: larger ones are gaps.
    return min(distances, key=lambda distance: (-distances[distance], distance), default=None)


def require_spacing(found: int | None, wanted: int | None) -> None:
    """BadInput when the rows are not as far apart as was said."""
    if found is None or wanted is None or found == wanted:
        return
    there, said = span_text(found), span_text(wanted)
    raise BadInput(f"the rows are {there} apart but --interval says {said}: use --interval {there}, or another file")


def holes(times: Sequence[int], step: int | None) -> tuple[tuple[int, int], ...]:
    """Where rows are missing: from the first missing moment to the next row."""
    if step is None or not any(map(gt, map(sub, times[1:], times), [step] * len(times))):
        return ()
    return tuple((before + step, after) for before, after in pairwise(times) if after - before > step)


def missing_rows(gaps: Sequence[tuple[int, int]], step: int | None) -> int:
    """How many rows the gaps could have held."""
    return sum((after - first) // step for first, after in gaps) if step else 0
