"""What the book tells those who show it or check it: agents, runs, orders, fills and trades as they stand now.

`BookRecords` is the part of `Book` that no decision waits for, beside the rows of its tables as values: whatever is
read as of a sequence number, or kept in memory, is in `book/store.py`.
"""

import msgspec

from tapebook.book.totals import RunningTotals, TradeTotals
from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import AgentProfile
from tapebook.domain.order import Fill, Order
from tapebook.domain.position import ClosedTrade, MissingFact, TradeState
from tapebook.domain.units import DAY
from tapebook.errors import UnknownName
from tapebook.log import Log

# Larger than any count, and an integer that both databases take.
NO_LIMIT = 2**62
"""No limit to how many rows are read."""

# What of a trade is a row per move, in `positions`; in `trade_history` it is as of the trade's end, or of now.
_MOVED = TradeState.__struct_fields__[TradeState.__struct_fields__.index("entered_e8") : -1]
TRADE_COLUMNS = ("id", *TradeState.__struct_fields__[1:])
"""The columns of a trade, in the order of its fields."""

_RUN_COLUMNS = (
    *("run_id", "owner", "deployment", "agent", "agent_version", "symbol", "scheduled_for", "run_trigger", "branch"),
    *("as_of", "tape_seq", "book_seq", "docs_seq", "curated_seq", "renderer", "packet_sha256", "tokens", "engine"),
    *("packet_key", "reply_key", "status", "degraded_json", "error", "model", "input_tokens", "output_tokens"),
    *("cost_usd_e6", "attempts", "degraded_causes_json", "reason_key", "seq"),
)

QUERIES = Queries.load(
    "tapebook.book",
    run=", ".join(_RUN_COLUMNS),
    trade=", ".join(f"t.{name}" for name in TRADE_COLUMNS),
    trade_as_of=", ".join(f"{'p' if name in _MOVED else 't'}.{name}" for name in TRADE_COLUMNS),
    exit=", ".join(f"t.{name}" for name in ClosedTrade.__struct_fields__[1:]),
)


class OrderRecord(msgspec.Struct, frozen=True):
    """An order, whose it is, and the newest word on it; one of a dry run was never sent."""

    order: Order
    deployment: str
    status: str
    detail: str
    created_at: int
    updated_at: int
    dry: bool = False


class ActionRecord(msgspec.Struct, frozen=True):
    """What became of an action: refused, held, allowed without an order, or the status of its order."""

    status: str
    order_id: str | None
    quantity_e8: int | None


class RunRecord(msgspec.Struct, frozen=True):
    """The times of a run, and what became of its actions.

    It starts at the moment it reads as of (never, if it got no packet), and is complete with the event that gave it its
    last status. `created_at` and `updated_at` are when the first and the last event of it became known.
    """

    started_at: int | None
    completed_at: int | None
    created_at: int
    updated_at: int
    actions: tuple[ActionRecord, ...]


class TradeRecord(msgspec.Struct, frozen=True):
    """A round trip, open or ended, and who made it."""

    trade: TradeState | ClosedTrade
    deployment: str
    agent: str
    agent_version: int


class BookRecords:
    """The records of one owner."""

    def __init__(self, log: Log, db: Database, *, owner: str) -> None:
        self._log = log
        self._db = db
        self.owner = owner
        self._totals = RunningTotals(db, owner, log=log)

    def agents(self, *, removed: bool = False) -> list[tuple[int, AgentProfile]]:
        """Every agent's newest version, by name; when asked, of those too that were removed."""
        rows = self._db.all(QUERIES.agents, owner=self.owner, removed=int(removed))
        return [(row[1], msgspec.json.decode(row[2], type=AgentProfile)) for row in rows]

    def agent_names(self) -> list[str]:
        """Every agent there ever was, by name."""
        return [row[0] for row in self._db.all(QUERIES.agent_names, owner=self.owner)]

    def removed_at(self, name: str) -> int | None:
        """When an agent was removed; None for one that is there, again or still, and for one that never was."""
        row = self._db.one(QUERIES.agent_removed, owner=self.owner, agent=name)
        return row[0] if row else None

    def agent_history(self, name: str) -> list[tuple[int, AgentProfile]]:
        """Every version of an agent with when it became known, newest first."""
        rows = self._db.all(QUERIES.agent_history, owner=self.owner, agent=name)
        return [(row[0], msgspec.json.decode(row[1], type=AgentProfile)) for row in rows]

    def deployments(self, agent: str = "") -> list[tuple[str, str]]:
        """Every deployment of an agent, or of all, with its agent's name."""
        return [(row[0], row[1]) for row in self._db.all(QUERIES.deployment_names, owner=self.owner, agent=agent)]

    def run_ids(self, deployment: str = "", *, most: int) -> list[str]:
        """The newest decisions of a deployment, or of all."""
        return [row[0] for row in self._db.all(QUERIES.runs, owner=self.owner, deployment=deployment, most=most)]

    def run_record(self, run_id: str) -> RunRecord | None:
        """The times of a decision, and what became of each of its actions."""
        row = self._db.one(QUERIES.run_record, owner=self.owner, run_id=run_id)
        if row is None:
            return None
        actions = self._db.all(QUERIES.action_records, owner=self.owner, run_id=run_id)
        fields: Row = (*row, tuple(ActionRecord(*each) for each in actions))
        return RunRecord(*fields)

    def degraded_runs(self, *, since: int) -> list[tuple[str, tuple[str, ...]]]:
        """The decisions since a moment that lacked something, newest first, each with the causes that were kept."""
        rows = self._db.all(QUERIES.degraded_runs, owner=self.owner, since=since)
        return [(row[0], tuple(msgspec.json.decode(row[1]))) for row in rows]

    def run_counts(self) -> dict[str, int]:
        """Decisions by status."""
        return {row[0]: row[1] for row in self._db.all(QUERIES.run_counts, owner=self.owner)}

    def action_counts(self) -> list[tuple[str, str, int]]:
        """Actions by kind and refusing rule (empty when allowed)."""
        return [(row[0], row[1], row[2]) for row in self._db.all(QUERIES.action_counts, owner=self.owner)]

    def shadow_pairs(self, deployment: str, *, most: int) -> list[tuple[str, str | None]]:
        """The newest shadow decisions, each with the main one of the same tick if it is there."""
        rows = self._db.all(QUERIES.shadow_pairs, owner=self.owner, deployment=deployment, most=most)
        return [(row[0], row[1]) for row in rows]

    def orders(self, deployment: str = "", *, working: bool, most: int) -> list[OrderRecord]:
        """The newest orders of a deployment, or of all; when asked, only those that have not ended."""
        where = {"owner": self.owner, "deployment": deployment, "working": int(working), "most": most}
        return [order_record_of_row(row) for row in self._db.all(QUERIES.orders, **where)]

    def order(self, client_id: str) -> Order | None:
        """An order by its client id."""
        row = self._db.one(QUERIES.order, owner=self.owner, client_id=client_id)
        return None if row is None else order_of_row(row)

    def unanswered_orders(self, deployment: str = "") -> list[OrderRecord]:
        """Orders nobody knows whether the broker has, of a deployment or of all, oldest first; `detail` says why."""
        rows = self._db.all(QUERIES.unanswered_orders, owner=self.owner, deployment=deployment)
        return [order_record_of_row(row) for row in rows]

    def open_order_count(self, run_id: str) -> int:
        """How many orders of a run have not ended."""
        row = self._db.one(QUERIES.open_orders_of_run, owner=self.owner, run_id=run_id)
        return row[0] if row else 0

    def dry_order_count(self, deployment: str, *, seq: int = NO_LIMIT) -> int:
        """How many orders a deployment of a dry run has noted by a sequence number."""
        row = self._db.one(QUERIES.dry_orders, owner=self.owner, deployment=deployment, seq=seq)
        return row[0] if row else 0

    def orders_of_run(self, run_id: str) -> list[OrderRecord]:
        """The orders of a run with what became of them."""
        return [
            order_record_of_row(row) for row in self._db.all(QUERIES.orders_of_run, owner=self.owner, run_id=run_id)
        ]

    def fills_of_run(self, run_id: str) -> list[Fill]:
        """What was executed of a run's orders."""
        return [_fill(row) for row in self._db.all(QUERIES.fills_of_run, owner=self.owner, run_id=run_id)]

    def newest_fill_at(self, deployment: str) -> int | None:
        """When the latest fill happened; None when there is none."""
        row = self._db.one(QUERIES.newest_fill, owner=self.owner, deployment=deployment)
        return row[0] if row else None

    def fill(self, deployment: str, fill_id: str) -> Fill | None:
        """One fill."""
        row = self._db.one(QUERIES.fill, owner=self.owner, deployment=deployment, fill_id=fill_id)
        return _fill(row) if row else None

    def has_spot_fill(self, deployment: str, fill_id: str) -> bool:
        """Whether a spot fill was booked."""
        where = {"owner": self.owner, "deployment": deployment, "fill_id": fill_id}
        return self._db.one(QUERIES.has_spot_fill, **where) is not None

    def has_funding(self, deployment: str, symbol: str, *, at: int) -> bool:
        """Whether the funding of a symbol at a moment was booked."""
        where = {"owner": self.owner, "deployment": deployment, "symbol": symbol, "at": at}
        return self._db.one(QUERIES.has_funding, **where) is not None

    def trades_of_run(self, run_id: str) -> list[TradeRecord]:
        """The round trips a run opened, ended or changed, as they are now."""
        rows = self._db.all(QUERIES.trades_of_run, owner=self.owner, run_id=run_id)
        return [TradeRecord(_trade(row[:-3]), *row[-3:]) for row in rows]

    def trade_times(self, trade_id: str) -> tuple[int, int]:
        """When the first and the last event that wrote a trade became known."""
        row = self._db.one(QUERIES.trade_times, owner=self.owner, id=trade_id)
        if row is None:
            raise UnknownName(f"there is no trade {trade_id!r}; `tapebook trades AGENT` lists them")
        return row[0], row[1]

    def trade_lacks(self, trade_id: str) -> tuple[MissingFact, ...]:
        """What is not known of a trade; nothing is of one that was booked as it happened."""
        row = self._db.one(QUERIES.trade_lacks, owner=self.owner, id=trade_id)
        return tuple(row[0].split(",")) if row and row[0] else ()

    def trade_end_seq(self, trade_id: str) -> int | None:
        """The sequence number of the event that ended a trade; None of one that is open or not there."""
        row = self._db.one(QUERIES.trade_ended, owner=self.owner, id=trade_id)
        return row[0] if row else None

    def closed_trade_count(self) -> int:
        """How many round trips are complete."""
        row = self._db.one(QUERIES.closed_count, owner=self.owner)
        return row[0] if row else 0

    def trade_totals(self, deployment: str, *, seq: int = NO_LIMIT) -> TradeTotals:
        """How a deployment's trades did that ended by a sequence number; all of them without one."""
        return self._totals.trades(deployment, seq=seq)

    def results_posted_between(self, deployment: str, *, since: int, until: int, seq: int) -> int | None:
        """What was posted between two moments, transfers excluded; None when nothing was."""
        where = {"owner": self.owner, "deployment": deployment, "since": since, "until": until, "seq": seq}
        row = self._db.one(QUERIES.posted_on, **where)
        return row[0] if row else None

    def days_changed(self, deployment: str, *, after: int, seq: int) -> list[tuple[int, int]]:
        """The days, as instants, whose trades or postings became known between two sequence numbers, and from where."""
        rows = self._db.all(QUERIES.days_changed, owner=self.owner, deployment=deployment, after=after, seq=seq)
        return [(row[0] * DAY, row[1]) for row in rows]

    def cash_differences(self, *, from_scratch: bool = True) -> list[str]:
        """Deployments whose cash is not the sum of their ledger; empty when all is well.

        Without `from_scratch` lines that were summed before are not read again.
        """
        names = [name for name, _ in self.deployments()]
        sums = self._totals.ledgers() if from_scratch else [self._totals.ledger(name) for name in names]
        return [
            f"{self.owner}/{each.deployment}: cash {each.balance_usd_e6} but the ledger sums to {each.sum_usd_e6}"
            for each in sums
            if each is not None and each.sum_usd_e6 != each.balance_usd_e6
        ]


def order_of_row(row: Row) -> Order:
    """An order of its columns."""
    fields: Row = (*row[:7], bool(row[7]), *row[8:10])
    return Order(*fields)


def order_record_of_row(row: Row) -> OrderRecord:
    """An order of its columns and those of what became of it."""
    fields: Row = (*row[10:15], bool(row[15]))
    return OrderRecord(order_of_row(row), *fields)


def _fill(row: Row) -> Fill:
    fields: Row = (*row[:6], bool(row[6]), row[7], bool(row[8]))
    return Fill(*fields)


def _trade(row: Row) -> TradeState | ClosedTrade:
    state = TradeState(*row[:-3])
    return state if row[-3] is None else ClosedTrade(state, *row[-3:])
