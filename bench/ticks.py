"""Ticks in a row: what the pure part of one costs in a long backtest, where the packet before was almost the same.

One agent trades by the ensemble every five minutes on bars of half an hour. Every five hours features
come or go; at every tick the price, a similar situation and a layer change. Times are of the processor:
means over a week of ticks, of the week that was disturbed least.
"""

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from bench.figure import Figure
from tapebook import plug
from tapebook.book.events import RunDecided, decision_run_id, draft_event, orders_for_actions, run_status
from tapebook.context import Feature, Market, PacketCaches, Situation, assemble_packet
from tapebook.decision import Engine, EngineAnswer, EngineTerms, Limits
from tapebook.domain.agent import AgentProfile, Deployment, ExperienceRow, LayerRow, Lessons, context_for_horizon
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid
from tapebook.domain.order import Fill, Order
from tapebook.domain.packet import Packet
from tapebook.domain.position import ClosedTrade, Portfolio, Position, TradeState, position_after_fill
from tapebook.domain.run import Activity, DecisionRun, Watermarks
from tapebook.domain.units import E6, E8, HOUR, MINUTE, notional_usd_e6
from tapebook.log import Stream
from tapebook.log.event import GENESIS, Event, chain_events
from tapebook.tick.decide import Decision, evaluate_reply

TICKS = 2_016
WEEKS = 3
START = 1_767_571_200_000
EVERY = 5 * MINUTE
BAR = 30 * MINUTE
AIMS = {"assemble": "≤ 120", "decide": "≤ 60", "judge": "≤ 25", "orders": "", "event": "≤ 25"}

_WORDS = "open long: trend, breakout; hold: reversion, carry, since the fast average stands above the slow one"
_MANUAL = "1. Cut losers.\n2. Never add to a loser.\n3. Let winners run.\n4. No trade without a reason."
AGENT = AgentProfile(
    "bench",
    ("BTC", "ETH"),
    engine="ensemble",
    strategy="Follow the majority of four rules; leave when they do. " * 4,
    avoid=("average down on a losing position", "hold over the weekly close"),
    context=context_for_horizon("intraday"),
    manual=_MANUAL,
)
DEPLOYMENT = Deployment("local", "bench.paper", AGENT, 1)

Made = TypeVar("Made")


class Times:
    """The processor's time of each part, in seconds."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(AIMS, 0.0)

    def timed(self, part: str, work: Callable[[], Made]) -> Made:
        """What some work gives."""
        start = time.process_time()
        made = work()
        self.spent[part] += time.process_time() - start
        return made


class Past:
    """What the agent holds and remembers; its orders are filled at once, at the price it saw."""

    def __init__(self) -> None:
        self.held: Position | None = None
        self.trade: TradeState | None = None
        self.cash = 10_000 * E6
        self.closed = tuple(_closed(_opened(number, START - number * HOUR, 1_100_000, 90_000)) for number in range(10))
        self.last: DecisionRun | None = None

    def fill(self, order: Order, price_e8: int) -> None:
        """The account after an order."""
        fill = Fill(order.client_id, "BTC", order.intended_at, order.signed_size_e8, price_e8, 0, False)
        self.held, realised = position_after_fill(self.held, fill, leverage=order.leverage)
        self.cash += realised
        if self.trade is not None:
            self.closed = (_closed(self.trade), *self.closed[:9])
        number = order.intended_at // EVERY % 100_000
        entered = self.held.size_e8 if self.held else 0
        self.trade = _opened(number, order.intended_at, abs(entered), price_e8 // E8) if entered else None


def run() -> list[Figure]:
    """All figures of ticks in a row."""
    past, engine = Past(), _engine()
    weeks = []
    for week in range(WEEKS):
        times, caches = Times(), PacketCaches()
        for number in range(week * TICKS, (week + 1) * TICKS):
            _tick(times, past, engine, number, caches=caches)
        weeks.append(times.spent)
    best = {part: min(week[part] for week in weeks) for part in AIMS}
    return [
        Figure(f"ticks in a row, {part}", 1e6 * spent / TICKS, "µs", aim=AIMS[part]) for part, spent in best.items()
    ]


def _tick(times: Times, past: Past, engine: Engine, number: int, *, caches: PacketCaches) -> None:
    seen = _situation(past, number)
    packet = times.timed("assemble", lambda: assemble_packet(seen, caches))
    answer = times.timed("decide", lambda: engine.decide(packet))
    limits = _limits(seen)
    decision = times.timed("judge", lambda: evaluate_reply(answer, lambda: packet, limits))
    name = decision_run_id("local/bench.paper", "BTC", scheduled_for=seen.as_of, trigger="backtest", branch="main")
    pairs = list(zip(decision.actions, decision.verdicts, strict=True))
    orders = times.timed(
        "orders", lambda: orders_for_actions(name, pairs, held=limits.position, mark_e8=limits.mark_e8, at=limits.at)
    )
    made = _run(name, seen, packet, answer=answer, decision=decision, orders=len(orders))
    times.timed("event", lambda: _event(made, number))
    past.last = made
    for order in orders:
        past.fill(order, seen.marks["BTC"])


def _engine() -> Engine:
    def member(name: str, _cap: int) -> Engine:
        made: Engine = plug.load("tapebook.decision.engines", name).create(EngineTerms())
        return made

    ensemble: Engine = plug.load("tapebook.decision.engines", "ensemble").create(EngineTerms(member=member))
    return ensemble


def _price(at: int) -> int:
    """Two waves around 90,000, in cents."""
    return round(90_000_00 + 900_00 * math.sin(at / HOUR / 5) + 90_00 * math.sin(at / MINUTE / 11)) * E8 // 100


@lru_cache(maxsize=64)
def _bar(start: int) -> Candle:
    prices = [_price(at) for at in range(start, start + BAR + 1, EVERY)]
    volume = 1_000 + start // BAR % 997
    return Candle("BTC", 1800, start, prices[0], max(prices), min(prices), prices[-1], float(volume), 9e7, 30)


def _market(number: int, at: int) -> Market:
    end, price = at - at % BAR, _price(at)
    bars = tuple(_bar(end - back * BAR) for back in range(48, 0, -1))
    bare = Market("BTC", at, 30, bars, Mid("BTC", at - 3_000, price))
    if number // 60 % 2 == 0:
        return bare
    metrics = (("regime", "high"), ("realizedVol1h", f"0.{number:06d}"), ("fundingRate8h", f"0.0001{number:06d}"))
    return replace(
        bare,
        liquidity=Liquidity("BTC", at - MINUTE, price, 1.2, 1e6 + number, 2e6, 3e6 + number, number % 20 / 20),
        context=AssetContext("BTC", at - MINUTE, 12_500_000 + number * 9_973, 0, 1e5 + number, price, price),
        features=tuple(Feature(name, at - MINUTE, metrics) for name in ("fundingPressure", "volatilityProfile")),
    )


def _situation(past: Past, number: int) -> Situation:
    at = START + number * EVERY
    market, weight = _market(number, at), f"{1 + len(past.closed[0].state.trade_id) / 100:.2f}"
    rows = [ExperienceRow("provider", name, weight) for name in ("trend", "reversion", "breakout", "carry")]
    rows += [ExperienceRow("similar", "12 nearest", f"n=12, won {number % 100} % [31, 81]")]
    rows += [ExperienceRow("record", "chop_lowvol", "n=41, won 52 % [37, 67]")]
    layers = [LayerRow(f"L{6 - place // 2}", "2026-01-05", f"key_{place}", f"{place}.50") for place in range(5)]
    return Situation(
        deployment=DEPLOYMENT,
        as_of=at,
        watermarks=Watermarks(number, number),
        market=market,
        portfolio=Portfolio({"BTC": past.held} if past.held else {}, past.cash),
        marks={"BTC": _price(at)},
        open_trades={"BTC": past.trade} if past.trade else {},
        closed_trades=past.closed,
        last_run=past.last,
        activity=Activity(executed_today=number // 40, day_start_equity_usd_e6=10_000 * E6),
        lessons=Lessons(tuple(f"{place} of 9 entries after {place:02d}:00 UTC lost" for place in range(8)), "f" * 16),
        experience=tuple(rows),
        horizons=(LayerRow("L7", "now", "live_price_BTC", str(_price(at) // E8)), *layers),
    )


def _limits(seen: Situation) -> Limits:
    return Limits(
        AGENT.caps,
        "BTC",
        AGENT.watchlist,
        at=seen.as_of,
        seq=seen.watermarks.book,
        portfolio=seen.portfolio,
        marks=seen.marks,
        data_age_ms=3_000,
        activity=seen.activity or Activity(),
    )


def _run(
    name: str, seen: Situation, packet: Packet, *, answer: EngineAnswer, decision: Decision, orders: int
) -> DecisionRun:
    return DecisionRun(
        run_id=name,
        owner="local",
        deployment=DEPLOYMENT.id,
        agent=AGENT.name,
        agent_version=1,
        symbol="BTC",
        scheduled_for=seen.as_of,
        trigger="backtest",
        branch="main",
        as_of=seen.as_of,
        watermarks=seen.watermarks,
        renderer=packet.renderer,
        inputs_sha256=packet.inputs_sha256,
        packet_sha256=packet.sha256,
        tokens=packet.tokens,
        engine="ensemble",
        packet_key=None,
        reply_key=None,
        status=run_status(decision.verdicts, orders=orders, error=decision.error),
        actions=decision.actions,
        verdicts=decision.verdicts,
        votes=answer.votes,
    )


def _event(made: DecisionRun, number: int) -> Event:
    drafted = draft_event(made.as_of, RunDecided(made))
    stream = Stream("local", DEPLOYMENT.id)
    return chain_events(GENESIS, [drafted], stream=stream, seq=number, known_at=made.as_of)[0]


def _opened(number: int, at: int, size_e8: int, price: int) -> TradeState:
    return TradeState(
        trade_id=f"t{number:05d}",
        symbol="BTC",
        side="long",
        entry_tick_at=at,
        entry_mark_e8=price * E8,
        entry_leverage=2,
        entry_reason=_WORDS,
        entry_run_id=f"r{number}",
        entry_regime_tag="chop_lowvol",
        entry_lessons_hash=None,
        entered_e8=size_e8,
        entered_usd_e6=notional_usd_e6(size_e8, price * E8),
        funded_until=at,
    )


def _closed(trade: TradeState) -> ClosedTrade:
    ended = replace(trade, exited_e8=trade.entered_e8, exited_usd_e6=trade.entered_usd_e6, fees_usd_e6=900_000)
    return ClosedTrade(ended, trade.entry_tick_at + 100 * MINUTE, "no reason left", None)
