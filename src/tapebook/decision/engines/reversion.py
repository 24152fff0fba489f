"""Fades extremes: goes against a close that stands far from the mean of the packet's closes, and leaves at the mean.

Far is counted in standard deviations of the same closes. The further, the surer, up to a point.
"""

import math
from typing import Annotated

from msgspec import Meta

from tapebook.decision.port import Engine, EngineTerms
from tapebook.decision.rule_engine import (
    RuleEngine,
    RuleSettings,
    Signal,
    WholeBars,
    abstain,
    side_target_e4,
    walk_side,
)
from tapebook.domain.packet import BarPrices

SomeDeviations = Annotated[float, Meta(gt=0, le=20, description="a number of deviations above 0, up to 20")]


class ReversionSettings(RuleSettings, frozen=True, kw_only=True, cache_hash=True):
    """How many bars make the mean, and how many deviations from it are an extreme."""

    bars: WholeBars = 40
    enter: SomeDeviations = 2.0


SETTINGS = ReversionSettings


class ReversionEngine(RuleEngine):
    """A mean and a band of deviations."""

    settings: ReversionSettings

    def bar_signal(self, bars: BarPrices) -> Signal:
        """Against an extreme, until the mean is reached."""
        count, enter = self.settings.bars, self.settings.enter
        if len(bars.closes_e8) < count:
            return abstain(f"fewer than {count} bars")
        away = _deviations(bars.closes_e8, count)
        side = walk_side(
            [("short" if each > enter else "long" if each < -enter else None, each < 0, each > 0) for each in away]
        )
        story = f"close is {away[-1]:+.1f} deviations from the mean of {count} bars"
        sure = min(0.9, max(0.0, 0.5 + 0.15 * (abs(away[-1]) - enter)))
        return Signal(story, side_target_e4(side), round(10_000 * sure))


def _deviations(closes: tuple[int, ...], count: int) -> list[float]:
    """How many standard deviations each close lies from the mean of the bars up to it."""
    total, squares = sum(closes[: count - 1]), sum([close * close for close in closes[: count - 1]])
    away, oldest = [], 0
    # The first close fills the window; from then on each takes the place of the oldest one.
    for new, leaving in zip(closes[count - 1 :], closes, strict=False):
        total += new - oldest
        squares += new * new - oldest * oldest
        oldest, spread = leaving, count * squares - total * total
        away.append((count * new - total) / math.sqrt(spread) if spread else 0.0)
    return away


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ReversionEngine(terms.settings_as(ReversionSettings))
