"""Clocks that go back: when that is noticed, what is written of it, and who may believe it.

`known_at` of a stream is the clock's time and later than the one before it. A clock that was ahead and was set right
would hold it ahead for as long as it was wrong, and everything written meanwhile would look unknown. So a clock that
is behind the newest `known_at` by more than `TOLERATED_MS` counts as set back, and `known_at` goes back with it, once,
behind an event (`clock.set_back`) that says so; `verify` accepts no other step back. Smaller steps are bridged.
"""

from collections.abc import Callable

import msgspec

from tapebook.db import Queries
from tapebook.domain.instants import MINUTE
from tapebook.log.event import Draft, Event
from tapebook.log.projection import Projection, Write

TOLERATED_MS = MINUTE
"""A clock may be behind what was written by so much: appends of one moment count up, and clocks are adjusted."""

KIND = "clock.set_back"
_QUERIES = Queries.load("tapebook.log")

MayGoBack = Callable[[int, int], int]
"""Takes the newest `known_at` and the clock's time; gives that time, or raises Busy when it cannot be right."""


class ClockSetBack(msgspec.Struct, frozen=True):
    """The clock has gone back: to when, from when, and the first event that counts as known after that."""

    known_at: int
    known_before: int
    first_seq: int


class StreamSetBack(msgspec.Struct, frozen=True):
    """Where a stream was set back, and what its event says."""

    seq: int
    first_seq: int
    known_before: int
    known_at: int


def gone_back(newest_known_at: int, now: int) -> bool:
    """Whether the clock is so far behind that it must have been set back."""
    return newest_known_at - now > TOLERATED_MS


def set_back_draft(said: ClockSetBack) -> Draft:
    """The event that lets `known_at` go back."""
    return Draft.of(KIND, said.known_at, said)


def _projected(event: Event) -> list[Write]:
    said = msgspec.json.decode(event.body, type=ClockSetBack)
    place = {"owner": event.stream.owner, "deployment": event.stream.deployment, "seq": event.seq}
    return [Write(_QUERIES.add_set_back, place | msgspec.structs.asdict(said))]


PROJECTION = Projection(tables=("log_set_backs",), projectors={KIND: _projected})
