"""The only reader of wall time. Everything else takes a `Clock` and cannot tell which one it got."""

import time
from typing import Protocol


class Clock(Protocol):
    """Gives market time, real or virtual, and the seconds that whoever follows that market waits by."""

    @property
    def never_goes_back(self) -> bool:
        """Whether its time cannot be set back, and has nothing to do with the machine's."""
        ...

    @property
    def is_invented(self) -> bool:
        """Whether it is that of an invented market, which is right by definition."""
        ...

    def catch_up(self, instant: int) -> None:
        """Takes in that an instant has passed; a clock that somebody else moves does nothing."""
        ...

    def now(self) -> int:
        """Market time as UTC milliseconds."""
        ...

    def seconds(self) -> float:
        """Monotonic seconds, for timeouts and pacing."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits for so many of these seconds."""
        ...


class _MachineSeconds:
    """Seconds are the machine's."""

    def seconds(self) -> float:
        """Monotonic seconds of the machine."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits for seconds of the machine."""
        await _sleep(seconds)


class SystemClock(_MachineSeconds):
    """Market time is the machine's UTC time."""

    never_goes_back = False
    is_invented = False

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now(self) -> int:
        """The machine's time in UTC milliseconds."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def catch_up(self, instant: int) -> None:
        """Goes on from an instant that is known to have passed: an invented world can run ahead of the machine."""
        self._ahead_ms += max(0, instant - self.now())


class VirtualClock(_MachineSeconds):
    """Market time is set by whoever replays or invents the market, and never goes back; a wire takes real seconds."""

    never_goes_back = True
    is_invented = True

    def __init__(self, start: int) -> None:
        self._now = start

    def catch_up(self, instant: int) -> None:
        """Nothing: whoever sets it says what has passed."""

    def now(self) -> int:
        """The instant last set."""
        return self._now

    def advance(self, to: int) -> None:
        """Moves time forward; the same instant again is allowed, an earlier one is a bug in the caller."""
        if to < self._now:
            raise ValueError(f"virtual time cannot go back from {self._now} to {to}")
        self._now = to


class ScaledClock:
    """Market time of a world that runs so many times faster than real time.

    Its seconds are the world's too: a timeout in a hurried world is short. A world that is moved by hand has no speed,
    and leaves its followers the machine's seconds.
    """

    # A world that is started again begins anew.
    never_goes_back = False
    is_invented = True

    def __init__(self, market_now: int, *, speed: float) -> None:
        self._market_start = market_now
        self._speed = speed
        self._pace = speed or 1.0
        self._start = time.monotonic()

    def now(self) -> int:
        """Where the world is, as far as its pace is kept."""
        return self._market_start + int((time.monotonic() - self._start) * self._speed * 1_000)

    def catch_up(self, instant: int) -> None:
        """Nothing: its world says what has passed."""

    def seconds(self) -> float:
        """Monotonic seconds of the world."""
        return time.monotonic() * self._pace

    async def sleep(self, seconds: float) -> None:
        """Waits for seconds of the world."""
        await _sleep(seconds / self._pace)


async def _sleep(seconds: float) -> None:
    # Imported where something waits: it costs a command that waits for nothing a third of its time.
    import asyncio

    await asyncio.sleep(seconds)


elapsed_seconds = time.monotonic
"""Monotonic seconds, for progress, timeouts and pacing; never for market time."""
