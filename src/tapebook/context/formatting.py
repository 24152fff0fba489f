"""How a packet writes words from outside, money and statistics, and what its lines cost in tokens.

Reasons, notes, snippets, titles and token names were written by models, strangers and documents. They reach a
packet through `plain_line` and `symbol_text`, which sanitise them (`domain/text.py`), and stand in quotes or behind
a fence that `plain_line` never lets them close. Figures are cached, since caps, entries and extremes seldom change.
"""

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache
from string import ascii_letters

from tapebook.domain.money import E6, decimal_text, divide_half_even, short_price
from tapebook.domain.text import PIECE, QUOTES, line_tokens, sanitise, text_tokens, truncate, truncate_to_tokens

__all__ = [
    "MEMORY_CAP",
    "TOKEN_SHAPES",
    "count_fitting",
    "count_shape_pieces",
    "line_cost",
    "line_tokens",
    "text_tokens",
    "truncate_to_tokens",
]

MEMORY_CAP = 1_100
"""What recent activity, closed trades, open positions and lessons may take together, at any setting."""

# All digits are alike to the estimator, and all letters; in UTF-8 no other sign has a byte of theirs.
TOKEN_SHAPES = bytes.maketrans(b"123456789" + ascii_letters.encode(), b"0" * 9 + b"a" * 52)


def line_cost(line: str) -> int:
    """What `line_tokens` says; sooner, for the lines of a packet mostly differ from those before in their digits."""
    return count_shape_pieces(line.encode("utf-8", "surrogatepass").translate(TOKEN_SHAPES)) + 1


@lru_cache(maxsize=8_192)
def count_shape_pieces(shape: bytes) -> int:
    """The estimate for a text whose letters and digits are translated by `TOKEN_SHAPES`."""
    return len(PIECE.findall(shape.decode("utf-8", "surrogatepass")))


def count_fitting(costs: Iterable[int], room: int) -> int:
    """How many of the first rows fit into the room."""
    count = 0
    for cost in costs:
        room -= cost
        if room < 0:
            break
        count += 1
    return count


_BRACKET = re.compile(r"[()\[\]{}]")

# The number, with its signs, that a text ends with.
_NUMBER_AT_END = re.compile(r"[-+$€.,]*[0-9][0-9.,_%]*$")

LineFormatter = Callable[[str, int], str]
"""Makes one line of at most so many characters of a text from outside."""

SymbolFormatter = Callable[[str], str]
"""Makes a symbol fit to be shown."""

CHARACTERS_PER_TOKEN = 3
"""Ordinary words have four or five. What has fewer is cut, so that a line of signs takes no more room than prose."""


def plain_line(text: str, most: int) -> str:
    """A text as one line of at most `most` characters, without quotes and without anything that is not seen."""
    # Nobody reads a megabyte to show a line of it, nor remembers one.
    return _cached_plain_line(text[: 8 * most], most)


@lru_cache(maxsize=8_192)
def _cached_plain_line(text: str, most: int) -> str:
    return truncate_between_words(" ".join(sanitise(text).translate(QUOTES).split()), most)


def truncate_between_words(seen: str, most: int) -> str:
    """As much of a line as fits into so many characters, and into the tokens that prose of that length takes."""
    tokens = most // CHARACTERS_PER_TOKEN
    if _room_for(seen, most, tokens) == len(seen):
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
    # What `divide` does, written out.
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


def statistic_text(value: float, digits: int) -> str:
    """A statistic with declared digits; what rounds to zero has no sign, so that equal values have equal texts."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def three_digits_text(value: float) -> str:
    """A volume with three significant digits: `17700`, `12.5`, `0.000123`; in powers of ten when it is absurd."""
    # Plus zero: a zero has no sign, so that equal values have equal texts.
    text = f"{value + 0.0:.3g}"
    if "e" not in text or not 1e-9 < abs(value) < 1e15:
        return text
    return f"{Decimal(text):f}"
