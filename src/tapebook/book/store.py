"""The book in its database: appends events to the log, reads projections as of a sequence number.

Every read names an owner through the store it is asked of; nothing crosses owners.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from tapebook.book import events as ev
from tapebook.book.decision_cache import DecisionCache
from tapebook.book.materializer import UNREADABLE_REPLY, Account, LastClose, Session, refusal_code
from tapebook.book.totals import RunningTotals, TradeTotals
from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import AgentProfile, Deployment, deployment_id
from tapebook.domain.instants import DAY, HOUR, floor_to_step, iso_text
from tapebook.domain.order import Fill, Order, OrderOutcome
from tapebook.domain.position import ClosedTrade, MissingFact, Portfolio, Position, TradeState
from tapebook.domain.run import LONGEST_STREAK, DecisionRun
from tapebook.errors import Damaged, UnknownName
from tapebook.log import Draft, Event, Leases, Log, Stream
from tapebook.log.store import SET_BACK_KIND, ReadCache, StreamSetBack

MIGRATIONS = "tapebook.book"
Result = TypeVar("Result")
# Larger than any count, and an integer that both databases take.
NO_LIMIT = 2**62
"""No limit to how many rows are read."""

MOST_UNDER_WAY = 50
"""Orders that are looked at for those under way: an order that outlives so many newer ones is not seen any more."""

# Runs that are named when the beginning of an id fits several.
_RUNS_NAMED = 5

# A decision by itself moves no account, and a mark is a snapshot: every tick has both.
_ACCOUNT_KINDS = frozenset(ev.EVENT_KINDS.values()) - {ev.EVENT_KINDS[ev.RunDecided], ev.EVENT_KINDS[ev.MarksObserved]}

# What of a trade is a row per move, in `positions`; in `trade_history` it is as of the trade's end, or of now.
_MOVED = TradeState.__struct_fields__[TradeState.__struct_fields__.index("entered_e8") : -1]
TRADE_COLUMNS = ("id", *TradeState.__struct_fields__[1:])
"""The columns of a trade, in the order of its fields."""

_QUERIES = Queries.load(
    "tapebook.book",
    trade=", ".join(f"t.{name}" for name in TRADE_COLUMNS),
    trade_as_of=", ".join(f"{'p' if name in _MOVED else 't'}.{name}" for name in TRADE_COLUMNS),
    exit=", ".join(f"t.{name}" for name in ClosedTrade.__struct_fields__[1:]),
)


class _SessionDay(msgspec.Struct, frozen=True):
    """What a session says of one day, whatever the moment of it."""

    today: int
    results_usd_e6: int
    fills: list[Row]
    intended: tuple[int, ...]
    nets: tuple[int, ...]
    closes: tuple[LastClose, ...]


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
        # What a tick asks over and over; marks and decisions that place nothing change none of it.
        self._account_cache = ReadCache(log, _ACCOUNT_KINDS)
        self._decisions = DecisionCache(log)
        self._owner_cache = ReadCache(log, ev.EVENT_KINDS.values())
        self._set_back_cache = ReadCache(log, (SET_BACK_KIND,))
        self._totals = RunningTotals(db, owner, log=log)

    def stream(self, deployment: str = "") -> Stream:
        """The stream of a deployment, or the owner's own; the same object again, which knows its hash."""
        found = self._streams.get(deployment)
        if found is None:
            found = self._streams[deployment] = Stream(self.owner, deployment)
        return found

    def head(self, deployment: str = "") -> int:
        """The newest sequence number of a stream."""
        stream = self.stream(deployment)
        return self._log.head(stream, lease=self._leases.in_hand.get(stream) if self._leases else None).seq

    def seq_as_of(self, deployment: str, as_of: int) -> int:
        """The newest sequence number known at a moment."""
        return self._log.seq_as_of(self.stream(deployment), as_of)

    def append(self, deployment: str, drafts: Sequence[Draft], *, expected_seq: int) -> list[Event]:
        """Writes events and their rows under the lease in hand, if any; or raises StaleWriter and writes nothing."""
        stream = self.stream(deployment)
        lease = self._leases.for_write(stream) if self._leases else None
        before = self._decisions.mark(stream, seq=expected_seq)
        events = self._log.append(stream, drafts, expected_seq=expected_seq, lease=lease)
        self._decisions.follow(stream, events, before=before)
        return events

    def _read_owner(self, key: Hashable, read: Callable[[], Result]) -> Result:
        """What the owner's stream says; while decisions are made together, read again only when it has moved."""
        if not self._log.reads_once:
            return read()
        return self._owner_cache.read(key, self.stream(), seq=self.head(), read=read)

    def record_set_back(self, deployment: str = "") -> None:
        """Writes that the clock has gone back, if it has and the stream does not say so yet."""
        stream = self.stream(deployment)
        if self._log.is_ahead_of_clock(stream, lease=self._leases.in_hand.get(stream) if self._leases else None):
            self.append(deployment, [], expected_seq=self.head(deployment))

    def set_back_count(self, deployment: str) -> int:
        """How often the clock has gone back in a stream, with a step that is about to be written."""
        stream = self.stream(deployment)
        return len(self._log.set_backs(stream)) + self._log.is_ahead_of_clock(stream)

    def set_back_after(self, deployment: str, *, seq: int, as_of: int) -> StreamSetBack | None:
        """The step back of the clock in a stream, up to a sequence number, that follows events of moments after one."""
        for back in self._set_backs(deployment, seq):
            if back.known_before > as_of:
                return back
        return None

    def _set_backs(self, deployment: str, seq: int) -> list[StreamSetBack]:
        stream = self.stream(deployment)
        read = partial(self._log.set_backs, stream, until=seq)
        return self._set_back_cache.read(deployment, stream, seq=seq, read=read)

    def save_agent(self, profile: AgentProfile, *, at: int, reason: str = "") -> int:
        """Stores a profile as a new version, unless it equals the newest; returns the version."""
        known = self.agent(profile.name)
        if known is not None and known[1] == profile and self.removed_at(profile.name) is None:
            return known[0]
        version = known[0] + 1 if known else 1
        saved = ev.draft_event(at, ev.AgentSaved(version, profile, reason))
        self.append("", [saved], expected_seq=self.head())
        return version

    def remove_agent(self, name: str, *, at: int, reason: str) -> int:
        """Ends an agent that is there, with a last version that is not enabled; returns that version."""
        known = self.find_agent(name)
        last = msgspec.structs.replace(known.agent, enabled=False)
        removed = ev.draft_event(at, ev.AgentRemoved(known.version + 1, last, reason))
        self.append("", [removed], expected_seq=self.head())
        return known.version + 1

    def removed_at(self, name: str) -> int | None:
        """When an agent was removed; None for one that is there, again or still, and for one that never was."""
        row = self._db.one(_QUERIES.agent_removed, owner=self.owner, agent=name)
        return row[0] if row else None

    def agents(self, *, removed: bool = False) -> list[tuple[int, AgentProfile]]:
        """Every agent's newest version, by name; when asked, of those too that were removed."""
        return [_profile(row[1:]) for row in self._db.all(_QUERIES.agents, owner=self.owner, removed=int(removed))]

    def agent_names(self) -> list[str]:
        """Every agent there ever was, by name."""
        return [row[0] for row in self._db.all(_QUERIES.agent_names, owner=self.owner)]

    def agent(self, name: str, *, version: int | None = None) -> tuple[int, AgentProfile] | None:
        """One agent's profile: the newest version, which may be the one that ended it, or a given one."""
        found = self._agent_record(name, version)
        return found[:2] if found else None

    def _agent_record(self, name: str, version: int | None) -> tuple[int, AgentProfile, int | None] | None:
        """A version of an agent, its profile, and when that ended the agent, if it is the newest and did."""

        def read() -> tuple[int, AgentProfile, int | None] | None:
            where = {"owner": self.owner, "agent": name, "version": version}
            row = self._db.one(_QUERIES.agent if version is None else _QUERIES.agent_version, **where)
            return (*_profile(row), row[2]) if row else None

        return self._read_owner(("agent", name, version), read)

    def agent_as_of(self, name: str, *, as_of: int, removed: bool = False) -> tuple[int, AgentProfile] | None:
        """One agent's profile as it was known at a moment; None when there was none, or when it had been removed."""
        seq = self.seq_as_of("", as_of)
        row = self._db.one(_QUERIES.agent_as_of, owner=self.owner, agent=name, seq=seq)
        return _profile(row) if row and (removed or not row[2]) else None

    def find_agent(
        self, name: str, *, version: int | None = None, as_of: int | None = None, removed: bool = False
    ) -> Deployment:
        """The deployment of an agent with its newest profile, a given version of it, or that of a past moment.

        UnknownName says why there is none. An agent that was removed is found in its past, or when `removed` says so.
        """
        if as_of is None:
            found = self._agent_record(name, version)
        else:
            then = self.agent_as_of(name, as_of=as_of)
            found = (*then, None) if then else None
        if found is None:
            raise UnknownName(self._why_not_found(name, version, as_of))
        number, profile, gone = found
        if gone is not None and not removed:
            raise UnknownName(_removed_text(name, gone))
        return Deployment(self.owner, deployment_id(profile), profile, number)

    def _why_not_found(self, name: str, version: int | None, as_of: int | None) -> str:
        newest, gone = self.agent(name), self.removed_at(name)
        if newest is None:
            known = ", ".join(profile.name for _, profile in self.agents()) or "none yet"
            return f"there is no agent called {name!r}; agents: {known}"
        if as_of is None:
            return f"{name} has no version {version}; its newest is {newest[0]}"
        if gone is not None and gone <= as_of:
            return _removed_text(name, gone)
        added = iso_text([known_at for known_at, _ in self.agent_history(name) if known_at > as_of][-1])
        remedy = "`version=` 1 shows what that version would have been told"
        return f"{name} did not exist at {iso_text(as_of)}: it was added at {added}; {remedy}"

    def agent_history(self, name: str) -> list[tuple[int, AgentProfile]]:
        """Every version of an agent with when it became known, newest first."""
        rows = self._db.all(_QUERIES.agent_history, owner=self.owner, agent=name)
        return [(row[0], msgspec.json.decode(row[1], type=AgentProfile)) for row in rows]

    def deployed_version(self, deployment: str, *, seq: int) -> int | None:
        """The agent version a deployment runs as of a sequence number."""

        def read() -> int | None:
            row = self._db.one(_QUERIES.deployed, owner=self.owner, deployment=deployment, seq=seq)
            return row[1] if row else None

        return self._account_cache.read(("deployed", deployment), self.stream(deployment), seq=seq, read=read)

    def halts(self) -> dict[str, str]:
        """What may not trade now, with the reason that was given: deployments, or an empty name for all of them."""
        return self._read_owner("halts", lambda: dict(self._db.all(_QUERIES.halts, owner=self.owner)))

    def flatten_due(self, deployment: str) -> dict[str, int]:
        """Symbols with something left that had begun when somebody wanted it flat, each with when that was last."""
        return dict(self._db.all(_QUERIES.flatten_due, owner=self.owner, deployment=deployment))

    def deployments(self, agent: str = "") -> list[tuple[str, str]]:
        """Every deployment of an agent, or of all, with its agent's name."""
        return [(row[0], row[1]) for row in self._db.all(_QUERIES.deployment_names, owner=self.owner, agent=agent)]

    def account(self, deployment: str, *, seq: int) -> Account:
        """Cash, positions and open trades as of a sequence number."""
        read = partial(self._read_account, deployment, seq)
        known = self._account_cache.read(("account", deployment), self.stream(deployment), seq=seq, read=read)
        return known if known.seq == seq else Account(seq, known.portfolio, known.open_trades)

    def _read_account(self, deployment: str, seq: int) -> Account:
        where = {"owner": self.owner, "deployment": deployment, "seq": seq}
        cash = self._db.one(_QUERIES.cash, **where)
        positions, trades = {}, {}
        for row in self._db.all(_QUERIES.open_trades, **where):
            symbol = row[0]
            positions[symbol] = Position(*row[:6])
            trades[symbol] = TradeState(*row[6:])
        return Account(seq, Portfolio(positions, cash[0] if cash else 0), trades)

    def closed_trades(self, deployment: str, *, seq: int, most: int) -> list[ClosedTrade]:
        """The trades that ended last as of a sequence number, newest exit first; without those that lack fills."""
        read = partial(self._closed_trades, deployment, seq=seq, most=most, partial=0)
        return self._account_cache.read(("closed", deployment, most), self.stream(deployment), seq=seq, read=read)

    def all_closed_trades(self, deployment: str, *, seq: int, most: int) -> list[ClosedTrade]:
        """The trades that ended last as of a sequence number, newest exit first, whatever is known of them."""
        return self._closed_trades(deployment, seq=seq, most=most, partial=1)

    def _closed_trades(self, deployment: str, *, seq: int, most: int, partial: int) -> list[ClosedTrade]:
        where = {"owner": self.owner, "deployment": deployment, "seq": seq, "most": most, "partial": partial}
        return [closed_trade_of_row(row) for row in self._db.all(_QUERIES.closed_trades, **where)]

    def closed_trades_until(self, deployment: str, *, seq: int, most: int, until: int) -> list[ClosedTrade]:
        """Closed trades without those that ended after a moment: for streams in which the clock has gone back."""
        where = {"owner": self.owner, "deployment": deployment, "seq": seq, "most": most, "until": until}
        return [closed_trade_of_row(row) for row in self._db.all(_QUERIES.closed_trades_until, **where)]

    def closed_on_day(self, deployment: str, *, seq: int, as_of: int) -> list[ClosedTrade]:
        """The trades that ended on the day of a moment, as of a sequence number, oldest exit first."""
        today = floor_to_step(as_of, DAY)
        span = {"since": today, "until": today + DAY}

        def read() -> tuple[int, list[ClosedTrade]]:
            return today, [each.trade for each in self.trades_closed_between(deployment, **span, seq=seq)]

        key = "closed on", deployment
        known = self._account_cache.read(key, self.stream(deployment), seq=seq, read=read)
        return (known if known[0] == today else self._account_cache.replace(key, read()))[1]

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

    def trade_totals(self, deployment: str, *, seq: int = NO_LIMIT) -> TradeTotals:
        """How a deployment's trades did that ended by a sequence number; all of them without one."""
        return self._totals.trades(deployment, seq=seq)

    def trade_end_seq(self, trade_id: str) -> int | None:
        """The sequence number of the event that ended a trade; None of one that is open or not there."""
        row = self._db.one(_QUERIES.trade_ended, owner=self.owner, id=trade_id)
        return row[0] if row else None

    def closed_after(self, deployment: str, *, after: int, seq: int, most: int = NO_LIMIT) -> list[ClosedTrade]:
        """The trades that ended after one sequence number and up to another, oldest exit first."""
        where = {"owner": self.owner, "deployment": deployment, "after": after, "seq": seq, "most": most}
        return [closed_trade_of_row(row) for row in self._db.all(_QUERIES.closed_after, **where)]

    def trades_closed_between(self, deployment: str, *, since: int, until: int, seq: int) -> list[TradeWithEngine]:
        """The trades that ended between two moments, as of a sequence number, oldest exit first."""
        where = {"owner": self.owner, "deployment": deployment, "since": since, "until": until, "seq": seq}
        rows = self._db.all(_QUERIES.closed_on, **where)
        return [TradeWithEngine(closed_trade_of_row(row[:-2]), *row[-2:]) for row in rows]

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

        def read() -> DecisionRun | None:
            row = self._db.one(_QUERIES.last_run, without_expired=int(not expired_orders), **where)
            return self.run(row[0]) if row else None

        if not expired_orders:
            return read()
        return self._decisions.last_run(self.stream(deployment), symbol, seq=seq, read=read)

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
        return ev.run_of_row(row, actions, body=event.body)

    def find_run(self, text: str) -> DecisionRun:
        """The decision whose id begins with a text; UnknownName when none or several do."""
        written = text.lower()
        # No character comes behind this one in either database.
        found = self._db.all(_QUERIES.runs_between, owner=self.owner, first=written, beyond=f"{written}\U0010ffff")
        if run := self.run(found[0][0]) if written and found and (len(found) == 1 or found[0][0] == written) else None:
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

        def read() -> list[tuple[Order, bool]]:
            rows = self._db.all(_QUERIES.working_orders, owner=self.owner, deployment=deployment)
            return [(_order(row), row[10] is not None) for row in rows]

        seq = self.head(deployment)
        return self._account_cache.read(("working", deployment), self.stream(deployment), seq=seq, read=read)

    def unanswered_orders(self, deployment: str = "") -> list[OrderRecord]:
        """Orders nobody knows whether the broker has, of a deployment or of all, oldest first; `detail` says why."""
        rows = self._db.all(_QUERIES.unanswered_orders, owner=self.owner, deployment=deployment)
        return [order_record_of_row(row) for row in rows]

    def has_exposure(self, deployment: str) -> bool:
        """Whether a deployment has an order that has not ended, or holds something."""
        return bool(self.working_orders(deployment) or self.account(deployment, seq=self.head(deployment)).open_trades)

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

    def orders(self, deployment: str = "", *, working: bool, most: int) -> list[OrderRecord]:
        """The newest orders of a deployment, or of all; when asked, only those that have not ended."""
        where = {"owner": self.owner, "deployment": deployment, "working": int(working), "most": most}
        return [order_record_of_row(row) for row in self._db.all(_QUERIES.orders, **where)]

    def order(self, client_id: str) -> Order | None:
        """An order by its client id."""
        row = self._db.one(_QUERIES.order, owner=self.owner, client_id=client_id)
        return None if row is None else _order(row)

    def dry_order_count(self, deployment: str, *, seq: int = NO_LIMIT) -> int:
        """How many orders a deployment of a dry run has noted by a sequence number."""
        row = self._db.one(_QUERIES.dry_orders, owner=self.owner, deployment=deployment, seq=seq)
        return row[0] if row else 0

    def orders_of_run(self, run_id: str) -> list[OrderRecord]:
        """The orders of a run with what became of them."""
        return [
            order_record_of_row(row) for row in self._db.all(_QUERIES.orders_of_run, owner=self.owner, run_id=run_id)
        ]

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
        return [TradeRecord(_trade(row[:-3]), *row[-3:]) for row in rows]

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

    def has_funding(self, deployment: str, symbol: str, *, at: int) -> bool:
        """Whether the funding of a symbol at a moment was booked."""
        where = {"owner": self.owner, "deployment": deployment, "symbol": symbol, "at": at}
        return self._db.one(_QUERIES.has_funding, **where) is not None

    def has_spot_fill(self, deployment: str, fill_id: str) -> bool:
        """Whether a spot fill was booked."""
        where = {"owner": self.owner, "deployment": deployment, "fill_id": fill_id}
        return self._db.one(_QUERIES.has_spot_fill, **where) is not None

    def orders_under_way(self, deployment: str, *, seq: int, as_of: int) -> tuple[Order, ...]:
        """Orders that had not ended as of a sequence number, oldest first."""
        where = {"owner": self.owner, "deployment": deployment, "seq": seq, "until": as_of + DAY}

        def read() -> tuple[Order, ...]:
            rows = self._db.all(_QUERIES.orders_under_way, most=MOST_UNDER_WAY, **where)
            return tuple([_order(row) for row in rows])

        if self._set_backs(deployment, seq):
            return read()
        return self._account_cache.read(("under_way", deployment), self.stream(deployment), seq=seq, read=read)

    def session(self, deployment: str, account: Account, *, as_of: int) -> Session:
        """What a deployment did in the hour and the day before a moment, as of its account's sequence number."""
        seq, hour = account.seq, as_of - HOUR
        day = self._session_day(deployment, seq, as_of)
        where = {"owner": self.owner, "deployment": deployment, "seq": seq, "hour": hour}
        read = partial(self._db.all, _QUERIES.session_refusals, unreadable=UNREADABLE_REPLY, **where)
        refused = self._decisions.refusals(
            self.stream(deployment), seq=seq, as_of=as_of, read=lambda until: read(as_of=until)
        )
        return Session(
            cash_usd_e6=account.portfolio.cash_usd_e6,
            results_usd_e6=day.results_usd_e6,
            held=_held_before(account.portfolio, day.fills),
            rejections=tuple([rule for *_, rule, _, by_guard in refused if by_guard]),
            executed=sum([row[1] for row in day.fills]),
            orders=sum([at > hour for at in day.intended]),
            nets=day.nets,
            closes=day.closes,
            refusals=tuple([rule or refusal_code(detail) for *_, rule, detail, _ in refused]),
        )

    def _session_day(self, deployment: str, seq: int, as_of: int) -> _SessionDay:
        """What was done on the day of a moment; where the clock never went back, until something is done again."""
        read = partial(self._read_session_day, deployment, seq, as_of)
        if self._set_backs(deployment, seq):
            return read()
        key = "session", deployment
        known = self._account_cache.read(key, self.stream(deployment), seq=seq, read=read)
        return known if known.today == floor_to_step(as_of, DAY) else self._account_cache.replace(key, read())

    def _read_session_day(self, deployment: str, seq: int, as_of: int) -> _SessionDay:
        today, until = floor_to_step(as_of, DAY), as_of + DAY
        where = {"owner": self.owner, "deployment": deployment, "seq": seq}
        # Also the hour before midnight: orders are counted by the hour.
        since = min(today, as_of) - HOUR
        intended = self._db.all(_QUERIES.session_intended, since=since, until=until, **where)
        results = self._db.one(_QUERIES.session_results, today=today, until=until, **where)
        return _SessionDay(
            today=today,
            results_usd_e6=results[0] if results else 0,
            fills=self._db.all(_QUERIES.session_fills, today=today, until=until, **where),
            intended=tuple([row[0] for row in intended]),
            nets=tuple([row[0] for row in self._db.all(_QUERIES.session_nets, most=LONGEST_STREAK, **where)]),
            closes=tuple([LastClose(*row) for row in self._db.all(_QUERIES.session_closes, **where)]),
        )


def _held_before(now: Portfolio, fills: list[Row]) -> dict[str, Position]:
    """The positions before some fills: what was not filled is what it is now."""
    if not fills:
        return dict(now.positions)
    filled = {row[0]: row[2:] for row in fills}
    kept = {symbol: position for symbol, position in now.positions.items() if symbol not in filled}
    return kept | {symbol: Position(symbol, *held) for symbol, held in filled.items() if held[0]}


def _removed_text(name: str, removed_at: int) -> str:
    return f"{name} was removed at {iso_text(removed_at)}: `tapebook agents add {name}` brings it back"


def _profile(row: Row) -> tuple[int, AgentProfile]:
    return row[0], msgspec.json.decode(row[1], type=AgentProfile)


def _order(row: Row) -> Order:
    fields: Row = (*row[:7], bool(row[7]), *row[8:10])
    return Order(*fields)


def order_record_of_row(row: Row) -> OrderRecord:
    """An order of its columns and those of what became of it."""
    fields: Row = (*row[10:15], bool(row[15]))
    return OrderRecord(_order(row), *fields)


def _fill(row: Row) -> Fill:
    fields: Row = (*row[:6], bool(row[6]), row[7], bool(row[8]))
    return Fill(*fields)


def _trade(row: Row) -> TradeState | ClosedTrade:
    return TradeState(*row[:-3]) if row[-3] is None else closed_trade_of_row(row)


def closed_trade_of_row(row: Row) -> ClosedTrade:
    """A trade of its columns and those of its exit."""
    return ClosedTrade(TradeState(*row[:-3]), *row[-3:])
