"""Closed trades, the runs that entered them and what those saw, for the tests of experience."""

import random
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.run import Action, DecisionRun, Verdict, Vote, Watermarks
from tapebook.domain.units import DAY, E6, E8, HOUR
from tapebook.experience.events import PROJECTION, draft_situation_seen
from tapebook.experience.features import MarketFeatures
from tapebook.experience.store import MIGRATIONS, Experience
from tapebook.log import Draft, Log, Stream
from tapebook.log.store import MIGRATIONS as LOG

T0 = 1_767_571_200_000
NOTIONAL = 1_000 * E6

Pair = tuple[ClosedTrade, DecisionRun | None]


def closed(
    number: int, *, net_bps: float, gross_bps: float | None = None, regime: str | None = "chop_lowvol", **more: Any
) -> ClosedTrade:
    """A trade of 1,000 USD that was entered on hour `number`, with a net result in basis points."""
    gross = round((net_bps if gross_bps is None else gross_bps) * NOTIONAL / 10_000)
    entry = T0 + number * HOUR
    state = TradeState(
        trade_id=more.get("trade_id", f"t{number}"),
        symbol=more.get("symbol", "BTC"),
        side=more.get("side", "long"),
        entry_tick_at=entry,
        entry_mark_e8=100 * E8,
        entry_leverage=2,
        entry_reason="test",
        entry_run_id=more.get("run_id", f"r{number}"),
        entry_regime_tag=regime,
        entry_lessons_hash=None,
        entered_e8=10 * E8,
        entered_usd_e6=NOTIONAL,
        funded_until=entry,
        exited_e8=10 * E8,
        exited_usd_e6=NOTIONAL + gross,
        realised_usd_e6=gross,
        fees_usd_e6=gross - round(net_bps * NOTIONAL / 10_000),
    )
    return ClosedTrade(state, more.get("exited_at", entry + HOUR // 2), "test", None)


def run_of(
    trade: ClosedTrade, *, engine: str = "trend", votes: Sequence[Vote] = (), confidence_e4: int = 6_000
) -> DecisionRun:
    """The run that entered a trade."""
    state = trade.state
    action = Action("open", state.symbol, state.side, NOTIONAL, 2, "market", None, confidence_e4, "test")
    return DecisionRun(
        run_id=state.entry_run_id or "",
        owner="local",
        deployment="d",
        agent="a",
        agent_version=1,
        symbol=state.symbol,
        scheduled_for=state.entry_tick_at,
        trigger="schedule",
        branch="main",
        as_of=state.entry_tick_at,
        watermarks=Watermarks(0, 0),
        renderer=1,
        inputs_sha256="",
        packet_sha256="",
        tokens=0,
        engine=engine,
        packet_key=None,
        reply_key=None,
        status="done",
        actions=(action,),
        verdicts=(Verdict(True),),
        votes=tuple(votes),
    )


def vote(engine: str, side: Any, action: Any = "open") -> Vote:
    """A member's vote."""
    return Vote(engine, action, side, 5_000, 10_000, "test")


def sight(rng: random.Random, *, as_of: int = T0) -> MarketFeatures:
    """A sight at random, with fields that hang together and some that are missing."""
    drift = rng.gauss(0, 0.01)
    level = rng.gauss(0, 0.3)
    return MarketFeatures(
        as_of=as_of + rng.randrange(DAY),
        return_15m=drift / 4 + rng.gauss(0, 0.002),
        return_1h=drift + rng.gauss(0, 0.004),
        return_4h=2 * drift + rng.gauss(0, 0.01),
        volatility_1h=0.005 * 2**level,
        volatility_24h=None if rng.random() < 0.2 else 0.025 * 2**level,
        range_position_4h=rng.random(),
        funding=rng.gauss(1e-5, 1e-5),
        premium=rng.gauss(0, 1e-4),
        imbalance=rng.uniform(-1, 1),
        spread_bps=0.5 * 2 ** rng.gauss(0, 1),
        held=rng.choice((0, 0, 0, 1, -1)),
    )


class Desk:
    """A deployment that learns: log, experience, and a way to append."""

    def __init__(self, db: Database, *, deployment: str = "d", owner: str = "local") -> None:
        migrate(db, (LOG, MIGRATIONS))
        self.db = db
        self.log = Log(db, [PROJECTION], clock=VirtualClock(T0))
        self.stream = Stream(owner, deployment)
        self.deployment = deployment
        self.experience = Experience(db, owner=owner)

    @property
    def seq(self) -> int:
        """Where the stream ends."""
        return self.log.head(self.stream).seq

    def append(self, drafts: Sequence[Draft]) -> int:
        """Writes events; returns where the stream ends."""
        if drafts:
            self.log.append(self.stream, drafts, expected_seq=self.seq)
        return self.seq

    def see(self, trade: ClosedTrade, what: MarketFeatures) -> int:
        """Writes what the run that entered a trade saw."""
        return self.append([draft_situation_seen(trade.state.entry_run_id or "", trade.state.symbol, what)])

    def learn(self, *pairs: Pair) -> int:
        """Learns from closed trades."""
        return self.append(self.experience.learn(self.deployment, pairs, seq=self.seq))

    def reopened(self) -> Experience:
        """The same experience as a new process would open it."""
        return Experience(self.db, owner=self.stream.owner)


@contextmanager
def memory_desk() -> Any:
    """A desk on SQLite in memory."""
    db = connect(":memory:", durable=False)
    try:
        yield Desk(db)
    finally:
        db.close()


def taught(desk: Desk, count: int, *, seed: int = 1) -> list[tuple[ClosedTrade, MarketFeatures]]:
    """A desk that has learned `count` trades with their situations, ten at a time."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        trade = closed(number, net_bps=rng.gauss(0, 30), side=rng.choice(("long", "short")))
        made.append((trade, sight(rng, as_of=T0 + number * DAY)))
    for start in range(0, count, 10):
        part = made[start : start + 10]
        desk.append([draft_situation_seen(trade.state.entry_run_id or "", "BTC", what) for trade, what in part])
        desk.learn(*((trade, run_of(trade)) for trade, _ in part))
    return made
