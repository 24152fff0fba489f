"""Fades extremes: goes against a close that stands far from the mean of the packet's closes, and leaves at the mean.

Far is counted in standard deviations of the same closes. The further, the surer, up to a point.
"""

import math
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

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

SomeDeviations = Annotated[float, Meta(gt=0, le=20, description="a number of deviations above 0, up to 20")]


class ReversionSettings(RuleSettings, frozen=True, kw_only=True, cache_hash=True):
    """How many bars make the mean, and how many deviations from it are an extreme."""

    bars: WholeBars = 40
    enter: SomeDeviations = 2.0


SETTINGS = ReversionSettings


class ReversionEngine:
    """A mean and a band of deviations."""

    identity = ""

    def __init__(self, settings: ReversionSettings) -> None:
        self._settings = settings

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens against an extreme, closes at the mean, holds otherwise."""
        reading, settings = read_packet(packet), self._settings
        if len(reading.bars.closes) < settings.bars:
            return abstain(packet.symbol, f"fewer than {settings.bars} bars")
        return follow_signal(reading, _signal(reading.bars, settings), settings)


@lru_cache(maxsize=256)
def _signal(bars: PacketBars, settings: ReversionSettings) -> Signal:
    """Cached, since ticks come more often than bars end."""
    enter = settings.enter
    away = _deviations(bars.closes[-settings.bars :])
    wants: PositionSide | None = "short" if away > enter else "long" if away < -enter else None
    stays: tuple[PositionSide, ...] = ("short",) if away > 0 else ("long",) if away < 0 else ()
    story = f"close is {away:+.1f} deviations from the mean of {settings.bars} bars"
    return Signal(story, wants, min(0.9, max(0.0, 0.5 + 0.15 * (abs(away) - enter))), stays)


def _deviations(closes: tuple[float, ...]) -> float:
    mean = math.fsum(closes) / len(closes)
    deviation = math.sqrt(math.fsum([(close - mean) ** 2 for close in closes]) / len(closes))
    return (closes[-1] - mean) / deviation if deviation else 0.0


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ReversionEngine(terms.settings_as(ReversionSettings))
