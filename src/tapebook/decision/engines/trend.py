"""Follows the trend: two moving averages of the packet's closes, with a band against churning.

Long when the fast average stands above the slow one by more than the band, short when below by
more; out when the gap has fallen back inside the inner band. It sees the packet and nothing else.
"""

from functools import lru_cache

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import PacketBars, PositionSide, Signal, abstain, follow_signal, read_packet
from tapebook.domain.packet import Packet

FAST, SLOW = 8, 32
ENTER_BPS, LEAVE_BPS = 15.0, 4.0


class TrendEngine:
    """Two averages and a band."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens with the trend, closes when it has gone, holds otherwise."""
        reading = read_packet(packet)
        if len(reading.bars.closes) < SLOW:
            return abstain(packet.symbol, f"fewer than {SLOW} bars")
        return follow_signal(reading, _signal(reading.bars))


@lru_cache(maxsize=256)
def _signal(bars: PacketBars) -> Signal:
    """Cached, since ticks come more often than bars end."""
    gap = _gap_bps(bars.closes)
    wants: PositionSide | None = "long" if gap > ENTER_BPS else "short" if gap < -ENTER_BPS else None
    stays: tuple[PositionSide, ...] = ("long",) if gap >= LEAVE_BPS else ("short",) if gap <= -LEAVE_BPS else ()
    story = f"average of {FAST} bars is {gap:+.1f} bps from the average of {SLOW}"
    return Signal(story, wants, min(0.95, 0.5 + abs(gap) / 400), stays, leave_confidence=0.6)


def _gap_bps(closes: tuple[float, ...]) -> float:
    fast, slow = sum(closes[-FAST:]) / FAST, sum(closes[-SLOW:]) / SLOW
    return (fast / slow - 1) * 10_000 if slow else 0.0


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return TrendEngine()
