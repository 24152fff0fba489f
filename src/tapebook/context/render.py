"""Sections become text, each within its cap: the rows that do not fit are left out, and the heading says so.

1. A `SectionLayout` picks what it looks at (`look`), makes typed rows of that and of nothing else (`rows`), and
   writes one line per row (`text`); the budget sits between the two.
2. `render_rows` and `render_lines` keep the rows that fit, shorten them if the layout says how, and write the text.
3. `SectionCache` keeps one rendered section for one viewer. It is invalidated when what the section looks at, its
   title or its cap differs from the packet before. Rows are made of nothing else, so what is cached is never out of
   date.

How sections look is theirs to say: a packet's version (`situation.py`) picks them, and all are rendered here.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from tapebook.context.formatting import TOKEN_SHAPES, count_fitting, count_pieces, count_shape_pieces, line_cost
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

encode_row = msgspec.json.Encoder().encode
"""The canonical bytes of names and rows, which are text alone: no float can be in them."""

WrittenRows = tuple[Rows, tuple[str, ...], tuple[int, ...], tuple[bytes, ...]]
"""Rows, their lines, what these cost, and the canonical bytes of the rows."""


class RenderedSection(msgspec.Struct, frozen=True, gc=False):
    """A section as it stands in the user message, the bytes of that text, what it costs, and its canonical bytes.

    `opening` is where these begin, if that was kept: as far as the title, which they end with.
    """

    name: str
    section: Section
    text: str
    encoded: bytes
    tokens: int
    content: bytes
    opening: bytes


class RenderedLines(msgspec.Struct, frozen=True, gc=False):
    """Rows as the message shows them: the line of each, what it costs, its canonical bytes, and all of them as one.

    `content` is the canonical bytes of their section up to its title.
    """

    rows: Rows
    texts: tuple[str, ...]
    costs: tuple[int, ...]
    contents: tuple[bytes, ...]
    text: str
    encoded: bytes
    tokens: int
    content: bytes


class SectionHeading(msgspec.Struct, frozen=True, gc=False):
    """A heading as the message shows it, what it costs, and the canonical bytes from its title on."""

    title: str
    text: str
    encoded: bytes
    tokens: int
    content: bytes


def make_heading(title: str, shown: int = 0, dropped: int = 0) -> SectionHeading:
    """The heading of a title, with how much was left out."""
    text = f"## {title} ({shown} of {shown + dropped} shown)" if dropped else f"## {title}"
    encoded = text.encode()
    return SectionHeading(title, text, encoded, count_pieces(encoded) + 1, b',"title":%b}' % encode_row(title))


@lru_cache(maxsize=512)
def section_opening(columns: tuple[str, ...], name: str, dropped: int = 0) -> bytes:
    """The canonical bytes of a section up to its rows, since fields stand in the order of names: mostly the same."""
    return b'{"columns":%b,"dropped":%d,"name":%b,"rows":' % (encode_row(columns), dropped, encode_row(name))


def join_lines(layout: SectionLayout[Any, Any], written: WrittenRows, dropped: int = 0) -> RenderedLines:
    """Rows and their lines, put together."""
    rows, texts, costs, contents = written
    text = "\n".join(texts)
    content = b"%b[%b]" % (section_opening(layout.columns, layout.name, dropped), b",".join(contents))
    return RenderedLines(rows, texts, costs, contents, text, text.encode(), sum(costs), content)


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
            return RenderedSection(layout.name, section, text, encoded, tokens, content, b"")
    lines = _lines_of_rows(layout, rows)
    if layout.shorten is not None and head.tokens + lines.tokens > room:
        lines = _lines_of_rows(layout, _shorten_rows(layout, layout.shorten, rows, room=room - head.tokens))
    return render_lines(layout, head, lines, room)


def _shorten_rows(
    layout: SectionLayout[Any, Any], shorten: Callable[[Row, int], Row], rows: Rows, *, room: int
) -> Rows:
    """The rows in the longest shape in which the first of them fit, or in the shortest there is."""
    first, last, wanted = 0, layout.shapes - 1, rows[: layout.wanted]
    while first < last:
        middle = (first + last) // 2
        if sum([line_cost(layout.text((shorten(row, middle),))) for row in wanted]) <= room:
            last = middle
        else:
            first = middle + 1
    return tuple([shorten(row, first) for row in rows])


def _lines_of_rows(layout: SectionLayout[Any, Any], rows: Rows) -> RenderedLines:
    texts = tuple([layout.text((row,)) for row in rows])
    return join_lines(layout, (rows, texts, tuple(map(line_cost, texts)), tuple(map(encode_row, rows))))


def render_lines(
    layout: SectionLayout[Any, Any], head: SectionHeading, lines: RenderedLines, room: int
) -> RenderedSection:
    """Renders a section whose lines are known."""
    tokens, dropped = head.tokens + lines.tokens, 0
    if tokens > room:
        dropped = len(lines.rows)
        lines = _fit_lines(layout, head.title, lines, room=room)
        dropped -= len(lines.rows)
        head = make_heading(head.title, len(lines.rows), dropped)
        tokens = head.tokens + lines.tokens
    rows, opening = lines.rows, lines.content
    section = Section(layout.name, head.title, layout.columns, rows, dropped)
    text = f"{head.text}\n{lines.text}" if rows else head.text
    encoded = b"\n".join((head.encoded, lines.encoded)) if rows else head.encoded
    return RenderedSection(layout.name, section, text, encoded, tokens, opening + head.content, opening)


def user_text(texts: Sequence[str]) -> str:
    """The whole user message."""
    return "\n\n".join(texts)


def _fit_lines(layout: SectionLayout[Any, Any], title: str, lines: RenderedLines, *, room: int) -> RenderedLines:
    """The newest lines, or the first ones, that leave room for the heading."""
    total, newest_last = len(lines.rows), layout.oldest_first
    # Counted as it looks when almost all is shown: the longest it can get.
    room -= line_cost(f"## {title} ({total} of {total} shown)")
    count = count_fitting(reversed(lines.costs) if newest_last else lines.costs, room)
    shown = slice(total - count, None) if newest_last else slice(count)
    written = lines.rows[shown], lines.texts[shown], lines.costs[shown], lines.contents[shown]
    return join_lines(layout, written, total - count)


WrittenRow = tuple[Row, str, int, bytes]
"""A row, its line, what that costs, and the canonical bytes of the row."""


class _CachedSection(msgspec.Struct, frozen=True, gc=False):
    seen: Any
    head: SectionHeading
    cap: int | None
    made: Any
    drawn: RenderedSection | None


# Equals nothing that a section looks at.
_NOTHING_CACHED = _CachedSection(object(), make_heading(""), None, (), None)


class SectionCache(Generic[Source]):
    """One section of one viewer; several threads may share it, since what is kept is replaced at once."""

    def __init__(self, layout: SectionLayout[Source, Any]) -> None:
        self.look, self.shares, self._layout = layout.look, layout.shares, layout
        self._head = make_heading(layout.title) if isinstance(layout.title, str) else None
        self._title: Any = layout.title
        # Rows that are made one by one are kept one by one, with their lines.
        self._make = _lines_by_item(layout) if layout.by_item else layout.rows
        self._draw: Callable[..., RenderedSection] = render_lines if layout.by_item else render_rows
        self.kept = _NOTHING_CACHED

    def render(self, source: Source, cap: int | None = None) -> RenderedSection | None:
        """The section within its cap, or within a smaller one; None when there is nothing to say."""
        return self.render_looked(source, self.look(source), cap)

    def render_looked(self, source: Source, seen: Any, cap: int | None = None) -> RenderedSection | None:
        """Renders the section for a caller that has already looked."""
        kept, layout, head = self.kept, self._layout, self._head
        if head is None:
            title = self._title(source)
            head = kept.head if kept.head.title == title else make_heading(title)
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
                raise _too_long_error(layout, layout.whole(source))
        self.kept = _CachedSection(seen, head, cap, made, drawn)
        return drawn


def _too_long_error(layout: SectionLayout[Any, Any], agent: str) -> BadInput:
    what = f"the {layout.name} of {agent} take more than {layout.cap} tokens"
    return BadInput(f"{what} and are never cut: shorten them and save the agent again")


def _lines_by_item(layout: SectionLayout[Any, Any]) -> Callable[[Any], RenderedLines | None]:
    """Lines of items that each keep what was written for them; what is oldest first moves on by one."""

    def write(items: tuple[Any, ...]) -> list[WrittenRow]:
        rows = layout.rows(items)
        lines = layout.text(rows).split("\n")
        if len(lines) != len(rows):
            lines = [layout.text((row,)) for row in rows]
        shapes = [line.encode("utf-8", "surrogatepass").translate(TOKEN_SHAPES) for line in lines]
        costs = [count_shape_pieces(shape) + 1 for shape in shapes]
        return list(zip(rows, lines, costs, map(encode_row, rows), strict=True))

    items: Callable[[Any], Any] = SlidingMap(write) if layout.oldest_first else _reuse_written_items(write)

    def lines(seen: Any) -> RenderedLines | None:
        if not seen:
            return join_lines(layout, ((), (), (), ())) if layout.bare else None
        rows, texts, costs, contents = zip(*items(seen), strict=True)
        return join_lines(layout, (rows, texts, costs, contents))

    return lines


def _reuse_written_items(write: Callable[[tuple[Any, ...]], list[WrittenRow]]) -> Callable[[Any], list[WrittenRow]]:
    """Writes the items that were not there the time before."""
    kept: dict[Any, WrittenRow] = {}

    def each(items: Any) -> list[WrittenRow]:
        nonlocal kept
        new = tuple([item for item in dict.fromkeys(items) if item not in kept])
        known = kept | dict(zip(new, write(new), strict=True)) if new else kept
        kept = {item: known[item] for item in items}
        return [known[item] for item in items]

    return each
