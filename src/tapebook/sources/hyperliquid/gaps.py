"""Gaps, which are market time a channel said nothing about, and the outbox of facts, gaps and problems. Pure.

What keeps a beat (mids, contexts, books) has a `Cadence`: a beat that comes too late names the buckets before it. It
is told the newest bucket the tape has, so the outage of a killed process is named by the first beat after it; both
are committed together, hence once. What can be requested again (candles, funding) has gaps only where the exchange
had no answer: `missing_ranges` finds them between the first and the last row of an answer.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import pairwise

from tapebook.domain.market import Gap, SubjectKind, subject_of
from tapebook.domain.text import short_line
from tapebook.domain.units import MINUTE, floor_to_step
from tapebook.sources.hyperliquid.wire import Malformed
from tapebook.tape.source import Fact, Sink, SourceProblem

SOURCE_NAME = "hyperliquid"
NOT_RUNNING = "not running"
NO_ANSWER = "no answer"
NO_FRAME = "no frame"
NO_BAR = "the exchange has no bar"

# The exchange keeps this many bars of every interval.
KEPT_BARS = 5_000


class Cadence:
    """The beat of one channel: a bucket every `step`, of which `slack` in a row may be missing while it is punctual."""

    def __init__(self, channel: str, subject: str, *, step: int, slack: int = 0) -> None:
        self._channel = channel
        self._subject = subject
        self._step = step
        self._slack = slack
        self._newest: int | None = None

    def resume(self, newest: int | None) -> None:
        """Starts after the newest bucket the tape has."""
        self._newest = newest

    def record_bucket(self, bucket: int, reason: str, *, punctual: bool = True) -> Gap | None:
        """A beat; gives the gap before it, if there is one. A beat that was not punctual excuses no empty bucket."""
        newest, self._newest = self._newest, bucket if self._newest is None else max(bucket, self._newest)
        # What the tape has may lie off the beat, when the beat was another one.
        expected = bucket if newest is None else floor_to_step(newest, self._step) + self._step
        if bucket - expected <= (self._slack if punctual else 0) * self._step:
            return None
        return Gap(SOURCE_NAME, self._channel, self._subject, expected, bucket, reason)


def channel_of(channel: str, dex: str) -> str:
    """A channel of one dex: `mids` is that of the main one, `mids:xyz` that of a builder dex."""
    return f"{channel}:{dex}" if dex else channel


def missing_ranges(buckets: Iterable[int], *, step: int) -> list[tuple[int, int]]:
    """The missing ranges between the first and the last bucket: from the first missing one to the next there is."""
    there = sorted(set(buckets))
    return [(before + step, after) for before, after in pairwise(there) if after - before > step]


def first_kept_minute(since: int, now: int, *, dex: str = "") -> tuple[int, Gap | None]:
    """The first minute from `since` that the exchange still has, and the gap of a dex before it."""
    oldest = floor_to_step(now, MINUTE) - (KEPT_BARS - 1) * MINUTE
    if since >= oldest:
        return since, None
    return oldest, Gap(SOURCE_NAME, "candles", subject_of(dex), since, oldest, f"the exchange keeps {KEPT_BARS} bars")


_RECENT = 20
_LONGEST = 300
_MOST_UNTOLD = 1_000


def printable(text: str) -> str:
    """A text from outside on one line: capped, and without what could steer a terminal."""
    return short_line(text, _LONGEST)


class Outbox:
    """What the sink has not been given yet."""

    def __init__(self) -> None:
        self._facts: list[Fact] = []
        self._gaps: list[Gap] = []
        self._filled: list[Gap] = []
        self._kinds: dict[str, SubjectKind] = {}
        self._untold: deque[SourceProblem] = deque(maxlen=_MOST_UNTOLD)
        self.problems: Counter[str] = Counter()
        self.recent: deque[str] = deque(maxlen=_RECENT)

    def add_facts(self, facts: Iterable[Fact], gap: Gap | None = None) -> None:
        """Facts that became known together, and the gap they ended."""
        self._facts.extend(facts)
        if gap is not None:
            self._gaps.append(gap)

    def add_gap(self, channel: str, subject: str, bounds: tuple[int, int], reason: str) -> None:
        """Market time about which there will be nothing."""
        self._gaps.append(Gap(SOURCE_NAME, channel, subject, *bounds, reason))

    def add_filled_range(self, channel: str, subject: str, bounds: tuple[int, int]) -> None:
        """A range that was asked for and came; the facts of it were put before."""
        self._filled.append(Gap(SOURCE_NAME, channel, subject, *bounds, ""))

    def add_kinds(self, kinds: Mapping[str, SubjectKind]) -> None:
        """Symbols that are no perps."""
        self._kinds |= kinds

    def add_problem(self, kind: str, text: str, *, subject: str = "") -> None:
        """Counts what went wrong, and keeps the latest for whoever looks; the sink gets it by subject."""
        self.problems[kind] += 1
        self.recent.append(f"{kind}: {printable(text)}")
        self._untold.append(SourceProblem(SOURCE_NAME, kind, printable(subject), printable(text)))

    def add_malformed(self, found: Iterable[Malformed]) -> None:
        """Counts what could not be read."""
        for one in found:
            subject = f"{one.what} {one.subject}".rstrip()
            self.add_problem("malformed", f"{one.what}: {one.why} {one.text}".rstrip(), subject=subject)

    def flush(self, sink: Sink) -> None:
        """Gives everything to the sink, gaps first: a gap and the fact that ended it can be committed as one."""
        # Asked after every message: most bring a few facts or nothing.
        if self._kinds:
            kinds, self._kinds = self._kinds, {}
            sink.add_kinds(kinds)
        if self._gaps:
            gaps, self._gaps = self._gaps, []
            for gap in gaps:
                sink.add_gap(gap)
        if self._facts:
            facts, self._facts = self._facts, []
            sink.add_observations(facts)
        if self._filled:
            filled, self._filled = self._filled, []
            for gap in filled:
                sink.add_filled_range(gap)
        while self._untold:
            sink.add_problem(self._untold.popleft())
