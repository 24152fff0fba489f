"""Token budgets: one fixed estimator of ours, and how many rows fit.

The estimator counts pieces as tokenizers tend to cut them: up to eight letters, with the underscore
before them if there is one; up to three digits; or one other sign. A line break is one more. It is
meant to be a little high, above all to be the same for ever: a packet's bytes depend on it.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

_PIECE = re.compile(r"_?[A-Za-z]{1,8}|[0-9]{1,3}|[^\sA-Za-z0-9]")

MEMORY_CAP = 1_100
"""What recent activity, closed trades, open positions and lessons may take together, at any setting."""


@lru_cache(maxsize=20_000)
def line_tokens(line: str) -> int:
    """The estimate for one line and its break; cached, since most bars of a packet were in the one before."""
    return len(_PIECE.findall(line)) + 1


def text_tokens(text: str) -> int:
    """The estimate for a text."""
    return sum(line_tokens(line) for line in text.split("\n"))


def within(line: str, tokens: int) -> str:
    """The beginning of a line that takes at most so many tokens, its break not counted."""
    if line_tokens(line) <= tokens + 1:
        return line
    last = next(islice(_PIECE.finditer(line), tokens - 1, None)) if tokens > 0 else None
    return line[: last.end()] if last else ""


def kept(costs: Iterable[int], room: int) -> int:
    """How many of the first rows fit into the room."""
    count = 0
    for cost in costs:
        room -= cost
        if room < 0:
            break
        count += 1
    return count
