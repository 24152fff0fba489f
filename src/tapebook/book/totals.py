"""Sums over all trades and over the whole ledger of a deployment, of which a process reads every row once.

Rows up to a sequence number never change, and those of a stream appear in its order. So a sum as of a later number is
the sum up to the newest row that was read, and what came after it. A page asks for the totals of an agent every few
seconds: what that costs follows what is new, and not how many trades there are.
"""

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

import msgspec

from tapebook.db import Database, Queries, Query
from tapebook.log.store import ChangeTracker

_QUERIES = Queries.load("tapebook.book", "totals.sql")


class TradeTotals(msgspec.Struct, frozen=True):
    """Closed trades in sum."""

    count: int
    won: int
    realised_usd_e6: int
    fees_usd_e6: int
    funding_usd_e6: int

    @property
    def net_usd_e6(self) -> int:
        """Gross result less fees, plus funding."""
        return self.realised_usd_e6 - self.fees_usd_e6 + self.funding_usd_e6


class LedgerSum(msgspec.Struct, frozen=True):
    """What the lines of a ledger sum to, and the balance its last line states."""

    deployment: str
    sum_usd_e6: int
    balance_usd_e6: int


class _SumSoFar(NamedTuple):
    """Sums of all rows up to the newest that was read."""

    seq: int
    values: Sequence[int]


class RunningTotals:
    """The sums of one owner's deployments, kept as far as they were read; events that are taken back empty them."""

    def __init__(self, db: Database, owner: str, *, log: ChangeTracker) -> None:
        self._db, self._owner, self._log = db, owner, log
        self._generation = log.generation
        self._sums: dict[tuple[str, str], _SumSoFar] = {}

    def trades(self, deployment: str, *, seq: int) -> TradeTotals:
        """How a deployment's trades did that ended by a sequence number."""
        return TradeTotals(*self._sum_up_to(_QUERIES.trade_totals_after, deployment, seq, width=5))

    def ledger(self, deployment: str) -> LedgerSum | None:
        """A deployment's ledger; None before its first line."""
        newest = self._db.one(_QUERIES.newest_balance, owner=self._owner, deployment=deployment)
        if newest is None:
            return None
        (total,) = self._sum_up_to(_QUERIES.ledger_sum_after, deployment, newest[0], width=1)
        return LedgerSum(deployment, total, newest[1])

    def ledgers(self) -> list[LedgerSum]:
        """Every deployment's ledger, summed from its first line on."""
        return [LedgerSum(*row) for row in self._db.all(_QUERIES.ledger_sums, owner=self._owner)]

    def _sum_up_to(self, query: Query, deployment: str, seq: int, *, width: int) -> Sequence[int]:
        """The sums of all rows up to a sequence number, from those that were summed before where these are earlier."""
        if self._generation != self._log.generation:
            self._generation, self._sums = self._log.generation, {}
        key = query.name, deployment
        nothing = _SumSoFar(0, (0,) * width)
        before = self._sums.get(key, nothing)
        if before.seq > seq:
            before = nothing
        where = {"owner": self._owner, "deployment": deployment, "after": before.seq, "until": seq}
        newest, *added = self._db.all(query, **where)[0]
        if newest is None:
            return before.values
        found = tuple(map(add, before.values, added))
        if newest > self._sums.get(key, nothing).seq:
            self._sums[key] = _SumSoFar(newest, found)
        return found
