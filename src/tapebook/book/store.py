"""The book in its database: appends events to the log, reads projections as of a sequence number.

Every read names an owner through the store it is asked of; nothing crosses owners.

Recent activity is a pure function of two parts:

    session    the rows of the last hour and of the day so far, as the store reads them
    marks      what the positions of 00:00 UTC were worth then, which only the market can say

The day starts at 00:00 UTC. Its equity is computed from the ledger, never remembered by a process: cash now, less
all that was posted today, plus what the positions held at midnight had not realised. Transfers are left where they
are, so a deposit at noon is no gain.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

import msgspec

from tapebook.book import events as ev
from tapebook.book.materializer import Account
from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import AgentProfile
from tapebook.domain.instants import DAY, HOUR, floor_to_step, iso_text
from tapebook.domain.order import Fill, Order, OrderOutcome
from tapebook.domain.position import ClosedTrade, MissingFact, Portfolio, Position, TradeState
from tapebook.domain.run import LONGEST_STREAK, Action, Activity, DecisionRun, Usage, Verdict, Watermarks
from tapebook.errors import Damaged, UnknownName
from tapebook.log import Draft, Event, Leases, Log, Stream
from tapebook.log.store import StreamSetBack

UNREADABLE_REPLY = "UNREADABLE_REPLY"
BROKER_REFUSED = "BROKER_REFUSED"
AT_SEND = " at send: "
"""Between the rule and the detail of an order that the send gate refused."""


def refusal_code(detail: str) -> str:
    """The code of an order that was refused: the rule of the send gate, or the broker."""
    rule, at_send, _ = detail.partition(AT_SEND)
    return rule if at_send else BROKER_REFUSED


class LastClose(msgspec.Struct, frozen=True):
    """How a symbol's newest round trip ended."""

    symbol: str
    at: int
    net_usd_e6: int


class Session(msgspec.Struct, frozen=True):
    """What the tables say as of one moment; `held` are the positions of the day's start, `nets` newest first."""

    cash_usd_e6: int
    results_usd_e6: int
    held: dict[str, Position]
    rejections: tuple[str, ...]
    executed: int
    orders: int
    nets: tuple[int, ...]
    closes: tuple[LastClose, ...]
    refusals: tuple[str, ...] = ()


def day_start(as_of: int) -> int:
    """00:00 UTC of a moment's day."""
    return floor_to_step(as_of, DAY)


def activity_of_session(session: Session, marks: Mapping[str, int]) -> Activity:
    """The activity of a session, with the marks of the day's start."""
    return Activity(
        rejections=session.rejections,
        executed_today=session.executed,
        orders_last_hour=session.orders,
        realised_today_usd_e6=session.results_usd_e6,
        day_start_equity_usd_e6=day_start_equity(session, marks),
        losing_streak=losing_streak(session.nets),
        last_close_at={close.symbol: close.at for close in session.closes},
        last_loss_at={close.symbol: close.at for close in session.closes if close.net_usd_e6 < 0},
        refusals=session.refusals,
    )


def day_start_equity(session: Session, marks: Mapping[str, int]) -> int:
    """Equity at 00:00 UTC, as if all transfers of the day had been made before."""
    unrealised = sum(held.unrealised_usd_e6(marks[symbol]) for symbol, held in session.held.items())
    return session.cash_usd_e6 - session.results_usd_e6 + unrealised


def losing_streak(nets: Iterable[int]) -> int:
    """How many of the newest results in a row were losses; breaking even ends a row."""
    return sum(1 for _ in takewhile(lambda net: net < 0, nets))


MIGRATIONS = "tapebook.book"
# Larger than any count, and an integer that both databases take.
NO_LIMIT = 2**62
"""No limit to how many rows are read."""

MOST_UNDER_WAY = 50
"""Orders that are looked at for those under way: an order that outlives so many newer ones is not seen any more."""

# Runs that are named when the beginning of an id fits several.
_RUNS_NAMED = 5

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


class AccountSnapshot(msgspec.Struct, frozen=True):
    """What an account was worth at a moment, at which marks, and up to where its margin was checked by then."""

    happened_at: int
    cash_usd_e6: int
    equity_usd_e6: int
    walked_until: int
    marks: dict[str, int]


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


class TradeWithEngine(msgspec.Struct, frozen=True):
    """A trade that ended, with the engine that entered it and how sure that was; None when no run of ours did."""

    trade: ClosedTrade
    engine: str | None
    confidence_e4: int | None


class Book:
    """The book of one owner."""

    def __init__(self, log: Log, db: Database, *, owner: str, leases: Leases | None = None) -> None:
        self._log = log
        self._db = db
        self._leases = leases
        self.owner = owner
        self._streams: dict[str, Stream] = {}

    def stream(self, deployment: str = "") -> Stream:
        """The stream of a deployment, or the owner's own; the same object again, which knows its hash."""
        found = self._streams.get(deployment)
        if found is None:
            found = self._streams[deployment] = Stream(self.owner, deployment)
        return found

    def head(self, deployment: str = "") -> int:
        """The newest sequence number of a stream."""
        return self._log.head(self.stream(deployment)).seq

    def seq_as_of(self, deployment: str, as_of: int) -> int:
        """The newest sequence number known at a moment."""
        return self._log.seq_as_of(self.stream(deployment), as_of)

    def append(self, deployment: str, drafts: Sequence[Draft], *, expected_seq: int) -> list[Event]:
        """Writes events and their rows under the lease in hand, if any; or raises StaleWriter and writes nothing."""
        stream = self.stream(deployment)
        lease = self._leases.for_write(stream) if self._leases else None
        return self._log.append(stream, drafts, expected_seq=expected_seq, lease=lease)

    def record_set_back(self, deployment: str = "") -> None:
        """Writes that the clock has gone back, if it has and the stream does not say so yet."""
        if self._log.is_ahead_of_clock(self.stream(deployment)):
            self.append(deployment, [], expected_seq=self.head(deployment))

    def set_back_count(self, deployment: str) -> int:
        """How often the clock has gone back in a stream, with a step that is about to be written."""
        stream = self.stream(deployment)
        return len(self._log.set_backs(stream)) + self._log.is_ahead_of_clock(stream)

    def set_back_after(self, deployment: str, *, seq: int, as_of: int) -> StreamSetBack | None:
        """The step back of the clock in a stream, up to a sequence number, that follows events of moments after one."""
        backs = self._log.set_backs(self.stream(deployment), until=seq)
        return next((back for back in backs if back.known_before > as_of), None)

    def save_agent(self, profile: AgentProfile, *, at: int) -> int:
        """Stores a profile as a new version, unless it equals the newest; returns the version."""
        known = self.agent(profile.name)
        if known is not None and known[1] == profile and self.removed_at(profile.name) is None:
            return known[0]
        version = known[0] + 1 if known else 1
        saved = ev.draft_event(at, ev.AgentSaved(version, profile))
        self.append("", [saved], expected_seq=self.head())
        return version

    def remove_agent(self, name: str, *, at: int, reason: str) -> int:
        """Ends an agent that is there, with a last version that is not enabled; returns that version."""
        known = self.agent(name)
        if known is None or self.removed_at(name) is not None:
            raise UnknownName(f"there is no agent called {name!r} to remove; `tapebook agents` lists them")
        last = msgspec.structs.replace(known[1], enabled=False)
        removed = ev.draft_event(at, ev.AgentRemoved(known[0] + 1, last, reason))
        self.append("", [removed], expected_seq=self.head())
        return known[0] + 1

    def removed_at(self, name: str) -> int | None:
        """When an agent was removed; None for one that is there, again or still, and for one that never was."""
        row = self._db.one(_QUERIES.agent_removed, owner=self.owner, agent=name)
        return row[0] if row else None

    def agents(self, *, removed: bool = False) -> list[tuple[int, AgentProfile]]:
        """Every agent's newest version, by name; when asked, of those too that were removed."""
        rows = self._db.all(_QUERIES.agents, owner=self.owner, removed=int(removed))
        return [_profile(row[1:]) for row in rows]

    def agent(self, name: str, *, version: int | None = None) -> tuple[int, AgentProfile] | None:
        """One agent's profile: the newest version, which may be the one that ended it, or a given one."""
        if version is None:
            row = self._db.one(_QUERIES.agent, owner=self.owner, agent=name)
        else:
            row = self._db.one(_QUERIES.agent_version, owner=self.owner, agent=name, version=version)
        return _profile(row) if row else None

    def agent_as_of(self, name: str, *, as_of: int) -> tuple[int, AgentProfile] | None:
        """One agent's profile as it was known at a moment; None when the agent did not exist then."""
        seq = self.seq_as_of("", as_of)
        row = self._db.one(_QUERIES.agent_as_of, owner=self.owner, agent=name, seq=seq)
        return _profile(row) if row and not row[2] else None

    def agent_history(self, name: str) -> list[tuple[int, AgentProfile]]:
        """Every version of an agent with when it became known, newest first."""
        rows = self._db.all(_QUERIES.agent_history, owner=self.owner, agent=name)
        return [(row[0], msgspec.json.decode(row[1], type=AgentProfile)) for row in rows]

    def deployed_version(self, deployment: str, *, seq: int) -> int | None:
        """The agent version a deployment runs as of a sequence number."""
        row = self._db.one(_QUERIES.deployed, owner=self.owner, deployment=deployment, seq=seq)
        return row[1] if row else None

    def halts(self) -> dict[str, str]:
        """What may not trade now, with the reason that was given: deployments, or an empty name for all of them."""
        return {row[0]: row[1] for row in self._db.all(_QUERIES.halts, owner=self.owner)}

    def flatten_due(self, deployment: str) -> dict[str, int]:
        """Symbols with something left that had begun when somebody wanted it flat, each with when that was last."""
        return {row[0]: row[1] for row in self._db.all(_QUERIES.flatten_due, owner=self.owner, deployment=deployment)}

    def deployments(self, agent: str = "") -> list[tuple[str, str]]:
        """Every deployment of an agent, or of all, with its agent's name."""
        rows = self._db.all(_QUERIES.deployment_names, owner=self.owner, agent=agent)
        return [(row[0], row[1]) for row in rows]

    def account(self, deployment: str, *, seq: int) -> Account:
        """Cash, positions and open trades as of a sequence number."""
        where = {"owner": self.owner, "deployment": deployment, "seq": seq}
        cash = self._db.one(_QUERIES.cash, **where)
        positions, trades = {}, {}
        for row in self._db.all(_QUERIES.open_trades, **where):
            symbol = row[0]
            positions[symbol] = Position(*row[:6])
            trades[symbol] = TradeState(row[6], symbol, *row[7:])
        return Account(seq, Portfolio(positions, cash[0] if cash else 0), trades)

    def closed_trades(self, deployment: str, *, seq: int, most: int) -> list[ClosedTrade]:
        """The trades that ended last as of a sequence number, newest exit first; without those that lack fills."""
        return self._closed_trades(deployment, seq=seq, most=most, partial=0)

    def all_closed_trades(self, deployment: str, *, seq: int, most: int) -> list[ClosedTrade]:
        """The trades that ended last as of a sequence number, newest exit first, whatever is known of them."""
        return self._closed_trades(deployment, seq=seq, most=most, partial=1)

    def _closed_trades(self, deployment: str, *, seq: int, most: int, partial: int) -> list[ClosedTrade]:
        where = {"owner": self.owner, "deployment": deployment, "seq": seq, "most": most, "partial": partial}
        return [ClosedTrade(TradeState(*row[:-3]), *row[-3:]) for row in self._db.all(_QUERIES.closed_trades, **where)]

    def closed_trades_until(self, deployment: str, *, seq: int, most: int, until: int) -> list[ClosedTrade]:
        """Closed trades without those that ended after a moment: for streams in which the clock has gone back."""
        where = {"owner": self.owner, "deployment": deployment, "seq": seq, "most": most, "until": until}
        rows = self._db.all(_QUERIES.closed_trades_until, **where)
        return [ClosedTrade(TradeState(*row[:-3]), *row[-3:]) for row in rows]

    def trade_agent(self, trade_id: str) -> tuple[str, int]:
        """The agent and version that opened a trade."""
        row = self._db.one(_QUERIES.trade_maker, owner=self.owner, id=trade_id)
        if row is None:
            raise UnknownName(f"there is no trade {trade_id!r}; `tapebook trades AGENT` lists them")
        return row[0], row[1]

    def trade_times(self, trade_id: str) -> tuple[int, int]:
        """When the first and the last event that wrote a trade became known."""
        row = self._db.one(_QUERIES.trade_times, owner=self.owner, id=trade_id)
        if row is None:
            raise UnknownName(f"there is no trade {trade_id!r}; `tapebook trades AGENT` lists them")
        return row[0], row[1]

    def trade_lacks(self, trade_id: str) -> tuple[MissingFact, ...]:
        """What is not known of a trade; nothing is of one that was booked as it happened."""
        row = self._db.one(_QUERIES.trade_lacks, owner=self.owner, id=trade_id)
        return tuple(row[0].split(",")) if row and row[0] else ()

    def trade_totals(self, deployment: str) -> TradeTotals:
        """How a deployment's closed trades did, all of them."""
        row = self._db.one(_QUERIES.trade_totals, owner=self.owner, deployment=deployment)
        return TradeTotals(*row) if row else TradeTotals(0, 0, 0, 0, 0)

    def trade_end_seq(self, trade_id: str) -> int | None:
        """The sequence number of the event that ended a trade; None of one that is open or not there."""
        row = self._db.one(_QUERIES.trade_ended, owner=self.owner, id=trade_id)
        return row[0] if row else None

    def closed_after(self, deployment: str, *, after: int, seq: int, most: int = NO_LIMIT) -> list[ClosedTrade]:
        """The trades that ended after one sequence number and up to another, oldest exit first."""
        where = {"owner": self.owner, "deployment": deployment, "after": after, "seq": seq, "most": most}
        return [ClosedTrade(TradeState(*row[:-3]), *row[-3:]) for row in self._db.all(_QUERIES.closed_after, **where)]

    def trades_closed_between(self, deployment: str, *, since: int, until: int, seq: int) -> list[TradeWithEngine]:
        """The trades that ended between two moments, as of a sequence number, oldest exit first."""
        where = {"owner": self.owner, "deployment": deployment, "since": since, "until": until, "seq": seq}
        rows = self._db.all(_QUERIES.closed_on, **where)
        return [TradeWithEngine(ClosedTrade(TradeState(*row[:22]), *row[22:25]), *row[25:]) for row in rows]

    def results_posted_between(self, deployment: str, *, since: int, until: int, seq: int) -> int | None:
        """What was posted between two moments, transfers excluded; None when nothing was."""
        where = {"owner": self.owner, "deployment": deployment, "since": since, "until": until, "seq": seq}
        row = self._db.one(_QUERIES.posted_on, **where)
        return row[0] if row else None

    def days_changed(self, deployment: str, *, after: int, seq: int) -> list[tuple[int, int]]:
        """The days, as instants, whose trades or postings became known between two sequence numbers, and from where."""
        rows = self._db.all(_QUERIES.days_changed, owner=self.owner, deployment=deployment, after=after, seq=seq)
        return [(row[0] * DAY, row[1]) for row in rows]

    def closed_count_since(self, deployment: str, *, after: int, seq: int) -> tuple[int, int | None]:
        """How many trades ended after one sequence number and up to another, and when the first of them did."""
        row = self._db.one(_QUERIES.closed_since, owner=self.owner, deployment=deployment, after=after, seq=seq)
        return (row[0], row[1]) if row else (0, None)

    def closed_trade_count(self) -> int:
        """How many round trips are complete."""
        row = self._db.one(_QUERIES.closed_count, owner=self.owner)
        return row[0] if row else 0

    def last_run(self, deployment: str, symbol: str, *, seq: int, expired_orders: bool = True) -> DecisionRun | None:
        """The newest decision on a symbol as of a sequence number; also one whose order expired at the gate, or not."""
        where = {"owner": self.owner, "deployment": deployment, "symbol": symbol, "seq": seq}
        row = self._db.one(_QUERIES.last_run, without_expired=int(not expired_orders), **where)
        return self.run(row[0]) if row else None

    def last_run_until(self, deployment: str, symbol: str, *, seq: int, until: int) -> DecisionRun | None:
        """The newest decision on a symbol that was made by a moment: for streams in which the clock has gone back."""
        where = {"owner": self.owner, "deployment": deployment, "symbol": symbol, "seq": seq, "until": until}
        row = self._db.one(_QUERIES.last_run_until, **where)
        return self.run(row[0]) if row else None

    def has_run(self, run_id: str) -> bool:
        """Whether this decision was made already."""
        return self._db.one(_QUERIES.run_exists, owner=self.owner, run_id=run_id) is not None

    def run(self, run_id: str) -> DecisionRun | None:
        """One decision with its actions and verdicts."""
        row = self._db.one(_QUERIES.run, owner=self.owner, run_id=run_id)
        if row is None:
            return None
        event = self._log.event(self.stream(row[2]), row[-1])
        if event is None:
            raise Damaged(f"run {run_id} is not in the log; `tapebook verify` lists what is missing")
        actions = self._db.all(_QUERIES.actions, owner=self.owner, run_id=run_id)
        return _run(row, ev.run_details(event), actions)

    def find_run(self, text: str) -> DecisionRun:
        """The decision whose id begins with a text; UnknownName when none or several do."""
        written = text.lower()
        # No character comes behind this one in either database.
        found = self._db.all(_QUERIES.runs_between, owner=self.owner, first=written, beyond=f"{written}\U0010ffff")
        run = self.run(found[0][0]) if written and (len(found) == 1 or (found and found[0][0] == written)) else None
        if run is not None:
            return run
        if not written or not found:
            raise UnknownName(f"there is no run {text!r}; `tapebook runs` lists them")
        shown = [
            f"{name} ({agent} {symbol} {iso_text(as_of)[:16]})" for name, agent, symbol, as_of in found[:_RUNS_NAMED]
        ]
        more = f" and {len(found) - _RUNS_NAMED} more" if len(found) > _RUNS_NAMED else ""
        named = f"{', '.join(shown)}{more}"
        raise UnknownName(f"{text!r} begins the ids of {len(found)} runs: {named}; write more of it")

    def run_record(self, run_id: str) -> RunRecord | None:
        """The times of a decision, and what became of each of its actions."""
        row = self._db.one(_QUERIES.run_record, owner=self.owner, run_id=run_id)
        if row is None:
            return None
        actions = self._db.all(_QUERIES.action_records, owner=self.owner, run_id=run_id)
        fields: Row = (*row, tuple(ActionRecord(*each) for each in actions))
        return RunRecord(*fields)

    def run_ids(self, deployment: str = "", *, most: int) -> list[str]:
        """The newest decisions of a deployment, or of all."""
        return [row[0] for row in self._db.all(_QUERIES.runs, owner=self.owner, deployment=deployment, most=most)]

    def degraded_runs(self, *, since: int) -> list[tuple[str, tuple[str, ...]]]:
        """The decisions since a moment that lacked something, newest first, each with the causes that were kept."""
        rows = self._db.all(_QUERIES.degraded_runs, owner=self.owner, since=since)
        return [(row[0], tuple(msgspec.json.decode(row[1]))) for row in rows]

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

    def unanswered_orders(self, deployment: str = "") -> list[OrderRecord]:
        """Orders nobody knows whether the broker has, of a deployment or of all, oldest first; `detail` says why."""
        rows = self._db.all(_QUERIES.unanswered_orders, owner=self.owner, deployment=deployment)
        return [_order_record(row) for row in rows]

    def has_exposure(self, deployment: str) -> bool:
        """Whether a deployment has an order that has not ended, or holds something."""
        return self._db.one(_QUERIES.stirs, owner=self.owner, deployment=deployment) is not None

    def order_reason(self, client_id: str) -> tuple[str, str, int] | None:
        """The run that placed an order, the reason it gave, and how far it had read the book."""
        row = self._db.one(_QUERIES.order_reason, owner=self.owner, client_id=client_id)
        return (row[0], row[1], row[2]) if row else None

    def open_order_count(self, run_id: str) -> int:
        """How many orders of a run have not ended."""
        row = self._db.one(_QUERIES.open_orders_of_run, owner=self.owner, run_id=run_id)
        return row[0] if row else 0

    def newest_snapshot(self, deployment: str, *, seq: int) -> AccountSnapshot | None:
        """What the account was worth when it was last valued."""
        row = self._db.one(_QUERIES.newest_snapshot, owner=self.owner, deployment=deployment, seq=seq)
        if row is None:
            return None
        return AccountSnapshot(row[0], row[1], row[2], row[3], msgspec.json.decode(row[4], type=dict[str, int]))

    def cash_differences(self) -> list[str]:
        """Deployments whose cash is not the sum of their ledger; empty when all is well."""
        rows = self._db.all(_QUERIES.ledger_gaps, owner=self.owner)
        return [f"{row[0]}/{row[1]}: cash {row[3]} but the ledger sums to {row[2]}" for row in rows if row[2] != row[3]]

    def orders(self, deployment: str = "", *, working: bool, most: int) -> list[OrderRecord]:
        """The newest orders of a deployment, or of all; when asked, only those that have not ended."""
        where = {"owner": self.owner, "deployment": deployment, "working": int(working), "most": most}
        return [_order_record(row) for row in self._db.all(_QUERIES.orders, **where)]

    def order(self, client_id: str) -> Order | None:
        """An order by its client id."""
        row = self._db.one(_QUERIES.order, owner=self.owner, client_id=client_id)
        return None if row is None else _order(row)

    def dry_order_count(self, deployment: str) -> int:
        """How many orders a deployment of a dry run has noted."""
        row = self._db.one(_QUERIES.dry_orders, owner=self.owner, deployment=deployment)
        return row[0] if row else 0

    def orders_of_run(self, run_id: str) -> list[OrderRecord]:
        """The orders of a run with what became of them."""
        return [_order_record(row) for row in self._db.all(_QUERIES.orders_of_run, owner=self.owner, run_id=run_id)]

    def order_outcomes(self, run_id: str, *, seq: int) -> tuple[OrderOutcome, ...]:
        """How far the orders of a run had come as of a sequence number."""
        rows = self._db.all(_QUERIES.order_outcomes, owner=self.owner, run_id=run_id, seq=seq)
        return tuple(OrderOutcome(*row) for row in rows)

    def fills_of_run(self, run_id: str) -> list[Fill]:
        """What was executed of a run's orders."""
        return [_fill(row) for row in self._db.all(_QUERIES.fills_of_run, owner=self.owner, run_id=run_id)]

    def trades_of_run(self, run_id: str) -> list[TradeRecord]:
        """The round trips a run opened, ended or changed, as they are now."""
        rows = self._db.all(_QUERIES.trades_of_run, owner=self.owner, run_id=run_id)
        return [TradeRecord(_trade(row[:25]), *row[25:]) for row in rows]

    def shadow_pairs(self, deployment: str, *, most: int) -> list[tuple[str, str | None]]:
        """The newest shadow decisions, each with the main one of the same tick if it is there."""
        rows = self._db.all(_QUERIES.shadow_pairs, owner=self.owner, deployment=deployment, most=most)
        return [(row[0], row[1]) for row in rows]

    def newest_fill_at(self, deployment: str) -> int | None:
        """When the latest fill happened; None when there is none."""
        row = self._db.one(_QUERIES.newest_fill, owner=self.owner, deployment=deployment)
        return row[0] if row else None

    def fill(self, deployment: str, fill_id: str) -> Fill | None:
        """One fill."""
        row = self._db.one(_QUERIES.fill, owner=self.owner, deployment=deployment, fill_id=fill_id)
        return _fill(row) if row else None

    def has_spot_fill(self, deployment: str, fill_id: str) -> bool:
        """Whether a spot fill was booked."""
        where = {"owner": self.owner, "deployment": deployment, "fill_id": fill_id}
        return self._db.one(_QUERIES.has_spot_fill, **where) is not None

    def orders_under_way(self, deployment: str, *, seq: int, as_of: int) -> tuple[Order, ...]:
        """Orders that had not ended as of a sequence number, oldest first."""
        where = {"owner": self.owner, "deployment": deployment, "seq": seq, "until": as_of + DAY}
        rows = self._db.all(_QUERIES.orders_under_way, most=MOST_UNDER_WAY, **where)
        return tuple(_order(row) for row in rows)

    def session(self, deployment: str, account: Account, *, as_of: int) -> Session:
        """What a deployment did in the hour and the day before a moment, as of its account's sequence number."""
        where = {"owner": self.owner, "deployment": deployment, "seq": account.seq}
        today, hour, until = day_start(as_of), as_of - HOUR, as_of + DAY
        (sums,) = self._db.all(_QUERIES.session_sums, hour=hour, today=today, until=until, **where)
        fills = self._db.all(_QUERIES.session_fills, today=today, until=until, **where)
        rejections = self._db.all(_QUERIES.session_rejections, hour=hour, as_of=as_of, **where)
        refused = self._db.all(_QUERIES.session_refusals, hour=hour, as_of=as_of, unreadable=UNREADABLE_REPLY, **where)
        return Session(
            cash_usd_e6=account.portfolio.cash_usd_e6,
            results_usd_e6=sums[1],
            held=_held_before(account.portfolio, fills),
            rejections=tuple(row[0] for row in rejections),
            executed=sum(row[1] for row in fills),
            orders=sums[0],
            nets=tuple(row[0] for row in self._db.all(_QUERIES.session_nets, most=LONGEST_STREAK, **where)),
            closes=tuple(LastClose(*row) for row in self._db.all(_QUERIES.session_closes, **where)),
            refusals=tuple(rule or refusal_code(detail) for _, _, rule, detail in refused),
        )


def _held_before(now: Portfolio, fills: list[Row]) -> dict[str, Position]:
    """The positions before some fills: what was not filled is what it is now."""
    filled = {row[0]: row[2:] for row in fills}
    kept = {symbol: position for symbol, position in now.positions.items() if symbol not in filled}
    return kept | {symbol: Position(symbol, *held) for symbol, held in filled.items() if held[0]}


def _profile(row: Row) -> tuple[int, AgentProfile]:
    return row[0], msgspec.json.decode(row[1], type=AgentProfile)


def _order(row: Row) -> Order:
    fields: Row = (*row[:7], bool(row[7]), *row[8:10])
    return Order(*fields)


def _order_record(row: Row) -> OrderRecord:
    fields: Row = (*row[10:15], bool(row[15]))
    return OrderRecord(_order(row), *fields)


def _fill(row: Row) -> Fill:
    fields: Row = (*row[:6], bool(row[6]), row[7], bool(row[8]))
    return Fill(*fields)


def _trade(row: Row) -> TradeState | ClosedTrade:
    state = TradeState(*row[:22])
    return state if row[22] is None else ClosedTrade(state, *row[22:])


def _run(row: Row, details: ev.RunDetails, acted: list[Row]) -> DecisionRun:
    # The columns stand in the order of the struct's fields, with four columns for its watermarks.
    before = (*row[:10], Watermarks(*row[10:14]), row[14], details.inputs_sha256, *row[15:21])
    actions, verdicts = tuple(map(_action, acted)), tuple(map(_verdict, acted))
    reply_values = (tuple(msgspec.json.decode(row[21])), details.note, row[22], details.votes)
    usage, causes = Usage(*row[23:28]) if row[23] else None, tuple(msgspec.json.decode(row[28]))
    fields: Row = (*before, actions, verdicts, *reply_values, usage, causes, row[29])
    return DecisionRun(*fields)


def _action(row: Row) -> Action:
    fields: Row = (*row[:9], tuple(msgspec.json.decode(row[9])))
    return Action(*fields)


def _verdict(row: Row) -> Verdict:
    return Verdict(bool(row[10]), row[11], row[12], tuple(msgspec.json.decode(row[13])))
