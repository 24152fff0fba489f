"""Sections become text, each within its cap: the rows that do not fit are left out, and the heading says so.

1. A `SectionLayout` picks what it looks at (`look`), makes typed rows of that and of nothing else (`rows`), and
   writes one line per row (`text`); the budget sits between the two.
2. `render_rows` and `render_written` keep the rows that fit, shorten them if the layout says how, and write the text.

How sections look is theirs to say: a packet's version (`situation.py`) picks them, and all are rendered here, with the
same words and figures. Reasons, notes, snippets, titles and token names were written by models, strangers and
documents. They reach a packet through `plain_line` and `symbol_text`, which sanitise them (`domain/text.py`), and stand
in quotes or behind a fence that `plain_line` never lets them close.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from string import ascii_letters
from typing import Any, Generic, TypeVar

import msgspec

from tapebook.domain.packet import Section
from tapebook.domain.text import PIECE, QUOTES, sanitise, truncate, truncate_to_tokens
from tapebook.domain.units import E6, decimal_text, divide_half_even, short_price

MEMORY_CAP = 1_100
"""What recent activity, closed trades, open positions and lessons may take together, at any setting."""

# All digits are alike to the estimator, and all letters; in UTF-8 no other sign has a byte of theirs.
TOKEN_SHAPES = bytes.maketrans(b"123456789" + ascii_letters.encode(), b"0" * 9 + b"a" * 52)


def line_costs(text: str) -> list[int]:
    """What `line_tokens` says of each line; sooner, for lines of packets mostly differ in their digits alone."""
    costs: list[int] = []
    for shape in text.encode("utf-8", "surrogatepass").translate(TOKEN_SHAPES).split(b"\n"):
        costs.append(count_shape_pieces(shape) + 1)
    return costs


@lru_cache(maxsize=8_192)
def count_shape_pieces(shape: bytes) -> int:
    """The estimate for a text whose letters and digits are translated by `TOKEN_SHAPES`."""
    return len(PIECE.findall(shape.decode("utf-8", "surrogatepass")))


_BRACKET = re.compile(r"[()\[\]{}]")

# The number, with its signs, that a text ends with.
_NUMBER_AT_END = re.compile(r"[-+$€.,]*[0-9][0-9.,_%]*$")

LineFormatter = Callable[[str, int], str]
"""Makes one line of at most so many characters of a text from outside."""

SymbolFormatter = Callable[[str], str]
"""Makes a symbol fit to be shown."""

CHARACTERS_PER_TOKEN = 3
"""Ordinary words have four or five. What has fewer is cut, so that a line of signs takes no more room than prose."""


@lru_cache(maxsize=8_192)
def plain_line(text: str, most: int) -> str:
    """A text as one line of at most `most` characters, without quotes and without anything that is not seen."""
    # Cached, since rules give the same reasons in one packet after another.
    # Nobody reads a megabyte to show a line of it.
    seen = text[: 8 * most]
    if seen.isascii() and seen.isprintable():
        # All of `QUOTES` there are in ASCII; to look up each sign would take ten times as long.
        seen = seen.replace('"', "'").replace("`", "'")
    else:
        seen = sanitise(seen).translate(QUOTES)
    return truncate_between_words(" ".join(seen.split()), most)


def truncate_between_words(seen: str, most: int) -> str:
    """As much of a line as fits into so many characters, and into the tokens that prose of that length takes."""
    tokens = most // CHARACTERS_PER_TOKEN
    # A token has a character at least, so what is so short is never too long.
    if len(seen) <= tokens or (len(seen) <= most and sum(line_costs(seen)) <= tokens + 1):
        return seen
    if not tokens:
        return ""
    # The sign that there was more is a character and a token.
    return _truncate_at(seen, _room_for(seen, most - 1, max(tokens - 1, 0)))


def _room_for(seen: str, most: int, tokens: int) -> int:
    """How much of a line so many characters and tokens allow."""
    shown = min(len(seen), max(most, 0))
    # A token has a character at least, so that so few are never too many.
    return shown if shown <= tokens else len(truncate_to_tokens(seen[:shown], tokens))


def _truncate_at(seen: str, room: int) -> str:
    """The beginning of a line that leaves no number, word or bracket half said, with a sign that there was more."""
    end = room
    if not seen[room].isspace():
        # Without a blank to be cut at it is one long word: of that, letters may be parted, a number not.
        end = seen.rfind(" ", 0, room) + 1 or len(_NUMBER_AT_END.sub("", seen[:room]))
    # What stands in brackets is said whole or not at all, unless there is nothing else.
    before = min([begin for begin, close in _brackets(seen) if begin < end <= close], default=end)
    return f"{truncate(seen, before or end)}…"


def _brackets(seen: str) -> list[tuple[int, int]]:
    """Where each pair of brackets opens and closes."""
    found, opened = [], list[int]()
    for sign in _BRACKET.finditer(seen):
        if sign[0] in "([{":
            opened.append(sign.start())
        elif opened:
            found.append((opened.pop(), sign.start()))
    return found


@lru_cache(maxsize=4_096)
def symbol_text(symbol: str) -> str:
    """A symbol as lines show it: token names are given by whoever lists the token. A name is cut where it is long."""
    seen = " ".join(sanitise(symbol[:192]).translate(QUOTES).split())
    return truncate(seen, _room_for(seen, 24, 24 // CHARACTERS_PER_TOKEN))


_CENT = E6 // 100
_HALF_CENT = _CENT // 2
_CENTS = tuple(f".{cents:02d}" for cents in range(100))


@lru_cache(maxsize=1_024)
def price_text(price_e8: int) -> str:
    """A price with separators and no idle zeros: `65,200`, `3,420`, `3,420.1`, `0.012346`."""
    whole, _, part = short_price(price_e8).partition(".")
    part = part.rstrip("0")
    return f"{int(whole):,}.{part}" if part else f"{int(whole):,}"


def usd_text(amount_e6: int) -> str:
    """An amount to the cent, as a number: `1020.00`; not cached, for what is worth money moves with every mark."""
    # What `divide_half_even` does, written out.
    cents, rest = divmod(amount_e6, _CENT)
    if rest > _HALF_CENT or (rest == _HALF_CENT and cents % 2):
        cents += 1
    return f"{cents // 100}{_CENTS[cents % 100]}" if cents >= 0 else f"-{-cents // 100}{_CENTS[-cents % 100]}"


cached_usd_text = lru_cache(maxsize=1_024)(usd_text)
"""The text of an amount that does not move with the mark."""


def whole_usd_text(amount_e6: int) -> str:
    """An amount without cents: `$250`; not cached, for what is held moves with every mark."""
    return f"${divide_half_even(amount_e6, E6):,}"


@lru_cache(maxsize=1_024)
def signed_usd_text(amount_e6: int, digits: int = 2) -> str:
    """A result with its sign: `+$28.40`, `-$9.70`."""
    text = decimal_text(abs(amount_e6), E6, digits)
    return f"{'-' if amount_e6 < 0 else '+'}${text}"


@lru_cache(maxsize=1_024)
def extreme_usd_text(amount_e6: int) -> str:
    """How far a trade has been, without cents: `+$22`, `-$8`; what rounds to nothing has no sign."""
    text = signed_usd_text(amount_e6, 0)
    return "$0" if text[1:] == "$0" else text


def percent_text(part_e6: int, whole_e6: int, *, digits: int = 1) -> str:
    """A share with its sign: `+1.1%`; integers all the way."""
    text = decimal_text(abs(part_e6) * 100, abs(whole_e6), digits) if whole_e6 else f"{0:.{digits}f}"
    return f"{'-' if part_e6 < 0 else '+'}{text}%"


def three_digits_text(value: float) -> str:
    """A volume with three significant digits: `17700`, `12.5`, `0.000123`; in powers of ten when it is absurd."""
    # Plus zero: a zero has no sign, so that equal values have equal texts.
    text = f"{value + 0.0:.3g}"
    if "e" not in text or not 1e-9 < abs(value) < 1e15:
        return text
    return f"{Decimal(text):f}"


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

encode_rows = msgspec.json.Encoder().encode
"""The canonical bytes of names and rows, which are text alone: no float can be in them."""

WrittenRow = tuple[Row, str, int]
"""A row, its line, and what that costs."""


class RenderedSection(msgspec.Struct, frozen=True, gc=False):
    """A section as it stands in the user message, its text as UTF-8, what that costs, and its canonical bytes."""

    section: Section
    encoded: bytes
    tokens: int
    content: bytes

    @property
    def text(self) -> str:
        """The text."""
        return self.encoded.decode()


class SectionHeading(msgspec.Struct, frozen=True, gc=False):
    """A heading as the message shows it, as UTF-8, what it costs, and the canonical bytes from its title on."""

    title: str
    encoded: bytes
    tokens: int
    content: bytes

    @property
    def text(self) -> str:
        """The line."""
        return self.encoded.decode()


def make_heading(title: str, shown: int = 0, total: int = 0) -> SectionHeading:
    """The heading of a title, with how many of a total are shown, where that is to be said."""
    encoded = (f"## {title} ({shown} of {total} shown)" if total else f"## {title}").encode()
    cost = count_shape_pieces(encoded.translate(TOKEN_SHAPES)) + 1
    return SectionHeading(title, encoded, cost, b',"title":%b}' % encode_rows(title))


@lru_cache(maxsize=512)
def section_opening(columns: tuple[str, ...], name: str, dropped: int = 0) -> bytes:
    """The canonical bytes of a section up to its rows, since fields stand in the order of names: mostly the same."""
    return b'{"columns":%b,"dropped":%d,"name":%b,"rows":' % (encode_rows(columns), dropped, encode_rows(name))


def render_rows(layout: SectionLayout[Any, Any], head: SectionHeading, rows: Rows, room: int) -> RenderedSection:
    """A section with those of its rows that fit into the room."""
    text = layout.text(rows)
    encoded = b"%b\n%b" % (head.encoded, text.encode()) if rows else head.encoded
    # No piece holds a break. A short text often looks like one before it, a long one has lines that do.
    if len(encoded) <= SHORT_TEXT:
        tokens = count_shape_pieces(encoded.translate(TOKEN_SHAPES)) + len(rows) + 1
        if tokens <= room:
            section = Section(layout.name, head.title, layout.columns, rows)
            content = section_opening(layout.columns, layout.name) + encode_rows(rows) + head.content
            return RenderedSection(section, encoded, tokens, content)
    written = write_rows(layout, rows, text)
    shorten, left = layout.shorten, room - head.tokens
    if shorten is not None and sum([cost for _, _, cost in written]) > left:
        # The longest shape in which the rows that are wanted fit, or the shortest there is.
        first, last, wanted = 0, layout.shapes - 1, rows[: layout.wanted]
        while first < last:
            middle = (first + last) // 2
            if sum(line_costs(layout.text(tuple([shorten(row, middle) for row in wanted])))) <= left:
                last = middle
            else:
                first = middle + 1
        written = write_rows(layout, tuple([shorten(row, first) for row in rows]))
    return render_written(layout, head, written, room)


def write_rows(layout: SectionLayout[Any, Any], rows: Rows, text: str | None = None) -> list[WrittenRow]:
    """Rows with what is needed to put those of them together that fit; `text` is theirs, if it was written already."""
    text = layout.text(rows) if text is None else text
    lines, costs = text.split("\n"), line_costs(text)
    if len(lines) != len(rows):
        lines = [layout.text((row,)) for row in rows]
        costs = [sum(line_costs(line)) for line in lines]
    return list(zip(rows, lines, costs, strict=True))


def render_written(
    layout: SectionLayout[Any, Any], head: SectionHeading, written: Sequence[WrittenRow], room: int
) -> RenderedSection:
    """A section of the written rows that fit into the room: the newest, or the first ones."""
    rows, lines, costs = zip(*written, strict=True) if written else ((), (), ())
    tokens, dropped = head.tokens + sum(costs), 0
    if tokens > room:
        total, newest_last = len(rows), layout.oldest_first
        # Counted as the heading looks when almost all is shown: the longest it can get.
        left = room - make_heading(head.title, total, total).tokens
        count = bisect_right(list(accumulate(reversed(costs) if newest_last else costs)), left)
        shown = slice(total - count, None) if newest_last else slice(count)
        rows, lines, dropped = rows[shown], lines[shown], total - count
        head = make_heading(head.title, count, total)
        tokens = head.tokens + sum(costs[shown])
    encoded = b"%b\n%b" % (head.encoded, "\n".join(lines).encode()) if lines else head.encoded
    content = section_opening(layout.columns, layout.name, dropped) + encode_rows(rows) + head.content
    section = Section(layout.name, head.title, layout.columns, rows, dropped)
    return RenderedSection(section, encoded, tokens, content)
