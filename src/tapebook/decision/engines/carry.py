"""Earns funding: takes the side that is paid when the hourly rate is far from zero, and leaves when it is not any more.

A positive rate is paid by longs to shorts. The threshold is set so that about a day of funding pays for
fees and spread of the round trip. A rate counts for two of its intervals: for two hours, or for as long as the
packet says that settlements are apart.
"""

from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import (
    Facts,
    RuleSettings,
    Signal,
    abstain,
    follow_signal,
    parse_number,
    read_packet,
)
from tapebook.domain.packet import Packet, PositionSide

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


class CarryEngine:
    """One rate and two thresholds."""

    identity = ""

    def __init__(self, settings: CarrySettings) -> None:
        self._settings = settings

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens on the side that is paid, closes when the pay is gone or has turned, holds otherwise."""
        reading, settings = read_packet(packet), self._settings
        rate_text = reading.market.get("funding_rate_1h_pct")
        signal = _signal(rate_text, settings) if rate_text else None
        if signal is None:
            return abstain(packet.symbol, "the funding rate is not known")
        age = parse_number(reading.market.get("funding_age_s"))
        if age is None or (age > OLDEST_SECONDS and age > OLDEST_SECONDS * _interval_hours(reading.market)):
            return abstain(packet.symbol, "the funding rate is too old to count on")
        return follow_signal(reading, signal, settings)


@lru_cache(maxsize=256)
def _signal(rate_text: str, settings: CarrySettings) -> Signal | None:
    """What a rate says, None when it is no number; cached, since it stays for as long as it is the newest."""
    rate = parse_number(rate_text)
    if rate is None:
        return None
    enter, leave = settings.enter_pct, settings.leave_pct
    wants: PositionSide | None = "short" if rate > enter else "long" if rate < -enter else None
    stays: tuple[PositionSide, ...] = ("short",) if rate >= leave else ("long",) if rate <= -leave else ()
    paid = "longs pay shorts" if rate > 0 else "shorts pay longs" if rate < 0 else "nobody pays"
    story = f"funding is {rate:.5f} % an hour: {paid}"
    return Signal(story, wants, min(0.9, 0.4 + 0.1 * abs(rate) / enter), stays)


def _interval_hours(market: Facts) -> float:
    """How far apart settlements are; an hour, where the packet does not say."""
    return parse_number(market.get("funding_interval_h")) or 1.0


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return CarryEngine(terms.settings_as(CarrySettings))
