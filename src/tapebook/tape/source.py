"""The port of sources: a source delivers observations, and says where it has none.

A source is a package `tapebook.sources.NAME` whose `SOURCE` is a `SourceAdapter`: all that `doctor`, retention and
ingestion know of it. Once created it runs until it is cancelled. It hands everything to a `Sink` as it learns it; the
sink decides when to commit, and how often. Under virtual time a caller moves the market one step and then calls
`barrier`: when it returns, all that the step sent has been handed over.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from tapebook.db import Database, Queries
from tapebook.domain.market import Gap, MidFrame, Observation, SubjectKind
from tapebook.domain.units import MINUTE
from tapebook.tape.families import POSITIONING, PRESSURE, VOLATILITY, Family

if TYPE_CHECKING:
    from tapebook.tape.store import Tape

_QUERIES = Queries.load("tapebook.tape")

Fact = Observation | MidFrame

RecordPayload = Callable[[int, str | bytes], None]
"""Takes every payload with the moment it was received, before anything is made of it; it may not block."""


NO_CONNECTION = "no connection to the exchange"
"""How the line of `Source.connection_problem` begins where there is none."""


class SourceProblem(msgspec.Struct, frozen=True):
    """Something that went wrong on the way to the tape: what kind of thing, with whom, and what was said."""

    source: str
    kind: str
    subject: str
    said: str


class SourceProgress(msgspec.Struct, frozen=True):
    """A part of what a source has done so far of something that takes many questions; without a part, it is done.

    Part 0 outlives what is done: how the source stands with its server.
    """

    source: str
    part: int | None = None
    state: str = ""


class ProgressTable:
    """How far sources have come, in the database of a tape."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def parts(self, source: str) -> dict[int, str]:
        """What is kept of a source, by part, in order; empty when it is in the middle of nothing."""
        return dict(self._db.all(_QUERIES.progress, source=source))

    def note(self, progress: Sequence[SourceProgress]) -> None:
        """Keeps parts, and forgets those of a source that is done, in the order in which they were said."""
        if not progress:
            return
        with self._db.transaction():
            for each in progress:
                if each.part is None:
                    self._db.execute(_QUERIES.forget_progress, source=each.source)
                else:
                    self._db.execute(_QUERIES.note_progress, source=each.source, part=each.part, state_json=each.state)


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

    def add_kinds(self, kinds: Mapping[str, SubjectKind]) -> None:
        """Takes note of symbols that are no perps, before there are observations of them."""
        ...

    def add_progress(self, progress: SourceProgress) -> None:
        """Takes note of how far a source has come, to be kept with what it delivered until now."""
        ...


class Source(Protocol):
    """Anything that can watch a market."""

    async def run(self) -> None:
        """Connects, subscribes, watches, backfills and polls until cancelled."""
        ...

    async def barrier(self, now: int) -> None:
        """Returns when everything sent before the call has been taken and the polls due at `now` are done."""
        ...

    def connection_problem(self) -> str | None:
        """Why nothing is heard just now, in one line; None while something is."""
        ...

    def unlisted_settings(self) -> tuple[str, ...]:
        """What the settings ask for in vain, a line each that says what to do."""
        ...


RetentionClass = Literal["mids", "candles", "features", "funding"]
"""Which setting of [retention] says how long rows stay: `mids_hours`, `candles_hours` and so on."""


class SourceChannel(msgspec.Struct, frozen=True):
    """A channel that a source delivers: how old its newest row may be before it is stale, and how long rows stay.

    `family` is the table of a channel of which the tape has none itself; facts of it are `FeatureRow`s with its name.
    """

    name: str
    stale_after_ms: int
    retention: RetentionClass
    family: Family | None = None


class SourceContext(msgspec.Struct, frozen=True):
    """What a source is created with: where its facts go, the time, and the tape, from which it learns where to resume.

    `url` is an address to listen to instead of that of the settings; `record` takes every payload as it was received.
    Under virtual time (`stepped`) a source asks in `barrier` alone, so that all of a step is known at its moment.
    `progress` is what the source said by `add_progress` before it was ended, by part.
    """

    sink: Sink
    tape: "Tape"
    clock: Callable[[], int]
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    url: str | None = None
    record: RecordPayload | None = None
    stepped: bool = False
    progress: Mapping[int, str] = MappingProxyType({})


def _is_always_current(settings: Any, problem: SourceProblem) -> bool:
    return True


def _all_gaps(tape: "Tape", gaps: list[Gap], *, now: int) -> list[Gap]:
    return gaps


def _no_gaps(tape: "Tape", *, now: int) -> list[Gap]:
    return []


class MissingOnTape(Protocol):
    """Leaves out the gaps of a source that the tape turns out to have rows of."""

    def __call__(self, tape: "Tape", gaps: list[Gap], *, now: int) -> list[Gap]:
        """The gaps that remain."""
        ...


class UnrecordedGaps(Protocol):
    """Finds gaps of a source that only the tape shows."""

    def __call__(self, tape: "Tape", *, now: int) -> list[Gap]:
        """Those that no recorded gap names."""
        ...


class SourceReplay(Protocol):
    """Makes facts of what a source has recorded of its answers, in the order in which they came."""

    @property
    def kinds(self) -> Mapping[str, SubjectKind]:
        """The kinds of the symbols that are no perps, so far."""
        ...

    def is_mine(self, frame: bytes) -> bool:
        """Whether a recorded frame is of this source; asked of every frame, so it looks at the beginning alone."""
        ...

    def add_frame(self, frame: bytes, *, at: int) -> tuple[Sequence[Observation], str]:
        """The facts that a frame received at a moment completes, and what is wrong with it; empty when nothing is."""
        ...


class SourceAdapter(msgspec.Struct, frozen=True):
    """A source as the rest of the house sees it.

    `settings` is the type of its section of tapebook.toml, None for one that the settings know themselves; `migrations`
    the package whose migrations make its own tables; `remedies` say by kind of problem what to do about it; and
    `is_current` whether a problem of the past still concerns what the settings ask for. Before gaps are written
    `missing_on_tape` is asked, and every few minutes `unrecorded_gaps`. `replay` makes facts of recorded payloads, for
    `tapebook import stream`; a source without it cannot be imported.
    """

    name: str
    channels: tuple[SourceChannel, ...]
    create: Callable[[Any, SourceContext], Source]
    settings: type[msgspec.Struct] | None = None
    migrations: str = ""
    remedies: Mapping[str, str] = {}
    is_current: Callable[[Any, SourceProblem], bool] = _is_always_current
    missing_on_tape: MissingOnTape = _all_gaps
    unrecorded_gaps: UnrecordedGaps = _no_gaps
    replay: Callable[[Any, "Tape"], SourceReplay] | None = None

    @property
    def families(self) -> tuple[Family, ...]:
        """The tables of its own."""
        return tuple(channel.family for channel in self.channels if channel.family is not None)


_DERIVED_CHANNELS = tuple(
    SourceChannel(family.channel, 15 * MINUTE, "features") for family in (VOLATILITY, PRESSURE, POSITIONING)
)


def channels_of(sources: Iterable[SourceAdapter]) -> dict[str, SourceChannel]:
    """The channels of some sources and those that are derived from them, by name."""
    return {channel.name: channel for source in sources for channel in (*source.channels, *_DERIVED_CHANNELS)}
