"""Words from outside as data: one short line that cannot pose as structure or leave its quotes.

Reasons, notes, snippets, titles and token names were written by models, strangers and documents.
They reach a packet through `plain` alone, and stand in quotes or behind a fence that `plain` never
lets them close.
"""

import re
from functools import lru_cache

from tapebook.context.budget import within

# Control characters, and what is not seen: line separators, zero widths, directions, soft hyphens, tags; and lone
# surrogates, which have no bytes. Written out, for what Python calls printable changes with its version.
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]+"
)
QUOTES = str.maketrans(dict.fromkeys('"`“”„‟«»″＂', "'"))

_BRACKET = re.compile(r"[()\[\]{}]")

# The number, with its signs, that a text ends with.
_NUMBER_AT_END = re.compile(r"[-+$€.,]*[0-9][0-9.,_%]*$")

CHARACTERS_PER_TOKEN = 3
"""Ordinary words have four or five. What has fewer is cut, so that a line of signs takes no more room than prose."""


def visible(text: str) -> str:
    """A text without what is not seen."""
    # Of the first 128 characters those that can be printed are just those that are seen.
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(" ", text)


def plain(text: str, most: int) -> str:
    """A text as one line of at most `most` characters, without quotes and without anything that is not seen."""
    # Nobody reads a megabyte to show a line of it, nor remembers one.
    return _plain(text[: 8 * most], most)


@lru_cache(maxsize=8_192)
def _plain(text: str, most: int) -> str:
    seen, tokens = " ".join(visible(text).translate(QUOTES).split()), most // CHARACTERS_PER_TOKEN
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
    return f"{seen[: before or end].rstrip()}…"


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
    seen = " ".join(visible(symbol[:192]).translate(QUOTES).split())[:24]
    return seen[: _room(seen, 24, 24 // CHARACTERS_PER_TOKEN)].rstrip()
