"""Sections become text, each within its cap: the rows that do not fit are left out, and the heading says so.

1. A `SectionLayout` picks what it looks at (`look`), makes typed rows of that and of nothing else (`rows`), and
   writes one line per row (`text`); the budget sits between the two.
2. `render_rows` and `render_written` keep the rows that fit, shorten them if the layout says how, and write the text.
3. `SectionCache` keeps one rendered section for one viewer. It is invalidated when what the section looks at, its
   title or its cap differs from the packet before. Rows are made of nothing else, so what is cached is never out of
   date.

How sections look is theirs to say: a packet's version (`situation.py`) picks them, and all are rendered here.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import astuple

from tapebook.context.formatting import TOKEN_SHAPES, count_fitting, count_shape_pieces, line_cost
from tapebook.domain.cache import SlidingMap
from tapebook.domain.packet import Section
from tapebook.errors import BadInput

Source = TypeVar("Source")
Looked = TypeVar("Looked")
Row = tuple[str, ...]
Rows = tuple[Row, ...]

FACT_COLUMNS = ("name", "value")
"""The columns of a section that names what it shows."""


class SectionLayout(msgspec.Struct, Generic[Source, Looked], frozen=True):
    """How a section is made: its cap in tokens, its title, what it looks at, its rows, and their text.

    A title that is always the same is text. With `by_item` it looks at a tuple of items, each of which is one row
    and one line whatever stands beside it. A section without rows is left out, unless it is shown `bare`. Rows are
    shortened before one of the first that are `wanted` is left out: `shorten` says how a row looks in each of so many
    `shapes`, the longest first. One of `memory` is left out for an agent that has none; one that `shares` leaves the
    closed trades less room. One that must be `whole` is refused rather than cut, with the name of the agent that should
    shorten it.
    """

    name: str
    cap: int
    title: str | Callable[[Source], str]
    columns: tuple[str, ...]
    look: Callable[[Source], Looked]
    rows: Callable[[Looked], Rows]
    text: Callable[[Rows], str]
    by_item: bool = False
    oldest_first: bool = False
    bare: bool = False
    memory: bool = False
    shares: bool = False
    whole: Callable[[Source], str] | None = None
    shapes: int = 0
    wanted: int = 0
    shorten: Callable[[Row, int], Row] | None = None

    def section(self, source: Source) -> Section | None:
        """The section with all its rows; None when there is nothing to say."""
        rows = self.rows(self.look(source))
        title = self.title if isinstance(self.title, str) else self.title(source)
        return Section(self.name, title, self.columns, rows) if rows or self.bare else None


def fact_text(rows: Rows) -> str:
    """Rows of a name and a value."""
    return "- " + "\n- ".join(map(": ".join, rows)) if rows else ""


SHORT_TEXT = 640
"""Bytes of a section that are counted at once, rather than line by line."""

MOST_WRITTEN = 64
"""Items of a section whose lines are kept: a few times those that are shown."""

encode_row = msgspec.json.Encoder().encode
"""The canonical bytes of names and rows, which are text alone: no float can be in them."""

WrittenRow = tuple[Row, str, int, bytes]
"""A row, its line, what that costs, and the canonical bytes of the row."""


class RenderedSection(msgspec.Struct, frozen=True, gc=False):
    """A section as it stands in the user message, the bytes of that text, what it costs, and its canonical bytes.

    `opening` is where these begin, if they were put together row by row: as far as the title, which they end with.
    """

    section: Section
    text: str
    encoded: bytes
    tokens: int
    content: bytes
    opening: bytes


class SectionHeading(msgspec.Struct, frozen=True, gc=False):
    """A heading as the message shows it, what it costs, and the canonical bytes from its title on."""

    title: str
    text: str
    tokens: int
    content: bytes


def make_heading(title: str, shown: int = 0, dropped: int = 0) -> SectionHeading:
    """The heading of a title, with how much was left out."""
    text = f"## {title} ({shown} of {shown + dropped} shown)" if dropped else f"## {title}"
    return SectionHeading(title, text, line_cost(text), b',"title":%b}' % encode_row(title))


@lru_cache(maxsize=512)
def section_opening(columns: tuple[str, ...], name: str, dropped: int = 0) -> bytes:
    """The canonical bytes of a section up to its rows, since fields stand in the order of names: mostly the same."""
    return b'{"columns":%b,"dropped":%d,"name":%b,"rows":' % (encode_row(columns), dropped, encode_row(name))


def render_rows(layout: SectionLayout[Any, Any], head: SectionHeading, rows: Rows, room: int) -> RenderedSection:
    """A section with those of its rows that fit into the room."""
    text = f"{head.text}\n{layout.text(rows)}" if rows else head.text
    encoded = text.encode()
    # No piece holds a break. A short text often looks like one before it, a long one has lines that do.
    if len(encoded) <= SHORT_TEXT:
        tokens = count_shape_pieces(encoded.translate(TOKEN_SHAPES)) + len(rows) + 1
        if tokens <= room:
            section = Section(layout.name, head.title, layout.columns, rows)
            content = section_opening(layout.columns, layout.name) + encode_row(rows) + head.content
            return RenderedSection(section, text, encoded, tokens, content, b"")
    written = write_rows(layout, rows)
    shorten, left = layout.shorten, room - head.tokens
    if shorten is not None and sum([cost for _, _, cost, _ in written]) > left:
        # The longest shape in which the rows that are wanted fit, or the shortest there is.
        first, last, wanted = 0, layout.shapes - 1, rows[: layout.wanted]
        while first < last:
            middle = (first + last) // 2
            if sum([line_cost(layout.text((shorten(row, middle),))) for row in wanted]) <= left:
                last = middle
            else:
                first = middle + 1
        written = write_rows(layout, tuple([shorten(row, first) for row in rows]))
    return render_written(layout, head, written, room)


def write_rows(layout: SectionLayout[Any, Any], rows: Rows) -> list[WrittenRow]:
    """Rows with what is needed to put those of them together that fit."""
    lines = layout.text(rows).split("\n")
    if len(lines) != len(rows):
        lines = [layout.text((row,)) for row in rows]
    return list(zip(rows, lines, map(line_cost, lines), map(encode_row, rows), strict=True))


def render_written(
    layout: SectionLayout[Any, Any], head: SectionHeading, written: Sequence[WrittenRow], room: int
) -> RenderedSection:
    """A section of the written rows that fit into the room: the newest, or the first ones."""
    rows, lines, costs, contents = zip(*written, strict=True) if written else ((), (), (), ())
    tokens, dropped = head.tokens + sum(costs), 0
    if tokens > room:
        total, newest_last = len(rows), layout.oldest_first
        # Counted as the heading looks when almost all is shown: the longest it can get.
        left = room - line_cost(f"## {head.title} ({total} of {total} shown)")
        count = count_fitting(reversed(costs) if newest_last else costs, left)
        shown = slice(total - count, None) if newest_last else slice(count)
        rows, lines, contents, dropped = rows[shown], lines[shown], contents[shown], total - count
        head = make_heading(head.title, count, dropped)
        tokens = head.tokens + sum(costs[shown])
    text = "\n".join((head.text, *lines))
    opening = b"%b[%b]" % (section_opening(layout.columns, layout.name, dropped), b",".join(contents))
    section = Section(layout.name, head.title, layout.columns, rows, dropped)
    return RenderedSection(section, text, text.encode(), tokens, opening + head.content, opening)


class _CachedSection(msgspec.Struct, frozen=True, gc=False):
    seen: Any
    head: SectionHeading
    room: int
    made: Any
    drawn: RenderedSection | None


# Equals nothing that a section looks at.
_NOTHING_CACHED = _CachedSection(object(), make_heading(""), 0, (), None)


class SectionCache(Generic[Source]):
    """One section of one viewer; several threads may share it, since what is kept is replaced at once.

    Items whose lines are kept (`MOST_WRITTEN`) are added to and never changed: a line follows from its item alone.
    """

    def __init__(self, layout: SectionLayout[Source, Any]) -> None:
        self.look, self.shares, self._layout = layout.look, layout.shares, layout
        self._head = make_heading(layout.title) if isinstance(layout.title, str) else None
        self._title: Any = layout.title
        # Rows that are made one by one are kept one by one, with their lines; what is oldest first moves on by one.
        self._make: Callable[[Any], Sequence[Any]] = layout.rows
        if layout.by_item:
            self._make = SlidingMap(self._write) if layout.oldest_first else self._write_new
        self._written: dict[Any, WrittenRow] = {}
        self.kept = _NOTHING_CACHED

    def render(self, source: Source, cap: int | None = None) -> RenderedSection | None:
        """The section within its cap, or within a smaller one; None when there is nothing to say."""
        return self.render_looked(source, self.look(source), cap)

    def render_looked(self, source: Source, seen: Any, cap: int | None = None) -> RenderedSection | None:
        """Renders the section for a caller that has already looked."""
        kept, layout, head = self.kept, self._layout, self._head
        room = layout.cap if cap is None or cap > layout.cap else cap
        if head is None:
            title = self._title(source)
            head = kept.head if kept.head.title == title else make_heading(title)
        made, drawn = kept.made, kept.drawn
        if not (kept.seen is seen or kept.seen == seen):
            made, drawn = self._make(seen), None
        elif kept.head is head and kept.room == room:
            return drawn
        elif kept.room != room or kept.head.tokens != head.tokens or (drawn and drawn.section.dropped):
            drawn = None
        if drawn is not None:
            # The time in a heading moves on while the rows below it stay.
            drawn = _with_heading(drawn, kept.head, head)
        elif made or layout.bare:
            drawn = (render_written if layout.by_item else render_rows)(layout, head, made, room)
            if layout.whole is not None and drawn.section.dropped:
                raise _too_long_error(layout, layout.whole(source))
        self.kept = _CachedSection(seen, head, room, made, drawn)
        return drawn

    def _write(self, items: tuple[Any, ...]) -> list[WrittenRow]:
        return write_rows(self._layout, self._layout.rows(items))

    def _write_new(self, items: tuple[Any, ...]) -> list[WrittenRow]:
        """What is written for each item; of those that were written lately nothing is written again."""
        known = self._written if len(self._written) <= MOST_WRITTEN else {}
        new = tuple([item for item in items if item not in known])
        if new:
            known.update(zip(new, self._write(new), strict=True))
            self._written = known
        return [known[item] for item in items]


def _with_heading(drawn: RenderedSection, before: SectionHeading, head: SectionHeading) -> RenderedSection:
    """A whole section under a heading that costs the same as the one before."""
    name, _, columns, rows, _ = astuple(drawn.section)
    text = head.text + drawn.text[len(before.text) :]
    content = drawn.content[: -len(before.content)] + head.content
    section = Section(name, head.title, columns, rows)
    return RenderedSection(section, text, text.encode(), drawn.tokens, content, drawn.opening)


def _too_long_error(layout: SectionLayout[Any, Any], agent: str) -> BadInput:
    what = f"the {layout.name} of {agent} take more than {layout.cap} tokens"
    return BadInput(f"{what} and are never cut: shorten them and save the agent again")
