"""A section that stays drawn: what has not changed since the packet before is not worked out again.

Of consecutive packets most sections are the same to the letter. A panel keeps one of them for one
viewer, and compares what the section looks at before it makes rows, lines or bytes of it. Rows are
made of nothing else, so what is kept can never be older than what is asked for.
"""

from collections.abc import Callable
from typing import Any, Generic

import msgspec

from tapebook.context.budget import line_cost
from tapebook.context.render import Drawn, Head, Lines, content_of, draw, draw_rows, head_of, lines_of
from tapebook.context.sections import Layout, Row, Source
from tapebook.domain.memo import Window
from tapebook.errors import BadInput

Written = tuple[Row, str, int, bytes]
"""A row, its line, what that costs, and the canonical bytes of the row."""


class _Kept(msgspec.Struct, frozen=True, gc=False):
    seen: Any
    head: Head
    cap: int | None
    made: Any
    drawn: Drawn | None


# Equals nothing that a section looks at.
_NEVER = _Kept(object(), head_of(""), None, (), None)


class Panel(Generic[Source]):
    """One section of one viewer; several threads may share it, since what is kept is replaced at once."""

    def __init__(self, layout: Layout[Source, Any]) -> None:
        self.look, self.shares, self._layout = layout.look, layout.shares, layout
        self._head = head_of(layout.title) if isinstance(layout.title, str) else None
        self._title: Any = layout.title
        # Rows that are made one by one are kept one by one, with their lines.
        self._make = layout.rows if layout.row is None else _by_item(layout, layout.row)
        self._draw: Callable[..., Drawn] = draw_rows if layout.row is None else draw
        self.kept = _NEVER

    def drawn(self, source: Source, cap: int | None = None) -> Drawn | None:
        """The section within its cap, or within a smaller one; None when there is nothing to say."""
        return self.redrawn(source, self.look(source), cap)

    def redrawn(self, source: Source, seen: Any, cap: int | None = None) -> Drawn | None:
        """The same for one who has asked what it looks at."""
        kept, layout, head = self.kept, self._layout, self._head
        if head is None:
            title = self._title(source)
            head = kept.head if kept.head.title == title else head_of(title)
        if not (kept.seen is seen or kept.seen == seen):
            made = self._make(seen)
        elif kept.head is head and kept.cap == cap:
            return kept.drawn
        else:
            # The time in a heading moves on while the rows below it stay.
            made = kept.made
        drawn = None
        if made or layout.bare:
            drawn = self._draw(layout, head, made, layout.cap if cap is None or cap > layout.cap else cap)
            if layout.whole is not None and drawn.section.dropped:
                raise _cut(layout, layout.whole(source))
        self.kept = _Kept(seen, head, cap, made, drawn)
        return drawn


def _cut(layout: Layout[Any, Any], agent: str) -> BadInput:
    what = f"the {layout.name} of {agent} take more than {layout.cap} tokens"
    return BadInput(f"{what} and are never cut: shorten them and save the agent again")


def _by_item(layout: Layout[Any, Any], row: Callable[[Any], Row]) -> Callable[[Any], Lines | None]:
    """Lines of items that each keep what was written for them; what is oldest first moves on by one."""
    text = layout.text

    def write(item: Any) -> Written:
        made = row(item)
        line = text((made,))
        return made, line, line_cost(line), content_of(made)

    items: Callable[[Any], Any] = Window(write) if layout.oldest_first else _met(write)

    def lines(seen: Any) -> Lines | None:
        if not seen:
            return lines_of(layout, ((), (), (), ())) if layout.bare else None
        rows, texts, costs, contents = zip(*items(seen), strict=True)
        return lines_of(layout, (rows, texts, costs, contents))

    return lines


def _met(write: Callable[[Any], Written]) -> Callable[[Any], list[Written]]:
    """Writes the items that were not there the time before."""
    kept: dict[Any, Written] = {}

    def each(items: Any) -> list[Written]:
        nonlocal kept
        before, now, found = kept, {}, []
        for item in items:
            written = now[item] = before.get(item) or write(item)
            found.append(written)
        kept = now
        return found

    return each
