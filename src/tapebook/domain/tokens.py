"""How long a text is to a model: one fixed estimator of ours, the same for ever.

It counts pieces as tokenizers tend to cut them: up to eight letters, with the underscore before them if there is one;
up to three digits; or one other sign. A line break is one more. It is meant to be a little high, above all to be the
same for ever: the bytes of a packet and the borders of a chunk depend on it.
"""

import re
from functools import lru_cache

_PIECE = r"_?[A-Za-z]{1,8}+|[0-9]{1,3}+|[^\sA-Za-z0-9]"
PIECE = re.compile(_PIECE)
"""One token as the estimator counts them."""


@lru_cache(maxsize=20_000)
def line_tokens(line: str) -> int:
    """The estimate for one line and its break; cached, since most bars of a packet were in the one before."""
    return len(PIECE.findall(line)) + 1


def text_tokens(text: str) -> int:
    """The estimate for a text."""
    return sum(line_tokens(line) for line in text.split("\n"))


def within(line: str, tokens: int) -> str:
    """The beginning of a line that takes at most so many tokens, its break not counted."""
    found = _beginning(tokens).match(line)
    return line if found is None or PIECE.search(line, found.end()) is None else line[: found.end()]


@lru_cache(maxsize=64)
def _beginning(tokens: int) -> re.Pattern[str]:
    """So many pieces with nothing but blanks before each; a piece gives none of its signs to the next one."""
    return re.compile(rf"(?:\s*+(?:{_PIECE})){{{tokens}}}+")
