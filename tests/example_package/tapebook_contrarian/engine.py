"""Goes against a row of bars in one direction, and leaves when the row has ended."""

from tapebook.decision import Engine, EngineTerms
from tapebook.decision.rule_engine import RuleEngine, RuleSettings, Signal, WholeBars
from tapebook.domain.packet import BarPrices

from .streaks import streak_of


class ContrarianSettings(RuleSettings, frozen=True, kw_only=True, cache_hash=True):
    """How many bars make a row; the size of an order and its leverage are those of every rule."""

    bars: WholeBars = 3


SETTINGS = ContrarianSettings


class ContrarianEngine(RuleEngine):
    """Sells after rises and buys after falls."""

    settings: ContrarianSettings

    def bar_signal(self, bars: BarPrices) -> Signal:
        """Against a row that is long enough, until it has turned."""
        row = streak_of(bars.closes_e8)
        target = 0 if abs(row) < self.settings.bars else -10_000 if row > 0 else 10_000
        story = f"{abs(row)} bars in a row {'rose' if row > 0 else 'fell'}" if row else "the last bar did not move"
        return Signal(story, target, 6_000)


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ContrarianEngine(terms.settings_as(ContrarianSettings))
