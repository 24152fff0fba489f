"""A sink that remembers, shorthands for what went into it, and a source in real time with such a sink."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tapebook.domain.market import Candle, Gap, MidFrame, Observation, RegistryRecord, SubjectKind
from tapebook.domain.units import MINUTE
from tapebook.sources.hyperliquid import HyperliquidSourceSettings, create
from tapebook.sources.hyperliquid.client import HyperliquidSource
from tapebook.tape.source import Fact, SourceProblem, SourceProgress

Kind = TypeVar("Kind")


class Recorder:
    """Keeps everything, and the order of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.facts: list[Observation] = []
        self.records: list[RegistryRecord] = []
        self.gaps: list[Gap] = []
        self.filled_ranges: list[Gap] = []
        self.problems: list[SourceProblem] = []
        self.kinds: dict[str, SubjectKind] = {}
        self.progress: list[SourceProgress] = []

    def add_observations(self, observations: Sequence[Fact]) -> None:
        """Takes facts; a frame of midpoints as what it says of each symbol. Records of the registry are kept apart."""
        self.records += [fact for fact in observations if isinstance(fact, RegistryRecord)]
        observations = [fact for fact in observations if not isinstance(fact, RegistryRecord)]
        if observations:
            self.calls.append(("take", tuple(observations)))
        for fact in observations:
            self.facts.extend(fact if isinstance(fact, MidFrame) else [fact])

    def add_gap(self, gap: Gap) -> None:
        """Takes a gap."""
        self.calls.append(("gap", gap))
        self.gaps.append(gap)

    def add_filled_range(self, gap: Gap) -> None:
        """Takes a range that was fetched."""
        self.filled_ranges.append(gap)

    def add_problem(self, problem: SourceProblem) -> None:
        """Takes what went wrong."""
        self.problems.append(problem)

    def add_kinds(self, kinds: Mapping[str, SubjectKind]) -> None:
        """Takes the kinds of symbols."""
        self.kinds |= kinds

    def add_progress(self, progress: SourceProgress) -> None:
        """Takes how far a source has come."""
        self.progress.append(progress)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def bars(self) -> dict[tuple[str, int], Candle]:
        """The newest revision of every bar, by symbol and beginning."""
        return {(bar.symbol, bar.bucket_ts): bar for bar in self.of(Candle)}

    def named(self) -> list[tuple[str, str, int, int]]:
        """The gaps without source and reason."""
        return [(gap.channel, gap.subject, gap.from_ts, gap.to_ts) for gap in self.gaps]

    def unfilled(self) -> list[tuple[str, int]]:
        """The minutes in gaps of candles, by symbol, that no range covers that was fetched."""
        candles = [gap for gap in self.gaps if gap.channel == "candles"]
        minutes = [(gap.subject, at) for gap in candles for at in range(gap.from_ts, gap.to_ts, MINUTE)]
        return [place for place in minutes if not any(_covers(each, *place) for each in self.filled_ranges)]


def _covers(gap: Gap, symbol: str, at: int) -> bool:
    return gap.subject == symbol and gap.from_ts <= at < gap.to_ts


def source_of(
    settings: HyperliquidSourceSettings,
    *,
    sink: Recorder,
    clock: Callable[[], int],
    resume: Mapping[str, int] | None = None,
) -> HyperliquidSource:
    """A source whose seconds are the machine's; under virtual time it does not wait long before it connects again."""

    async def nap(seconds: float) -> None:
        await asyncio.sleep(seconds / 20 if settings.stepped else seconds)

    return create(settings, sink=sink, clock=clock, monotonic=time.monotonic, sleep=nap, resume=resume or {})
