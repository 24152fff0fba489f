"""A section that stays drawn: what has not changed since the packet before is not worked out again.

Of consecutive packets most sections are the same to the letter. A panel keeps one of them for one
viewer, and compares what the section looks at before it makes rows, lines or bytes of it. Rows are
made of nothing else, so what is kept can never be older than what is asked for.
"""

from typing import Any, Generic, NamedTuple

from tapebook.context.render import Drawn, Lines, draw, lines_of
from tapebook.context.sections import Layout, Source
from tapebook.domain.packet import Section


class _Kept(NamedTuple):
    seen: Any
    lines: Lines
    title: str
    room: int
    drawn: Drawn | None


class Panel(Generic[Source]):
    """One section of one viewer; several threads may share it, since what is kept is replaced at once."""

    def __init__(self, layout: Layout[Source, Any]) -> None:
        self.layout = layout
        self._kept: _Kept | None = None

    def drawn(self, source: Source, *, cap: int | None = None) -> Drawn | None:
        """The section within its cap, or within a smaller one; None when there is nothing to say."""
        layout, kept = self.layout, self._kept
        seen, title = layout.look(source), layout.title(source)
        room = layout.cap if cap is None or cap > layout.cap else cap
        if kept is None or not (kept.seen is seen or kept.seen == seen):
            lines = lines_of(layout.rows(seen), layout.line)
        elif kept.title == title and kept.room == room:
            return kept.drawn
        else:
            # The time in a heading moves on while the rows below it stay.
            lines = kept.lines
        drawn = self._draw(lines, title, room)
        self._kept = _Kept(seen, lines, title, room, drawn)
        return drawn

    def _draw(self, lines: Lines, title: str, room: int) -> Drawn | None:
        if not lines.rows and not self.layout.bare:
            return None
        section = Section(self.layout.name, title, self.layout.columns, lines.rows)
        return draw(section, lines, room=room, oldest_first=self.layout.oldest_first)
