"""Fades extremes: goes against a close that stands far from the mean of the packet's closes, and leaves at the mean.

Far is counted in standard deviations of the same closes. The further, the surer, up to a point.
"""

from functools import lru_cache
from statistics import fmean, pstdev

from tapebook.decision.port import Answer, Engine, EngineTerms
from tapebook.decision.reading import Side, read
from tapebook.decision.signal import Signal, abstain, follow
from tapebook.domain.packet import Packet

BARS = 40
ENTER = 2.0


class ReversionEngine:
    """A mean and a band of deviations."""

    identity = ""

    def decide(self, packet: Packet) -> Answer:
        """Opens against an extreme, closes at the mean, holds otherwise."""
        closes = read(packet).bars.closes[-BARS:]
        if len(closes) < BARS:
            return abstain(packet, f"fewer than {BARS} bars")
        away = _deviations(closes)
        wants: Side | None = "short" if away > ENTER else "long" if away < -ENTER else None
        stays: tuple[Side, ...] = ("short",) if away > 0 else ("long",) if away < 0 else ()
        story = f"close is {away:+.1f} deviations from the mean of {BARS} bars"
        return follow(packet, Signal(story, wants, min(0.9, 0.5 + 0.15 * (abs(away) - ENTER)), stays))


@lru_cache(maxsize=256)
def _deviations(closes: tuple[float, ...]) -> float:
    """Cached, since ticks come more often than bars end."""
    mean = fmean(closes)
    deviation = pstdev(closes, mean)
    return (closes[-1] - mean) / deviation if deviation else 0.0


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ReversionEngine()
