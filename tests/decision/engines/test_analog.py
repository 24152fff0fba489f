"""The analog engine: with what similar moments left after costs, flat where that may be chance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.decision import EngineTerms
from tapebook.decision.engines import analog
from tapebook.domain.packet import AnalogFacts, Packet
from tapebook.domain.units import HOUR
from tests.decision.engines.seen import FLAT, LONG, SHORT, account, packet_of, proposed_by


def after(mean: float, half: float, *, held: int = FLAT, costs: float = 15.0) -> Packet:
    """A packet whose similar moments moved so much, with half an interval."""
    seen = AnalogFacts(mean, mean - half, mean + half, 14.2, horizon_ms=4 * HOUR, costs_bps=costs)
    return packet_of(facts=account(held, analog=seen))


def target(packet: Packet) -> int | None:
    engine = analog.create(EngineTerms())
    assert isinstance(engine, analog.AnalogEngine)
    return engine.signal(packet.facts).target_e4


@pytest.mark.parametrize(
    ("mean", "half", "wanted"),
    [
        (40.0, 20.0, 10_000),
        (-40.0, 20.0, -10_000),
        (25.0, 20.0, 5_000),
        (-25.0, 20.0, -5_000),
        (40.0, 50.0, 0),
        (12.0, 5.0, 0),
        (-12.0, 5.0, 0),
        (0.0, 5.0, 0),
    ],
)
def test_target_is_what_is_left_in_halves_of_the_interval(mean: float, half: float, wanted: int) -> None:
    assert [target(after(mean, half, held=held)) for held in (FLAT, LONG, SHORT)] == [wanted] * 3


@given(mean=st.floats(-500, 500), half=st.floats(0, 500), costs=st.floats(0, 100))
def test_it_never_goes_against_the_mean_nor_for_less_than_the_costs(mean: float, half: float, costs: float) -> None:
    wanted = target(after(mean, half, costs=costs))
    assert wanted is not None and -10_000 <= wanted <= 10_000
    if wanted:
        assert wanted * mean > 0 and abs(mean) > costs and abs(mean) > half


def test_without_anything_similar_it_has_no_voice() -> None:
    packet = packet_of(facts=account())
    assert target(packet) is None
    assert proposed_by(analog, packet).reason == "nothing like this was seen yet"


def test_the_reason_has_the_figures_of_the_packet() -> None:
    proposed = proposed_by(analog, after(40.0, 20.0))
    assert (proposed.action, proposed.side) == ("open", "long")
    assert proposed.reason == "after 14 independent moments like this: +40 bps in 4 h (95% +20 to +60), costs 15"
    assert proposed_by(analog, after(3.0, 20.0, held=LONG)).action == "close"
