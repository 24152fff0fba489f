"""Goes against a row of bars in one direction, and leaves when the row has ended."""

from tapebook.decision import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import PositionSide, Signal, follow_signal, read_packet
from tapebook.domain.packet import Packet

from .streaks import streak_of

BARS = 3


class ContrarianEngine:
    """Sells after rises and buys after falls."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens against a row that is long enough, closes once it has turned, holds otherwise."""
        reading = read_packet(packet)
        row = streak_of(reading.bars.closes)
        wants: PositionSide | None = None if abs(row) < BARS else "short" if row > 0 else "long"
        stays: tuple[PositionSide, ...] = ("short",) if row > 0 else ("long",) if row < 0 else ("long", "short")
        story = f"{abs(row)} bars in a row {'rose' if row > 0 else 'fell'}" if row else "the last bar did not move"
        return follow_signal(reading, Signal(story, wants, 0.6, stays))


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ContrarianEngine()
