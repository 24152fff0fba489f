"""What the desk has to do: decisions that are due, orders that have not ended, positions to follow.

The list of decisions is operational: it is written by the scheduler, read by workers, and a row
leaves it in the transaction that writes its run (see `projection`). What a decision may know is
kept beside it from the first attempt on, so that whoever takes it over asks the same question.
"""

from collections.abc import Sequence
from heapq import nsmallest

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.canonical import short_id
from tapebook.domain.run import Trigger, Watermarks
from tapebook.errors import StaleWriter
from tapebook.log import Leases, Stream

_QUERIES = Queries.load("tapebook.book", "work.sql")


class Known(msgspec.Struct, frozen=True):
    """What a decision may know: up to when, and how far each store reached."""

    as_of: int
    watermarks: Watermarks


class Item(msgspec.Struct, frozen=True):
    """One decision to make; `known` once somebody has begun it."""

    run_id: str
    deployment: str
    symbol: str
    scheduled_for: int
    trigger: Trigger = "schedule"
    branch: str = "main"
    known: Known | None = None


class Work:
    """The to-do list of one owner."""

    def __init__(self, db: Database, *, owner: str, leases: Leases) -> None:
        self._db = db
        self._leases = leases
        self._owner = owner

    def add(self, items: Sequence[Item]) -> int:
        """Lists decisions that are due and returns how many are new; one that is listed or made changes nothing."""
        if not items:
            return 0
        with self._db.transaction():
            return self._db.many(_QUERIES.add, [self._row(item) for item in items])

    def newest_slot(self, deployment: str, symbol: str) -> int | None:
        """The newest scheduled slot of a pair that was decided or is listed; None before its first."""
        row = self._db.one(_QUERIES.newest_slot, owner=self._owner, deployment=deployment, symbol=symbol)
        return max((slot for slot in row or () if slot is not None), default=None)

    def waiting(self, *, most: int) -> list[str]:
        """Deployments with decisions to make, first whose last one is the oldest; then by how long they wait.

        So a desk that cannot make them all goes round. Many are decided at the same moment: their order is another
        after every decision, and a function of what is stored, so that no name is better than another.
        """
        rows = self._db.all(_QUERIES.waiting, owner=self._owner)
        return [row[0] for row in nsmallest(most, rows, key=_turn)]

    def of(self, deployment: str) -> list[Item]:
        """What a deployment has to decide, oldest first."""
        rows = self._db.all(_QUERIES.of, owner=self._owner, deployment=deployment)
        return [_item(deployment, row) for row in rows]

    def open(self, begun: Sequence[Item]) -> None:
        """Keeps what decisions may know, before anybody is asked; StaleWriter without their leases."""
        streams = sorted({Stream(self._owner, item.deployment) for item in begun})
        leases = [lease for lease in map(self._leases.of, streams) if lease is not None]
        if len(leases) < len(streams):
            raise StaleWriter("a lease was lost: another process makes these decisions by now")
        rows = [(*_marks(item.known), item.run_id) for item in begun if item.known is not None]
        with self._db.transaction():
            self._leases.fence(leases)
            self._db.many(_QUERIES.open, rows)

    def remove(self, run_id: str) -> None:
        """Takes a decision off the list that turned out to be made."""
        self._db.run(_QUERIES.remove, run_id=run_id)

    def counts(self) -> dict[str, int]:
        """How much there is to decide, by state: pending, running."""
        return {row[0]: row[1] for row in self._db.all(_QUERIES.counts, owner=self._owner)}

    def with_orders(self) -> list[str]:
        """Deployments with orders that have not ended."""
        return [row[0] for row in self._db.all(_QUERIES.with_orders, owner=self._owner)]

    def with_positions(self, *, before: int) -> list[str]:
        """Deployments that hold something and were last valued before a moment."""
        return [row[0] for row in self._db.all(_QUERIES.with_positions, owner=self._owner, before=before)]

    def deployed(self, deployment: str) -> tuple[str, int] | None:
        """The agent and the version a deployment runs."""
        row = self._db.one(_QUERIES.deployed, owner=self._owner, deployment=deployment)
        return (row[0], row[1]) if row else None

    def _row(self, item: Item) -> Row:
        values = {**msgspec.structs.asdict(item), "owner": self._owner, "run_trigger": item.trigger}
        return tuple(values[name] for name in _QUERIES.add.params)


def _turn(row: Row) -> tuple[int, int, str]:
    deployment, since, decided_at = row
    return decided_at, since, short_id(deployment, decided_at)


def _marks(known: Known) -> Row:
    return known.as_of, *msgspec.structs.astuple(known.watermarks)


def _item(deployment: str, row: Row) -> Item:
    run_id, symbol, scheduled_for, trigger, branch, as_of, *seqs = row
    known = None if as_of is None else Known(as_of, Watermarks(*seqs))
    return Item(run_id, deployment, symbol, scheduled_for, trigger, branch, known)
