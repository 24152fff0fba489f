"""What of a profile does not fit a packet: asked when an agent is saved, so that nothing is ever cut from its rules."""

from tapebook.context.budget import text_tokens
from tapebook.context.sections import rules
from tapebook.context.system import leash, sanitised
from tapebook.domain.agent import MOST_TRADES_SHOWN, AgentProfile, ContextProfile

STRATEGY_CAP = 1_200
LEASH_CAP = 500
MOST_BARS = 500
"""About twice as many as fit, whatever their prices: more would be read and dropped at every tick."""


def oversize(profile: AgentProfile) -> list[str]:
    """One sentence per part that is too long, each with what to do; empty when all of it fits."""
    shown = sanitised(profile)
    sizes = {
        "strategy": (text_tokens(shown.strategy), STRATEGY_CAP),
        "avoid": (text_tokens(leash(shown)), LEASH_CAP),
        "manual": (_manual_tokens(profile.manual), rules.LAYOUT.cap),
    }
    found = [
        f"{name} takes {tokens:,} tokens in the packet and {cap:,} fit: shorten it"
        for name, (tokens, cap) in sizes.items()
        if tokens > cap
    ]
    contexts = {"context": profile.context} | ({"shadow": profile.shadow} if profile.shadow else {})
    return found + [problem for name, context in contexts.items() for problem in _too_much(name, context)]


def _manual_tokens(manual: str) -> int:
    text = rules.text(rules.rows(manual))
    return text_tokens(f"## {rules.TITLE}\n{text}") if text else 0


def _too_much(name: str, context: ContextProfile) -> list[str]:
    """What a context profile asks for beyond what is ever shown."""
    asked = {
        "recent_trades_k": (context.recent_trades_k, MOST_TRADES_SHOWN),
        "bar_count": (context.bar_count, MOST_BARS),
    }
    return [
        f"{name}.{field} is {value:,} and at most {most:,} are read: lower it"
        for field, (value, most) in asked.items()
        if value > most
    ]
