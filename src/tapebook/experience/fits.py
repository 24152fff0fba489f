"""A fit: how readings become vectors. It is a stored fact, read as of a sequence number and never fitted again."""

import math

import msgspec

FEWEST = 100
WINDOW = 2_000
NEAREST = 25
"""How many situations are looked at where nobody says otherwise."""
_GROWTH = 1.25


class Fit(msgspec.Struct, frozen=True):
    """How readings become vectors, and from which situations it was learned: numbers `first` to `last`.

    `far` is the squared distance to the nearest other that 99 of 100 of them did not exceed.
    """

    first: int
    last: int
    medians: tuple[int, ...]
    multipliers: tuple[int, ...]
    matrix: tuple[tuple[int, ...], ...]
    far: int


def refit_due(count: int, fit: Fit | None) -> bool:
    """Whether enough situations have ended: a hundred for the first fit, then a quarter more each time.

    Growing steps keep the cost of refitting in proportion to the number of outcomes.
    """
    return count >= max(FEWEST, math.ceil(_GROWTH * fit.last) if fit else 0)
