"""One measured figure, with the floor it is compared to and the aim it has."""

import statistics
import time
from collections.abc import Callable

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """A measurement; `ratio` is ours over the floor, or the floor over ours for times, so that more is better."""

    name: str
    value: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    aim: str = ""


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu_seconds(work: Callable[[], object]) -> float:
    """How much of a processor one call takes: for work that waits for nothing, on a machine that others use too."""
    start = time.process_time()
    work()
    return time.process_time() - start


def median_us(
    work: Callable[[], object], *, times: int = 200, timed: Callable[[Callable[[], object]], float] = seconds
) -> float:
    """The median time of a call in microseconds."""
    work()
    return statistics.median(timed(work) for _ in range(times)) * 1e6


def line(figure: Figure) -> str:
    """A figure for people."""
    floor = "" if figure.floor is None else f"floor {figure.floor:,.1f}"
    ratio = "" if figure.ratio is None else f"ratio {figure.ratio:.2f}"
    aim = f"aim {figure.aim}" if figure.aim else ""
    return f"{figure.name:58} {figure.value:>14,.1f} {figure.unit:10} {floor:18} {ratio:12} {aim}".rstrip()
