"""Sections become text.

The version is stored with every run; an old renderer is never changed, only joined by a new one.
"""

from collections.abc import Sequence

from tapebook.context.sections import Layout
from tapebook.domain.packet import Section

RENDERER = 1


def heading(section: Section, total: int) -> str:
    """The section's title, with how much was left out."""
    if not section.dropped:
        return f"## {section.title}"
    return f"## {section.title} ({len(section.rows)} of {total} shown)"


def section_text(section: Section, layout: Layout) -> str:
    """A section as it stands in the user message."""
    total = len(section.rows) + section.dropped
    return "\n".join([heading(section, total), *(layout.line(row) for row in section.rows)])


def user_text(texts: Sequence[str]) -> str:
    """The whole user message."""
    return "\n\n".join(texts)
