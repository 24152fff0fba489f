"""What a packet costs: tokens of every part against its cap, what was left out, and what of a profile does not fit.

`oversize_problems` is asked when an agent is saved, so that nothing is ever cut from its rules.
"""

import msgspec

from tapebook.context import memory_sections
from tapebook.context.assemble import LESSONS_CAP, SECTION_CAPS, leash_text, sanitised_profile
from tapebook.context.render import MEMORY_CAP
from tapebook.domain.agent import MOST_TRADES_SHOWN, AgentProfile, ContextProfile
from tapebook.domain.packet import Packet
from tapebook.domain.text import text_tokens

# Tokens; a longer strategy leaves no room for what happens.
STRATEGY_CAP = 1_200
LEASH_CAP = 500
MAX_BARS = 500
"""About twice as many as fit, whatever their prices: more would be read and dropped at every tick."""


def oversize_problems(profile: AgentProfile) -> list[str]:
    """One sentence per part that is too long, each with what to do; empty when all of it fits."""
    shown = sanitised_profile(profile)
    sizes = {
        "strategy": (text_tokens(shown.strategy), STRATEGY_CAP),
        "avoid": (text_tokens(leash_text(shown)), LEASH_CAP),
        "manual": (_manual_tokens(profile.manual), memory_sections.RULES_SECTION.cap),
    }
    found = [
        f"{name} takes {tokens:,} tokens in the packet and {cap:,} fit: shorten it"
        for name, (tokens, cap) in sizes.items()
        if tokens > cap
    ]
    contexts = {"context": profile.context} | ({"shadow": profile.shadow} if profile.shadow else {})
    return found + [problem for name, context in contexts.items() for problem in _context_problems(name, context)]


def _manual_tokens(manual: str) -> int:
    text = memory_sections.rule_text(memory_sections.rule_rows(manual))
    return text_tokens(f"## {memory_sections.RULES_TITLE}\n{text}") if text else 0


def _context_problems(name: str, context: ContextProfile) -> list[str]:
    """What a context profile asks for beyond what is ever shown."""
    asked = {
        "recent_trades_k": (context.recent_trades_k, MOST_TRADES_SHOWN),
        "bar_count": (context.bar_count, MAX_BARS),
    }
    return [
        f"{name}.{field} is {value:,} and at most {most:,} are read: lower it"
        for field, (value, most) in asked.items()
        if value > most
    ]


NEARLY_FULL_PERCENT = 90
MEMORY_PARTS = ("lessons", "recent_activity", "recent_trades", "open_positions")

_SYSTEM_CAPS = {"leash": LEASH_CAP, "strategy": STRATEGY_CAP, "lessons": LESSONS_CAP}
_REMEDIES = {
    "bars": "lower bar_count",
    "recent_trades": "lower recent_trades_k",
    "strategy": "shorten the strategy",
    "leash": "shorten the avoid rules",
    "rules": "shorten the manual",
}


class PreviewPart(msgspec.Struct, frozen=True):
    """A segment of the system message or a section of the user message; some have no cap."""

    name: str
    place: str
    tokens: int
    cap: int | None
    shown: int = 0
    dropped: int = 0


class Preview(msgspec.Struct, frozen=True):
    """A packet in numbers. `memory_tokens` is what shares `memory_cap`."""

    parts: tuple[PreviewPart, ...]
    tokens: int
    memory_tokens: int
    memory_cap: int
    warnings: tuple[str, ...]


def preview_packet(packet: Packet) -> Preview:
    """The parts of a packet in the order they are sent, and what to know about them."""
    system = [
        PreviewPart(segment.name, "system", text_tokens(segment.text), _SYSTEM_CAPS.get(segment.name))
        for segment in packet.segments
    ]
    user = [
        PreviewPart(
            section.name,
            "user",
            packet.section_tokens[section.name],
            SECTION_CAPS[section.name],
            len(section.rows),
            section.dropped,
        )
        for section in packet.sections
    ]
    parts = (*system, *user)
    used = sum(part.tokens for part in parts if part.name in MEMORY_PARTS)
    warnings = tuple(warning for part in parts if (warning := _warning(part, memory=used)))
    return Preview(parts, packet.tokens, used, MEMORY_CAP, warnings)


def _warning(part: PreviewPart, *, memory: int) -> str | None:
    """`bars: 97 % of 1,600 tokens used; 12 of 100 rows dropped; lower bar_count`."""
    if part.cap is None:
        return None
    full = 100 * part.tokens // part.cap
    if not part.dropped and full < NEARLY_FULL_PERCENT:
        return None
    parts = [f"{part.name}: {full} % of {part.cap:,} tokens used"]
    if part.dropped:
        parts.append(f"{part.dropped} of {part.shown + part.dropped} rows dropped")
    if part.name == "recent_trades" and part.dropped and 100 * memory >= NEARLY_FULL_PERCENT * MEMORY_CAP:
        parts.append(f"the memory together uses {memory:,} of {MEMORY_CAP:,}")
    remedy = _REMEDIES.get(part.name)
    return "; ".join([*parts, remedy] if remedy else parts)
