"""Fades extremes: goes against a close that stands far from the mean of the packet's closes, and leaves at the mean.

Far is counted in standard deviations of the same closes. The further, the surer, up to a point.
"""

import math
from functools import lru_cache

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import PacketBars, PositionSide, Signal, abstain, follow_signal, read_packet
from tapebook.domain.packet import Packet

# Long enough for a mean, short enough to follow the market.
BARS = 40
# Deviations from the mean that few bars reach by chance.
ENTER = 2.0


class ReversionEngine:
    """A mean and a band of deviations."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens against an extreme, closes at the mean, holds otherwise."""
        reading = read_packet(packet)
        if len(reading.bars.closes) < BARS:
            return abstain(packet.symbol, f"fewer than {BARS} bars")
        return follow_signal(reading, _signal(reading.bars))


@lru_cache(maxsize=256)
def _signal(bars: PacketBars) -> Signal:
    """Cached, since ticks come more often than bars end."""
    away = _deviations(bars.closes[-BARS:])
    wants: PositionSide | None = "short" if away > ENTER else "long" if away < -ENTER else None
    stays: tuple[PositionSide, ...] = ("short",) if away > 0 else ("long",) if away < 0 else ()
    story = f"close is {away:+.1f} deviations from the mean of {BARS} bars"
    return Signal(story, wants, min(0.9, 0.5 + 0.15 * (abs(away) - ENTER)), stays)


def _deviations(closes: tuple[float, ...]) -> float:
    mean = math.fsum(closes) / len(closes)
    deviation = math.sqrt(math.fsum([(close - mean) ** 2 for close in closes]) / len(closes))
    return (closes[-1] - mean) / deviation if deviation else 0.0


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ReversionEngine()
