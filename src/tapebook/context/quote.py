"""Words from outside as data: one short line that cannot pose as structure or leave its quotes.

Reasons, notes, snippets, titles and token names were written by models, strangers and documents.
They reach a packet through `plain` and `symbol_text`, which sanitise them (`domain/text.py`), and stand in quotes or
behind a fence that `plain` never lets them close.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from tapebook.context.budget import within
from tapebook.domain.text import QUOTES, cut, sanitise

_BRACKET = re.compile(r"[()\[\]{}]")

# The number, with its signs, that a text ends with.
_NUMBER_AT_END = re.compile(r"[-+$€.,]*[0-9][0-9.,_%]*$")

Words = Callable[[str, int], str]
"""Makes one line of at most so many characters of a text from outside."""

Name = Callable[[str], str]
"""Makes a symbol fit to be shown."""

CHARACTERS_PER_TOKEN = 3
"""Ordinary words have four or five. What has fewer is cut, so that a line of signs takes no more room than prose."""


def plain(text: str, most: int) -> str:
    """A text as one line of at most `most` characters, without quotes and without anything that is not seen."""
    # Nobody reads a megabyte to show a line of it, nor remembers one.
    return _plain(text[: 8 * most], most)


@lru_cache(maxsize=8_192)
def _plain(text: str, most: int) -> str:
    return cut_between_words(" ".join(sanitise(text).translate(QUOTES).split()), most)


def cut_between_words(seen: str, most: int) -> str:
    """As much of a line as fits into so many characters, and into the tokens that prose of that length takes."""
    tokens = most // CHARACTERS_PER_TOKEN
    if _room(seen, most, tokens) == len(seen):
        return seen
    if not tokens:
        return ""
    # The sign that there was more is a character and a token.
    return _cut(seen, _room(seen, most - 1, max(tokens - 1, 0)))


def _room(seen: str, most: int, tokens: int) -> int:
    """How much of a line so many characters and tokens allow."""
    shown = min(len(seen), max(most, 0))
    # A token has a character at least, so that so few are never too many.
    return shown if shown <= tokens else len(within(seen[:shown], tokens))


def _cut(seen: str, room: int) -> str:
    """The beginning of a line that leaves no number, word or bracket half said, with a sign that there was more."""
    end = room
    if not seen[room].isspace():
        # Without a blank to be cut at it is one long word: of that, letters may be parted, a number not.
        end = seen.rfind(" ", 0, room) + 1 or len(_NUMBER_AT_END.sub("", seen[:room]))
    # What stands in brackets is said whole or not at all, unless there is nothing else.
    before = min([begin for begin, close in _brackets(seen) if begin < end <= close], default=end)
    return f"{cut(seen, before or end)}…"


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
    return cut(seen, _room(seen, 24, 24 // CHARACTERS_PER_TOKEN))
