"""The carry engine: on the side that is paid, out when the pay is gone, and blind to old rates."""

import pytest

from tapebook.context import assemble_packet
from tapebook.decision.engines import carry
from tapebook.decision.engines.carry import OLDEST_SECONDS, CarrySettings
from tapebook.decision.rule_engine import read_packet
from tapebook.domain.packet import Packet
from tests.context.situations import situation
from tests.decision.engines.seen import FLAT, LONG, SHORT, facts, packet_of, portfolio, proposed_by

ENTER_PCT, LEAVE_PCT = CarrySettings().enter_pct, CarrySettings().leave_pct


def paying(rate: float | str, *, held: int = FLAT, age: str = "60") -> Packet:
    """A packet with that hourly rate in percent."""
    text = rate if isinstance(rate, str) else f"{rate:.5f}"
    return packet_of(facts("market", funding_rate_1h_pct=text, funding_age_s=age), portfolio(held))


@pytest.mark.parametrize(
    ("rate", "held", "kind", "side"),
    [
        (ENTER_PCT + 1e-5, FLAT, "open", "short"),
        (ENTER_PCT, FLAT, "hold", None),
        (-ENTER_PCT - 1e-5, FLAT, "open", "long"),
        (-ENTER_PCT, FLAT, "hold", None),
        (0.0, FLAT, "hold", None),
        (ENTER_PCT * 2, SHORT, "hold", None),
        (LEAVE_PCT, SHORT, "hold", None),
        (LEAVE_PCT - 1e-5, SHORT, "close", None),
        (-LEAVE_PCT, LONG, "hold", None),
        (-LEAVE_PCT + 1e-5, LONG, "close", None),
        (LEAVE_PCT * 2, LONG, "close", None),
        (ENTER_PCT * 2, LONG, "open", "short"),
        (-ENTER_PCT * 2, SHORT, "open", "long"),
    ],
)
def test_thresholds(rate: float, held: int, kind: str, side: str | None) -> None:
    proposed = proposed_by(carry, paying(rate, held=held))
    assert (proposed.action, proposed.side) == (kind, side)


def test_the_reason_has_the_rate_of_the_packet() -> None:
    assert proposed_by(carry, paying(0.0123)).reason == "funding is 0.01230 % an hour: longs pay shorts"
    assert proposed_by(carry, paying(-0.0123)).reason == "funding is -0.01230 % an hour: shorts pay longs"


def test_the_higher_the_surer() -> None:
    assert [proposed_by(carry, paying(rate)).confidence_e4 for rate in (0.0055, 0.01, 1.0)] == [5_100, 6_000, 9_000]


def test_leaving_because_the_pay_is_gone_is_a_weak_word() -> None:
    assert proposed_by(carry, paying(0.0, held=SHORT)).confidence_e4 < 5_000


@pytest.mark.parametrize(
    "packet",
    [
        packet_of(portfolio(LONG)),
        packet_of(portfolio(LONG), facts("market", price="1")),
        packet_of(portfolio(LONG), facts("market", funding_rate_1h_pct="0.5")),
        paying("n/a", held=LONG),
        paying("nan", held=LONG),
        paying(1.0, held=LONG, age=str(OLDEST_SECONDS + 1)),
    ],
)
def test_a_rate_that_is_not_known_moves_nothing(packet: Packet) -> None:
    proposed = proposed_by(carry, packet)
    assert (proposed.action, proposed.confidence_e4) == ("hold", 0)


@pytest.mark.parametrize(
    ("hours", "age", "kind"),
    [("8", 28_800, "open"), ("8", 57_600, "open"), ("8", 57_601, "hold"), ("1", 7_201, "hold"), ("n/a", 7_201, "hold")],
)
def test_a_rate_of_eight_hours_counts_for_longer(hours: str, age: int, kind: str) -> None:
    rates = {"funding_rate_1h_pct": "0.01000", "funding_interval_h": hours, "funding_age_s": str(age)}
    assert proposed_by(carry, packet_of(facts("market", **rates), portfolio(FLAT))).action == kind


def test_it_reads_the_section_that_packets_have() -> None:
    packet = assemble_packet(situation())
    rate = read_packet(packet).market.get("funding_rate_1h_pct")
    assert rate is not None
    assert f"funding is {rate} % an hour" in proposed_by(carry, packet).reason
