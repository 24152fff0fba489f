"""A section that stays drawn: what has not changed since the packet before is not worked out again.

Of consecutive packets most sections are the same to the letter. A panel keeps one of them for one
viewer, and compares what the section looks at before it makes rows, lines or bytes of it. Rows are
made of nothing else, so what is kept can never be older than what is asked for.
"""

from collections.abc import Callable
from typing import Any, Generic

import msgspec

from tapebook.context.budget import line_cost
from tapebook.context.render import Drawn, Head, Lines, draw, head_of, lines_of
from tapebook.context.sections import Layout, Row, Source
from tapebook.domain.memo import Window
from tapebook.domain.packet import Section


class _Kept(msgspec.Struct, frozen=True):
    seen: Any
    head: Head
    lines: Lines
    room: int
    drawn: Drawn | None


class Panel(Generic[Source]):
    """One section of one viewer; several threads may share it, since what is kept is replaced at once."""

    def __init__(self, layout: Layout[Source, Any]) -> None:
        self.layout = layout
        self._kept: _Kept | None = None
        self._lines = _writer(layout)

    def drawn(self, source: Source, *, cap: int | None = None) -> Drawn | None:
        """The section within its cap, or within a smaller one; None when there is nothing to say."""
        layout, kept = self.layout, self._kept
        title, room = layout.title, layout.cap
        seen = layout.look(source)
        if not isinstance(title, str):
            title = title(source)
        if cap is not None and cap < room:
            room = cap
        if kept is None or not (kept.seen is seen or kept.seen == seen):
            lines = self._lines(seen)
        elif kept.head.title == title and kept.room == room:
            return kept.drawn
        else:
            # The time in a heading moves on while the rows below it stay.
            lines = kept.lines
        head = kept.head if kept is not None and kept.head.title == title else head_of(title)
        drawn = None
        if lines.rows or layout.bare:
            section = Section(layout.name, title, layout.columns, lines.rows)
            drawn = draw(section, head, lines, room=room, oldest_first=layout.oldest_first)
        self._kept = _Kept(seen, head, lines, room, drawn)
        return drawn


def _writer(layout: Layout[Any, Any]) -> Callable[[Any], Lines]:
    """What makes lines of what a section looks at: rows that are made one by one move on one by one."""
    one, rows, line = layout.row, layout.rows, layout.line

    def write(seen: Any) -> Lines:
        made = rows(seen)
        return lines_of(made, [line(row) for row in made])

    return write if one is None else _moving(one, line)


def _moving(one: Callable[[Any], Row], line: Callable[[Row], str]) -> Callable[[Any], Lines]:
    """The same for a window of items: each keeps its row, its line and what that costs."""

    def write(item: Any) -> tuple[Row, str, int]:
        row = one(item)
        text = line(row)
        return row, text, line_cost(text)

    window = Window(write)

    def lines(seen: Any) -> Lines:
        written = window(seen)
        rows, texts, costs = zip(*written, strict=True) if written else ((), (), ())
        return lines_of(rows, texts, tokens=sum(costs))

    return lines
