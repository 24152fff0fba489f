"""The book in its database: appends events to the log, reads projections as of a sequence number.

Every read names an owner through the store it is asked of; nothing crosses owners.

What every decision asks is kept until an event changes it (`ReadCache`). The newest decision on a symbol and the last
hour's refusals hold until a decision is made, or the order of one ends. A desk makes decision after decision on one
account, so these are carried over our own (`KeptDecisions.carry_over`): a decision on one symbol is the newest there
and leaves the others as they were. What somebody else has appended meanwhile, or an append that was rolled back, drops
it all.
"""

from collections.abc import Sequence
from functools import partial
from operator import itemgetter

import msgspec

from tapebook.book import events as ev
from tapebook.book.materializer import UNREADABLE_REPLY, Account, LastClose, Session, refusal_code
from tapebook.book.records import NO_LIMIT, QUERIES, BookRecords, order_of_row
from tapebook.db import Database, Query, Row
from tapebook.domain.agent import AgentProfile, Deployment, deployment_id
from tapebook.domain.order import Order, OrderOutcome
from tapebook.domain.position import ClosedTrade, DayResults, Portfolio, Position, TradeState
from tapebook.domain.run import LONGEST_STREAK, Action, DecisionRun, SlotMark, Usage, Verdict, Vote, Watermarks
from tapebook.domain.units import DAY, HOUR, floor_to_step, iso_text
from tapebook.errors import Damaged, UnknownName
from tapebook.log import Draft, Event, Leases, Log, Stream
from tapebook.log.store import SET_BACK_KIND, ReadCache, StreamSetBack

MIGRATIONS = "tapebook.book"

MOST_UNDER_WAY = 50
"""Orders that are looked at for those under way: an order that outlives so many newer ones is not seen any more."""

# Runs that are named when the beginning of an id fits several.
_RUNS_NAMED = 5

_RUN_DECIDED = ev.EVENT_KINDS[ev.RunDecided]
_DECISION_ENDS = frozenset((ev.EVENT_KINDS[ev.RunEnded], ev.EVENT_KINDS[ev.OrderEnded]))
_DECISION_KINDS = _DECISION_ENDS | {_RUN_DECIDED}
# A decision by itself moves no account, and a mark is a snapshot: every tick has both.
_ACCOUNT_KINDS = {*ev.EVENT_KINDS.values(), SET_BACK_KIND} - {_RUN_DECIDED, ev.EVENT_KINDS[ev.MarksObserved]}


class AccountSnapshot(msgspec.Struct, frozen=True):
    """What an account was worth at a moment, at which marks, and up to where its margin was checked by then."""

    happened_at: int
    cash_usd_e6: int
    equity_usd_e6: int
    walked_until: int
    marks: dict[str, int]


class TradeWithEngine(msgspec.Struct, frozen=True):
    """A trade that ended, with the engine that entered it and how sure that was; None when no run of ours did."""

    trade: ClosedTrade
    engine: str | None
    confidence_e4: int | None


AgentRecord = tuple[int, AgentProfile, int | None]
"""A version of an agent: its number, the profile, and when the agent was removed with it, if it was."""


class _SessionDay(msgspec.Struct, frozen=True):
    """What a session says of the rest of a day from a moment on; in a stream that was set back, of that moment alone.

    Orders are counted by the hour, so they are those from the hour before it on.
    """

    as_of: int
    was_set_back: bool
    results_usd_e6: int
    fills: list[Row]
    intended: tuple[int, ...]
    nets: tuple[int, ...]
    closes: tuple[LastClose, ...]


class KeptDecisions(msgspec.Struct):
    """What is kept of a deployment's decisions: the newest on each symbol that was asked about, and what was refused.

    `refused` are rows that begin with their moment, from the hour before `refused_as_of` to the day after it.
    """

    runs: dict[str, DecisionRun | None] = {}
    refused_as_of: int = 0
    refused: list[Row] | None = None

    def carry_over(self, events: Sequence[Event]) -> "KeptDecisions":
        """What is kept behind our own events; nothing where it does not follow from them."""
        for event in events:
            # Without a hash it is not all worked out: what is kept must equal what is stored.
            if event.kind in _DECISION_ENDS or not event.hash:
                return KeptDecisions()
            run = ev.event_body(event, ev.RunDecided).run if event.kind == _RUN_DECIDED else None
            if run is None or run.trigger == "shadow":
                continue
            # A slot that expired before anybody looked at it is no decision.
            if run.status != "expired" or run.packet_sha256:
                self.runs[run.symbol] = run
            if run.status == "rejected" and run.error:
                self.refused = None
            for verdict in run.verdicts:
                if verdict.rule is not None:
                    self.refused = None
        return self


class _RunDetails(msgspec.Struct, frozen=True):
    """What the event of a run says and no table repeats."""

    inputs_sha256: str
    votes: tuple[Vote, ...] = ()
    note: str = ""
    mark: SlotMark | msgspec.UnsetType = msgspec.UNSET


class _RunEvent(msgspec.Struct, frozen=True):
    run: _RunDetails


_RUN_DETAILS = msgspec.json.Decoder(_RunEvent)


class _Streams(dict[str, Stream]):
    """The streams of an owner by deployment, each made once: it knows its hash from then on."""

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner

    def __missing__(self, deployment: str) -> Stream:
        made = self[deployment] = Stream(self._owner, deployment)
        return made


class Book(BookRecords):
    """The book of one owner."""

    def __init__(self, log: Log, db: Database, *, owner: str, leases: Leases | None = None) -> None:
        super().__init__(log, db, owner=owner)
        self.takes_back_appends = log.takes_back_appends
        self._leases = leases
        self._streams = _Streams(owner)
        # What a tick asks over and over; marks and decisions that place nothing change none of it.
        self._account_cache = ReadCache(log, _ACCOUNT_KINDS)
        self._owner_cache = ReadCache(log, ev.EVENT_KINDS.values())
        self._set_backs = ReadCache(log, (SET_BACK_KIND,)).cached_read(self._read_set_backs, owner=owner)
        self._decision_cache = ReadCache(log, _DECISION_KINDS)

    def stream(self, deployment: str = "") -> Stream:
        """The stream of a deployment, or the owner's own."""
        return self._streams[deployment]

    def head(self, deployment: str = "") -> int:
        """The newest sequence number of a stream."""
        stream = self._streams[deployment]
        return self._log.head(stream, lease=self._leases.in_hand.get(stream) if self._leases else None).seq

    def seq_as_of(self, deployment: str, as_of: int) -> int:
        """The newest sequence number known at a moment."""
        return self._log.seq_as_of(self._streams[deployment], as_of)

    def append(self, deployment: str, drafts: Sequence[Draft], *, expected_seq: int) -> list[Event]:
        """Writes events and their rows under the lease in hand, if any; or raises StaleWriter and writes nothing."""
        stream = self._streams[deployment]
        lease = self._leases.for_write(stream) if self._leases else None
        kept = self._decision_cache.read(deployment, stream, seq=expected_seq, read=KeptDecisions)
        events = self._log.append(stream, drafts, expected_seq=expected_seq, lease=lease)
        if events:
            # Read again, which gives what is carried over where there is a decision among them.
            self._decision_cache.read(deployment, stream, seq=events[-1].seq, read=partial(kept.carry_over, events))
        return events

    def record_set_back(self, deployment: str = "") -> None:
        """Writes that the clock has gone back, if it has and the stream does not say so yet."""
        stream = self._streams[deployment]
        if self._log.is_ahead_of_clock(stream, lease=self._leases.in_hand.get(stream) if self._leases else None):
            self.append(deployment, [], expected_seq=self.head(deployment))

    def set_back_count(self, deployment: str) -> int:
        """How often the clock has gone back in a stream, with a step that is about to be written."""
        stream = self._streams[deployment]
        return len(self._log.set_backs(stream)) + self._log.is_ahead_of_clock(stream)

    def set_back_after(self, deployment: str, *, seq: int, as_of: int) -> StreamSetBack | None:
        """The step back of the clock in a stream, up to a sequence number, that follows events of moments after one."""
        for back in self._set_backs(deployment, seq=seq):
            if back.known_before > as_of:
                return back
        return None

    def _read_set_backs(self, deployment: str, *, seq: int) -> list[StreamSetBack]:
        return self._log.set_backs(self._streams[deployment], until=seq)

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

    def agent(self, name: str, *, version: int | None = None) -> tuple[int, AgentProfile] | None:
        """One agent's profile: the newest version, which may be the one that ended it, or a given one."""
        found = self.agent_record(name, version=version)
        return found[:2] if found else None

    def agent_record(self, name: str, *, version: int | None = None) -> AgentRecord | None:
        """The newest version of an agent or a given one, its profile, and when that ended the agent, if it did."""
        query = QUERIES.agent if version is None else QUERIES.agent_version
        read = partial(self._db.one, query, owner=self.owner, agent=name, version=version)
        # While decisions are made together, read again only when the owner's stream has moved.
        if self._log.reads_once:
            row = self._owner_cache.read(("agent", name, version), self._streams[""], seq=self.head(), read=read)
        else:
            row = read()
        return (row[0], msgspec.json.decode(row[1], type=AgentProfile), row[2]) if row else None

    def agent_as_of(self, name: str, *, as_of: int, removed: bool = False) -> tuple[int, AgentProfile] | None:
        """One agent's profile as it was known at a moment; None when there was none, or when it had been removed."""
        row = self._db.one(QUERIES.agent_as_of, owner=self.owner, agent=name, seq=self.seq_as_of("", as_of))
        if row is None or (row[2] and not removed):
            return None
        return row[0], msgspec.json.decode(row[1], type=AgentProfile)

    def find_agent(
        self, name: str, *, version: int | None = None, as_of: int | None = None, removed: bool = False
    ) -> Deployment:
        """The deployment of an agent with its newest profile, a given version of it, or that of a past moment.

        UnknownName says why there is none. An agent that was removed is found in its past, or when `removed` says so.
        """
        if as_of is None:
            found = self.agent_record(name, version=version)
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

    def deployed_version(self, deployment: str, *, seq: int) -> int | None:
        """The agent version a deployment runs as of a sequence number."""

        def read() -> int | None:
            row = self._db.one(QUERIES.deployed, owner=self.owner, deployment=deployment, seq=seq)
            return row[1] if row else None

        return self._account_cache.read(("deployed", deployment), self._streams[deployment], seq=seq, read=read)

    def halts(self) -> dict[str, str]:
        """What may not trade now, with the reason that was given: deployments, or an empty name for all of them."""
        read = partial(self._db.all, QUERIES.halts, owner=self.owner)
        if self._log.reads_once:
            return dict(self._owner_cache.read("halts", self._streams[""], seq=self.head(), read=read))
        return dict(read())

    def flatten_due(self, deployment: str) -> dict[str, int]:
        """Symbols with something left that had begun when somebody wanted it flat, each with when that was last."""
        return dict(self._db.all(QUERIES.flatten_due, owner=self.owner, deployment=deployment))

    def account(self, deployment: str, *, seq: int) -> Account:
        """Cash, positions and open trades as of a sequence number."""
        read = partial(self._read_account, deployment, seq)
        known = self._account_cache.read(("account", deployment), self._streams[deployment], seq=seq, read=read)
        return known if known.seq == seq else Account(seq, known.portfolio, known.open_trades)

    def _read_account(self, deployment: str, seq: int) -> Account:
        where = {"owner": self.owner, "deployment": deployment, "seq": seq}
        cash = self._db.one(QUERIES.cash, **where)
        positions, trades = {}, {}
        for row in self._db.all(QUERIES.open_trades, **where):
            symbol = row[0]
            positions[symbol] = Position(*row[:6])
            trades[symbol] = TradeState(*row[6:])
        return Account(seq, Portfolio(positions, cash[0] if cash else 0), trades)

    def closed_trades(self, deployment: str, *, seq: int, most: int) -> list[ClosedTrade]:
        """The trades that ended last as of a sequence number, newest exit first; without those that lack fills."""
        read = partial(self._read_trades, QUERIES.closed_trades, deployment, seq=seq, most=most)
        return self._account_cache.read(("closed", deployment, most), self._streams[deployment], seq=seq, read=read)

    def closed_trades_until(self, deployment: str, *, seq: int, most: int, until: int) -> list[ClosedTrade]:
        """Closed trades without those that ended after a moment: for streams in which the clock has gone back."""
        return self._read_trades(QUERIES.closed_trades_until, deployment, seq=seq, most=most, until=until)

    def day_results(self, deployment: str, *, seq: int, as_of: int) -> DayResults:
        """What the trades came to that ended on the day of a moment up to it, as of a sequence number."""
        today = floor_to_step(as_of, DAY)

        def read(until: int = today + DAY) -> tuple[int, int, DayResults]:
            where = {"owner": self.owner, "deployment": deployment, "since": today, "until": until, "seq": seq}
            ((trades, won, net, last),) = self._db.all(QUERIES.results_between, **where)
            return today, last, DayResults(trades, won, net)

        key = "day results", deployment
        day, last, found = self._account_cache.read(key, self._streams[deployment], seq=seq, read=read)
        if day != today:
            _, last, found = self._account_cache.replace(key, read())
        # A trade that a clock which was ahead has dated counts when that moment has come.
        return found if last <= as_of else read(as_of + 1)[2]

    def closed_after(self, deployment: str, *, after: int, seq: int, most: int = NO_LIMIT) -> list[ClosedTrade]:
        """The trades that ended after one sequence number and up to another, oldest exit first."""
        return self._read_trades(QUERIES.closed_after, deployment, after=after, seq=seq, most=most)

    def trades_closed_between(self, deployment: str, *, since: int, until: int, seq: int) -> list[TradeWithEngine]:
        """The trades that ended between two moments, as of a sequence number, oldest exit first."""
        where = {"owner": self.owner, "deployment": deployment, "since": since, "until": until, "seq": seq}
        rows = self._db.all(QUERIES.closed_on, **where)
        return [TradeWithEngine(closed_trade_of_row(row[:-2]), *row[-2:]) for row in rows]

    def _read_trades(self, query: Query, deployment: str, **terms: int) -> list[ClosedTrade]:
        rows = self._db.all(query, owner=self.owner, deployment=deployment, **terms)
        return [closed_trade_of_row(row) for row in rows]

    def closed_count_since(self, deployment: str, *, after: int, seq: int) -> tuple[int, int | None]:
        """How many trades ended after one sequence number and up to another, and when the first of them did."""
        row = self._db.one(QUERIES.closed_since, owner=self.owner, deployment=deployment, after=after, seq=seq)
        return (row[0], row[1]) if row else (0, None)

    def last_run(self, deployment: str, symbol: str, *, seq: int, expired_orders: bool = True) -> DecisionRun | None:
        """The newest decision on a symbol as of a sequence number; also one whose order expired at the gate, or not."""
        kept = KeptDecisions()
        if expired_orders:
            kept = self._decision_cache.read(deployment, self._streams[deployment], seq=seq, read=KeptDecisions)
        if symbol in kept.runs:
            return kept.runs[symbol]
        where = {"owner": self.owner, "deployment": deployment, "symbol": symbol, "seq": seq}
        row = self._db.one(QUERIES.last_run, without_expired=int(not expired_orders), **where)
        run = kept.runs[symbol] = self._run_of_row(row) if row else None
        return run

    def last_run_until(self, deployment: str, symbol: str, *, seq: int, until: int) -> DecisionRun | None:
        """The newest decision on a symbol that was made by a moment: for streams in which the clock has gone back."""
        where = {"owner": self.owner, "deployment": deployment, "symbol": symbol, "seq": seq, "until": until}
        row = self._db.one(QUERIES.last_run_until, **where)
        return self._run_of_row(row) if row else None

    def has_run(self, run_id: str) -> bool:
        """Whether this decision was made already."""
        return self._db.one(QUERIES.run_exists, owner=self.owner, run_id=run_id) is not None

    def run(self, run_id: str) -> DecisionRun | None:
        """One decision with its actions and verdicts."""
        row = self._db.one(QUERIES.run, owner=self.owner, run_id=run_id)
        return self._run_of_row(row) if row else None

    def _run_of_row(self, row: Row) -> DecisionRun:
        event = self._log.event(self._streams[row[2]], row[-1])
        if event is None:
            raise Damaged(f"run {row[0]} is not in the log; `tapebook verify` lists what is missing")
        # What only the event says; the columns stand in the order of the struct's fields, with four for its watermarks.
        details = _RUN_DETAILS.decode(event.body).run
        before = (*row[:10], Watermarks(*row[10:14]), row[14], details.inputs_sha256, *row[15:21])
        actions: list[Action] = []
        verdicts: list[Verdict] = []
        for each in self._db.all(QUERIES.actions, owner=self.owner, deployment=row[2], seq=row[-1]):
            action: Row = (*each[:9], tuple(msgspec.json.decode(each[9])))
            actions.append(Action(*action))
            verdicts.append(Verdict(bool(each[10]), each[11], each[12], tuple(msgspec.json.decode(each[13]))))
        reply_values = (tuple(msgspec.json.decode(row[21])), details.note, row[22], details.votes)
        usage, causes = Usage(*row[23:28]) if row[23] else None, tuple(msgspec.json.decode(row[28]))
        fields: Row = (*before, tuple(actions), tuple(verdicts), *reply_values, usage, causes, row[29], details.mark)
        return DecisionRun(*fields)

    def find_run(self, text: str) -> DecisionRun:
        """The decision whose id begins with a text; UnknownName when none or several do."""
        written = text.lower()
        # No character comes behind this one in either database.
        found = self._db.all(QUERIES.runs_between, owner=self.owner, first=written, beyond=f"{written}\U0010ffff")
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

    def working_orders(self, deployment: str, *, seq: int | None = None) -> list[tuple[Order, bool]]:
        """Orders that have not ended, oldest first, each with whether the broker has it.

        `seq` is the head of the stream, from whoever has read it just now.
        """

        def read() -> list[tuple[Order, bool]]:
            rows = self._db.all(QUERIES.working_orders, owner=self.owner, deployment=deployment)
            return [(order_of_row(row), row[10] is not None) for row in rows]

        seq = self.head(deployment) if seq is None else seq
        return self._account_cache.read(("working", deployment), self._streams[deployment], seq=seq, read=read)

    def has_exposure(self, deployment: str) -> bool:
        """Whether a deployment has an order that has not ended, or holds something."""
        seq = self.head(deployment)
        return bool(self.account(deployment, seq=seq).open_trades or self.working_orders(deployment, seq=seq))

    def order_reason(self, client_id: str) -> tuple[str, str, int] | None:
        """The run that placed an order, the reason it gave, and how far it had read the book."""
        row = self._db.one(QUERIES.order_reason, owner=self.owner, client_id=client_id)
        return (row[0], row[1], row[2]) if row else None

    def newest_snapshot(self, deployment: str, *, seq: int) -> AccountSnapshot | None:
        """What the account was worth when it was last valued."""
        row = self._db.one(QUERIES.newest_snapshot, owner=self.owner, deployment=deployment, seq=seq)
        if row is None:
            return None
        return AccountSnapshot(row[0], row[1], row[2], row[3], msgspec.json.decode(row[4], type=dict[str, int]))

    def order_outcomes(self, run_id: str, *, seq: int) -> tuple[OrderOutcome, ...]:
        """How far the orders of a run had come as of a sequence number."""
        rows = self._db.all(QUERIES.order_outcomes, owner=self.owner, run_id=run_id, seq=seq)
        return tuple(OrderOutcome(*row) for row in rows)

    def orders_under_way(self, deployment: str, *, seq: int, as_of: int) -> tuple[Order, ...]:
        """Orders that had not ended as of a sequence number, oldest first."""
        stream = self._streams[deployment]
        where = {"owner": self.owner, "deployment": deployment, "seq": seq, "until": as_of + DAY}

        def read() -> tuple[bool, tuple[Order, ...]]:
            rows = self._db.all(QUERIES.orders_under_way, most=MOST_UNDER_WAY, **where)
            return bool(self._set_backs(deployment, seq=seq)), tuple([order_of_row(row) for row in rows])

        was_set_back, orders = self._account_cache.read(("under_way", deployment), stream, seq=seq, read=read)
        # Where the clock went back, which orders lie ahead of a moment depends on the moment.
        return read()[1] if was_set_back else orders

    def session(self, deployment: str, account: Account, *, as_of: int) -> Session:
        """What a deployment did in the hour and the day before a moment, as of its account's sequence number."""
        key, stream, seq, hour = ("session", deployment), self._streams[deployment], account.seq, as_of - HOUR
        read = partial(self._read_session_day, deployment, seq, as_of)
        day = self._account_cache.read(key, stream, seq=seq, read=read)
        # Where the clock never went back it holds for the rest of the day, until something is done again.
        if day.was_set_back or not day.as_of <= as_of < floor_to_step(day.as_of, DAY) + DAY:
            day = self._account_cache.replace(key, read())
        # Refusals are kept for a day around the moment they were read for.
        kept = self._decision_cache.read(deployment, stream, seq=seq, read=KeptDecisions)
        if kept.refused is not None and kept.refused_as_of <= as_of < kept.refused_as_of + DAY:
            refused = kept.refused
        else:
            where = {"owner": self.owner, "deployment": deployment, "seq": seq, "hour": hour}
            # A day ahead, for what a clock that was ahead has dated.
            found = self._db.all(QUERIES.session_refusals, unreadable=UNREADABLE_REPLY, as_of=as_of + DAY, **where)
            # In the order it was: by event, and by the place of an action.
            refused = sorted(found, key=itemgetter(1, 2))
            kept.refused_as_of, kept.refused = as_of, refused
        rejections, refusals = [], []
        for at, _, _, rule, detail, by_guard in refused:
            if hour < at <= as_of:
                refusals.append(rule or refusal_code(detail))
                if by_guard:
                    rejections.append(rule)
        executed, held = 0, dict(account.portfolio.positions)
        # What was not filled is what it is now.
        for symbol, orders, *before in day.fills:
            executed += orders
            held.pop(symbol, None)
            if before[0]:
                held[symbol] = Position(symbol, *before)
        orders_in_hour = 0
        for at in day.intended:
            orders_in_hour += at > hour
        return Session(
            cash_usd_e6=account.portfolio.cash_usd_e6,
            results_usd_e6=day.results_usd_e6,
            held=held,
            rejections=tuple(rejections),
            executed=executed,
            orders=orders_in_hour,
            nets=day.nets,
            closes=day.closes,
            refusals=tuple(refusals),
        )

    def _read_session_day(self, deployment: str, seq: int, as_of: int) -> _SessionDay:
        today, until = floor_to_step(as_of, DAY), as_of + DAY
        where = {"owner": self.owner, "deployment": deployment, "seq": seq}
        intended = self._db.all(QUERIES.session_intended, since=as_of - HOUR, until=until, **where)
        results = self._db.one(QUERIES.session_results, today=today, until=until, **where)
        return _SessionDay(
            as_of=as_of,
            was_set_back=bool(self._set_backs(deployment, seq=seq)),
            results_usd_e6=results[0] if results else 0,
            fills=self._db.all(QUERIES.session_fills, today=today, until=until, **where),
            intended=tuple([row[0] for row in intended]),
            nets=tuple([row[0] for row in self._db.all(QUERIES.session_nets, most=LONGEST_STREAK, **where)]),
            closes=tuple([LastClose(*row) for row in self._db.all(QUERIES.session_closes, **where)]),
        )


def closed_trade_of_row(row: Row) -> ClosedTrade:
    """A trade of its columns and those of its exit."""
    return ClosedTrade(TradeState(*row[:-3]), *row[-3:])


def _removed_text(name: str, removed_at: int) -> str:
    return f"{name} was removed at {iso_text(removed_at)}: `tapebook agents add {name}` brings it back"
