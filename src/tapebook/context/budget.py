"""Token budgets: how many rows fit, by the one estimator of ours."""

from collections.abc import Iterable
from functools import lru_cache

from tapebook.domain.tokens import PIECE, line_tokens, text_tokens, within

__all__ = ["MEMORY_CAP", "kept", "line_cost", "line_tokens", "text_tokens", "within"]

MEMORY_CAP = 1_100
"""What recent activity, closed trades, open positions and lessons may take together, at any setting."""

SHORT_LINE = 36
"""Characters of a line that is counted sooner than its words are looked up."""


@lru_cache(maxsize=8_192)
def line_cost(line: str) -> int:
    """What `line_tokens` says; sooner, for most lines of a packet were in the one before, or most of their words."""
    if len(line) <= SHORT_LINE:
        return len(PIECE.findall(line)) + 1
    # No piece holds a space, so a line is the sum of its words.
    return sum(map(_word_tokens, line.split())) + 1


@lru_cache(maxsize=8_192)
def _word_tokens(word: str) -> int:
    return len(PIECE.findall(word))


def kept(costs: Iterable[int], room: int) -> int:
    """How many of the first rows fit into the room."""
    count = 0
    for cost in costs:
        room -= cost
        if room < 0:
            break
        count += 1
    return count
