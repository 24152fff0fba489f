"""Sections become text, each within its cap: the rows that do not fit are left out, and the heading says so.

The version is stored with every run; an old renderer is never changed, only joined by a new one.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from tapebook.context.budget import kept, line_cost, pieces
from tapebook.context.sections import Rows
from tapebook.domain.packet import Section

RENDERER = 2

SHORT_TEXT = 512
"""Bytes of lines that are counted at once, rather than one by one."""

# For names and rows, which are text alone: no float can be in them.
_ENCODER = msgspec.json.Encoder()


class Drawn(msgspec.Struct, frozen=True):
    """A section as it stands in the user message, the bytes of that text, what it costs, and its canonical bytes."""

    section: Section
    text: str
    encoded: bytes
    tokens: int
    content: bytes


class Lines(msgspec.Struct, frozen=True):
    """Rows as the message shows them: the line of each, and all of them as one."""

    rows: Rows
    texts: Sequence[str]
    text: str
    encoded: bytes
    tokens: int
    content: bytes


class Head(msgspec.Struct, frozen=True):
    """A heading as the message shows it, what it costs, and the canonical bytes of its title."""

    title: str
    text: str
    encoded: bytes
    tokens: int
    content: bytes


def head_of(title: str, shown: int = 0, dropped: int = 0) -> Head:
    """The heading of a title, with how much was left out."""
    text = f"## {title} ({shown} of {shown + dropped} shown)" if dropped else f"## {title}"
    encoded = text.encode()
    return Head(title, text, encoded, pieces(encoded) + 1, _ENCODER.encode(title))


def lines_of(rows: Rows, texts: Sequence[str], *, tokens: int | None = None) -> Lines:
    """Rows and their lines, put together, and what these cost where it is not known yet."""
    text = "\n".join(texts)
    encoded = text.encode()
    if tokens is None:
        # No piece holds a break. A short text often looks like one before it, a long one has lines that do.
        short = len(encoded) <= SHORT_TEXT
        tokens = pieces(encoded) + len(texts) if short else sum([line_cost(line) for line in texts])
    # Without the brackets, which the section puts back.
    return Lines(rows, texts, text, encoded, tokens, _ENCODER.encode(rows)[1:-1])


def draw(section: Section, head: Head, lines: Lines, *, room: int, oldest_first: bool = False) -> Drawn:
    """A section with those of its lines that fit into the room; `section` has all of them."""
    if head.tokens + lines.tokens > room:
        lines = _fitting(section.title, lines, room=room, oldest_first=oldest_first)
        dropped = len(section.rows) - len(lines.rows)
        section = msgspec.structs.replace(section, rows=lines.rows, dropped=dropped)
        head = head_of(section.title, len(lines.rows), dropped)
    text, encoded = head.text, head.encoded
    if lines.rows:
        text, encoded = f"{text}\n{lines.text}", b"\n".join((encoded, lines.encoded))
    # The canonical bytes of the section, put together from those of its parts: fields stand in the order of names.
    opening = _opening(section.columns, section.dropped, section.name)
    content = b"".join((opening, lines.content, b'],"title":', head.content, b"}"))
    return Drawn(section, text, encoded, head.tokens + lines.tokens, content)


def user_text(texts: Sequence[str]) -> str:
    """The whole user message."""
    return "\n\n".join(texts)


def _fitting(title: str, lines: Lines, *, room: int, oldest_first: bool) -> Lines:
    """The newest lines, or the first ones, that leave room for the heading."""
    total = len(lines.rows)
    # Counted as it looks when almost all is shown: the longest it can get.
    room -= line_cost(f"## {title} ({total} of {total} shown)")
    costs = [line_cost(text) for text in lines.texts]
    count = kept(reversed(costs) if oldest_first else costs, room)
    shown = slice(total - count, None) if oldest_first else slice(count)
    return lines_of(lines.rows[shown], lines.texts[shown], tokens=sum(costs[shown]))


@lru_cache(maxsize=512)
def _opening(columns: tuple[str, ...], dropped: int, name: str) -> bytes:
    """The canonical bytes of a section up to its rows: the same in most packets."""
    return b'{"columns":%b,"dropped":%d,"name":%b,"rows":[' % (_ENCODER.encode(columns), dropped, _ENCODER.encode(name))
