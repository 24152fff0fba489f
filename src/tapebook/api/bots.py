"""Bots that live elsewhere: what they see, decide and trade is remembered as that of an agent that lives here.

    tb.add_agent("bot", {"watch": "BTC", "broker": "external"})
    tb.observe("BTC", prices=65_200.5)
    with tb.decision("bot", "BTC") as decision:
        answer = ask_my_model(decision.text)
        decision.record("open", side="long", notional_usd=250, reason=answer.why, confidence=0.64, provider="my-model")
    tb.record_fill("bot", "BTC", id="exchange-1", side="buy", size=0.0038, price=65_201.0, fee_usd=0.11)
    tb.learn("bot")

Everything may be told again: a decision is named by its agent, symbol and moment, a fill by the caller's id. What the
guard says is advice, since nothing is sent from here.

A bot that cannot hold a decision open, since it speaks by way of requests, is given a ticket with what it may know
(`offer_decision`) and records what it decided by that (`record_decision`), after a restart too.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args

import msgspec

from tapebook.api.open_home import AsOf, HomePart, parse_moment
from tapebook.book.decision_queue import KnownAsOf
from tapebook.book.events import OrderIntended, draft_event, order_client_id
from tapebook.book.store import Book
from tapebook.broker.port import trades_elsewhere
from tapebook.clock import Clock
from tapebook.context import assemble_packet
from tapebook.decision.reply import make_answer
from tapebook.domain.agent import Deployment
from tapebook.domain.market import Candle, Mid, Observation
from tapebook.domain.order import BrokerEvent, Fill, Order, OrderEnd, Side
from tapebook.domain.packet import Packet, Section
from tapebook.domain.run import ActionKind, DecisionRun
from tapebook.domain.units import E6, E8, SECOND, floor_to_step, iso_text, to_units
from tapebook.domain.views import FillView, RecordedRunView, fill_view
from tapebook.errors import BadInput, StaleWriter, UnknownName
from tapebook.home import exclusive_lock, shared_lock
from tapebook.lab.explain import run_record_view
from tapebook.log import Leases
from tapebook.tick.decide import PreparedDecision, Slot, evaluate_reply, limits_now, record_decision
from tapebook.tick.execute import execute_orders, reconcile_account
from tapebook.tick.learn import learn_what_is_due
from tapebook.tick.prepare import gather_situation, watermarks_now
from tapebook.tick.story import deploy_agent, prepare_decision
from tapebook.wiring import Rooms

# Who a bot is, and how it answers, are its own affair.
_OWN_SEGMENTS = ("header", "footer")
_MID_BUCKET = 5 * SECOND

LONGEST_ID = 200
"""Of a fill, by whatever names an exchange or a bot gives."""

BarValues = Mapping[str, int | float | str]
"""A bar: `time` (when it began), `open`, `high`, `low`, `close`, and `volume` if known."""

Prices = float | Sequence[tuple[int | str, float]]
"""The price of now, or prices with their moments."""


class DecisionTerms(TypedDict, total=False):
    """What a bot says of a decision, by the names of `BotDecision.record`."""

    reason: str
    confidence: float
    provider: str | None
    cites: Sequence[str]
    side: Literal["long", "short"] | None
    notional_usd: float | None
    leverage: int
    limit_price: float | None


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    """Which decision it is, and what may be known of it; its packet can be made again from this."""

    agent: str
    symbol: str
    scheduled_for: int
    known: KnownAsOf
    packet_sha256: str


class OfferedDecision(msgspec.Struct, frozen=True):
    """What a bot may know, and the ticket with which it records what it decided."""

    packet: Packet
    ticket: str

    @property
    def text(self) -> str:
        """What is known, for a prompt of the bot's own."""
        return packet_text_for_bots(self.packet)


class BotDecision:
    """A decision that a bot is about to make, with what it may know; `run` is there once it is made."""

    def __init__(self, bots: "Bots", opened: PreparedDecision | None, run: RecordedRunView | None) -> None:
        self._bots = bots
        self._opened = opened
        self.run = run

    @property
    def packet(self) -> Packet:
        """What is known; of a decision that was made before, `Tapebook.run` explains it instead."""
        return self._prepared_decision().packet()

    @property
    def text(self) -> str:
        """What is known, for a prompt of the bot's own: rules and lessons, then the sections."""
        return packet_text_for_bots(self.packet)

    @property
    def sections(self) -> tuple[Section, ...]:
        """What is known, as typed tables."""
        return self.packet.sections

    def record(
        self,
        action: ActionKind,
        *,
        reason: str = "",
        confidence: float = 0.5,
        provider: str | None = None,
        cites: Sequence[str] = (),
        side: Literal["long", "short"] | None = None,
        notional_usd: float | None = None,
        leverage: int = 1,
        limit_price: float | None = None,
    ) -> RecordedRunView:
        """Writes the decision down, with the guard's verdict as advice; one that was made before is given again.

        `provider` is who decided, a model or a rule: what is learned of it is learned under this name.
        """
        if self.run is not None:
            return self.run
        if action not in get_args(ActionKind):
            raise BadInput(
                f"action is {action!r}: it is one of {', '.join(get_args(ActionKind))}; nothing was recorded"
            )
        opened = self._prepared_decision()
        reply = make_answer(
            opened.packet(),
            action,
            reason=reason,
            confidence=confidence,
            side=side,
            notional_usd=notional_usd,
            leverage=leverage,
            order_type="market" if limit_price is None else "limit",
            limit_price=limit_price,
            cites=list(cites),
        )
        self.run = self._bots._conclude(opened, reply.reply, provider=provider)
        return self.run

    def _prepared_decision(self) -> PreparedDecision:
        if self._opened is None:
            raise BadInput("this decision was made before: its `run` says what came of it")
        return self._opened


class Bots(HomePart):
    """What bots that live elsewhere tell and ask."""

    def observe(
        self,
        symbol: str,
        *,
        prices: Prices | None = None,
        candles: Sequence[BarValues] = (),
        interval_seconds: int = 60,
    ) -> int:
        """Puts prices and finished bars on the tape, as known from now on; returns the newest commit.

        What is there already is left alone. While `tapebook ingest` follows the market, that is refused.
        """
        with self._home.write() as rooms, exclusive_lock(rooms.home, "tape"):
            now = rooms.clock.now()
            seen: list[Observation] = [
                _mid(symbol, moment, price, now=now) for moment, price in _price_pairs(prices, now=now)
            ]
            seen += [_candle(symbol, each, interval_seconds, now=now) for each in candles]
            if not seen:
                raise BadInput("there is nothing to observe: give prices, candles, or both")
            seq = rooms.tape.commit(seen)
            # Commits count up by a millisecond each: many at once would be known only after the next decision.
            rooms.clock.catch_up(rooms.tape.head()[1])
            return seq

    @contextmanager
    def decision(self, agent: str, symbol: str, *, at: AsOf = None) -> Iterator[BotDecision]:
        """A decision of a bot: what it may know, and `record` for what it decided.

        `at` is the moment it is for, now by default. The same moment again is the same decision: one that was recorded
        is given with its `run`. Leaving without `record` leaves nothing behind.
        """
        with self._home.write() as rooms:
            scheduled, deployment = self._home.moment(at), _bot(rooms.book, agent, symbol)
            with shared_lock(rooms.home), rooms.leases.holding(rooms.book.stream(deployment.id)):
                opened = prepare_decision(
                    rooms, Slot(deploy_agent(rooms.book, rooms.clock, agent), symbol, scheduled, trigger="manual")
                )
            made = run_record_view(rooms.book, opened) if isinstance(opened, DecisionRun) else None
        yield BotDecision(self, None if isinstance(opened, DecisionRun) else opened, made)

    def offer_decision(self, agent: str, symbol: str, *, at: AsOf = None) -> OfferedDecision:
        """What a bot may know now, with the ticket of the decision; nothing is written, nor learned, by asking."""
        with self._home.read() as rooms:
            scheduled, now, deployment = self._home.moment(at), self._home.moment(None), _bot(rooms.book, agent, symbol)
            known = KnownAsOf(now, watermarks_now(rooms, deployment))
            situation = gather_situation(rooms, deployment, symbol, as_of=now, watermarks=known.watermarks)
            packet = assemble_packet(situation, rooms.memory.packets)
        ticket = _Ticket(agent, symbol, scheduled, known, packet.sha256)
        return OfferedDecision(packet, urlsafe_b64encode(msgspec.json.encode(ticket)).decode())

    def record_decision(self, ticket: str, action: ActionKind, **terms: Unpack[DecisionTerms]) -> RecordedRunView:
        """Writes down what a bot decided from an offer; the same ticket again gives the run that is there.

        StaleWriter where the packet of the ticket cannot be made any more, such as after a change of the agent.
        """
        try:
            offer = msgspec.json.decode(urlsafe_b64decode(ticket), type=_Ticket)
        except (binascii.Error, msgspec.DecodeError, ValueError) as error:
            raise BadInput("this is no ticket of a decision: give the one that came with the packet") from error
        with self._home.write() as rooms:
            deployment = _bot(rooms.book, offer.agent, offer.symbol)
            if offer.known.as_of > self._home.moment(None) or offer.scheduled_for > offer.known.as_of:
                raise BadInput("the ticket is of a moment that has not come: ask for the packet again")
            with shared_lock(rooms.home), rooms.leases.holding(rooms.book.stream(deployment.id)):
                slot = Slot(
                    deploy_agent(rooms.book, rooms.clock, offer.agent),
                    offer.symbol,
                    offer.scheduled_for,
                    trigger="manual",
                )
                opened = prepare_decision(rooms, slot, known=offer.known)
            if isinstance(opened, DecisionRun):
                return run_record_view(rooms.book, opened)
            if opened.packet().sha256 != offer.packet_sha256:
                raise StaleWriter("what the ticket was given for is no longer known so: ask for the packet again")
            return BotDecision(self, opened, None).record(action, **terms)

    def _conclude(self, opened: PreparedDecision, reply: str, *, provider: str | None) -> RecordedRunView:
        """The run of a decision whose reply is there; BadInput when the reply says nothing that can be done."""
        from tapebook.decision import EngineAnswer

        slot = opened.slot
        with self._home.write() as rooms:
            stream = rooms.book.stream(slot.deployment.id)
            with shared_lock(rooms.home), rooms.leases.holding(stream):
                # Another process of the bot may have decided since it was opened.
                made = rooms.book.run(opened.run_id)
                if made is not None:
                    return run_record_view(rooms.book, made)
                limits = limits_now(rooms, slot, before=opened.situation)
                decision = evaluate_reply(EngineAnswer(reply), opened.packet, limits)
                if decision.error is not None:
                    raise BadInput(f"{decision.error}: nothing was recorded")
                run = record_decision(rooms, _decided_by(opened, provider), decision, limits)
                execute_orders(rooms, slot.deployment)
            return run_record_view(rooms.book, rooms.book.run(run.run_id) or run)

    def record_fill(
        self,
        agent: str,
        symbol: str,
        *,
        id: str,
        side: Side,
        size: float,
        price: float,
        fee_usd: float = 0.0,
        at: AsOf = None,
        run: str | None = None,
        maker: bool = False,
        last: bool = False,
    ) -> FillView:
        """Books what a bot traded; the same `id` again changes nothing. `run` is the decision it came from.

        Without `run` it belongs to the bot's one order in that symbol and on that side. An order ends when all of it is
        filled, or with the fill that is the `last`. A fill that is told behind later ones counts from when it is told.
        """
        with (
            self._home.write() as rooms,
            _writing(rooms.book, rooms.clock, rooms.home, agent, leases=rooms.leases) as deployment,
        ):
            moment, known = self._home.moment(at), rooms.book.fill(deployment.id, id)
            size_e8, price_e8 = _units(size, E8, "size"), _units(price, E8, "price")
            if not 0 < len(id) <= LONGEST_ID:
                raise BadInput(f"a fill has an id of 1 to {LONGEST_ID} characters: give that of the exchange")
            if size_e8 <= 0 or price_e8 <= 0 or side not in ("buy", "sell"):
                raise BadInput(f"fill {id!r}: size and price must be positive, and side says buy or sell")
            signed = size_e8 if side == "buy" else -size_e8
            if known is not None:
                _refuse_another(known, symbol=symbol, signed_e8=signed, price_e8=price_e8)
                return fill_view(known)
            order = _order_of_fill(rooms.book, deployment, symbol, signed_e8=signed, run=run, at=moment)
            held = rooms.book.account(deployment.id, seq=rooms.book.head(deployment.id)).portfolio.positions.get(symbol)
            # Positions have one history: what comes late cannot have happened before what is booked.
            happened = max(moment, held.moved_at if held else 0)
            client = None if order is None else order.client_id
            fill = Fill(id, symbol, happened, signed, price_e8, _units(fee_usd, E6, "fee_usd"), maker, client)
            reconcile_account(rooms, deployment, told=_with_end(rooms.book, fill, order, last=last))
            return fill_view(rooms.book.fill(deployment.id, id) or fill)

    def record_position(
        self, agent: str, symbol: str, *, id: str, size: float, price: float, at: AsOf = None
    ) -> FillView | None:
        """Books the difference to what a bot holds (short below zero) as one fill; None when there is none."""
        with self._home.write() as rooms:
            deployment = _bot(rooms.book, agent)
            name = f"position {id}"
            known = rooms.book.fill(deployment.id, name)
            if known is not None:
                return fill_view(known)
            account = rooms.book.account(deployment.id, seq=rooms.book.head(deployment.id))
            held = account.portfolio.positions.get(symbol)
            missing = _units(size, E8, "size") - (held.size_e8 if held else 0)
            if not missing:
                return None
            side: Side = "buy" if missing > 0 else "sell"
            return self.record_fill(agent, symbol, id=name, side=side, size=abs(missing) / E8, price=price, at=at)

    def learn(self, agent: str | None = None) -> dict[str, list[str]]:
        """Learns all that is due of a bot, or of all of them; by agent, why something could not be learned."""
        with self._home.write() as rooms:
            bots = [each.name for _, each in rooms.book.agents() if trades_elsewhere(each.broker)]
            causes = {}
            for name in [agent] if agent else bots:
                with _writing(rooms.book, rooms.clock, rooms.home, name, leases=rooms.leases) as deployment:
                    causes[name] = _learn_all(rooms, deployment)
            return causes


def _learn_all(rooms: Rooms, deployment: Deployment) -> list[str]:
    """Learns until nothing is written any more."""
    while True:
        before = rooms.book.head(deployment.id)
        causes = list(learn_what_is_due(rooms, deployment))
        if causes or rooms.book.head(deployment.id) == before:
            return causes


@contextmanager
def _writing(book: Book, clock: Clock, home: Path, agent: str, *, leases: Leases) -> Iterator[Deployment]:
    """A bot's deployment, opened, whose stream nobody else writes meanwhile."""
    found = _bot(book, agent)
    with shared_lock(home), leases.holding(book.stream(found.id)):
        yield deploy_agent(book, clock, agent)


def lives_elsewhere(agent: Mapping[str, Any]) -> bool:
    """Whether an agent, as the façade shows it, is a bot that decides and trades by itself."""
    return trades_elsewhere(agent["broker"])


def packet_text_for_bots(packet: Packet) -> str:
    """What is known, without our identity and our answer format: rules and lessons, then the sections."""
    told = [each.text for each in packet.segments if each.name not in _OWN_SEGMENTS]
    return "\n\n".join([*told, packet.text])


def _bot(book: Book, agent: str, symbol: str | None = None) -> Deployment:
    """A bot's deployment; BadInput for an agent that is none, UnknownName for a symbol it does not watch."""
    deployment = book.find_agent(agent)
    if symbol is not None and symbol not in deployment.agent.watchlist:
        raise UnknownName(f"{agent} does not watch {symbol!r}; it watches: {', '.join(deployment.agent.watchlist)}")
    if not trades_elsewhere(deployment.agent.broker):
        broker = deployment.agent.broker
        raise BadInput(f"{agent!r} is traded here, at {broker}: a bot that lives elsewhere has the broker `external`")
    return deployment


def _decided_by(opened: PreparedDecision, provider: str | None) -> PreparedDecision:
    """The decision with its provider in the place of an engine."""
    if provider is None:
        return opened
    replace, deployment = msgspec.structs.replace, opened.slot.deployment
    named = replace(deployment, agent=replace(deployment.agent, engine=provider))
    return replace(opened, slot=replace(opened.slot, deployment=named))


def _order_of_fill(
    book: Book, deployment: Deployment, symbol: str, *, signed_e8: int, run: str | None, at: int
) -> Order | None:
    """The order a fill is of; one is written for a decision that was traded though the guard advised against it."""
    side: Side = "buy" if signed_e8 > 0 else "sell"
    if run is None:
        working = [order for order, _ in book.working_orders(deployment.id)]
        fits = [order for order in working if (order.symbol, order.side) == (symbol, side)]
        return fits[0] if len(fits) == 1 else None
    decided = book.find_run(run)
    if (decided.deployment, decided.symbol) != (deployment.id, symbol):
        raise BadInput(f"run {decided.run_id} is of {decided.agent} and {decided.symbol}, not of this fill")
    orders = [known.order for known in book.orders_of_run(decided.run_id)]
    if orders:
        return orders[0]
    order = Order(
        order_client_id(decided.run_id, 0), decided.run_id, symbol, side, abs(signed_e8), "market", None, False, 1, at
    )
    seq = book.head(deployment.id)
    book.append(deployment.id, [draft_event(at, OrderIntended(order))], expected_seq=seq)
    return order


def _with_end(book: Book, fill: Fill, order: Order | None, *, last: bool) -> list[BrokerEvent]:
    """A fill, and the end of its order if it is the last of it."""
    if order is None:
        return [fill]
    before = [each for each in book.fills_of_run(order.run_id) if each.client_id == order.client_id]
    filled = sum(abs(each.signed_size_e8) for each in [*before, fill])
    if filled >= order.size_e8:
        return [fill, OrderEnd(order.client_id, fill.happened_at, "filled", "")]
    return [fill, OrderEnd(order.client_id, fill.happened_at, "cancelled", "the rest")] if last else [fill]


def _refuse_another(known: Fill, *, symbol: str, signed_e8: int, price_e8: int) -> None:
    if (known.symbol, known.signed_size_e8, known.price_e8) != (symbol, signed_e8, price_e8):
        raise BadInput(f"fill {known.fill_id!r} was told before with another symbol, size or price: give it its own id")


def _units(number: float | int | str, unit: int, name: str) -> int:
    """A number of people in whole units; BadInput for one that is none, or is not finite."""
    try:
        return to_units(float(number), unit)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{name} is {number!r}: give a number") from error


def _price_pairs(prices: Prices | None, *, now: int) -> list[tuple[int | str, float]]:
    """Prices with their moments; BadInput for what is neither a price nor such pairs."""
    if prices is None or isinstance(prices, int | float):
        return [] if prices is None else [(now, prices)]
    try:
        return [(moment, price) for moment, price in prices]
    except (TypeError, ValueError) as error:
        raise BadInput("prices are one number, or pairs of a moment and a number") from error


def _mid(symbol: str, moment: int | str, price: float, *, now: int) -> Mid:
    at, price_e8 = parse_moment(moment), _units(price, E8, f"a price of {symbol}")
    if price_e8 <= 0 or at > now:
        raise BadInput(f"{symbol} {price} at {iso_text(at)}: a price is positive and not of the future")
    return Mid(symbol, floor_to_step(at, _MID_BUCKET), price_e8)


def _candle(symbol: str, bar: BarValues, seconds: int, *, now: int) -> Candle:
    try:
        begins = parse_moment(bar["time"] if isinstance(bar["time"], str) else int(bar["time"]))
        prices = [_units(bar[name], E8, f"{name} of a bar of {symbol}") for name in ("open", "high", "low", "close")]
        # Kept as it is told: only prices are whole units.
        volume = float(bar.get("volume", 0.0))
    except KeyError as error:
        raise BadInput(f"a bar of {symbol} has no {error.args[0]!r}: give time, open, high, low, close") from error
    except (TypeError, ValueError) as error:
        raise BadInput(f"a bar of {symbol}: {error}") from error
    first, high, low, close = prices
    if low <= 0 or high < max(first, close) or low > min(first, close) or not 0 <= volume < float("inf"):
        raise BadInput(f"the bar of {symbol} at {iso_text(begins)}: prices are positive, and between low and high")
    if begins % (seconds * SECOND) or begins + seconds * SECOND > now:
        raise BadInput(f"the bar of {symbol} at {iso_text(begins)} is not one of {seconds} s that has ended")
    return Candle(symbol, seconds, begins, first, high, low, close, volume, volume * close / E8, 1)
