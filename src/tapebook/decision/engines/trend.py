"""Follows the trend: two moving averages of the packet's closes, with a band against churning.

Long when the fast average stands above the slow one by more than the band, short when below by
more; out when the gap has fallen back inside the inner band. It sees the bars of the packet and nothing else.
"""

from tapebook.decision.port import Engine, EngineTerms
from tapebook.decision.rule_engine import (
    RuleEngine,
    RuleSettings,
    SettingBps,
    Signal,
    WholeBars,
    abstain,
    side_target_e4,
    walk_side,
)
from tapebook.domain.packet import BarPrices


class TrendSettings(RuleSettings, frozen=True, kw_only=True, cache_hash=True):
    """How many bars the two averages have, and the outer and inner edge of the band between them."""

    fast: WholeBars = 8
    slow: WholeBars = 32
    enter_bps: SettingBps = 15.0
    leave_bps: SettingBps = 4.0

    def __post_init__(self) -> None:
        if self.fast >= self.slow or self.leave_bps > self.enter_bps:
            raise ValueError("fast must be below slow, and leave_bps at most enter_bps")


SETTINGS = TrendSettings


class TrendEngine(RuleEngine):
    """Two averages and a band."""

    settings: TrendSettings

    def bar_signal(self, bars: BarPrices) -> Signal:
        """With the trend once it has begun, until it has gone."""
        fast, slow = self.settings.fast, self.settings.slow
        enter, leave = self.settings.enter_bps, self.settings.leave_bps
        if len(bars.closes_e8) < slow:
            return abstain(f"fewer than {slow} bars")
        gaps = _gaps_bps(bars.closes_e8, fast, slow)
        side = walk_side(
            [
                ("long" if gap > enter else "short" if gap < -enter else None, gap >= leave, gap <= -leave)
                for gap in gaps
            ]
        )
        story = f"average of {fast} bars is {gaps[-1]:+.1f} bps from the average of {slow}"
        return Signal(story, side_target_e4(side), round(10_000 * min(0.95, 0.5 + abs(gaps[-1]) / 400)))


def _gaps_bps(closes: tuple[int, ...], fast: int, slow: int) -> list[float]:
    """How far the fast average stands from the slow one at every bar that has both."""
    quick, steady = sum(closes[slow - fast : slow]), sum(closes[:slow])
    gaps = [(quick * slow / (steady * fast) - 1) * 10_000 if steady else 0.0]
    for new, fast_old, slow_old in zip(closes[slow:], closes[slow - fast :], closes, strict=False):
        quick += new - fast_old
        steady += new - slow_old
        gaps.append((quick * slow / (steady * fast) - 1) * 10_000 if steady else 0.0)
    return gaps


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return TrendEngine(terms.settings_as(TrendSettings))
