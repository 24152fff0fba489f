"""A cache of what every decision asks about those before it: the newest one on a symbol, and the last hour's refusals.

Both hold until a decision is made, or the order of one ends. A desk makes decision after decision on one account, so
what is kept is carried over those of our own (`follow`): a decision on one symbol is the newest there and leaves the
others as they were. What somebody else has appended meanwhile, or an append that was rolled back, drops it all.
"""

from collections.abc import Callable, Sequence

import msgspec

from tapebook.book import events as ev
from tapebook.db import Row
from tapebook.domain.instants import DAY, HOUR
from tapebook.domain.run import DecisionRun
from tapebook.log import Event, Stream
from tapebook.log.store import ChangeTracker, ReadCache

_RUN_DECIDED = ev.EVENT_KINDS[ev.RunDecided]
_ENDS = frozenset((ev.EVENT_KINDS[ev.RunEnded], ev.EVENT_KINDS[ev.OrderEnded]))

ChangeMark = tuple[int, int] | None
"""What the answers of a stream are as old as; None where that is not known."""


class _Refusals(msgspec.Struct, frozen=True):
    """Rows of what was refused, each beginning with its moment, of the hour before a moment and of the day after it."""

    as_of: int
    rows: list[Row]


class _Decisions(msgspec.Struct):
    """What is kept of a deployment: the newest decision on each symbol that was asked about, and the refusals."""

    since: ChangeMark
    runs: dict[str, DecisionRun | None] = {}
    refusals: _Refusals | None = None


class DecisionCache:
    """The newest decisions of each deployment."""

    def __init__(self, log: ChangeTracker) -> None:
        self._changes = ReadCache(log, {_RUN_DECIDED, *_ENDS})
        self._kept: dict[str, _Decisions] = {}

    def last_run(
        self, stream: Stream, symbol: str, *, seq: int, read: Callable[[], DecisionRun | None]
    ) -> DecisionRun | None:
        """The newest decision on a symbol as of a sequence number."""
        kept = self._decisions(stream, seq)
        if kept is None:
            return read()
        if symbol not in kept.runs:
            kept.runs[symbol] = read()
        return kept.runs[symbol]

    def refusals(self, stream: Stream, *, seq: int, as_of: int, read: Callable[[int], list[Row]]) -> list[Row]:
        """What was refused in the hour before a moment; `read` gives rows from that hour up to another moment."""
        kept = self._decisions(stream, seq)
        if kept is None:
            return read(as_of)
        known = kept.refusals
        # A day ahead, for what a clock that was ahead has dated.
        if known is None or not known.as_of <= as_of < known.as_of + DAY:
            known = kept.refusals = _Refusals(as_of, read(as_of + DAY))
        return [row for row in known.rows if as_of - HOUR < row[0] <= as_of] if known.rows else []

    def mark(self, stream: Stream, *, seq: int) -> ChangeMark:
        """How old the answers are before an append, for `follow`; None where nothing is kept."""
        return self._changes.last_change(stream, seq=seq) if stream.deployment in self._kept else None

    def follow(self, stream: Stream, events: Sequence[Event], *, before: ChangeMark) -> None:
        """Carries what is kept over our own events."""
        kept = self._kept.get(stream.deployment)
        if kept is None or before is None or kept.since != before or not events:
            return
        for event in events:
            # Without a hash it is not all worked out: what is kept must equal what is stored.
            if event.kind in _ENDS or not event.hash:
                del self._kept[stream.deployment]
                return
            if event.kind == _RUN_DECIDED:
                self._add_run(kept, ev.event_body(event, ev.RunDecided).run)
        kept.since = self._changes.last_change(stream, seq=events[-1].seq)

    def _add_run(self, kept: _Decisions, run: DecisionRun) -> None:
        if run.trigger == "shadow":
            return
        # A slot that expired before anybody looked at it is no decision.
        if run.status != "expired" or run.packet_sha256:
            kept.runs[run.symbol] = run
        if any(verdict.rule is not None for verdict in run.verdicts) or (run.status == "rejected" and run.error):
            kept.refusals = None

    def _decisions(self, stream: Stream, seq: int) -> _Decisions | None:
        """What is kept as of a sequence number, which may be nothing yet; None for one that is not the newest."""
        since = self._changes.last_change(stream, seq=seq)
        if since is None:
            return None
        kept = self._kept.get(stream.deployment)
        if kept is None or kept.since != since:
            kept = self._kept[stream.deployment] = _Decisions(since)
        return kept
