"""The book of a single writer: what a tick asks of the newest state is answered from memory.

`StreamState` sees every event of a stream in order and is a function of them; nothing else invalidates it. It
answers what a tick asks of the book over and over. Every answer of `SingleWriterBook` equals that of `Book`;
whatever the state does not know, and every older moment, is read from the tables. `tests/book/test_stream_state.py`
compares the two.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TypeVar

import msgspec

from tapebook.book import events as ev
from tapebook.book.events import EVENT_KINDS, DeskFlattened
from tapebook.book.materializer import UNREADABLE_REPLY, Account, LastClose, Session, day_start, refusal_code
from tapebook.book.records import NO_LIMIT
from tapebook.book.store import MOST_UNDER_WAY, AccountSnapshot, AgentRecord, Book
from tapebook.db import Database
from tapebook.domain.order import Fill, Order, OrderOutcome
from tapebook.domain.position import ClosedTrade, DayResults, Portfolio, Position, TradeState
from tapebook.domain.run import LONGEST_STREAK, DecisionRun
from tapebook.domain.units import DAY, HOUR
from tapebook.log import Draft, Event
from tapebook.log.single_writer import SingleWriterLog
from tapebook.log.store import StreamSetBack

_TRANSFERS = ("deposit", "withdrawal")
Item = TypeVar("Item")


class SessionFill(msgspec.Struct, frozen=True):
    """One fill, and what was held of its symbol just before it."""

    happened_at: int
    symbol: str
    client_id: str | None
    before: Position | None


class StreamState:
    """What one deployment holds, has under way and did lately, as of the newest event it saw.

    `run_ids` is where it adds the decisions it sees, beside those of other deployments.
    """

    def __init__(self, run_ids: set[str]) -> None:
        self.seq = 0
        self.portfolio = Portfolio({}, 0)
        self.open_trades: dict[str, TradeState] = {}
        self.snapshot: AccountSnapshot | None = None
        self.runs: dict[str, DecisionRun] = {}
        self.placed: dict[str, DecisionRun] = {}
        self.closed: list[ClosedTrade] = []
        self.working: list[tuple[Order, bool]] = []
        """Orders that have not ended, oldest first, each with whether the broker has it; a new list at each change."""
        self.outcomes: defaultdict[str, dict[str, OrderOutcome]] = defaultdict(dict)
        """How far the orders of each run have come, by their client ids, oldest first."""
        self.fill_ids: set[str] = set()
        self._run_ids = run_ids
        self._closed_at: list[int] = []
        # A cache: the results of a day, by the day and how many trades had ended; behind the last exit of that day.
        self._day_results: tuple[tuple[int, int], int, DayResults] = ((0, 0), 0, DayResults())
        self._working: dict[str, tuple[Order, bool, int]] = {}
        self._orders = 0
        self._intended: deque[int] = deque()
        self._results: deque[tuple[int, int]] = deque()
        self._fills: deque[SessionFill] = deque()
        self._rejections: deque[tuple[int, str]] = deque()
        self._refusals: deque[tuple[int, str]] = deque()
        self._closes: dict[str, LastClose] = {}
        self._nets: tuple[int, ...] = ()
        self._asked = 0
        # The session that was told last, and until when it holds if nothing happens.
        self._told: tuple[int, Session] | None = None

    def apply_event(self, event: Event) -> None:
        """Takes in the next event."""
        self.seq, kind = event.seq, event.kind
        found = _HANDLERS.get(kind)
        if found is not None:
            body, take = found
            take(self, ev.event_body(event, body), event)
            if kind not in _EVERY_TICK:
                self._told = None

    def closed_after(self, after: int) -> list[ClosedTrade]:
        """The trades that ended behind a sequence number, oldest exit first."""
        return self.closed[bisect_right(self._closed_at, after) :]

    def day_results(self, as_of: int) -> DayResults | None:
        """What trades of the day of a moment came to; None when one of them is dated behind it."""
        # What `day_start` gives, written out: every decision asks.
        day = as_of - as_of % DAY
        known = (day, len(self.closed))
        if self._day_results[0] != known:
            # Exits are told in the order of time, but for those of one reconciliation.
            since = takewhile(lambda trade: trade.exit_tick_at >= day - DAY, reversed(self.closed))
            ended = [trade for trade in since if day <= trade.exit_tick_at < day + DAY]
            nets = [trade.state.net_usd_e6 for trade in ended]
            last = max([trade.exit_tick_at for trade in ended], default=0)
            results = DayResults(len(nets), sum([net > 0 for net in nets]), sum(nets))
            self._day_results = known, last, results
        _, last, results = self._day_results
        return results if last <= as_of else None

    def orders_under_way(self, most: int) -> tuple[Order, ...] | None:
        """Orders that have not ended; None when one is so old that the tables must say if it is still looked at."""
        if not self._working:
            return ()
        if any(self._orders - number >= most for _, _, number in self._working.values()):
            return None
        return tuple(order for order, _, _ in self._working.values())

    def order_reason(self, client_id: str) -> tuple[str, str, int] | None:
        """The run that placed an order that has not ended, the reason it gave, and how far it had read the book."""
        order = self._working[client_id][0] if client_id in self._working else None
        run = self.placed.get(order.run_id) if order else None
        if order is None or run is None:
            return None
        for action, verdict in zip(run.actions, run.verdicts, strict=True):
            if verdict.allowed and action.action != "hold" and action.symbol == order.symbol:
                return run.run_id, action.reason, run.watermarks.book
        return None

    def session(self, as_of: int) -> Session | None:
        """What was done in the hour and the day before a moment; None for one before the last that was asked for."""
        if as_of < self._asked:
            return None
        self._asked = as_of
        if self._told is None or as_of >= self._told[0]:
            self._told = self._session_valid_until(as_of), self._session(as_of)
        return self._told[1]

    def _session_valid_until(self, as_of: int) -> int:
        """The first moment at which the day, or an order or a rejection of the last hour, is over."""
        lately = [*self._intended, *[at for at, _ in self._refusals]]
        changes = [at if at > as_of else at + HOUR for at in lately if at > as_of - HOUR]
        return min([day_start(as_of) + DAY, *changes])

    def _session(self, as_of: int) -> Session:
        today, hour = day_start(as_of), as_of - HOUR
        _drop_old(self._fills, lambda each: each.happened_at < today)
        _drop_old(self._results, lambda each: each[0] < today)
        _drop_old(self._intended, lambda each: each <= hour)
        _drop_old(self._rejections, lambda each: each[0] <= hour)
        _drop_old(self._refusals, lambda each: each[0] <= hour)
        fills = [each for each in self._fills if each.happened_at >= today]
        return Session(
            cash_usd_e6=self.portfolio.cash_usd_e6,
            results_usd_e6=sum(amount for at, amount in self._results if at >= today),
            held=_held_before(self.portfolio, fills),
            rejections=tuple(rule for at, rule in self._rejections if hour < at <= as_of),
            executed=len({(each.symbol, each.client_id) for each in fills if each.client_id is not None}),
            orders=sum(1 for at in self._intended if at > hour),
            nets=self._nets,
            closes=tuple(self._closes.values()),
            refusals=tuple(code for at, code in self._refusals if hour < at <= as_of),
        )

    def _on_ledger_posted(self, body: ev.LedgerPosted, event: Event) -> None:
        self.portfolio = msgspec.structs.replace(self.portfolio, cash_usd_e6=body.balance_usd_e6)
        self._results.extend(
            (event.happened_at, line.amount_usd_e6) for line in body.lines if line.kind not in _TRANSFERS
        )

    def _on_run_decided(self, body: ev.RunDecided, event: Event) -> None:
        run = body.run
        run_id, status = run.run_id, run.status
        self._run_ids.add(run_id)
        if status == "placed":
            self.placed[run_id] = run
        if run.trigger == "shadow":
            return
        if status != "expired":
            self.runs[run.symbol] = run
        if run.branch != "main":
            return
        rules = [verdict.rule for verdict in run.verdicts if verdict.rule is not None]
        if rules:
            self._rejections.extend((run.as_of, rule) for rule in rules)
        if status == "rejected" and run.error is not None:
            rules.append(UNREADABLE_REPLY)
        if rules:
            self._refusals.extend((run.as_of, rule) for rule in rules)
            self._told = None

    def finish_run(self, run: DecisionRun) -> None:
        """Takes in what the packet of a decision came to, which was not known yet when the decision was seen."""
        packet = {"inputs_sha256": run.inputs_sha256, "packet_sha256": run.packet_sha256, "tokens": run.tokens}
        for runs, key in ((self.placed, run.run_id), (self.runs, run.symbol)):
            seen = runs.get(key)
            if seen is not None and seen.run_id == run.run_id:
                runs[key] = msgspec.structs.replace(seen, **packet)

    def _on_run_ended(self, body: ev.RunEnded, event: Event) -> None:
        if body.run_id in self.placed:
            self.placed[body.run_id] = msgspec.structs.replace(self.placed[body.run_id], status=body.status)
        for symbol, run in self.runs.items():
            if run.run_id == body.run_id:
                self.runs[symbol] = msgspec.structs.replace(run, status=body.status)

    def _on_order_intended(self, body: ev.OrderIntended, event: Event) -> None:
        order = body.order
        self._set_working(order.client_id, (order, False, self._orders))
        self.outcomes[order.run_id][order.client_id] = OrderOutcome(order.symbol, "intended")
        self._orders += 1
        self._intended.append(body.order.intended_at)

    def _on_dry_run(self, body: ev.OrderDryRun, event: Event) -> None:
        """Counted as one that was intended, and under way at no time."""
        order = body.order
        self.outcomes[order.run_id][order.client_id] = OrderOutcome(order.symbol, "dry", body.detail)
        self._orders += 1
        self._intended.append(body.order.intended_at)

    def _on_order_placed(self, body: ev.OrderPlaced, event: Event) -> None:
        order, _, number = self._working[body.client_id]
        self._set_working(body.client_id, (order, True, number))
        self.outcomes[order.run_id][order.client_id] = OrderOutcome(order.symbol, "working")

    def _on_order_ended(self, body: ev.OrderEnded, event: Event) -> None:
        end, order = body.end, self._working[body.end.client_id][0]
        if end.status == "rejected" and order.run_id:
            self._refusals.append((order.intended_at, refusal_code(end.detail)))
        self._set_working(end.client_id, None)
        self.outcomes[order.run_id][order.client_id] = OrderOutcome(order.symbol, end.status, end.detail)

    def _set_working(self, client_id: str, entry: tuple[Order, bool, int] | None) -> None:
        if entry is None:
            del self._working[client_id]
        else:
            self._working[client_id] = entry
        self.working = [(order, placed) for order, placed, _ in self._working.values()]

    def _on_fill(self, body: ev.FillObserved, event: Event) -> None:
        fill = body.fill
        self.fill_ids.add(fill.fill_id)
        held = self.portfolio.positions.get(fill.symbol)
        before = None if held is None else Position(held.symbol, held.size_e8, held.cost_usd_e6, held.leverage)
        self._fills.append(SessionFill(fill.happened_at, fill.symbol, fill.client_id, before))

    def _on_marks(self, body: ev.MarksObserved, event: Event) -> None:
        self.snapshot = AccountSnapshot(
            event.happened_at, body.cash_usd_e6, body.equity_usd_e6, body.walked_until, body.marks
        )

    def _on_trade_changed(self, body: ev.TradeOpened | ev.TradeUpdated, event: Event) -> None:
        self._hold(body.trade.symbol, body.position if body.position.size_e8 else None, body.trade)

    def _on_trade_closed(self, body: ev.TradeClosed, event: Event) -> None:
        trade = body.trade
        self._hold(trade.state.symbol, None, trade.state)
        self.closed.append(trade)
        self._closed_at.append(event.seq)
        net = trade.state.net_usd_e6
        self._nets = (net, *self._nets[: LONGEST_STREAK - 1])
        last = LastClose(trade.state.symbol, trade.exit_tick_at, net)
        self._closes = dict(sorted((self._closes | {last.symbol: last}).items()))

    def _hold(self, symbol: str, position: Position | None, trade: TradeState) -> None:
        """New dictionaries, in the order of symbols: somebody may still look at the old ones."""
        positions = {name: held for name, held in self.portfolio.positions.items() if name != symbol}
        trades = {name: each for name, each in self.open_trades.items() if name != symbol}
        if position is not None:
            positions[symbol], trades[symbol] = position, trade
        self.portfolio = Portfolio(dict(sorted(positions.items())), self.portfolio.cash_usd_e6)
        self.open_trades = dict(sorted(trades.items()))


_HANDLERS: dict[str, tuple[type[msgspec.Struct], Callable[..., None]]] = {
    ev.EVENT_KINDS[body]: (body, take)
    for body, take in (
        (ev.LedgerPosted, StreamState._on_ledger_posted),
        (ev.RunDecided, StreamState._on_run_decided),
        (ev.RunEnded, StreamState._on_run_ended),
        (ev.OrderIntended, StreamState._on_order_intended),
        (ev.OrderDryRun, StreamState._on_dry_run),
        (ev.OrderPlaced, StreamState._on_order_placed),
        (ev.OrderEnded, StreamState._on_order_ended),
        (ev.FillObserved, StreamState._on_fill),
        (ev.MarksObserved, StreamState._on_marks),
        (ev.TradeOpened, StreamState._on_trade_changed),
        (ev.TradeUpdated, StreamState._on_trade_changed),
        (ev.TradeClosed, StreamState._on_trade_closed),
    )
}


# Every tick has one of them; neither changes a session, but for a rejection.
_EVERY_TICK = frozenset((ev.EVENT_KINDS[ev.RunDecided], ev.EVENT_KINDS[ev.MarksObserved]))


def _drop_old(kept: deque[Item], gone: Callable[[Item], bool]) -> None:
    """Drops what is too old, from the front; what came late stands further behind and goes later."""
    while kept and gone(kept[0]):
        kept.popleft()


def _held_before(now: Portfolio, fills: list[SessionFill]) -> dict[str, Position]:
    """The positions before some fills: what was not filled is what it is now."""
    first: dict[str, Position | None] = {}
    for each in fills:
        first.setdefault(each.symbol, each.before)
    kept = {symbol: held for symbol, held in now.positions.items() if symbol not in first}
    return kept | {symbol: held for symbol, held in sorted(first.items()) if held is not None}


class SingleWriterBook(Book):
    """A book with a fold of every deployment it is asked about; one answers if it is as of its end that is asked."""

    def __init__(self, log: SingleWriterLog, db: Database, *, owner: str) -> None:
        super().__init__(log, db, owner=owner)
        self._run_ids: set[str] = set()
        self._folds: defaultdict[str, StreamState] = defaultdict(lambda: StreamState(self._run_ids))
        self._agents: dict[str, AgentRecord | None] = {}
        self._halts: dict[str, str] | None = None
        self._flattened = False
        for stream in log.streams():
            for event in log.events(stream):
                self._apply_event(event)
        log.add_follower(self._apply_event, finished=self._finish_event)

    def head(self, deployment: str = "") -> int:
        """The newest sequence number of a stream."""
        return self._folds[deployment].seq if deployment else super().head()

    def append(self, deployment: str, drafts: Sequence[Draft], *, expected_seq: int) -> list[Event]:
        """Writes events and their rows; nobody else writes, and what a tick asks of them is in the fold."""
        return self._log.append(self._streams[deployment], drafts, expected_seq=expected_seq)

    def record_set_back(self, deployment: str = "") -> None:
        """Nothing: virtual time never goes back."""

    def set_back_after(self, deployment: str, *, seq: int, as_of: int) -> StreamSetBack | None:
        """None: virtual time never goes back."""
        return None

    def agent_record(self, name: str, *, version: int | None = None) -> AgentRecord | None:
        """The newest version of an agent, or a given one."""
        if version is not None:
            return super().agent_record(name, version=version)
        if name not in self._agents:
            self._agents[name] = super().agent_record(name)
        return self._agents[name]

    def halts(self) -> dict[str, str]:
        """What may not trade now, with the reason that was given."""
        if self._halts is None:
            self._halts = super().halts()
        return self._halts

    def flatten_due(self, deployment: str) -> dict[str, int]:
        """Symbols with something left that had begun when somebody wanted it flat, each with when that was last."""
        return super().flatten_due(deployment) if self._flattened else {}

    def account(self, deployment: str, *, seq: int) -> Account:
        """Cash, positions and open trades as of a sequence number."""
        state = self._folds[deployment]
        if state.seq != seq:
            return super().account(deployment, seq=seq)
        return Account(seq, state.portfolio, state.open_trades)

    def closed_trades(self, deployment: str, *, seq: int, most: int) -> list[ClosedTrade]:
        """The trades that ended last as of a sequence number, newest exit first."""
        state = self._folds[deployment]
        if state.seq != seq:
            return super().closed_trades(deployment, seq=seq, most=most)
        return state.closed[: -most - 1 : -1]

    def day_results(self, deployment: str, *, seq: int, as_of: int) -> DayResults:
        """What trades of the day of a moment came to up to it."""
        state = self._folds[deployment]
        found = state.day_results(as_of) if state.seq == seq else None
        return super().day_results(deployment, seq=seq, as_of=as_of) if found is None else found

    def closed_after(self, deployment: str, *, after: int, seq: int, most: int = NO_LIMIT) -> list[ClosedTrade]:
        """The trades that ended after one sequence number and up to another, oldest exit first."""
        state = self._folds[deployment]
        if state.seq != seq:
            return super().closed_after(deployment, after=after, seq=seq, most=most)
        return state.closed_after(after)[:most]

    def closed_count_since(self, deployment: str, *, after: int, seq: int) -> tuple[int, int | None]:
        """How many trades ended after one sequence number and up to another, and when the first of them did."""
        state = self._folds[deployment]
        if state.seq != seq:
            return super().closed_count_since(deployment, after=after, seq=seq)
        closed = state.closed_after(after)
        return len(closed), min([each.exit_tick_at for each in closed], default=None)

    def last_run(self, deployment: str, symbol: str, *, seq: int, expired_orders: bool = True) -> DecisionRun | None:
        """The newest decision on a symbol as of a sequence number; also one whose order expired at the gate, or not."""
        state = self._folds[deployment]
        if state.seq != seq or not expired_orders:
            return super().last_run(deployment, symbol, seq=seq, expired_orders=expired_orders)
        return state.runs.get(symbol)

    def run(self, run_id: str) -> DecisionRun | None:
        """One decision with its actions and verdicts; those that placed orders are asked for again."""
        if run_id not in self._run_ids:
            return None
        found = [state.placed[run_id] for state in self._folds.values() if run_id in state.placed]
        return found[0] if found else super().run(run_id)

    def order_reason(self, client_id: str) -> tuple[str, str, int] | None:
        """The run that placed an order, the reason it gave, and how far it had read the book."""
        found = [reason for state in self._folds.values() if (reason := state.order_reason(client_id))]
        return found[0] if found else super().order_reason(client_id)

    def order_outcomes(self, run_id: str, *, seq: int) -> tuple[OrderOutcome, ...]:
        """How far the orders of a run had come as of a sequence number."""
        for state in self._folds.values():
            if state.seq == seq and run_id in state.outcomes:
                return tuple(state.outcomes[run_id].values())
        return super().order_outcomes(run_id, seq=seq)

    def fill(self, deployment: str, fill_id: str) -> Fill | None:
        """One fill; one that is new, as most are that are asked for, is in no table."""
        return super().fill(deployment, fill_id) if fill_id in self._folds[deployment].fill_ids else None

    def working_orders(self, deployment: str, *, seq: int | None = None) -> list[tuple[Order, bool]]:
        """Orders that have not ended, oldest first, each with whether the broker has it."""
        return self._folds[deployment].working

    def orders_under_way(self, deployment: str, *, seq: int, as_of: int) -> tuple[Order, ...]:
        """Orders that had not ended as of a sequence number, oldest first."""
        state = self._folds[deployment]
        known = state.orders_under_way(MOST_UNDER_WAY) if state.seq == seq else None
        return super().orders_under_way(deployment, seq=seq, as_of=as_of) if known is None else known

    def has_exposure(self, deployment: str) -> bool:
        """Whether a deployment has an order that has not ended, or holds something."""
        state = self._folds[deployment]
        return bool(state.open_trades or state.working)

    def newest_snapshot(self, deployment: str, *, seq: int) -> AccountSnapshot | None:
        """What the account was worth when it was last valued."""
        state = self._folds[deployment]
        return state.snapshot if state.seq == seq else super().newest_snapshot(deployment, seq=seq)

    def session(self, deployment: str, account: Account, *, as_of: int) -> Session:
        """What a deployment did in the hour and the day before a moment, as of its account's sequence number."""
        state = self._folds[deployment]
        known = state.session(as_of) if state.seq == account.seq else None
        return super().session(deployment, account, as_of=as_of) if known is None else known

    def _finish_event(self, event: Event) -> None:
        if event.stream.owner == self.owner:
            self._folds[event.stream.deployment].finish_run(ev.event_body(event, ev.RunDecided).run)

    def _apply_event(self, event: Event) -> None:
        stream = event.stream
        if stream.owner != self.owner:
            return
        if stream.deployment:
            self._folds[stream.deployment].apply_event(event)
        else:
            self._agents, self._halts = {}, None
            self._flattened |= event.kind == EVENT_KINDS[DeskFlattened]
