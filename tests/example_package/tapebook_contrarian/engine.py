"""Goes against a row of bars in one direction, and leaves when the row has ended."""

from tapebook.decision import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import RuleSettings, Signal, WholeBars, follow_signal, read_packet
from tapebook.domain.packet import Packet, PositionSide

from .streaks import streak_of


class ContrarianSettings(RuleSettings, frozen=True, kw_only=True, cache_hash=True):
    """How many bars make a row; the size of an order and its leverage are those of every rule."""

    bars: WholeBars = 3


SETTINGS = ContrarianSettings


class ContrarianEngine:
    """Sells after rises and buys after falls."""

    identity = ""

    def __init__(self, settings: ContrarianSettings) -> None:
        self._settings = settings

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens against a row that is long enough, closes once it has turned, holds otherwise."""
        reading = read_packet(packet)
        row = streak_of(reading.bars.closes)
        wants: PositionSide | None = None if abs(row) < self._settings.bars else "short" if row > 0 else "long"
        stays: tuple[PositionSide, ...] = ("short",) if row > 0 else ("long",) if row < 0 else ("long", "short")
        story = f"{abs(row)} bars in a row {'rose' if row > 0 else 'fell'}" if row else "the last bar did not move"
        return follow_signal(reading, Signal(story, wants, 0.6, stays), self._settings)


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ContrarianEngine(terms.settings_as(ContrarianSettings))
