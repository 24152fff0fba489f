"""Follows breakouts: goes with a close beyond the channel of the highs and lows before it.

The way out is a shorter channel on the other side: a long leaves below the lowest low of the last
few bars, a short above their highest high.
"""

from tapebook.decision.port import Engine, EngineTerms
from tapebook.decision.rule_engine import (
    RuleEngine,
    RuleSettings,
    Signal,
    WholeBars,
    abstain,
    side_target_e4,
)
from tapebook.domain.packet import BarPrices, PositionSide
from tapebook.domain.units import short_price


class BreakoutSettings(RuleSettings, frozen=True, kw_only=True, cache_hash=True):
    """How many bars make the channel that is broken out of, and the shorter one that ends a position."""

    enter_bars: WholeBars = 30
    leave_bars: WholeBars = 10

    def __post_init__(self) -> None:
        if self.leave_bars > self.enter_bars:
            raise ValueError("leave_bars must be at most enter_bars")


SETTINGS = BreakoutSettings


class BreakoutEngine(RuleEngine):
    """Two channels."""

    settings: BreakoutSettings

    def bar_signal(self, bars: BarPrices) -> Signal:
        """With a close beyond the long channel, until one beyond the short channel on the other side."""
        enter = self.settings.enter_bars
        count = len(bars.closes_e8)
        if count <= enter:
            return abstain(f"fewer than {enter + 1} bars")
        side = self._walk_channels(bars)
        top, bottom = max(bars.highs_e8[-enter - 1 : -1]), min(bars.lows_e8[-enter - 1 : -1])
        close = bars.closes_e8[-1]
        place = "above" if close > top else "below" if close < bottom else "inside"
        prices = short_price(close), short_price(bottom), short_price(top)
        story = "close {} is {} the {} to {} of {} bars".format(prices[0], place, *prices[1:], enter)
        # A channel without width is left by any move; that alone is no reason to be sure.
        share = max(close - top, bottom - close, 0) / (top - bottom) if top > bottom else 0.0
        return Signal(story, side_target_e4(side), round(10_000 * min(0.9, 0.55 + share)))

    def _walk_channels(self, bars: BarPrices) -> PositionSide | None:
        """What `walk_side` would say; no channel is looked at that cannot change the side."""
        highs, lows, enter, leave = bars.highs_e8, bars.lows_e8, self.settings.enter_bars, self.settings.leave_bars
        side: PositionSide | None = None
        for at in range(enter, len(bars.closes_e8)):
            close = bars.closes_e8[at]
            if close > max(highs[at - enter : at]):
                side = "long"
            elif close < min(lows[at - enter : at]):
                side = "short"
            elif side == "long":
                side = "long" if close >= min(lows[at - leave : at]) else None
            elif side == "short":
                side = "short" if close <= max(highs[at - leave : at]) else None
        return side


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return BreakoutEngine(terms.settings_as(BreakoutSettings))
