"""One engine call, then parse and guard. No transaction is open while the engine thinks."""

import msgspec

from tapebook.context import Situation
from tapebook.decision import Limits, Refusal, judge, parse
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action, Verdict
from tapebook.wiring import Rooms


class Decision(msgspec.Struct, frozen=True):
    """A reply, what it proposed, and what the guard said; `error` when it was not understood."""

    reply: str
    actions: tuple[Action, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    note: str = ""
    error: str | None = None


def decide(rooms: Rooms, packet: Packet, situation: Situation) -> Decision:
    """Asks the agent's engine and judges its answer."""
    reply = rooms.engine(situation.deployment.agent.engine).decide(packet)
    parsed = parse(reply)
    if isinstance(parsed, Refusal):
        return Decision(reply, error=parsed.why)
    verdicts = judge(parsed.actions, limits_of(situation))
    return Decision(reply, parsed.actions, verdicts, parsed.note)


def limits_of(situation: Situation) -> Limits:
    """What the guard must know of a situation."""
    agent = situation.deployment.agent
    return Limits(agent.caps, situation.symbol, agent.watchlist, situation.held_usd_e6(), situation.price_age_ms)
