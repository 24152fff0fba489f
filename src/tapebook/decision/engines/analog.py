"""Goes with what the market did after situations like this one, where that tells itself from chance and from costs.

The packet's facts have the mean move after the most similar moments of the past, its 95 % interval by the number of
independent ones, and what a round trip costs. The engine is flat while the interval holds zero or the mean does not
pay the costs. Beyond them the target grows with what is left, measured in halves of the interval.
"""

from tapebook.decision.port import Engine, EngineTerms
from tapebook.decision.rule_engine import RuleEngine, RuleSettings, Signal, abstain
from tapebook.domain.cache import LastCall
from tapebook.domain.packet import AnalogFacts, DecisionFacts
from tapebook.domain.targets import FULL_E4
from tapebook.domain.units import HOUR

SETTINGS = RuleSettings


class AnalogEngine(RuleEngine):
    """A mean, its interval, and the costs."""

    def __init__(self, settings: RuleSettings) -> None:
        super().__init__(settings)
        # A cache: what followed similar moments stays for half an hour.
        self._analog_signal = LastCall(_signal_of_analog)

    def signal(self, facts: DecisionFacts) -> Signal:
        """The side on which similar moments left more than they cost."""
        return abstain("nothing like this was seen yet") if facts.analog is None else self._analog_signal(facts.analog)


def _signal_of_analog(seen: AnalogFacts) -> Signal:
    hours = seen.horizon_ms // HOUR
    story = (
        f"after {seen.n:.0f} independent moments like this: {seen.mean_bps:+.0f} bps in {hours} h "
        f"(95% {seen.low_bps:+.0f} to {seen.high_bps:+.0f}), costs {seen.costs_bps:.0f}"
    )
    left, half = abs(seen.mean_bps) - seen.costs_bps, (seen.high_bps - seen.low_bps) / 2
    if seen.low_bps <= 0 <= seen.high_bps or left <= 0:
        return Signal(story, 0)
    share = min(1.0, left / half) if half > 0 else 1.0
    target = round(FULL_E4 * share)
    return Signal(story, target if seen.mean_bps > 0 else -target, round(FULL_E4 * min(0.9, 0.5 + share / 2)))


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return AnalogEngine(terms.settings_as(RuleSettings))
