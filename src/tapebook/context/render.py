"""Sections become text, each within its cap: the rows that do not fit are left out, and the heading says so.

The version is stored with every run; an old renderer is never changed, only joined by a new one.
"""

from collections.abc import Sequence

import msgspec

from tapebook.context.budget import kept, line_tokens
from tapebook.context.sections import Layout, Source
from tapebook.domain.canonical import canonical
from tapebook.domain.packet import Section

RENDERER = 2


class Drawn(msgspec.Struct, frozen=True):
    """A section as it stands in the user message, what it costs, and its canonical bytes."""

    section: Section
    text: str
    tokens: int
    content: bytes


def heading(section: Section) -> str:
    """The section's title, with how much was left out."""
    if not section.dropped:
        return f"## {section.title}"
    return f"## {section.title} ({len(section.rows)} of {len(section.rows) + section.dropped} shown)"


def draw(section: Section, layout: Layout[Source], *, cap: int | None = None) -> Drawn:
    """A section within its cap, or within a smaller one."""
    lines = [layout.line(row) for row in section.rows]
    costs = [line_tokens(line) for line in lines]
    room = layout.cap if cap is None else min(cap, layout.cap)
    if line_tokens(heading(section)) + sum(costs) > room:
        # Counted as it looks when almost all is shown: the longest it can get.
        longest = f"{heading(section)} ({len(lines)} of {len(lines)} shown)"
        count = kept(reversed(costs) if layout.oldest_first else costs, room - line_tokens(longest))
        shown = slice(len(lines) - count, None) if layout.oldest_first else slice(count)
        section = msgspec.structs.replace(section, rows=section.rows[shown], dropped=len(lines) - count)
        lines, costs = lines[shown], costs[shown]
    title = heading(section)
    return Drawn(section, "\n".join([title, *lines]), line_tokens(title) + sum(costs), canonical(section))


def user_text(texts: Sequence[str]) -> str:
    """The whole user message."""
    return "\n\n".join(texts)
