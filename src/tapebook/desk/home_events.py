"""What happens in a home, one short line each, for whoever watches it: `tapebook up`.

Everything is read from the log and the tape, so it shows what any process of the home did, and each thing once:

1. `HomeEvents.new_events` asks for the newest row of every stream, reads what was appended since its last call, and
   turns events into lines by their kind (`_LINES`);
2. `_MarketWatch` compares the tape with what it last reported: a lost connection, stale prices, prices that are
   back, gaps that were found or filled;
3. `HomeTotals` counts what was shown;
4. `HomeWatch` does this twice a second in a thread, and logs each event: an incident of the log is also a line.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec

from tapebook.book import events as ev
from tapebook.clock import Clock
from tapebook.domain.agent import Note, agent_name_of
from tapebook.domain.order import Order
from tapebook.domain.run import Action, DecisionRun, Usage
from tapebook.domain.text import plural, short_line
from tapebook.domain.units import DAY, E6, E8, MINUTE, SECOND, decimal_text, iso_text, notional_usd_e6, short_price
from tapebook.errors import Retry, TapebookError
from tapebook.lessons.notes import NOTE_REFUSED, NOTE_WRITTEN, NoteRefused, NoteWritten
from tapebook.log import Event
from tapebook.tape.families import MIDS
from tapebook.tape.source import channels_of
from tapebook.tape.store import Tape
from tapebook.tape.view import NO_WATERMARK, RecordedGap, RecordedProblem
from tapebook.wiring import Rooms

_LOG = logging.getLogger("tapebook.desk")
EventKind = Literal["decision", "order", "fill", "trade", "refusal", "failure", "model", "missed", "desk", "market"]

# Incidents, which somebody may have to look at; everything else is information.
_LEVELS: dict[EventKind, int] = {
    **{"failure": logging.ERROR, "missed": logging.WARNING},
    **{"desk": logging.WARNING, "market": logging.WARNING},
}
_LOOK_SECONDS = 0.5
# How long a start waits for the first look, and an end for the last one.
_OPEN_SECONDS, _LAST_LOOK_SECONDS = 5.0, 5.0
_MarketLine = tuple[str, str, dict[str, Any]]
# Of a reason or an error; `runs show` has all of it.
_MOST_TEXT = 240


class HomeEvent(msgspec.Struct, frozen=True):
    """One thing that happened: when, by the clock of the market; whose; a short sentence and its values."""

    at: int
    kind: EventKind
    agent: str
    symbol: str
    text: str
    values: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        """The event as `--json` prints it."""
        named = {
            "event": self.kind,
            "at": iso_text(self.at),
            "agent": self.agent or None,
            "symbol": self.symbol or None,
        }
        return named | {"text": self.text} | self.values

    def log_fields(self) -> dict[str, Any]:
        """The fields of the event's log line: `at` is the line's own time, so the market's is `happened_at`."""
        named = {"happened_at": iso_text(self.at), "agent": self.agent, "symbol": self.symbol}
        return named | {"text": self.text} | self.values


class HomeTotals(msgspec.Struct):
    """How much happened while somebody watched.

    `decisions` are those an engine answered and that were understood, `holds` those of them that asked for nothing;
    those of a shadow are counted apart. `refusals` are of the parser, the guard, the gate and the broker. `failures`
    are decisions, reflections and orders that an error ended or left open; `degraded` decisions lacked a memory.
    """

    decisions: int = 0
    holds: int = 0
    shadow_decisions: int = 0
    orders_sent: int = 0
    dry_orders: int = 0
    fills: int = 0
    trades: int = 0
    refusals: int = 0
    failures: int = 0
    degraded: int = 0
    missed: int = 0
    model_calls: int = 0
    model_usd_e6: int = 0

    @property
    def model_usd(self) -> float:
        """What models cost."""
        return self.model_usd_e6 / E6

    def to_dict(self) -> dict[str, Any]:
        """The totals as `--json` prints them last."""
        counts = msgspec.structs.asdict(self)
        del counts["model_usd_e6"]
        return {"event": "summary"} | counts | {"model_usd": self.model_usd}

    def sentence(self) -> str:
        """The totals in one line; what is rare is said only when there was any."""
        parts = [
            f"{plural(self.decisions, 'decision')} ({plural(self.holds, 'hold')})",
            f"{plural(self.orders_sent, 'order')} sent",
            plural(self.fills, "fill"),
            plural(self.refusals, "refusal"),
            plural(self.failures, "failure"),
        ]
        rare = [
            (self.trades, f"{plural(self.trades, 'trade')} closed"),
            (self.shadow_decisions, plural(self.shadow_decisions, "shadow decision")),
            (self.dry_orders, plural(self.dry_orders, "dry order")),
            (self.degraded, f"{plural(self.degraded, 'decision')} without a memory"),
            (self.missed, plural(self.missed, "missed slot")),
            (self.model_calls, f"{plural(self.model_calls, 'model call')} for {self.model_usd:.6f} USD"),
        ]
        return ", ".join([*parts, *(text for count, text in rare if count)])


# How many events are read for a line to begin with; when that was too few, twice as many before them, and so on.
_EVENTS_PER_LINE = 4
_START = (0, "", 0)


def _place(event: Event) -> tuple[int, str, int]:
    """Where an event stands among those of all streams."""
    return event.known_at, event.stream.deployment, event.seq


class HomeEvents:
    """What is new in a home since it was looked at last; the first look is when this is made.

    `since` is that moment where the home could not be opened then.
    """

    def __init__(self, rooms: Rooms, *, since: int | None = None, totals: HomeTotals | None = None) -> None:
        self.totals = totals or HomeTotals()
        self._rooms = rooms
        self._orders: dict[str, Order] = {}
        # A read that fails in between loses nothing: the next call goes on from here.
        self._unread: deque[Event] = deque()
        self._shown: list[HomeEvent] = []
        book, rows = rooms.book, rooms.log.heads(rooms.book.owner)
        names = {"", *rows, *(name for name, _ in book.deployments())}
        if since is None:
            self._seen = {name: rows.get(name) or book.head(name) for name in names}
        else:
            self._seen = {name: book.seq_as_of(name, since) for name in names}
        prices = channels_of(rooms.sources).get(MIDS.channel)
        fresh_ms = prices.stale_after_ms if prices is not None else NO_WATERMARK
        self._market = _MarketWatch(rooms.tape, now=rooms.clock.now(), fresh_ms=fresh_ms)

    def new_events(self) -> list[HomeEvent]:
        """What happened since the last call, oldest first."""
        found = list(self._unread)
        for name, newest in self._rooms.log.heads(self._rooms.book.owner).items():
            seen = self._seen.get(name, 0)
            if newest > seen:
                found += list(self._rooms.log.events(self._rooms.book.stream(name), after=seen, until=newest))
                self._seen[name] = newest
                self._unread = deque(found)
        found.sort(key=_place)
        self._unread = deque(found)
        while self._unread:
            self._shown += self._lines(self._unread[0])
            self._unread.popleft()
        self._shown += self._market.new_lines(self._rooms.clock.now())
        shown, self._shown = self._shown, []
        return _with_missed_together(shown)

    def newest_events(self, most: int) -> list[HomeEvent]:
        """The newest of what happened since the first look, oldest first.

        Of long streams no more is read than that takes: an import is a million events of one moment.
        """
        log, book = self._rooms.log, self._rooms.book
        reached, found, step = log.heads(book.owner), list[Event](), _EVENTS_PER_LINE * most
        while True:
            begins = list[tuple[int, str, int]]()
            for name, until in reached.items():
                stream, seen = book.stream(name), self._seen.get(name, 0)
                after = reached[name] = max(seen, until - step)
                found += list(log.events_of_kinds(stream, _LINES, after=after, until=until))
                first = log.event(stream, after + 1) if after > seen else None
                begins += [] if first is None else [_place(first)]
            # Before the first event of a stream that was cut off, something of it may be missing.
            whole = sorted((each for each in found if _place(each) >= max(begins, default=_START)), key=_place)
            lines = _with_missed_together([line for event in whole for line in self._lines(event)])
            # One more than is asked for: slots that were missed together may go on before it.
            if not begins or len(lines) > most:
                return [*lines, *self._market.new_lines(self._rooms.clock.now())][-most:]
            step *= 2

    def _lines(self, event: Event) -> Iterable[HomeEvent]:
        make = _LINES.get(event.kind)
        return list(make(self, event)) if make else []

    def _on_run_decided(self, event: Event) -> Iterable[HomeEvent]:
        """A decision, what was refused of it, what a model cost, and what it had to do without."""
        run, totals = ev.event_body(event, ev.RunDecided).run, self.totals
        named: dict[str, Any] = {"run_id": run.run_id, "status": run.status}

        def line(kind: EventKind, text: str, **values: Any) -> HomeEvent:
            return HomeEvent(event.known_at, kind, run.agent, run.symbol, _short(text), named | values)

        if run.status == "expired":
            totals.missed += 1
            yield line("missed", run.error or "", scheduled_for=iso_text(run.scheduled_for))
        elif run.status == "failed":
            totals.failures += 1
            yield line("failure", run.error or "no reason was recorded")
        elif run.error is not None:
            totals.refusals += 1
            yield line("refusal", f"the reply was not understood: {run.error}")
        else:
            yield line("decision", self._decision(run), actions=[action.action for action in run.actions])
        for action, verdict in zip(run.actions, run.verdicts, strict=True):
            if not verdict.allowed:
                totals.refusals += 1
                yield line("refusal", f"{verdict.rule}: {verdict.detail}", action=action.action, rule=verdict.rule)
        if run.degraded_causes:
            totals.degraded += 1
            yield line("failure", f"without {'; '.join(run.degraded_causes)}")
        if run.usage is not None:
            yield self._model_line(event, run.usage, symbol=run.symbol, named=named)

    def _decision(self, run: DecisionRun) -> str:
        """A decision in words, counted."""
        holds = all(action.action == "hold" for action in run.actions)
        if run.trigger == "shadow":
            self.totals.shadow_decisions += 1
        else:
            self.totals.decisions += 1
            self.totals.holds += holds
        text = "; ".join(_action_text(action) for action in run.actions) or "nothing"
        return f"shadow, never sent: {text}" if run.trigger == "shadow" else text

    def _model_line(
        self, event: Event, usage: Usage, *, symbol: str = "", named: Mapping[str, Any] | None = None
    ) -> HomeEvent:
        self.totals.model_calls += usage.attempts
        self.totals.model_usd_e6 += usage.cost_usd_e6
        tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        cost = f"{plural(usage.attempts, 'call')}, {decimal_text(usage.cost_usd_e6, E6, 6)} USD"
        values = {
            "model": usage.model,
            "calls": usage.attempts,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd_e6 / E6,
        }
        text = f"{usage.model}: {tokens}, {cost}"
        return HomeEvent(event.known_at, "model", _agent(event), symbol, text, {**(named or {}), **values})

    def _order(self, client_id: str) -> Order | None:
        """An order by its client id; one that was intended before the first look is in the book."""
        return self._orders.get(client_id) or self._rooms.book.order(client_id)

    def _order_line(
        self, event: Event, kind: EventKind, client_id: str, *, template: str = "{}", **values: Any
    ) -> HomeEvent:
        order = self._order(client_id)
        named = {"client_id": client_id} | ({} if order is None else _order_values(order)) | values
        symbol, what = ("", client_id) if order is None else (order.symbol, _order_text(order))
        return HomeEvent(event.known_at, kind, _agent(event), symbol, _short(template.replace("{}", what)), named)

    def _on_order_intended(self, event: Event) -> Iterable[HomeEvent]:
        order = ev.event_body(event, ev.OrderIntended).order
        self._orders[order.client_id] = order
        return ()

    def _dry_run(self, event: Event) -> Iterable[HomeEvent]:
        order = ev.event_body(event, ev.OrderDryRun).order
        self.totals.dry_orders += 1
        text = f"dry run, never sent: {_order_text(order)}"
        values = {"client_id": order.client_id, **_order_values(order), "status": "dry"}
        return [HomeEvent(event.known_at, "order", _agent(event), order.symbol, text, values)]

    def _on_order_placed(self, event: Event) -> Iterable[HomeEvent]:
        line = self._order_line(event, "order", ev.event_body(event, ev.OrderPlaced).client_id, status="sent")
        self.totals.orders_sent += 1
        return [line]

    def _on_order_unanswered(self, event: Event) -> Iterable[HomeEvent]:
        body = ev.event_body(event, ev.OrderUnanswered)
        line = self._order_line(event, "failure", body.client_id, template=f"order {{}}: {body.detail}")
        self.totals.failures += 1
        return [line]

    def _on_order_ended(self, event: Event) -> Iterable[HomeEvent]:
        """An order that was refused or cancelled; one that was filled has its fills."""
        end = ev.event_body(event, ev.OrderEnded).end
        line = None
        if end.status == "rejected":
            template = f"order {{}}: {end.detail}"
            line = self._order_line(event, "refusal", end.client_id, template=template, status="rejected")
            self.totals.refusals += 1
        elif end.status == "cancelled":
            template = "cancelled: {}" + (f" ({end.detail})" if end.detail else "")
            line = self._order_line(event, "order", end.client_id, template=template, status="cancelled")
        self._orders.pop(end.client_id, None)
        return [line] if line else ()

    def _on_fill(self, event: Event) -> Iterable[HomeEvent]:
        fill = ev.event_body(event, ev.FillObserved).fill
        self.totals.fills += 1
        side, size = "buy" if fill.signed_size_e8 > 0 else "sell", abs(fill.signed_size_e8)
        worth = notional_usd_e6(size, fill.price_e8)
        text = f"{side} {_size(size)} at {short_price(fill.price_e8)}, {_usd(worth)}, fee {_usd(fill.fee_usd_e6)}"
        text += ", liquidated" if fill.liquidation else ", delisted" if fill.delisted else ""
        values = {
            "fill_id": fill.fill_id,
            "client_id": fill.client_id,
            "side": side,
            "size": size / E8,
            "price": fill.price_e8 / E8,
            "value_usd": worth / E6,
            "fee_usd": fill.fee_usd_e6 / E6,
            "liquidation": fill.liquidation,
        }
        return [HomeEvent(event.known_at, "fill", _agent(event), fill.symbol, text, values)]

    def _on_trade_closed(self, event: Event) -> Iterable[HomeEvent]:
        trade = ev.event_body(event, ev.TradeClosed).trade
        self.totals.trades += 1
        state, minutes = trade.state, trade.holding_ms // MINUTE
        text = f"closed {state.side} after {minutes:,} min, net {_usd(state.net_usd_e6)}"
        values = {"trade_id": state.trade_id, "side": state.side, "net_pnl_usd": state.net_usd_e6 / E6}
        return [HomeEvent(event.known_at, "trade", _agent(event), state.symbol, text, values)]

    def _note_written(self, event: Event) -> Iterable[HomeEvent]:
        return self._on_note(event, msgspec.json.decode(event.body, type=NoteWritten).note)

    def _note_refused(self, event: Event) -> Iterable[HomeEvent]:
        body = msgspec.json.decode(event.body, type=NoteRefused)
        self.totals.failures += 1
        text = _short(f"reflection: {body.problem}")
        return [HomeEvent(event.known_at, "failure", _agent(event), "", text), *self._on_note(event, body.note)]

    def _on_note(self, event: Event, note: Note) -> Iterable[HomeEvent]:
        return [] if note.usage is None else [self._model_line(event, note.usage, named={"note_id": note.note_id})]

    def _on_switch(self, event: Event) -> Iterable[HomeEvent]:
        """A halt, its end, or the wish to be flat."""
        # All three name whom it is about and why; the last may name a symbol.
        body = msgspec.json.decode(event.body, type=ev.DeskFlattened)
        text = _short(f"{event.kind.removeprefix('desk.')}: {body.reason}")
        return [HomeEvent(event.known_at, "desk", agent_name_of(body.subject), body.symbol, text)]


_LINES: dict[str, Callable[[HomeEvents, Event], Iterable[HomeEvent]]] = {
    ev.EVENT_KINDS[ev.RunDecided]: HomeEvents._on_run_decided,
    ev.EVENT_KINDS[ev.OrderIntended]: HomeEvents._on_order_intended,
    ev.EVENT_KINDS[ev.OrderDryRun]: HomeEvents._dry_run,
    ev.EVENT_KINDS[ev.OrderPlaced]: HomeEvents._on_order_placed,
    ev.EVENT_KINDS[ev.OrderUnanswered]: HomeEvents._on_order_unanswered,
    ev.EVENT_KINDS[ev.OrderEnded]: HomeEvents._on_order_ended,
    ev.EVENT_KINDS[ev.FillObserved]: HomeEvents._on_fill,
    ev.EVENT_KINDS[ev.TradeClosed]: HomeEvents._on_trade_closed,
    ev.EVENT_KINDS[ev.DeskHalted]: HomeEvents._on_switch,
    ev.EVENT_KINDS[ev.DeskResumed]: HomeEvents._on_switch,
    ev.EVENT_KINDS[ev.DeskFlattened]: HomeEvents._on_switch,
    NOTE_WRITTEN: HomeEvents._note_written,
    NOTE_REFUSED: HomeEvents._note_refused,
}


class _MarketWatch:
    """Says once that a connection was lost, that prices are stale, that they are back, and which gaps there are.

    Prices are stale when the newest is older than `fresh_ms`.
    """

    def __init__(self, tape: Tape, *, now: int, fresh_ms: int) -> None:
        self._tape, self._fresh_ms = tape, fresh_ms
        self._began = now
        self._commit = tape.head()[0]
        self._lost = self._lost_connections(now)
        self._lost_at: int | None = None
        self._stale_since: int | None = None
        self._gaps: dict[tuple[str, str, int], RecordedGap] = {}

    def new_lines(self, now: int) -> list[HomeEvent]:
        """What changed since the last call."""
        # All reads come first: one that fails leaves everything as it was.
        lost, commit = self._lost_connections(now), self._tape.head()[0]
        prices_at = max(
            [each.newest_known_at for each in self._tape.channels() if each.name == MIDS.channel], default=0
        )
        gaps = self._tape.gaps(as_of=NO_WATERMARK, after=self._commit) if commit != self._commit else []
        self._commit = commit
        lines = [*self._connection(lost), *self._prices(prices_at, now), *self._gap_lines(gaps)]
        return [HomeEvent(now, "market", "", "", _short(text), {"market": what} | rest) for what, text, rest in lines]

    def _lost_connections(self, now: int) -> dict[tuple[str, str], RecordedProblem]:
        found = (each for each in self._tape.problems(since=now - DAY) if each.problem.kind == "connection")
        return {(each.problem.source, each.problem.subject): each for each in found}

    def _connection(self, lost: dict[tuple[str, str], RecordedProblem]) -> Iterable[_MarketLine]:
        news = [each for key, each in lost.items() if key not in self._lost or each.times != self._lost[key].times]
        self._lost = lost
        # Every attempt to connect again is recorded too: one outage is said once.
        if news and self._lost_at is None:
            self._lost_at = news[0].last_at
            yield "lost", f"connection lost: {news[0].problem.said}", {}

    def _prices(self, prices_at: int, now: int) -> Iterable[_MarketLine]:
        age, limit = now - prices_at, self._fresh_ms
        away = [at for at in (self._lost_at, self._stale_since) if at is not None]
        if away and prices_at > max(away):
            seconds = (prices_at - min(away)) // SECOND
            self._lost_at = self._stale_since = None
            yield "back", f"prices back after {seconds:,} s", {"seconds": seconds}
        # Whoever has just begun to listen gets as long as prices are fresh.
        elif prices_at and self._stale_since is None and age > limit and now - self._began > limit:
            self._stale_since = prices_at
            yield "stale", f"prices stale: the newest is {age // SECOND:,} s old", {"seconds": age // SECOND}

    def _gap_lines(self, news: list[RecordedGap]) -> Iterable[_MarketLine]:
        self._gaps |= {(each.gap.channel, each.gap.subject, each.gap.from_ts): each for each in news}
        # Bars are fetched symbol by symbol: what belongs together is said when no more comes.
        if news:
            return
        found, self._gaps = list(self._gaps.values()), {}
        if open_gaps := [each for each in found if each.filled_at is None]:
            why = open_gaps[0].gap.reason
            yield "gap found", f"{_gap_text('gap found', open_gaps)} ({why})", _gap_values(open_gaps)
        if filled := [each for each in found if each.filled_at is not None]:
            yield "gap filled", _gap_text("gap filled", filled), _gap_values(filled)


def _gap_text(word: str, gaps: list[RecordedGap]) -> str:
    values = _gap_values(gaps)
    start, end = values["from"][:19], values["to"][:19]
    if start[:10] == end[:10]:
        start, end = start[11:], end[11:]
    return f"{word}: {' and '.join(values['channels'])}, {start} to {end}"


def _gap_values(gaps: list[RecordedGap]) -> dict[str, Any]:
    subjects: dict[str, set[str]] = {}
    for each in gaps:
        subjects.setdefault(each.gap.channel, set()).add(each.gap.subject)
    # A channel that is delivered for all symbols at once has no number of them.
    channels = [
        channel if all(name.endswith("*") for name in names) else f"{channel} of {plural(len(names), 'symbol')}"
        for channel, names in sorted(subjects.items())
    ]
    start, end = min(each.gap.from_ts for each in gaps), max(each.gap.to_ts for each in gaps)
    return {"channels": channels, "from": iso_text(start), "to": iso_text(end)}


def _with_missed_together(shown: list[HomeEvent]) -> list[HomeEvent]:
    """The lines, with the missed slots of one agent and symbol as one: after a long absence there are hundreds."""
    missed: dict[tuple[str, str], list[HomeEvent]] = {}
    for line in shown:
        if line.kind == "missed":
            missed.setdefault((line.agent, line.symbol), []).append(line)
    first = {id(lines[0]): _missed_line(lines) for lines in missed.values()}
    return [first.get(id(line), line) for line in shown if line.kind != "missed" or id(line) in first]


def _missed_line(lines: list[HomeEvent]) -> HomeEvent:
    slots = [line.values["scheduled_for"] for line in lines]
    first, last = min(slots)[11:16], max(slots)[11:16]
    when = f"slot of {first}" if len(lines) == 1 else f"{plural(len(lines), 'slot')} from {first} to {last}"
    values = {"slots": len(lines), "first": min(slots), "last": max(slots)}
    return msgspec.structs.replace(lines[0], text=f"{when}: {lines[0].text}", values=values)


def _agent(event: Event) -> str:
    return agent_name_of(event.stream.deployment)


def _short(text: str) -> str:
    return short_line(text, _MOST_TEXT)


def _usd(usd_e6: int) -> str:
    return f"{usd_e6 / E6:,.2f} USD"


def _size(size_e8: int) -> str:
    return f"{size_e8 / E8:.8g}"


def _action_text(action: Action) -> str:
    words: list[str] = [action.action, action.side or ""]
    if action.action in ("open", "adjust"):
        words.append(f"{_usd(action.notional_usd_e6)} at {action.leverage}x")
    if action.limit_price_e8 is not None:
        words.append(f"limit {short_price(action.limit_price_e8)}")
    return f"{' '.join(filter(None, words))}, confidence {action.confidence_e4 / 10_000:.2f}: {action.reason}"


def _order_text(order: Order) -> str:
    limit = f" {short_price(order.limit_price_e8)}" if order.limit_price_e8 is not None else ""
    only = ", reduce only" if order.reduce_only else ""
    return f"{order.side} {_size(order.size_e8)}, {order.type}{limit}{only}"


def _order_values(order: Order) -> dict[str, Any]:
    limit = order.limit_price_e8
    return {
        "run_id": order.run_id or None,
        "side": order.side,
        "size": order.size_e8 / E8,
        "order_type": order.type,
        "limit_price": None if limit is None else limit / E8,
        "reduce_only": order.reduce_only,
    }


class HomeWatch:
    """Follows a home in a thread of its own, so that a database that stands still holds nobody up.

    What happened is handed to `show` until the end, the last of it too. A database that is away is waited for.
    """

    def __init__(
        self,
        home: Path,
        *,
        clock: Clock,
        show: Callable[[HomeEvent], None],
        totals: HomeTotals,
        print_line: Callable[[str], None],
    ) -> None:
        self._home, self._clock, self._show, self._totals, self._print_line = home, clock, show, totals, print_line
        self._ready, self._over = threading.Event(), threading.Event()
        self._broken: OSError | None = None
        self._rooms: Rooms | None = None
        self._events: HomeEvents | None = None
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> "HomeWatch":
        self._thread.start()
        # From here on everything counts; a database that is away at the start is asked as of now, later.
        self._ready.wait(_OPEN_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(_LAST_LOOK_SECONDS)

    def raise_if_failed(self) -> None:
        """Raises what went wrong where the lines go: a closed pipe ends whoever writes into it."""
        if self._broken is not None:
            raise self._broken

    def _run(self) -> None:
        try:
            self._follow()
        except OSError as error:
            self._broken = error
        except TapebookError as error:
            self._print_line(f"what happens is not shown any more: {error}")
        finally:
            self._ready.set()

    def _follow(self) -> None:
        began, is_last = self._clock.now(), False
        try:
            while not is_last:
                is_last = self._over.is_set()
                # A database that is away is what the roles speak of; the next look finds what this one could not.
                with suppress(Retry):
                    self._show_new_events(since=began if self._ready.is_set() else None)
                self._ready.set()
                if not is_last:
                    self._over.wait(_LOOK_SECONDS)
        finally:
            if self._rooms is not None:
                self._rooms.close()

    def _show_new_events(self, *, since: int | None) -> None:
        self._rooms = self._rooms or Rooms(self._home, clock=self._clock)
        self._events = self._events or HomeEvents(self._rooms, since=since, totals=self._totals)
        for event in self._events.new_events():
            _LOG.log(_LEVELS.get(event.kind, logging.INFO), event.kind, extra={"fields": event.log_fields()})
            self._show(event)
