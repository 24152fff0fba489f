"""Sections become text, each within its cap: the rows that do not fit are left out, and the heading says so.

How sections look is theirs to say: a packet's version (`versions.py`) picks them, and all are drawn here.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tapebook.context.budget import SHAPES, kept, line_cost, pieces, shape_pieces
from tapebook.context.sections import Layout, Row, Rows
from tapebook.domain.packet import Section

SHORT_TEXT = 640
"""Bytes of a section that are counted at once, rather than line by line."""

content_of = msgspec.json.Encoder().encode
"""The canonical bytes of names and rows, which are text alone: no float can be in them."""

Written = tuple[Rows, tuple[str, ...], tuple[int, ...], tuple[bytes, ...]]
"""Rows, their lines, what these cost, and the canonical bytes of the rows."""


class Drawn(msgspec.Struct, frozen=True, gc=False):
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


class Lines(msgspec.Struct, frozen=True, gc=False):
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


class Head(msgspec.Struct, frozen=True, gc=False):
    """A heading as the message shows it, what it costs, and the canonical bytes from its title on."""

    title: str
    text: str
    encoded: bytes
    tokens: int
    content: bytes


def head_of(title: str, shown: int = 0, dropped: int = 0) -> Head:
    """The heading of a title, with how much was left out."""
    text = f"## {title} ({shown} of {shown + dropped} shown)" if dropped else f"## {title}"
    encoded = text.encode()
    return Head(title, text, encoded, pieces(encoded) + 1, b',"title":%b}' % content_of(title))


@lru_cache(maxsize=512)
def opening_of(columns: tuple[str, ...], name: str, dropped: int = 0) -> bytes:
    """The canonical bytes of a section up to its rows, since fields stand in the order of names: mostly the same."""
    return b'{"columns":%b,"dropped":%d,"name":%b,"rows":' % (content_of(columns), dropped, content_of(name))


def lines_of(layout: Layout[Any, Any], written: Written, dropped: int = 0) -> Lines:
    """Rows and their lines, put together."""
    rows, texts, costs, contents = written
    text = "\n".join(texts)
    content = b"%b[%b]" % (opening_of(layout.columns, layout.name, dropped), b",".join(contents))
    return Lines(rows, texts, costs, contents, text, text.encode(), sum(costs), content)


def draw_rows(layout: Layout[Any, Any], head: Head, rows: Rows, room: int) -> Drawn:
    """A section with those of its rows that fit into the room."""
    text = f"{head.text}\n{layout.text(rows)}" if rows else head.text
    encoded = text.encode()
    # No piece holds a break. A short text often looks like one before it, a long one has lines that do.
    if len(encoded) <= SHORT_TEXT:
        tokens = shape_pieces(encoded.translate(SHAPES)) + len(rows) + 1
        if tokens <= room:
            section = Section(layout.name, head.title, layout.columns, rows)
            content = opening_of(layout.columns, layout.name) + content_of(rows) + head.content
            return Drawn(layout.name, section, text, encoded, tokens, content, b"")
    lines = _lines_of_rows(layout, rows)
    if layout.shorten is not None and head.tokens + lines.tokens > room:
        lines = _lines_of_rows(layout, _shortened(layout, layout.shorten, rows, room=room - head.tokens))
    return draw(layout, head, lines, room)


def _shortened(
    layout: Layout[Any, Any], shorten: Callable[[Row, int], Row], rows: Rows, *, room: int
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


def _lines_of_rows(layout: Layout[Any, Any], rows: Rows) -> Lines:
    texts = tuple([layout.text((row,)) for row in rows])
    return lines_of(layout, (rows, texts, tuple(map(line_cost, texts)), tuple(map(content_of, rows))))


def draw(layout: Layout[Any, Any], head: Head, lines: Lines, room: int) -> Drawn:
    """The same for rows whose lines are known."""
    tokens, dropped = head.tokens + lines.tokens, 0
    if tokens > room:
        dropped = len(lines.rows)
        lines = _fitting(layout, head.title, lines, room=room)
        dropped -= len(lines.rows)
        head = head_of(head.title, len(lines.rows), dropped)
        tokens = head.tokens + lines.tokens
    rows, opening = lines.rows, lines.content
    section = Section(layout.name, head.title, layout.columns, rows, dropped)
    text = f"{head.text}\n{lines.text}" if rows else head.text
    encoded = b"\n".join((head.encoded, lines.encoded)) if rows else head.encoded
    return Drawn(layout.name, section, text, encoded, tokens, opening + head.content, opening)


def user_text(texts: Sequence[str]) -> str:
    """The whole user message."""
    return "\n\n".join(texts)


def _fitting(layout: Layout[Any, Any], title: str, lines: Lines, *, room: int) -> Lines:
    """The newest lines, or the first ones, that leave room for the heading."""
    total, newest_last = len(lines.rows), layout.oldest_first
    # Counted as it looks when almost all is shown: the longest it can get.
    room -= line_cost(f"## {title} ({total} of {total} shown)")
    count = kept(reversed(lines.costs) if newest_last else lines.costs, room)
    shown = slice(total - count, None) if newest_last else slice(count)
    written = lines.rows[shown], lines.texts[shown], lines.costs[shown], lines.contents[shown]
    return lines_of(layout, written, total - count)
