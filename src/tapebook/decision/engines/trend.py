"""Follows the trend: two moving averages of the packet's closes, with a band against churning.

Long when the fast average stands above the slow one by more than the band, short when below by
more; out when the gap has fallen back inside the inner band. It sees the packet and nothing else.
"""

from tapebook.decision.answer import answer
from tapebook.decision.port import Engine
from tapebook.domain.packet import Packet

FAST, SLOW = 8, 32
ENTER_BPS, LEAVE_BPS = 15.0, 4.0
NOTIONAL_USD = 1_000.0


class TrendEngine:
    """Two averages and a band."""

    def decide(self, packet: Packet) -> str:
        """Opens with the trend, closes when it has gone, holds otherwise."""
        gap = _gap_bps(packet)
        held = _held_side(packet)
        if gap is None:
            return answer(packet, "hold", reason=f"fewer than {SLOW} bars")
        wanted = "long" if gap > ENTER_BPS else "short" if gap < -ENTER_BPS else None
        story = f"average of {FAST} bars is {gap:+.1f} bps from the average of {SLOW}"
        if wanted and wanted != held:
            confidence = min(0.95, 0.5 + abs(gap) / 400)
            order = {"side": wanted, "notional_usd": NOTIONAL_USD, "leverage": 2}
            return answer(packet, "open", reason=story, confidence=confidence, **order)
        if held and (gap < LEAVE_BPS if held == "long" else gap > -LEAVE_BPS):
            return answer(packet, "close", reason=f"trend is gone: {story}", confidence=0.6)
        return answer(packet, "hold", reason=story)


def _gap_bps(packet: Packet) -> float | None:
    bars = packet.section("bars")
    closes = [float(close) for close in bars.cells("close")] if bars else []
    if len(closes) < SLOW:
        return None
    fast, slow = sum(closes[-FAST:]) / FAST, sum(closes[-SLOW:]) / SLOW
    return (fast / slow - 1) * 10_000 if slow else 0.0


def _held_side(packet: Packet) -> str | None:
    held = packet.section("portfolio")
    side = held.get("position_side") if held else None
    return side if side in ("long", "short") else None


def create() -> Engine:
    """The adapter's entry point."""
    return TrendEngine()
