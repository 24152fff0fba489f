"""A section that stays drawn: what has not changed since the packet before is not worked out again.

Of consecutive packets most sections are the same to the letter. A panel keeps one of them for one
viewer, and compares what the section looks at before it makes rows, lines or bytes of it. Rows are
made of nothing else, so what is kept can never be older than what is asked for.
"""

from collections.abc import Callable
from typing import Any, Generic

import msgspec

from tapebook.context.budget import line_cost
from tapebook.context.render import Drawn, Lines, draw, lines_of
from tapebook.context.sections import Layout, Source
from tapebook.domain.memo import Given, Made, Window
from tapebook.domain.packet import Section


class _Kept(msgspec.Struct, frozen=True):
    seen: Any
    lines: Lines
    title: str
    room: int
    drawn: Drawn | None


def _each(make: Callable[[Given], Made]) -> Callable[[tuple[Given, ...]], tuple[Made, ...]]:
    return lambda items: tuple(map(make, items))


class Panel(Generic[Source]):
    """One section of one viewer; several threads may share it, since what is kept is replaced at once."""

    def __init__(self, layout: Layout[Source, Any]) -> None:
        self.layout = layout
        self._kept: _Kept | None = None
        # Rows that are made one by one move on one by one.
        each = _each if layout.row is None else Window
        self._rows = layout.rows if layout.row is None else Window(layout.row)
        self._texts, self._costs = each(layout.line), each(line_cost)

    def drawn(self, source: Source, *, cap: int | None = None) -> Drawn | None:
        """The section within its cap, or within a smaller one; None when there is nothing to say."""
        layout, kept = self.layout, self._kept
        seen, title = layout.look(source), layout.title(source)
        room = layout.cap if cap is None or cap > layout.cap else cap
        if kept is None or not (kept.seen is seen or kept.seen == seen):
            rows = self._rows(seen)
            texts = self._texts(rows)
            lines = lines_of(rows, texts, self._costs(texts))
        elif kept.title == title and kept.room == room:
            return kept.drawn
        else:
            # The time in a heading moves on while the rows below it stay.
            lines = kept.lines
        drawn = None
        if lines.rows or layout.bare:
            section = Section(layout.name, title, layout.columns, lines.rows)
            drawn = draw(section, lines, room=room, oldest_first=layout.oldest_first)
        self._kept = _Kept(seen, lines, title, room, drawn)
        return drawn
