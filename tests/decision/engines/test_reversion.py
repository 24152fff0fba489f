"""The reversion engine: against extremes, out at the mean, and never without enough bars."""

from statistics import fmean, pstdev

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tapebook.decision.engines import reversion
from tapebook.decision.engines.reversion import ReversionSettings
from tapebook.domain.run import Action
from tests.decision.engines.seen import FLAT, LONG, SHORT, proposed_by, seen

BARS, ENTER = ReversionSettings().bars, ReversionSettings().enter


def decided(closes: list[float], *, held: int = FLAT) -> Action:
    """What the engine proposes on bars with these closes."""
    return proposed_by(reversion, seen([(close, close, close) for close in closes], held=held))


def ending(last: float) -> list[float]:
    """Closes that go to and fro around 100, and then one more."""
    return [99.0, 101.0] * (BARS // 2 - 1) + [100.0, last]


@pytest.mark.parametrize(
    ("last", "held", "kind", "side"),
    [
        (103.0, FLAT, "open", "short"),
        (97.0, FLAT, "open", "long"),
        (101.0, FLAT, "hold", None),
        (103.0, SHORT, "hold", None),
        (99.5, SHORT, "close", None),
        (100.5, LONG, "close", None),
        (103.0, LONG, "open", "short"),
        (97.0, SHORT, "open", "long"),
    ],
)
def test_band(last: float, held: int, kind: str, side: str | None) -> None:
    proposed = decided(ending(last), held=held)
    assert (proposed.action, proposed.side) == (kind, side)


def test_it_stays_from_an_extreme_to_the_mean_whatever_is_held() -> None:
    assert [decided([*ending(103.0), 101.0], held=held).action for held in (FLAT, SHORT, LONG)] == [
        "open",
        "hold",
        "open",
    ]
    assert decided([*ending(103.0), 101.0, 99.5], held=SHORT).action == "close"
    assert decided([*ending(103.0), 99.5, 101.0], held=FLAT).action == "hold"


@given(st.lists(st.floats(90, 110), min_size=BARS, max_size=BARS))
def test_it_opens_beyond_the_band_and_nowhere_else(closes: list[float]) -> None:
    shown = [round(close, 8) for close in closes][-BARS:]
    deviation = pstdev(shown)
    assume(deviation > 1e-6)
    away = (shown[-1] - fmean(shown)) / deviation
    assume(abs(abs(away) - ENTER) > 1e-6)
    proposed = decided(closes)
    assert (proposed.action == "open") == (abs(away) > ENTER)
    assert proposed.side == (None if abs(away) < ENTER else "short" if away > 0 else "long")


def test_the_further_the_surer() -> None:
    near, far, absurd = (decided(ending(last)).confidence_e4 for last in (102.5, 104.0, 1_000.0))
    assert 5_000 <= near < far < absurd == 9_000


def test_the_reason_has_the_figure() -> None:
    assert decided(ending(103.0)).reason == f"close is +2.7 deviations from the mean of {BARS} bars"


def test_too_few_bars_abstain() -> None:
    for closes in (ending(200.0)[1:], []):
        assert (decided(closes).action, decided(closes).confidence_e4) == ("hold", 0)


def test_a_price_that_does_not_move_is_at_its_mean() -> None:
    assert decided([100.0] * BARS).action == "hold"
    assert decided([100.0] * BARS, held=LONG).action == "close"
