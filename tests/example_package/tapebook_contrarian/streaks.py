"""Counts bars in a row that closed in one direction."""

from collections.abc import Sequence
from itertools import pairwise


def streak_of(closes: Sequence[float]) -> int:
    """How many of the last bars rose in a row, negative for bars that fell; 0 when the last one did neither."""
    steps = [(new > old) - (new < old) for old, new in pairwise(closes)]
    if not steps or not steps[-1]:
        return 0
    length = next((back for back, step in enumerate(reversed(steps)) if step != steps[-1]), len(steps))
    return steps[-1] * length
