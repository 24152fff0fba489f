"""The outbox: facts and gaps on their way to the sink, and a count of everything that went wrong."""

from collections import Counter, deque
from collections.abc import Iterable

from tapebook.domain.market import Gap
from tapebook.domain.text import short_line
from tapebook.tape.source import Fact, Sink, SourceProblem
from tapebook.tape.sources.hyperliquid.gaps import SOURCE
from tapebook.tape.sources.hyperliquid.wire import Malformed

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
        self._untold: deque[SourceProblem] = deque(maxlen=_MOST_UNTOLD)
        self.problems: Counter[str] = Counter()
        self.recent: deque[str] = deque(maxlen=_RECENT)

    def put(self, facts: Iterable[Fact], gap: Gap | None = None) -> None:
        """Facts that became known together, and the gap they ended."""
        self._facts.extend(facts)
        if gap is not None:
            self._gaps.append(gap)

    def gap(self, channel: str, subject: str, bounds: tuple[int, int], reason: str) -> None:
        """Market time about which there will be nothing."""
        self._gaps.append(Gap(SOURCE, channel, subject, *bounds, reason))

    def filled(self, channel: str, subject: str, bounds: tuple[int, int]) -> None:
        """A range that was asked for and came; the facts of it were put before."""
        self._filled.append(Gap(SOURCE, channel, subject, *bounds, ""))

    def problem(self, kind: str, text: str, *, subject: str = "") -> None:
        """Counts what went wrong, and keeps the latest for whoever looks; the sink gets it by subject."""
        self.problems[kind] += 1
        self.recent.append(f"{kind}: {printable(text)}")
        self._untold.append(SourceProblem(SOURCE, kind, printable(subject), printable(text)))

    def malformed(self, found: Iterable[Malformed]) -> None:
        """Counts what could not be read."""
        for one in found:
            subject = f"{one.what} {one.subject}".rstrip()
            self.problem("malformed", f"{one.what}: {one.why} {one.text}".rstrip(), subject=subject)

    def flush(self, sink: Sink) -> None:
        """Gives everything to the sink, gaps first: a gap and the fact that ended it can be committed as one."""
        gaps, self._gaps = self._gaps, []
        filled, self._filled = self._filled, []
        facts, self._facts = self._facts, []
        for gap in gaps:
            sink.gap(gap)
        if facts:
            sink.take(facts)
        for gap in filled:
            sink.filled(gap)
        while self._untold:
            sink.problem(self._untold.popleft())
