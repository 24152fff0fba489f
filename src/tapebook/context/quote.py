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
    seen = " ".join(visible(text).translate(QUOTES).split())[:most]
    tokens = most // CHARACTERS_PER_TOKEN
    # A token has a character at least, so that so few are never too many.
    return (seen if len(seen) <= tokens else within(seen, tokens)).rstrip()


@lru_cache(maxsize=4_096)
def symbol_text(symbol: str) -> str:
    """A symbol as lines show it: token names are given by whoever lists the token."""
    return plain(symbol, 24)
