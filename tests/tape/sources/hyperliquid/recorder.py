"""A sink that remembers, shorthands for what went into it, and a source in real time with such a sink."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tapebook.domain.market import Candle, Gap, MidFrame, Observation
from tapebook.tape.source import Fact
from tapebook.tape.sources.hyperliquid import HyperliquidSettings, HyperliquidSource, create

Kind = TypeVar("Kind")


class Recorder:
    """Keeps everything, and the order of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.facts: list[Observation] = []
        self.gaps: list[Gap] = []

    def take(self, observations: Sequence[Fact]) -> None:
        """Takes facts; a frame of midpoints as what it says of each symbol."""
        self.calls.append(("take", tuple(observations)))
        for fact in observations:
            self.facts.extend(fact if isinstance(fact, MidFrame) else [fact])

    def gap(self, gap: Gap) -> None:
        """Takes a gap."""
        self.calls.append(("gap", gap))
        self.gaps.append(gap)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def bars(self) -> dict[tuple[str, int], Candle]:
        """The newest revision of every bar, by symbol and beginning."""
        return {(bar.symbol, bar.bucket_ts): bar for bar in self.of(Candle)}

    def named(self) -> list[tuple[str, str, int, int]]:
        """The gaps without source and reason."""
        return [(gap.channel, gap.subject, gap.from_ts, gap.to_ts) for gap in self.gaps]


def source_of(
    settings: HyperliquidSettings, *, sink: Recorder, clock: Callable[[], int], resume: Mapping[str, int] | None = None
) -> HyperliquidSource:
    """A source whose seconds are the machine's; under virtual time it does not wait long before it connects again."""

    async def nap(seconds: float) -> None:
        await asyncio.sleep(seconds / 20 if settings.stepped else seconds)

    return create(settings, sink=sink, clock=clock, monotonic=time.monotonic, sleep=nap, resume=resume or {})
