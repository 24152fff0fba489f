"""Experience in the tick: what a decision is told of it, what is kept of what it saw, and what its outcome teaches."""

from functools import lru_cache

from tapebook.context import Market, Situation
from tapebook.decision.engines.ensemble import MEMBERS
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import AssetContext, Candle, Liquidity
from tapebook.domain.memo import Memo
from tapebook.domain.memory import ExperienceRow
from tapebook.domain.position import Portfolio
from tapebook.experience import HALF_HOUR, Question, Reading, Shapes, Sight, reading_of, seen, sight_at
from tapebook.log import Draft
from tapebook.tape.features import Regimes
from tapebook.wiring import Rooms

_Seen = tuple[tuple[Candle, ...], AssetContext | None, Liquidity | None, int]
"""What a reading comes from beside what is held: bars, funding, book, and the half hour."""


def told(
    rooms: Rooms, deployment: Deployment, market: Market, portfolio: Portfolio, *, seq: int
) -> tuple[ExperienceRow, ...]:
    """What experience says of a situation as of a sequence number."""
    settings = deployment.agent.experience
    standing = rooms.experience.standing(deployment.id, seq=seq) if settings.enabled else None
    if standing is None or not standing.seq:
        return ()
    read = _reader(market.symbol, market.bar_minutes, len(market.bars), held=_held(market, portfolio))
    regime, reading = read((market.bars, market.context, market.liquidity, market.as_of // HALF_HOUR))
    question = Question(market.as_of, market.symbol, regime, _providers(rooms, deployment.agent))
    return rooms.experience.told(standing, question, reading, settings=settings)


def sighting(run_id: str, situation: Situation) -> Draft:
    """What a decision saw that opens something: joined to the outcome when the trade ends."""
    market, held = situation.market, _held(situation.market, situation.portfolio)
    sight = sight_at(market.as_of, _looked(market)[1], market.context, market.liquidity, held=held)
    return seen(run_id, situation.symbol, sight)


def outcomes_due(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The events of trades that ended and were not learned from yet: all of them, so that none is passed over."""
    experience = rooms.experience
    closed = rooms.book.closed_after(deployment.id, after=experience.passed(deployment.id, seq=seq), seq=seq)
    # Looked at again are mostly those learned just before, whose runs need not be read.
    new = [trade for trade in closed if not experience.is_learned(deployment.id, trade.state.trade_id)]
    entered = [(trade, rooms.book.run(trade.state.entry_run_id or "")) for trade in new]
    drafts = experience.learn(deployment.id, entered, seq=seq) if entered else []
    if not drafts:
        experience.pass_over(deployment.id, seq=seq)
    return drafts


def snapshot(
    rooms: Rooms, deployment: Deployment, label: str, *, since_seq: int, seq: int, span: tuple[int, int]
) -> int:
    """Keeps what was achieved between two sequence numbers, such as in a chunk of a backtest; returns the new head."""
    taken = rooms.experience.snapshot(deployment.id, label, since_seq=since_seq, seq=seq, span=span)
    return rooms.book.append(deployment.id, [taken], expected_seq=rooms.book.head(deployment.id))[-1].seq


def _looked(market: Market) -> tuple[str, Sight]:
    """The regime and the shape of bars: a half-hour bar is the newest of six decisions in a row, and of many agents."""
    return _eye(market.symbol, market.bar_minutes, len(market.bars))(market.bars)


@lru_cache(maxsize=256)
def _eye(symbol: str, minutes: int, count: int) -> Memo[tuple[Candle, ...], tuple[str, Sight]]:
    """Who looks at windows of one kind; not looks by windows, since the hash of one costs half a look."""
    regimes, shapes = Regimes(), Shapes()
    return Memo(lambda bars: (regimes(bars), shapes(bars)))


@lru_cache(maxsize=256)
def _reader(symbol: str, minutes: int, count: int, *, held: int) -> Memo[_Seen, tuple[str, Reading]]:
    """Who makes the regime and the reading of them: what is new every time is the moment, which is not in it."""
    eye = _eye(symbol, minutes, count)

    def read(seen: _Seen) -> tuple[str, Reading]:
        bars, context, liquidity, half_hour = seen
        regime, shape = eye(bars)
        return regime, reading_of(sight_at(half_hour * HALF_HOUR, shape, context, liquidity, held=held))

    return Memo(read)


def _providers(rooms: Rooms, agent: AgentProfile) -> tuple[str, ...]:
    """Who is to be trusted or not: the members of an ensemble, or the engine itself."""
    engine = agent.engine or rooms.config.engine.default
    return (agent.members or MEMBERS) if engine == "ensemble" else (engine,)


def _held(market: Market, portfolio: Portfolio) -> int:
    """1 for long, -1 for short."""
    held = portfolio.positions.get(market.symbol)
    return 0 if held is None else 1 if held.size_e8 > 0 else -1
