"""Follows the trend: two moving averages of the packet's closes, with a band against churning.

Long when the fast average stands above the slow one by more than the band, short when below by
more; out when the gap has fallen back inside the inner band. It sees the packet and nothing else.
"""

from functools import lru_cache

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import (
    PacketBars,
    RuleSettings,
    SettingBps,
    Signal,
    WholeBars,
    abstain,
    follow_signal,
    read_packet,
)
from tapebook.domain.packet import Packet, PositionSide


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


class TrendEngine:
    """Two averages and a band."""

    identity = ""

    def __init__(self, settings: TrendSettings) -> None:
        self._settings = settings

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens with the trend, closes when it has gone, holds otherwise."""
        reading, settings = read_packet(packet), self._settings
        if len(reading.bars.closes) < settings.slow:
            return abstain(packet.symbol, f"fewer than {settings.slow} bars")
        return follow_signal(reading, _signal(reading.bars, settings), settings)


@lru_cache(maxsize=256)
def _signal(bars: PacketBars, settings: TrendSettings) -> Signal:
    """Cached, since ticks come more often than bars end."""
    enter, leave = settings.enter_bps, settings.leave_bps
    gap = _gap_bps(bars.closes, settings.fast, settings.slow)
    wants: PositionSide | None = "long" if gap > enter else "short" if gap < -enter else None
    stays: tuple[PositionSide, ...] = ("long",) if gap >= leave else ("short",) if gap <= -leave else ()
    story = f"average of {settings.fast} bars is {gap:+.1f} bps from the average of {settings.slow}"
    return Signal(story, wants, min(0.95, 0.5 + abs(gap) / 400), stays, leave_confidence=0.6)


def _gap_bps(closes: tuple[float, ...], fast: int, slow: int) -> float:
    quick, steady = sum(closes[-fast:]) / fast, sum(closes[-slow:]) / slow
    return (quick / steady - 1) * 10_000 if steady else 0.0


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return TrendEngine(terms.settings_as(TrendSettings))
