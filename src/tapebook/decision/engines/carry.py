"""Earns funding: takes the side that is paid when the hourly rate is far from zero, and leaves when it is not any more.

A positive rate is paid by longs to shorts. The threshold is set so that about a day of funding pays for
fees and spread of the round trip. A rate counts for two of its intervals: for two hours, or for as long as the
packet says that settlements are apart.
"""

from functools import lru_cache

from tapebook.decision.port import Engine, EngineAnswer, EngineTerms
from tapebook.decision.rule_engine import Facts, PositionSide, Signal, abstain, follow_signal, parse_number, read_packet
from tapebook.domain.packet import Packet

# Percent an hour. Entered well above the usual 0.00125, left well below the entry, so that it does not flicker.
ENTER_PCT, LEAVE_PCT = 0.005, 0.002
# Two settlements: an older rate says nothing of the next.
OLDEST_SECONDS = 7_200


class CarryEngine:
    """One rate and two thresholds."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """Opens on the side that is paid, closes when the pay is gone or has turned, holds otherwise."""
        reading = read_packet(packet)
        rate_text = reading.market.get("funding_rate_1h_pct")
        signal = _signal(rate_text) if rate_text else None
        if signal is None:
            return abstain(packet.symbol, "the funding rate is not known")
        age = parse_number(reading.market.get("funding_age_s"))
        if age is None or (age > OLDEST_SECONDS and age > OLDEST_SECONDS * _interval_hours(reading.market)):
            return abstain(packet.symbol, "the funding rate is too old to count on")
        return follow_signal(reading, signal)


@lru_cache(maxsize=256)
def _signal(rate_text: str) -> Signal | None:
    """What a rate says, None when it is no number; cached, since it stays for as long as it is the newest."""
    rate = parse_number(rate_text)
    if rate is None:
        return None
    wants: PositionSide | None = "short" if rate > ENTER_PCT else "long" if rate < -ENTER_PCT else None
    stays: tuple[PositionSide, ...] = ("short",) if rate >= LEAVE_PCT else ("long",) if rate <= -LEAVE_PCT else ()
    paid = "longs pay shorts" if rate > 0 else "shorts pay longs" if rate < 0 else "nobody pays"
    story = f"funding is {rate:.5f} % an hour: {paid}"
    return Signal(story, wants, min(0.9, 0.4 + 0.1 * abs(rate) / ENTER_PCT), stays)


def _interval_hours(market: Facts) -> float:
    """How far apart settlements are; an hour, where the packet does not say."""
    return parse_number(market.get("funding_interval_h")) or 1.0


def create(_terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return CarryEngine()
