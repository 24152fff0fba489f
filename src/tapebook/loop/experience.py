"""Experience in the tick: what a decision is told of it, what is kept of what it saw, and what its outcome teaches."""

from functools import lru_cache

import msgspec

from tapebook.context import Market, PacketVersion, Situation
from tapebook.decision.engines.ensemble import MEMBERS
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import AssetContext, Candle, Liquidity, SettledFunding
from tapebook.domain.memo import Memo
from tapebook.domain.memory import ExperienceRow
from tapebook.domain.money import E12
from tapebook.domain.position import Portfolio
from tapebook.experience import HALF_HOUR, Question, Reading, Shapes, Sight, reading_of, seen, sight_at
from tapebook.experience.outcomes import UNKNOWN_REGIME
from tapebook.log import Draft
from tapebook.tape.features import Regimes
from tapebook.wiring import Rooms

STEP_TRADES = 2_000
"""How many trades are learned from at once: about a second, so that leases are kept alive in between."""

_Seen = tuple[tuple[Candle, ...], AssetContext | SettledFunding | None, Liquidity | None, int]
"""What a reading comes from beside what is held: bars, funding, book, and the half hour."""


def told(
    rooms: Rooms, deployment: Deployment, market: Market, portfolio: Portfolio, *, seq: int, version: PacketVersion
) -> tuple[ExperienceRow, ...]:
    """What experience says of a situation as of a sequence number."""
    settings = deployment.agent.experience
    standing = rooms.experience.standing(deployment.id, seq=seq) if settings.enabled else None
    if standing is None or not standing.seq:
        return ()
    read = _reader(market.symbol, market.bar_minutes, len(market.bars), held=_held(market, portfolio))
    reading = read((market.bars, market.context or market.settled, market.liquidity, market.as_of // HALF_HOUR))
    # Bars that could not be classified are asked about like trades without a tag.
    regime = market_regime(market, version=version) or UNKNOWN_REGIME
    question = Question(market.as_of, market.symbol, regime, _providers(rooms, deployment.agent))
    return rooms.experience.told(standing, question, reading, settings=settings)


def sighting(run_id: str, situation: Situation) -> Draft:
    """What a decision saw that opens something: joined to the outcome when the trade ends."""
    market, held = situation.market, _held(situation.market, situation.portfolio)
    shape = _eye(market.symbol, market.bar_minutes, len(market.bars))(market.bars)
    sight = _sight(market.as_of, shape, market.context or market.settled, liquidity=market.liquidity, held=held)
    return seen(run_id, situation.symbol, sight)


def market_regime(market: Market, *, version: PacketVersion) -> str | None:
    """The regime a packet of a version speaks of; before regimes were scaled it was not read with the market."""
    if version.scaled_regimes:
        return market.regime
    return _unscaled(market.symbol, market.bar_minutes, len(market.bars))(market.bars)


def outcomes_due(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The events of the next trades that ended and were not learned from yet, in the order of their ends.

    They are one step of `STEP_TRADES` at most: the next call goes on behind them, also after a restart.
    """
    experience, book, name = rooms.experience, rooms.book, deployment.id
    after = experience.passed(name, seq=seq, ended=book.trade_ended)
    while closed := book.closed_after(name, after=after, seq=seq, most=STEP_TRADES):
        # Looked at again are mostly those learned just before, whose runs need not be read.
        new = [trade for trade in closed if not experience.is_learned(name, trade.state.trade_id)]
        entered = [(trade, book.run(trade.state.entry_run_id or "")) for trade in new]
        if drafts := experience.learn(name, entered, seq=seq):
            return drafts
        if len(closed) < STEP_TRADES:
            break
        after = book.trade_ended(closed[-1].state.trade_id) or seq
        experience.pass_over(name, seq=after)
    experience.pass_over(name, seq=seq)
    return []


def snapshot(
    rooms: Rooms, deployment: Deployment, label: str, *, since_seq: int, seq: int, span: tuple[int, int]
) -> int:
    """Keeps what was achieved between two sequence numbers, such as in a chunk of a backtest; returns the new head."""
    taken = rooms.experience.snapshot(deployment.id, label, since_seq=since_seq, seq=seq, span=span)
    return rooms.book.append(deployment.id, [taken], expected_seq=rooms.book.head(deployment.id))[-1].seq


def _sight(
    as_of: int,
    shape: Sight,
    funding: AssetContext | SettledFunding | None,
    *,
    liquidity: Liquidity | None,
    held: int,
) -> Sight:
    """What is seen, from the shape of bars and the newest funding, current or settled: both by the hour."""
    if not isinstance(funding, SettledFunding):
        return sight_at(as_of, shape, funding, liquidity, held=held)
    hourly = funding.rate_e12 / funding.interval_hours / E12
    return msgspec.structs.replace(sight_at(as_of, shape, None, liquidity, held=held), funding=hourly)


# Caches of the last window asked for, compared bar by bar; not of results by window, since the hash of one costs half
# a look. A half-hour bar is the newest of six decisions in a row, and of many agents.
@lru_cache(maxsize=256)
def _eye(_symbol: str, _minutes: int, _count: int) -> Memo[tuple[Candle, ...], Sight]:
    """What looks at the shape of windows of one kind."""
    return Memo(Shapes())


@lru_cache(maxsize=256)
def _unscaled(_symbol: str, _minutes: int, _count: int) -> Memo[tuple[Candle, ...], str | None]:
    """What tags windows of one kind for packets of renderer 2."""
    return Memo(Regimes(scaled=False))


@lru_cache(maxsize=256)
def _reader(symbol: str, minutes: int, count: int, *, held: int) -> Memo[_Seen, Reading]:
    """Who makes the reading of windows of one kind: what is new every time is the moment, which is not in it."""
    eye = _eye(symbol, minutes, count)

    def read(seen: _Seen) -> Reading:
        bars, funding, liquidity, half_hour = seen
        return reading_of(_sight(half_hour * HALF_HOUR, eye(bars), funding, liquidity=liquidity, held=held))

    return Memo(read)


def _providers(rooms: Rooms, agent: AgentProfile) -> tuple[str, ...]:
    """Who is to be trusted or not: the members of an ensemble, or the engine itself."""
    engine = agent.engine or rooms.config.engine.default
    return (agent.members or MEMBERS) if engine == "ensemble" else (engine,)


def _held(market: Market, portfolio: Portfolio) -> int:
    """1 for long, -1 for short."""
    held = portfolio.positions.get(market.symbol)
    return 0 if held is None else 1 if held.size_e8 > 0 else -1
