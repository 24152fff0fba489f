"""The only reader of wall time. Everything else takes a `Clock` and cannot tell which one it got."""

import time
from typing import Protocol


class Clock(Protocol):
    """Gives market time, real or virtual."""

    def now(self) -> int:
        """Market time as UTC milliseconds."""
        ...


class SystemClock:
    """Market time is the machine's UTC time."""

    def now(self) -> int:
        """The machine's time in UTC milliseconds."""
        return time.time_ns() // 1_000_000


class VirtualClock:
    """Market time is set by whoever replays or invents the market, and never goes back."""

    def __init__(self, start: int) -> None:
        self._now = start

    def now(self) -> int:
        """The instant last set."""
        return self._now

    def advance(self, to: int) -> None:
        """Moves time forward; the same instant again is allowed, an earlier one is a bug in the caller."""
        if to < self._now:
            raise ValueError(f"virtual time cannot go back from {self._now} to {to}")
        self._now = to


class ScaledClock:
    """Market time of a world that runs so many times faster than real time."""

    def __init__(self, market_now: int, *, speed: float) -> None:
        self._market_start = market_now
        self._speed = speed
        self._start = time.monotonic()

    def now(self) -> int:
        """Where the world is, as far as its pace is kept."""
        return self._market_start + int((time.monotonic() - self._start) * self._speed * 1_000)


def elapsed_seconds() -> float:
    """Monotonic seconds, for progress, timeouts and pacing; never for market time."""
    return time.monotonic()
