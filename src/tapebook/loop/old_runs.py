"""Old decisions leave the book for the archive, month by month.

What leaves are the events of decisions that placed nothing, and what the account was worth beside them: most of a log.
Everything else of it stays in the book, and so do all tables, so that decisions are found as before; what a table does
not say of one is read from the archive when it is asked for.

A month leaves once it ended `retention.runs_days` ago, some thousand events at a time: they are packed, the pack is
written to the archive and read back, and then their rows go in the transaction that notes the pack (`Log.retire`).
"""

from tapebook.archive import put_content
from tapebook.book.runs import may_leave
from tapebook.domain.instants import DAY
from tapebook.errors import Damaged
from tapebook.horizons.period import period_of
from tapebook.log import Stream
from tapebook.wiring import Rooms

# Looked at in one step: a tenth of a second, and one object of a hundred kilobytes or two.
EVENTS_PER_STEP = 1_024


class OldRuns:
    """The decisions of a home that are old enough to leave."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        # How far each stream was looked at: what stays need not be looked at again.
        self._looked: dict[Stream, int] = {}
        self._done_before: int | None = None
        self.left = 0

    def step(self) -> bool:
        """Moves at most one pack; False when nothing is old enough any more."""
        before = period_of("month", self._rooms.clock.now() - self._rooms.config.retention.runs_days * DAY).start
        if before == self._done_before:
            return False
        for stream in self._rooms.log.streams():
            # The owner's own stream has no decisions.
            if stream.deployment and self._step_of(stream, before):
                return True
        self._done_before = before
        return False

    def _step_of(self, stream: Stream, before: int) -> bool:
        log = self._rooms.log
        after = max(self._looked.get(stream, 0), log.packed_until(stream))
        first = log.event(stream, after + 1)
        if first is None or first.known_at >= before:
            return False
        looked, left = log.retire(
            stream,
            after=after,
            # A pack is of one month.
            before=min(before, period_of("month", first.known_at).end),
            leaves=may_leave,
            put=self._put,
            most=EVENTS_PER_STEP,
        )
        self._looked[stream] = looked
        self.left += left
        return True

    def _put(self, content: bytes) -> str:
        archive = self._rooms.archive
        key = put_content(archive, content)
        if archive.get(key) != content:
            raise Damaged(f"the archive took {key} and does not give it back whole: its events stay in the book")
        return key
