"""The path of a running total in five integers that merge: its end, its extremes, its worst fall and what followed."""

import msgspec


class Path(msgspec.Struct, frozen=True, omit_defaults=True):
    """A total that begins at 0. `high` and `low` are its extremes, the beginning included.

    `drawdown` is the deepest fall from a peak to a later trough; `regained` is how far the total has come up
    from that trough at the end (of equal falls, from the lowest trough).
    """

    total: int = 0
    high: int = 0
    low: int = 0
    drawdown: int = 0
    regained: int = 0


def step(amount: int) -> Path:
    """The path of one amount."""
    return Path(amount, max(amount, 0), min(amount, 0), max(-amount, 0), max(amount, 0))


def joined(first: Path, then: Path) -> Path:
    """One path after the other. The worst fall lies in the first, in the second, or from a peak in one to a trough
    in the other; each is known with what came after it, so nothing of the paths themselves is needed.
    """
    across = first.high - first.total - then.low
    drawdown, regained = max(
        (first.drawdown, first.regained + then.total),
        (across, then.total - then.low),
        (then.drawdown, then.regained),
    )
    high, low = max(first.high, first.total + then.high), min(first.low, first.total + then.low)
    return Path(first.total + then.total, high, low, drawdown, regained)
