"""The system message: who the agent is, what it must never do, its strategy, and how to answer.

Only the agent's own profile speaks here; nothing from the market, a document or a model can.
"""

from tapebook.domain.agent import AgentProfile
from tapebook.domain.money import E6, decimal_text

HEADER = """You are {name}, a trading agent for perpetual futures.
Every few minutes you get one packet with what is known now, and you answer it once.
You cannot look anything up; what is not in the packet you do not know."""

FOOTER = """Answer with this JSON object and nothing else:
{"actions":[{"action":"open|adjust|close|hold","symbol":"BTC","side":"long|short|null",
"notional_usd":250.0,"leverage":2,"order_type":"market|limit","limit_price":null,
"confidence":0.64,"reason":"at most 240 characters","cites":[]}],"note":""}
open adds to a position on that side and turns one on the other side; adjust sets its size; close ends it."""


def system_text(agent: AgentProfile) -> str:
    """Header, leash, strategy and footer, as one text."""
    parts = [HEADER.format(name=agent.name), _leash(agent)]
    if agent.strategy:
        parts.append(f"Strategy:\n{agent.strategy}")
    return "\n\n".join([*parts, FOOTER])


def _leash(agent: AgentProfile) -> str:
    most = decimal_text(agent.caps.max_position_usd_e6, E6, 0)
    limits = f"Position at most ${most}, leverage at most {agent.caps.max_leverage}."
    never = [f"- never: {rule}" for rule in agent.avoid]
    return "\n".join(["Hard limits, enforced whatever you answer:", f"- {limits}", *never])
