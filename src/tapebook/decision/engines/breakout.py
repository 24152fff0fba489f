"""Follows breakouts: goes with a close beyond the channel of the highs and lows before it.

The way out is a shorter channel on the other side: a long leaves below the lowest low of the last
few bars, a short above their highest high.
"""

from functools import lru_cache

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import (
    PacketBars,
    RuleSettings,
    Signal,
    WholeBars,
    abstain,
    follow_signal,
    read_packet,
)
from tapebook.domain.packet import Packet, PositionSide


class BreakoutSettings(RuleSettings, frozen=True, kw_only=True, cache_hash=True):
    """How many bars make the channel that is broken out of, and the shorter one that ends a position."""

    enter_bars: WholeBars = 30
    leave_bars: WholeBars = 10

    def __post_init__(self) -> None:
        if self.leave_bars > self.enter_bars:
            raise ValueError("leave_bars must be at most enter_bars")


SETTINGS = BreakoutSettings


class BreakoutEngine:
    """Two channels."""

    identity = ""

    def __init__(self, settings: BreakoutSettings) -> None:
        self._settings = settings

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens beyond the long channel, closes beyond the short one on the other side, holds otherwise."""
        reading, settings = read_packet(packet), self._settings
        if len(reading.bars.closes) <= settings.enter_bars:
            return abstain(packet.symbol, f"fewer than {settings.enter_bars + 1} bars")
        return follow_signal(reading, _signal(reading.bars, settings), settings)


@lru_cache(maxsize=256)
def _signal(bars: PacketBars, settings: BreakoutSettings) -> Signal:
    """Cached, since ticks come more often than bars end."""
    first, leave = -settings.enter_bars - 1, settings.leave_bars
    highs, lows, close = bars.highs[first:-1], bars.lows[first:-1], bars.closes[-1]
    top, bottom = max(highs), min(lows)
    near_top, near_bottom = max(highs[-leave:]), min(lows[-leave:])
    wants: PositionSide | None = "long" if close > top else "short" if close < bottom else None
    rising: tuple[PositionSide, ...] = ("long",) if close >= near_bottom else ()
    falling: tuple[PositionSide, ...] = ("short",) if close <= near_top else ()
    beyond = max(close - top, bottom - close, 0.0)
    # A channel without width is left by any move; that alone is no reason to be sure.
    share = beyond / (top - bottom) if top > bottom else 0.0
    place = "above" if wants == "long" else "below" if wants == "short" else "inside"
    story = f"close {close:.8g} is {place} the {bottom:.8g} to {top:.8g} of {settings.enter_bars} bars"
    return Signal(story, wants, min(0.9, 0.55 + share), rising + falling, leave_confidence=0.6)


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return BreakoutEngine(terms.settings_as(BreakoutSettings))
