"""Where an account falls short within a bar, a minute as a rule, and the prices it is closed at.

Prices move together, in equal steps, from where the bar opened to where it hurt most: a long to the
low, a short to the high. The first step at which what is held is worth less than it must at least be
is where it is closed. For a single position that is its liquidation price, to a millionth of the way
and never on the better side; a bar that opens beyond it is closed at its open.
"""

from collections.abc import Mapping

import msgspec

from tapebook.broker.margin import Margins
from tapebook.domain.position import Position

STEPS = 1_000_000


class Way(msgspec.Struct, frozen=True):
    """How a price goes through a bar, as far as it matters: from its first to its worst."""

    first_e8: int
    worst_e8: int

    def at(self, step: int) -> int:
        """The price after so many of all steps."""
        return self.first_e8 + (self.worst_e8 - self.first_e8) * step // STEPS


def liquidation_prices(
    backing_usd_e6: int, positions: Mapping[str, Position], ways: Mapping[str, Way], *, margins: Margins
) -> dict[str, int] | None:
    """The prices at which positions that share a backing are closed; None when it lasts through the bar."""
    worst = {symbol: ways[symbol].worst_e8 for symbol in positions}
    if not margins.falls_short(backing_usd_e6, positions, worst):
        return None

    def prices(step: int) -> dict[str, int]:
        return {symbol: ways[symbol].at(step) for symbol in positions}

    # On the way things only get worse: a maintenance rate is below one, so a loss weighs more than what it frees.
    lasts, short = -1, STEPS
    while short - lasts > 1:
        middle = (lasts + short) // 2
        falls = margins.falls_short(backing_usd_e6, positions, prices(middle))
        lasts, short = (lasts, middle) if falls else (middle, short)
    return prices(short)
