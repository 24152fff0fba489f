"""The book in its database: appends events to the log, reads projections as of a sequence number.

Every read names an owner through the store it is asked of; nothing crosses owners.
"""

from collections.abc import Sequence

import msgspec

from tapebook.book import events as ev
from tapebook.book.settle import Account
from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import AgentProfile
from tapebook.domain.order import Order
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.run import Action, DecisionRun, Verdict, Watermarks
from tapebook.domain.trade import ClosedTrade, TradeState
from tapebook.errors import UnknownName
from tapebook.log import Draft, Event, Log, Stream

MIGRATIONS = "tapebook.book"
_QUERIES = Queries.load("tapebook.book")


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


class Book:
    """The book of one owner."""

    def __init__(self, log: Log, db: Database, *, owner: str) -> None:
        self._log = log
        self._db = db
        self.owner = owner

    def stream(self, deployment: str = "") -> Stream:
        """The stream of a deployment, or the owner's own."""
        return Stream(self.owner, deployment)

    def head(self, deployment: str = "") -> int:
        """The newest sequence number of a stream."""
        return self._log.head(self.stream(deployment)).seq

    def seq_as_of(self, deployment: str, as_of: int) -> int:
        """The newest sequence number known at a moment."""
        return self._log.seq_as_of(self.stream(deployment), as_of)

    def append(self, deployment: str, drafts: Sequence[Draft], *, expected_seq: int) -> list[Event]:
        """Writes events and their rows, or raises StaleWriter and writes nothing."""
        return self._log.append(self.stream(deployment), drafts, expected_seq=expected_seq)

    def save_agent(self, profile: AgentProfile, *, at: int) -> int:
        """Stores a profile as a new version, unless it equals the newest; returns the version."""
        known = self.agent(profile.name)
        if known is not None and known[1] == profile:
            return known[0]
        version = known[0] + 1 if known else 1
        saved = ev.draft(at, ev.AgentSaved(version, profile))
        self.append("", [saved], expected_seq=self.head())
        return version

    def agents(self) -> list[tuple[int, AgentProfile]]:
        """Every agent's newest version, by name."""
        return [_profile(row[1:]) for row in self._db.all(_QUERIES.agents, owner=self.owner)]

    def agent(self, name: str, *, version: int | None = None) -> tuple[int, AgentProfile] | None:
        """One agent's profile: the newest version, or a given one."""
        if version is None:
            row = self._db.one(_QUERIES.agent, owner=self.owner, agent=name)
        else:
            row = self._db.one(_QUERIES.agent_version, owner=self.owner, agent=name, version=version)
        return _profile(row) if row else None

    def deployed_version(self, deployment: str, *, seq: int) -> int | None:
        """The agent version a deployment runs as of a sequence number."""
        row = self._db.one(_QUERIES.deployed, owner=self.owner, deployment=deployment, seq=seq)
        return row[1] if row else None

    def account(self, deployment: str, *, seq: int) -> Account:
        """Cash, positions and open trades as of a sequence number."""
        where = {"owner": self.owner, "deployment": deployment, "seq": seq}
        cash = self._db.one(_QUERIES.cash, **where)
        positions, trades = {}, {}
        for row in self._db.all(_QUERIES.open_trades, **where):
            symbol = row[0]
            positions[symbol] = Position(*row[:4])
            trades[symbol] = TradeState(row[4], symbol, *row[5:])
        return Account(seq, Portfolio(positions, cash[0] if cash else 0), trades)

    def closed_trades(self, deployment: str, *, seq: int, most: int) -> list[ClosedTrade]:
        """The trades that ended last as of a sequence number, newest exit first."""
        rows = self._db.all(_QUERIES.closed_trades, owner=self.owner, deployment=deployment, seq=seq, most=most)
        return [ClosedTrade(TradeState(*row[:-3]), *row[-3:]) for row in rows]

    def trade_maker(self, trade_id: str) -> tuple[str, int]:
        """The agent and version that opened a trade."""
        row = self._db.one(_QUERIES.trade_maker, owner=self.owner, id=trade_id)
        if row is None:
            raise UnknownName(f"there is no trade {trade_id!r}; `tapebook trades AGENT` lists them")
        return row[0], row[1]

    def trade_totals(self, deployment: str) -> TradeTotals:
        """How a deployment's closed trades did, all of them."""
        row = self._db.one(_QUERIES.trade_totals, owner=self.owner, deployment=deployment)
        return TradeTotals(*row) if row else TradeTotals(0, 0, 0, 0, 0)

    def closed_count(self) -> int:
        """How many round trips are complete."""
        row = self._db.one(_QUERIES.closed_count, owner=self.owner)
        return row[0] if row else 0

    def last_run(self, deployment: str, symbol: str, *, seq: int) -> DecisionRun | None:
        """The newest decision on a symbol as of a sequence number."""
        row = self._db.one(_QUERIES.last_run, owner=self.owner, deployment=deployment, symbol=symbol, seq=seq)
        return self.run(row[0]) if row else None

    def has_run(self, run_id: str) -> bool:
        """Whether this decision was made already."""
        return self._db.one(_QUERIES.run_exists, run_id=run_id) is not None

    def run(self, run_id: str) -> DecisionRun | None:
        """One decision with its actions and verdicts."""
        row = self._db.one(_QUERIES.run, owner=self.owner, run_id=run_id)
        if row is None:
            return None
        actions = self._db.all(_QUERIES.actions, run_id=run_id)
        return _run(row, [_action(each) for each in actions], [_verdict(each) for each in actions])

    def run_ids(self, deployment: str = "", *, most: int) -> list[str]:
        """The newest decisions of a deployment, or of all."""
        return [row[0] for row in self._db.all(_QUERIES.runs, owner=self.owner, deployment=deployment, most=most)]

    def run_counts(self) -> dict[str, int]:
        """Decisions by status."""
        return {row[0]: row[1] for row in self._db.all(_QUERIES.run_counts, owner=self.owner)}

    def action_counts(self) -> list[tuple[str, str, int]]:
        """Actions by kind and refusing rule (empty when allowed)."""
        return [(row[0], row[1], row[2]) for row in self._db.all(_QUERIES.action_counts, owner=self.owner)]

    def working_orders(self, deployment: str) -> list[tuple[Order, bool]]:
        """Orders that have not ended, oldest first, each with whether the broker has it."""
        rows = self._db.all(_QUERIES.working_orders, owner=self.owner, deployment=deployment)
        return [(_order(row), row[10] is not None) for row in rows]

    def order_reason(self, client_id: str) -> tuple[str, str, int] | None:
        """The run that placed an order, the reason it gave, and the leverage it asked for."""
        row = self._db.one(_QUERIES.order_reason, client_id=client_id)
        return (row[0], row[1], row[2]) if row else None

    def open_orders_of(self, run_id: str) -> int:
        """How many orders of a run have not ended."""
        row = self._db.one(_QUERIES.open_orders_of_run, run_id=run_id)
        return row[0] if row else 0

    def newest_snapshot(self, deployment: str, *, seq: int) -> tuple[int, int, int] | None:
        """When the account was last valued, its cash and its equity."""
        row = self._db.one(_QUERIES.newest_snapshot, owner=self.owner, deployment=deployment, seq=seq)
        return (row[0], row[1], row[2]) if row else None

    def cash_differences(self) -> list[str]:
        """Deployments whose cash is not the sum of their ledger; empty when all is well."""
        rows = self._db.all(_QUERIES.ledger_gaps)
        return [f"{row[0]}/{row[1]}: cash {row[3]} but the ledger sums to {row[2]}" for row in rows if row[2] != row[3]]


def _profile(row: Row) -> tuple[int, AgentProfile]:
    return row[0], msgspec.json.decode(row[1], type=AgentProfile)


def _order(row: Row) -> Order:
    fields: Row = (*row[:7], bool(row[7]), *row[8:10])
    return Order(*fields)


def _run(row: Row, actions: list[Action], verdicts: list[Verdict]) -> DecisionRun:
    # The columns stand in the order of the struct's fields, with three columns for its watermarks.
    before, after = (*row[:10], Watermarks(*row[10:13]), *row[13:21]), row[22:]
    degraded = tuple(msgspec.json.decode(row[21]))
    fields: Row = (*before, tuple(actions), tuple(verdicts), degraded, *after)
    return DecisionRun(*fields)


def _action(row: Row) -> Action:
    fields: Row = (*row[:9], tuple(msgspec.json.decode(row[9])))
    return Action(*fields)


def _verdict(row: Row) -> Verdict:
    return Verdict(bool(row[10]), row[11], row[12])
