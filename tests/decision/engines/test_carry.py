"""The carry engine: on the side that is paid, out when the pay is gone, and blind to old rates."""

import pytest

from tapebook.context import assemble_packet
from tapebook.decision import EngineTerms
from tapebook.decision.engines import carry
from tapebook.decision.engines.carry import OLDEST_SECONDS, CarrySettings
from tapebook.domain.packet import Packet
from tests.context.situations import situation
from tests.decision.engines.seen import FLAT, LONG, SHORT, account, packet_of, proposed_by

ENTER_PCT, LEAVE_PCT = CarrySettings().enter_pct, CarrySettings().leave_pct


def paying(rate: float | None, *, held: int = FLAT, age_s: int | None = 60, hours: int = 1) -> Packet:
    """A packet with that hourly rate in percent."""
    age = None if age_s is None else age_s * 1_000
    funding = None if rate is None else round(rate * 10**10)
    return packet_of(facts=account(held, funding_e12=funding, funding_age_ms=age, funding_hours=hours))


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


@pytest.mark.parametrize(("rate", "target"), [(0.0, 0), (LEAVE_PCT, -5_000), (-ENTER_PCT, 5_000), (0.01, -10_000)])
def test_between_the_thresholds_it_wants_half(rate: float, target: int) -> None:
    engine = carry.create(EngineTerms())
    assert isinstance(engine, carry.CarryEngine)
    assert [engine.signal(paying(rate, held=held).facts).target_e4 for held in (FLAT, LONG, SHORT)] == [target] * 3


def test_the_reason_has_the_rate_of_the_packet() -> None:
    assert proposed_by(carry, paying(0.0123)).reason == "funding is 0.01230 % an hour: longs pay shorts"
    assert proposed_by(carry, paying(-0.0123)).reason == "funding is -0.01230 % an hour: shorts pay longs"


def test_the_higher_the_surer() -> None:
    assert [proposed_by(carry, paying(rate)).confidence_e4 for rate in (0.0055, 0.01, 1.0)] == [5_100, 6_000, 9_000]


@pytest.mark.parametrize(
    "packet",
    [
        packet_of(),
        packet_of(facts=account(LONG)),
        paying(None, held=LONG),
        paying(0.5, held=LONG, age_s=None),
        paying(1.0, held=LONG, age_s=OLDEST_SECONDS + 1),
    ],
)
def test_a_rate_that_is_not_known_moves_nothing(packet: Packet) -> None:
    proposed = proposed_by(carry, packet)
    assert (proposed.action, proposed.confidence_e4) == ("hold", 0)


@pytest.mark.parametrize(
    ("hours", "age", "kind"), [(8, 28_800, "open"), (8, 57_600, "open"), (8, 57_601, "hold"), (1, 7_201, "hold")]
)
def test_a_rate_of_eight_hours_counts_for_longer(hours: int, age: int, kind: str) -> None:
    assert proposed_by(carry, paying(0.01, age_s=age, hours=hours)).action == kind


def test_its_reason_has_the_rate_that_packets_show() -> None:
    packet = assemble_packet(situation())
    shown = packet.section("market")
    assert shown is not None
    assert f"funding is {shown.get('funding_rate_1h_pct')} % an hour" in proposed_by(carry, packet).reason
