"""Follows breakouts: goes with a close beyond the channel of the highs and lows before it.

The way out is a shorter channel on the other side: a long leaves below the lowest low of the last
few bars, a short above their highest high.
"""

from functools import lru_cache

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import PacketBars, PositionSide, Signal, abstain, follow_signal, read_packet
from tapebook.domain.packet import Packet

ENTER_BARS, LEAVE_BARS = 30, 10


class BreakoutEngine:
    """Two channels."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens beyond the long channel, closes beyond the short one on the other side, holds otherwise."""
        reading = read_packet(packet)
        if len(reading.bars.closes) <= ENTER_BARS:
            return abstain(packet.symbol, f"fewer than {ENTER_BARS + 1} bars")
        return follow_signal(reading, _signal(reading.bars))


@lru_cache(maxsize=256)
def _signal(bars: PacketBars) -> Signal:
    """Cached, since ticks come more often than bars end."""
    highs, lows, close = bars.highs[-ENTER_BARS - 1 : -1], bars.lows[-ENTER_BARS - 1 : -1], bars.closes[-1]
    top, bottom = max(highs), min(lows)
    near_top, near_bottom = max(highs[-LEAVE_BARS:]), min(lows[-LEAVE_BARS:])
    wants: PositionSide | None = "long" if close > top else "short" if close < bottom else None
    rising: tuple[PositionSide, ...] = ("long",) if close >= near_bottom else ()
    falling: tuple[PositionSide, ...] = ("short",) if close <= near_top else ()
    beyond = max(close - top, bottom - close, 0.0)
    # A channel without width is left by any move; that alone is no reason to be sure.
    share = beyond / (top - bottom) if top > bottom else 0.0
    place = "above" if wants == "long" else "below" if wants == "short" else "inside"
    story = f"close {close:.8g} is {place} the {bottom:.8g} to {top:.8g} of {ENTER_BARS} bars"
    return Signal(story, wants, min(0.9, 0.55 + share), rising + falling, leave_confidence=0.6)


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return BreakoutEngine()
