"""The port of sources: a source delivers observations, and says where it has none.

A source runs until it is cancelled. It hands everything to a `Sink` as it learns it; the sink decides when to
commit, and how often. Under virtual time a caller moves the market one step and then calls `barrier`: when it
returns, all that the step sent has been handed over.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from tapebook.domain.market import Gap, MidFrame, Observation

Fact = Observation | MidFrame

RecordPayload = Callable[[int, str | bytes], None]
"""Takes every payload with the moment it was received, before anything is made of it; it may not block."""


class SourceProblem(msgspec.Struct, frozen=True):
    """Something that went wrong on the way to the tape: what kind of thing, with whom, and what was said."""

    source: str
    kind: str
    subject: str
    said: str


class Sink(Protocol):
    """Where a source puts what it learns; no method may block."""

    def add_observations(self, observations: Sequence[Fact]) -> None:
        """Takes observations that became known together."""
        ...

    def add_gap(self, gap: Gap) -> None:
        """Takes note of market time a channel said nothing about."""
        ...

    def add_filled_range(self, gap: Gap) -> None:
        """Takes note of a range that was fetched: whatever gap was recorded in it is filled."""
        ...

    def add_problem(self, problem: SourceProblem) -> None:
        """Takes note of what went wrong."""
        ...


class Source(Protocol):
    """Anything that can watch a market."""

    async def run(self) -> None:
        """Connects, subscribes, watches, backfills and polls until cancelled."""
        ...

    async def barrier(self, now: int) -> None:
        """Returns when everything sent before the call has been taken and the polls due at `now` are done."""
        ...
