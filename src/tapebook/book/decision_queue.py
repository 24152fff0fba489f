"""The queue of decisions that are due, and stored replies of models: operational tables, not projections.

The queue is written by the scheduler and read by workers; a row leaves it in the transaction that writes its run
(see `projection`). What a decision may know is stored with it from the first attempt on, so that whoever takes it
over asks the same question. A reply is stored the moment it arrives, before there is a decision to record: it is
paid for once, whoever takes the decision over.
"""

from collections.abc import Sequence
from heapq import nsmallest

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.canonical import short_id
from tapebook.domain.run import Trigger, Watermarks
from tapebook.errors import StaleWriter
from tapebook.log import Leases, Stream

_QUEUE_QUERIES = Queries.load("tapebook.book", "work.sql")
# One for all owners of a database: a worker that has nothing to do goes back to waiting.
_QUEUE_TOPIC = "tapebook_work"


class KnownAsOf(msgspec.Struct, frozen=True):
    """What a decision may know: up to when, and how far each store reached."""

    as_of: int
    watermarks: Watermarks


class QueuedDecision(msgspec.Struct, frozen=True):
    """One decision to make; `known` once somebody has begun it, `made` when it is listed though there is a run."""

    run_id: str
    deployment: str
    symbol: str
    scheduled_for: int
    trigger: Trigger = "schedule"
    branch: str = "main"
    known: KnownAsOf | None = None
    made: bool = False


class WaitingCounts(msgspec.Struct, frozen=True):
    """How many decisions a deployment has to make: of its newest slot, and of older ones, whose time may be over."""

    newest: int
    older: int


class DecisionQueue:
    """The to-do list of one owner."""

    def __init__(self, db: Database, *, owner: str, leases: Leases) -> None:
        self._db = db
        self._leases = leases
        self._owner = owner

    def enqueue(self, items: Sequence[QueuedDecision]) -> int:
        """Lists decisions that are due and returns how many are new; one that is listed or made changes nothing."""
        if not items:
            return 0
        with self._db.transaction():
            added = self._db.many(_QUEUE_QUERIES.add, [self._row(item) for item in items])
            if added:
                self._db.notify(_QUEUE_TOPIC)
            return added

    def wait_for_more(self, *, seconds: float) -> bool:
        """Waits until decisions are listed, so many seconds at most; where nobody can say so, for a short pause."""
        return self._db.wait_for(_QUEUE_TOPIC, seconds=seconds)

    def newest_slot(self, deployment: str, symbol: str) -> int | None:
        """The newest scheduled slot of a pair that was decided or is listed; None before its first."""
        row = self._db.one(_QUEUE_QUERIES.newest_slot, owner=self._owner, deployment=deployment, symbol=symbol)
        return max((slot for slot in row or () if slot is not None), default=None)

    def waiting_deployments(self, *, most: int) -> dict[str, WaitingCounts]:
        """How much deployments have to decide, first whose last decision is the oldest; then by how long they wait.

        So a desk that cannot make them all goes round. Many are decided at the same moment: their order is another
        after every decision, and a function of what is stored, so that no name is better than another.
        """
        rows = self._db.all(_QUEUE_QUERIES.waiting, owner=self._owner)
        return {row[0]: WaitingCounts(*row[3:]) for row in nsmallest(most, rows, key=_queue_order)}

    def queued_for(self, deployment: str) -> list[QueuedDecision]:
        """What a deployment has to decide, oldest first."""
        rows = self._db.all(_QUEUE_QUERIES.of, owner=self._owner, deployment=deployment)
        return [_queued_decision(deployment, row) for row in rows]

    def record_known(self, begun: Sequence[QueuedDecision]) -> None:
        """Keeps what decisions may know, before anybody is asked; StaleWriter without their leases."""
        streams = sorted({Stream(self._owner, item.deployment) for item in begun})
        leases = [lease for lease in map(self._leases.in_hand.get, streams) if lease is not None]
        if len(leases) < len(streams):
            raise StaleWriter("a lease was lost: another process makes these decisions by now")
        rows = [(*_known_values(item.known), item.run_id) for item in begun if item.known is not None]
        with self._db.transaction():
            self._leases.fence_writes(leases)
            self._db.many(_QUEUE_QUERIES.open, rows)

    def remove_decision(self, run_id: str) -> None:
        """Takes a decision off the list that turned out to be made."""
        self._db.execute(_QUEUE_QUERIES.remove, run_id=run_id)

    def counts_by_state(self) -> dict[str, int]:
        """How much there is to decide, by state: pending, running."""
        return {row[0]: row[1] for row in self._db.all(_QUEUE_QUERIES.counts, owner=self._owner)}

    def deployments_with_orders(self) -> list[str]:
        """Deployments with orders that have not ended."""
        return [row[0] for row in self._db.all(_QUEUE_QUERIES.with_orders, owner=self._owner)]

    def deployments_with_positions(self, *, before: int) -> list[str]:
        """Deployments that hold something and were last valued before a moment."""
        return [row[0] for row in self._db.all(_QUEUE_QUERIES.with_positions, owner=self._owner, before=before)]

    def deployed_agent(self, deployment: str) -> tuple[str, int] | None:
        """The agent and the version a deployment runs."""
        row = self._db.one(_QUEUE_QUERIES.deployed, owner=self._owner, deployment=deployment)
        return (row[0], row[1]) if row else None

    def _row(self, item: QueuedDecision) -> Row:
        values = {**msgspec.structs.asdict(item), "owner": self._owner, "run_trigger": item.trigger}
        return tuple(values[name] for name in _QUEUE_QUERIES.add.params)


def _queue_order(row: Row) -> tuple[int, int, str]:
    deployment, since, decided_at, *_ = row
    return decided_at, since, short_id(deployment, decided_at)


def _known_values(known: KnownAsOf) -> Row:
    return known.as_of, *msgspec.structs.astuple(known.watermarks)


def _queued_decision(deployment: str, row: Row) -> QueuedDecision:
    run_id, symbol, scheduled_for, trigger, branch, as_of, *seqs, made = row
    known = None if as_of is None else KnownAsOf(as_of, Watermarks(*seqs))
    return QueuedDecision(run_id, deployment, symbol, scheduled_for, trigger, branch, known, bool(made))


_REPLY_QUERIES = Queries.load("tapebook.book", "replies.sql")


class StoredReply(msgspec.Struct, frozen=True):
    """An answer as it was encoded, and the run that asked for it."""

    answer_json: str
    run_id: str


class StoredReplies:
    """The kept answers of one owner."""

    def __init__(self, db: Database, *, owner: str) -> None:
        self._db = db
        self._owner = owner

    def stored_reply(self, key: str) -> StoredReply | None:
        """The answer that a question got before."""
        row = self._db.one(_REPLY_QUERIES.kept, owner=self._owner, reply_key=key)
        return StoredReply(*row) if row else None

    def reply_of_run(self, run_id: str) -> StoredReply | None:
        """The answer that a run asked for and paid for itself."""
        row = self._db.one(_REPLY_QUERIES.of_run, owner=self._owner, run_id=run_id)
        return StoredReply(*row) if row else None

    def store_reply(self, key: str, kept: StoredReply, *, deployment: str, cost_usd_e6: int, at: int) -> None:
        """Keeps the first answer to a question; a second changes nothing."""
        self._db.execute(
            _REPLY_QUERIES.keep,
            owner=self._owner,
            reply_key=key,
            deployment=deployment,
            run_id=kept.run_id,
            cost_usd_e6=cost_usd_e6,
            answer_json=kept.answer_json,
            kept_at=at,
        )

    def spent_usd_e6(self, deployment: str, *, since: int) -> int:
        """What a deployment's models cost since a moment, answers not yet recorded included."""
        row = self._db.one(_REPLY_QUERIES.spent, owner=self._owner, deployment=deployment, since=since)
        return row[0] if row else 0
