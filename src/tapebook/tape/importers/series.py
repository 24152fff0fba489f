"""A series of facts in order of time: turned round, without repetitions, with its spacing and its gaps."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import compress, pairwise
from operator import ge, lt, sub
from typing import Generic, TypeVar

import msgspec

from tapebook.domain.instants import SECOND, iso
from tapebook.errors import BadInput
from tapebook.tape.importer import INTERVALS, Imported, Problems, span_text

Fact = TypeVar("Fact", bound=Imported)
Gap = tuple[int, int]
_SHOWN_GAPS = 5
# The share of rows that must begin a bar of a length, so that a few that are wrong do not change it.
_FITTING = 0.9


class Series(msgspec.Struct, Generic[Fact]):
    """Facts beside the numbers of their rows and the times the file gives them."""

    numbers: list[int] = []
    times: list[int] = []
    facts: list[Fact] = []
    duplicates: int = 0
    backwards: bool = False

    def add(self, number: int, at: int, fact: Fact) -> None:
        """Adds a row."""
        self.numbers.append(number)
        self.times.append(at)
        self.facts.append(fact)

    def drop(self, bad: Sequence[bool], why: str, problems: Problems) -> None:
        """Turns the rows that are bad into problems."""
        if not any(bad):
            return
        for number, at in compress(zip(self.numbers, self.times, strict=True), bad):
            problems.add(number, f"{iso(at)} {why}")
        self.keep([not one for one in bad])

    def keep(self, good: Sequence[bool]) -> None:
        """Leaves only the rows that are good."""
        self.numbers = list(compress(self.numbers, good))
        self.times = list(compress(self.times, good))
        self.facts = list(compress(self.facts, good))


def put_in_order(series: Series[Fact], problems: Problems) -> None:
    """Orders the rows: a file that is newest first throughout is read backwards, other disorder is a problem.

    A row that says the same once more is dropped and counted; one that says something else is a problem.
    """
    times = series.times
    if all(map(lt, times, times[1:])):
        return
    if times[0] > times[-1] and all(map(ge, times, times[1:])):
        series.backwards = True
        for column in (series.numbers, series.times, series.facts):
            column.reverse()
    good, last = [True], 0
    for place in range(1, len(times)):
        at, newest = times[place], times[last]
        good.append(at > newest)
        if at > newest:
            last = place
        elif at < newest:
            problems.add(series.numbers[place], f"{iso(at)} comes after {iso(newest)}: rows must be in order of time")
        elif series.facts[place] == series.facts[last]:
            series.duplicates += 1
        else:
            problems.add(series.numbers[place], f"{iso(at)} is in {series.numbers[last]:,} already with other values")
    series.keep(good)


def spacing(times: Sequence[int]) -> int | None:
    """The usual distance of two neighbours; None of fewer than two."""
    distances = Counter(map(sub, times[1:], times))
    # Of equally usual ones the smallest: larger ones are gaps.
    return min(distances, key=lambda distance: (-distances[distance], distance), default=None)


def bar_length(times: Sequence[int]) -> int:
    """How long the bars are that begin at these moments, in either order: the median distance of two neighbours.

    Where quiet moments have no rows that may be too long, so nearly all must begin such a bar; else it is what all
    distances have in common. BadInput when neither is a length the tape has.
    """
    distances = sorted(abs(after - before) for before, after in pairwise(times) if after != before)
    if not distances:
        raise BadInput("one row does not tell how long its bar is: say so with --interval")
    lengths, median = {seconds * SECOND for seconds in INTERVALS.values()}, distances[len(distances) // 2]
    fitting = sum(at % median == 0 for at in times)
    common = math.gcd(*distances)
    if median in lengths and fitting >= _FITTING * len(times):
        return median
    if common in lengths:
        return common
    apart, known = span_text(median), ", ".join(INTERVALS)
    raise BadInput(f"the rows are {apart} apart, and there are no bars of that length: choose one of {known}")


def require_spacing(times: Sequence[int], wanted: int | None) -> None:
    """BadInput when the rows are not as far apart as was said.

    Where quiet moments have no rows, the usual distance may be larger, but all of them have the right common divisor.
    """
    found = spacing(times)
    if found is None or wanted is None or found == wanted or math.gcd(*map(sub, times[1:], times)) == wanted:
        return
    there, said = span_text(found), span_text(wanted)
    raise BadInput(f"the rows are {there} apart but --interval says {said}: use --interval {there}, or another file")


def holes(times: Sequence[int], step: int | None) -> list[Gap]:
    """Where rows are missing: from the first missing moment to the next row."""
    if step is None:
        return []
    return [(before + step, after) for before, after in pairwise(times) if after - before > step]


def longest(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """The longest gaps in order of time."""
    return tuple(sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:_SHOWN_GAPS]))


def missing_rows(gaps: Sequence[Gap], step: int | None) -> int:
    """How many rows the gaps could have held."""
    return sum((after - first) // step for first, after in gaps) if step else 0
