"""Sections become text, each within its cap: the rows that do not fit are left out, and the heading says so.

The version is stored with every run; an old renderer is never changed, only joined by a new one.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

from tapebook.context.budget import kept, row_tokens
from tapebook.context.sections import Row, Rows
from tapebook.domain.canonical import canonical
from tapebook.domain.packet import Section

RENDERER = 2


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


def heading(section: Section) -> str:
    """The section's title, with how much was left out."""
    if not section.dropped:
        return f"## {section.title}"
    return f"## {section.title} ({len(section.rows)} of {len(section.rows) + section.dropped} shown)"


def lines_of(rows: Rows, line: Callable[[Row], str]) -> Lines:
    """The lines of rows."""
    texts = tuple([line(row) for row in rows])
    return _joined(rows, texts, tuple(map(_cost, texts)))


def draw(section: Section, lines: Lines, *, room: int, oldest_first: bool = False) -> Drawn:
    """A section with those of its lines that fit into the room."""
    title = heading(section)
    tokens = _cost(title)
    if tokens + lines.tokens > room:
        # Counted as it looks when almost all is shown: the longest it can get.
        longest = _cost(f"{title} ({len(lines.rows)} of {len(lines.rows)} shown)")
        count = kept(reversed(lines.costs) if oldest_first else lines.costs, room - longest)
        dropped = len(lines.rows) - count
        shown = slice(dropped, None) if oldest_first else slice(count)
        lines = _joined(lines.rows[shown], lines.texts[shown], lines.costs[shown])
        section = msgspec.structs.replace(section, rows=lines.rows, dropped=dropped)
        title = heading(section)
        tokens = _cost(title)
    text = f"{title}\n{lines.text}" if lines.rows else title
    return Drawn(section, text, text.encode(), tokens + lines.tokens, _content(section, lines))


def user_text(texts: Sequence[str]) -> str:
    """The whole user message."""
    return "\n\n".join(texts)


@lru_cache(maxsize=20_000)
def _cost(line: str) -> int:
    """Cached, since most lines of a packet were in the one before."""
    return row_tokens(line)


def _joined(rows: Rows, texts: tuple[str, ...], costs: tuple[int, ...]) -> Lines:
    # Without the brackets: a section puts them back.
    return Lines(rows, texts, costs, "\n".join(texts), sum(costs), canonical(rows)[1:-1])


def _content(section: Section, lines: Lines) -> bytes:
    """The canonical bytes of a section, put together from those of its rows; fields stand in the order of names."""
    columns, name, title = _named(section.columns), _named(section.name), _named(section.title)
    parts = (columns, section.dropped, name, lines.content, title)
    return b'{"columns":%b,"dropped":%d,"name":%b,"rows":[%b],"title":%b}' % parts


@lru_cache(maxsize=512)
def _named(value: str | tuple[str, ...]) -> bytes:
    """Cached, since columns, names and most titles are the same in every packet."""
    return canonical(value)
