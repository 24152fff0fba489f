"""Token budgets: how many rows fit, by the one estimator of ours."""

from collections.abc import Iterable
from functools import lru_cache
from string import ascii_letters

from tapebook.domain.tokens import PIECE, line_tokens, text_tokens, within

__all__ = [
    "MEMORY_CAP",
    "SHAPES",
    "kept",
    "line_cost",
    "line_tokens",
    "pieces",
    "shape_pieces",
    "text_tokens",
    "within",
]

MEMORY_CAP = 1_100
"""What recent activity, closed trades, open positions and lessons may take together, at any setting."""

# All digits are alike to the estimator, and all letters; in UTF-8 no other sign has a byte of theirs.
SHAPES = bytes.maketrans(b"123456789" + ascii_letters.encode(), b"0" * 9 + b"a" * 52)


def line_cost(line: str) -> int:
    """What `line_tokens` says; sooner, for the lines of a packet mostly differ from those before in their digits."""
    return pieces(line.encode("utf-8", "surrogatepass")) + 1


def pieces(encoded: bytes) -> int:
    """The estimate for a text in UTF-8, its breaks not counted."""
    return shape_pieces(encoded.translate(SHAPES))


@lru_cache(maxsize=8_192)
def shape_pieces(shape: bytes) -> int:
    """The estimate for a text as `SHAPES` translates it."""
    return len(PIECE.findall(shape.decode("utf-8", "surrogatepass")))


def kept(costs: Iterable[int], room: int) -> int:
    """How many of the first rows fit into the room."""
    count = 0
    for cost in costs:
        room -= cost
        if room < 0:
            break
        count += 1
    return count
