"""Experience in the tick: what a decision is told of it, what is kept of what it saw, and what its outcome teaches."""

from tapebook.context import Market, Situation
from tapebook.decision.engines.ensemble import MEMBERS
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.memory import ExperienceRow
from tapebook.domain.position import Portfolio
from tapebook.experience import ExperienceSettings, Question, Sight, seen, sight_of
from tapebook.log import Draft
from tapebook.tape.features import classify_regime
from tapebook.wiring import Rooms

# Not in the home's settings: a packet must be the same whatever they say later.
SETTINGS = ExperienceSettings()


def told(
    rooms: Rooms, deployment: Deployment, market: Market, portfolio: Portfolio, *, seq: int
) -> tuple[ExperienceRow, ...]:
    """What experience says of a situation as of a sequence number."""
    if not rooms.experience.standing(deployment.id, seq=seq).seq:
        return ()
    regime = classify_regime([bar.close_e8 / 1e8 for bar in market.bars])
    question = Question(market.as_of, market.symbol, regime, _providers(rooms, deployment.agent))
    sight = _sight(market, portfolio)
    return rooms.experience.rows(deployment.id, question, sight, seq=seq, settings=SETTINGS)


def sighting(run_id: str, situation: Situation) -> Draft:
    """What a decision saw that opens something: joined to the outcome when the trade ends."""
    return seen(run_id, situation.symbol, _sight(situation.market, situation.portfolio))


def outcomes_due(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The events of trades that ended and were not learned from yet: all of them, so that none is passed over."""
    after = rooms.experience.standing(deployment.id, seq=seq).seq
    closed = rooms.book.closed_after(deployment.id, after=after, seq=seq)
    entered = [(trade, rooms.book.run(trade.state.entry_run_id or "")) for trade in closed]
    return rooms.experience.learn(deployment.id, entered, seq=seq) if entered else []


def _providers(rooms: Rooms, agent: AgentProfile) -> tuple[str, ...]:
    """Who is to be trusted or not: the members of an ensemble, or the engine itself."""
    engine = agent.engine or rooms.config.engine.default
    return (agent.members or MEMBERS) if engine == "ensemble" else (engine,)


def _sight(market: Market, portfolio: Portfolio) -> Sight:
    held = portfolio.positions.get(market.symbol)
    side = 0 if held is None else 1 if held.size_e8 > 0 else -1
    return sight_of(market.bars, market.context, market.liquidity, held=side, as_of=market.as_of)
