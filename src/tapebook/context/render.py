"""Sections become text, each within its cap: the rows that do not fit are left out, and the heading says so.

The version is stored with every run; an old renderer is never changed, only joined by a new one.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from tapebook.context.budget import kept, line_cost
from tapebook.context.sections import Rows
from tapebook.domain.canonical import canonical
from tapebook.domain.packet import Section

RENDERER = 2

_ENCODER = msgspec.json.Encoder()


class Drawn(msgspec.Struct, frozen=True):
    """A section as it stands in the user message, the bytes of that text, what it costs, and its canonical bytes."""

    section: Section
    text: str
    encoded: bytes
    tokens: int
    content: bytes


class Lines(msgspec.Struct, frozen=True):
    """Rows as the message shows them: the line of each and what it costs; and all of them as one."""

    rows: Rows
    texts: tuple[str, ...]
    costs: tuple[int, ...]
    text: str
    tokens: int
    content: bytes


class Head(msgspec.Struct, frozen=True):
    """A heading as the message shows it, what it costs, and the canonical bytes of its title."""

    text: str
    tokens: int
    content: bytes


@lru_cache(maxsize=512)
def head_of(title: str, shown: int = 0, dropped: int = 0) -> Head:
    """The heading of a title, with how much was left out; cached, since most sections are always called the same."""
    text = f"## {title} ({shown} of {shown + dropped} shown)" if dropped else f"## {title}"
    return Head(text, line_cost(text), canonical(title))


def lines_of(rows: Rows, texts: tuple[str, ...], costs: tuple[int, ...]) -> Lines:
    """Rows, their lines and what these cost, put together."""
    # Rows are text alone, in which no float can be; without the brackets, which the section puts back.
    return Lines(rows, texts, costs, "\n".join(texts), sum(costs), _ENCODER.encode(rows)[1:-1])


def draw(section: Section, lines: Lines, *, room: int, oldest_first: bool = False) -> Drawn:
    """A section with those of its lines that fit into the room; `section` has all of them."""
    head = head_of(section.title)
    if head.tokens + lines.tokens > room:
        lines = _fitting(section.title, lines, room=room, oldest_first=oldest_first)
        dropped = len(section.rows) - len(lines.rows)
        section = msgspec.structs.replace(section, rows=lines.rows, dropped=dropped)
        head = head_of(section.title, len(lines.rows), dropped)
    text = f"{head.text}\n{lines.text}" if lines.rows else head.text
    columns, name = _named(section.columns, section.name)
    # The canonical bytes of the section, put together from those of its parts: fields stand in the order of names.
    parts = (columns, section.dropped, name, lines.content, head.content)
    content = b'{"columns":%b,"dropped":%d,"name":%b,"rows":[%b],"title":%b}' % parts
    return Drawn(section, text, text.encode(), head.tokens + lines.tokens, content)


def user_text(texts: Sequence[str]) -> str:
    """The whole user message."""
    return "\n\n".join(texts)


def _fitting(title: str, lines: Lines, *, room: int, oldest_first: bool) -> Lines:
    """The newest lines, or the first ones, that leave room for the heading."""
    total = len(lines.rows)
    # Counted as it looks when almost all is shown: the longest it can get.
    room -= line_cost(f"## {title} ({total} of {total} shown)")
    count = kept(reversed(lines.costs) if oldest_first else lines.costs, room)
    shown = slice(total - count, None) if oldest_first else slice(count)
    return lines_of(lines.rows[shown], lines.texts[shown], lines.costs[shown])


@lru_cache(maxsize=64)
def _named(columns: tuple[str, ...], name: str) -> tuple[bytes, bytes]:
    """Canonical bytes, the same in every packet."""
    return canonical(columns), canonical(name)
