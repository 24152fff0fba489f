"""What the agent sees, counted: tokens of every part against its cap, what was left out, and what to change."""

import msgspec

from tapebook.context.assemble import CAPS
from tapebook.context.budget import MEMORY_CAP, text_tokens
from tapebook.context.oversize import LEASH_CAP, STRATEGY_CAP
from tapebook.context.system import LESSONS_CAP
from tapebook.domain.packet import Packet

NEARLY_FULL_PERCENT = 90
MEMORY = ("lessons", "recent_activity", "recent_trades", "open_positions")

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


def preview(packet: Packet) -> Preview:
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
            CAPS[section.name],
            len(section.rows),
            section.dropped,
        )
        for section in packet.sections
    ]
    parts = (*system, *user)
    used = sum(part.tokens for part in parts if part.name in MEMORY)
    warnings = tuple(warning for part in parts if (warning := _warning(part, memory=used)))
    return Preview(parts, packet.tokens, used, MEMORY_CAP, warnings)


def _warning(part: PreviewPart, *, memory: int) -> str | None:
    """`bars: 97 % of 1,600 tokens used; 12 of 100 rows dropped; lower bar_count`."""
    if part.cap is None:
        return None
    full = 100 * part.tokens // part.cap
    if not part.dropped and full < NEARLY_FULL_PERCENT:
        return None
    said = [f"{part.name}: {full} % of {part.cap:,} tokens used"]
    if part.dropped:
        said.append(f"{part.dropped} of {part.shown + part.dropped} rows dropped")
    if part.name == "recent_trades" and part.dropped and 100 * memory >= NEARLY_FULL_PERCENT * MEMORY_CAP:
        said.append(f"the memory together uses {memory:,} of {MEMORY_CAP:,}")
    remedy = _REMEDIES.get(part.name)
    return "; ".join([*said, remedy] if remedy else said)
