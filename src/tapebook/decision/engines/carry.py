"""Earns funding: takes the side that is paid when the hourly rate is far from zero, and leaves when it is not any more.

A positive rate is paid by longs to shorts. The threshold is set so that about a day of funding pays for
fees and spread of the round trip. A rate counts for two of its intervals: for two hours, or for as long as the
packet says that settlements are apart.
"""

from typing import Annotated

from msgspec import Meta

from tapebook.decision.port import Engine, EngineTerms
from tapebook.decision.rule_engine import RuleEngine, RuleSettings, Signal, abstain
from tapebook.domain.cache import LastCall
from tapebook.domain.packet import DecisionFacts
from tapebook.domain.targets import FULL_E4
from tapebook.domain.units import E12, SECOND, decimal_text

OLDEST_SECONDS = 7_200
HourlyPct = Annotated[float, Meta(gt=0, le=100, description="a number of percent an hour above 0, up to 100")]


class CarrySettings(RuleSettings, frozen=True, kw_only=True, cache_hash=True):
    """The hourly rate from which a side is taken, and the one below which it is left."""

    enter_pct: HourlyPct = 0.005
    leave_pct: HourlyPct = 0.002

    def __post_init__(self) -> None:
        if self.leave_pct > self.enter_pct:
            raise ValueError("leave_pct must be at most enter_pct")


SETTINGS = CarrySettings


class CarryEngine(RuleEngine):
    """One rate and two thresholds."""

    settings: CarrySettings

    def __init__(self, settings: CarrySettings) -> None:
        super().__init__(settings)
        # A cache: a rate stays for hours.
        self._rate_signal = LastCall(self._signal_of_rate)

    def signal(self, facts: DecisionFacts) -> Signal:
        """The side that is paid: all of it beyond the outer threshold, half of it between the two."""
        rate, age = facts.funding_e12, facts.funding_age_ms
        if rate is None:
            return abstain("the funding rate is not known")
        if age is None or age > OLDEST_SECONDS * SECOND * max(1, facts.funding_hours):
            return abstain("the funding rate is too old to count on")
        return self._rate_signal(rate)

    def _signal_of_rate(self, rate: int) -> Signal:
        percent, enter = abs(rate) * 100 / E12, self.settings.enter_pct
        # Whether somebody who came at the outer threshold is still there cannot be seen in one rate: half of it stays.
        strength = FULL_E4 if percent > enter else FULL_E4 // 2 if percent >= self.settings.leave_pct else 0
        paid = "longs pay shorts" if rate > 0 else "shorts pay longs" if rate < 0 else "nobody pays"
        story = f"funding is {decimal_text(rate * 100, E12, 5)} % an hour: {paid}"
        sure = min(0.9, 0.4 + 0.1 * percent / enter)
        return Signal(story, -strength if rate > 0 else strength, round(10_000 * sure))


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return CarryEngine(terms.settings_as(CarrySettings))
