"""Earns funding: takes the side that is paid when the hourly rate is far from zero, and leaves when it is not any more.

A positive rate is paid by longs to shorts. The threshold is set so that about a day of funding pays for
fees and spread of the round trip. A rate counts for two of its intervals: for two hours, or for as long as the
packet says that settlements are apart.
"""

from tapebook.decision.port import Answer, Engine, EngineTerms
from tapebook.decision.reading import Facts, Side, fact, number, read
from tapebook.decision.signal import Signal, abstain, follow
from tapebook.domain.packet import Packet

ENTER_PCT, LEAVE_PCT = 0.005, 0.002
OLDEST_SECONDS = 7_200


class CarryEngine:
    """One rate and two thresholds."""

    identity = ""

    def decide(self, packet: Packet) -> Answer:
        """Opens on the side that is paid, closes when the pay is gone or has turned, holds otherwise."""
        reading = read(packet)
        rate = number(fact(reading.market, "funding_rate_1h_pct"))
        if rate is None:
            return abstain(packet.symbol, "the funding rate is not known")
        age = number(fact(reading.market, "funding_age_s"))
        if age is None or (age > OLDEST_SECONDS and age > OLDEST_SECONDS * _interval_hours(reading.market)):
            return abstain(packet.symbol, "the funding rate is too old to count on")
        wants: Side | None = "short" if rate > ENTER_PCT else "long" if rate < -ENTER_PCT else None
        stays: tuple[Side, ...] = ("short",) if rate >= LEAVE_PCT else ("long",) if rate <= -LEAVE_PCT else ()
        paid = "longs pay shorts" if rate > 0 else "shorts pay longs" if rate < 0 else "nobody pays"
        story = f"funding is {rate:.5f} % an hour: {paid}"
        return follow(reading, Signal(story, wants, min(0.9, 0.4 + 0.1 * abs(rate) / ENTER_PCT), stays))


def _interval_hours(market: Facts) -> float:
    """How far apart settlements are; an hour, where the packet does not say."""
    return number(fact(market, "funding_interval_h")) or 1.0


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return CarryEngine()
