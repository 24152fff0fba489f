"""The breakout engine: with a close beyond the long channel, out beyond the short one on the other side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.decision.engines import breakout
from tapebook.decision.engines.breakout import BreakoutEngine, BreakoutSettings
from tapebook.decision.rule_engine import side_target_e4, walk_side
from tapebook.domain.packet import BarPrices, PositionSide
from tapebook.domain.run import Action
from tests.decision.engines.seen import FLAT, LONG, SHORT, Prices, proposed_by, seen

ENTER_BARS, LEAVE_BARS = BreakoutSettings().enter_bars, BreakoutSettings().leave_bars
# A wide channel of 90 to 110, narrow at its end: 97 to 103.
PAST: list[Prices] = [(110.0, 90.0, 100.0)] * (ENTER_BARS - LEAVE_BARS) + [(103.0, 97.0, 100.0)] * LEAVE_BARS


def decided(close: float, *, held: int = FLAT, past: list[Prices] = PAST) -> Action:
    """What the engine proposes when the newest bar closes there; its own high and low do not count."""
    return proposed_by(breakout, seen([*past, (1_000.0, 1.0, close)], held=held))


@pytest.mark.parametrize(
    ("close", "held", "kind", "side"),
    [
        (110.5, FLAT, "open", "long"),
        (110.0, FLAT, "hold", None),
        (89.5, FLAT, "open", "short"),
        (90.0, FLAT, "hold", None),
        (110.5, LONG, "hold", None),
        (96.5, LONG, "close", None),
        (103.5, SHORT, "close", None),
        (89.5, LONG, "open", "short"),
        (110.5, SHORT, "open", "long"),
    ],
)
def test_channels(close: float, held: int, kind: str, side: str | None) -> None:
    proposed = decided(close, held=held)
    assert (proposed.action, proposed.side) == (kind, side)


def test_it_stays_until_the_short_channel_is_left_on_the_other_side() -> None:
    broken: list[Prices] = [*PAST[1:], (112.0, 97.0, 111.0)]
    assert [decided(97.0, held=held, past=[PAST[0], *broken]).action for held in (FLAT, LONG)] == ["open", "hold"]
    assert decided(96.5, held=LONG, past=[PAST[0], *broken]).action == "close"


def test_the_further_the_surer() -> None:
    assert [decided(close).confidence_e4 for close in (111.0, 114.0, 500.0)] == [6_000, 7_500, 9_000]


def test_the_reason_has_the_figures_of_the_packet() -> None:
    assert decided(111.0).reason == f"close 111.00 is above the 90.000 to 110.00 of {ENTER_BARS} bars"


def test_a_channel_without_width_makes_nobody_sure() -> None:
    assert decided(100.1, past=[(100.0, 100.0, 100.0)] * ENTER_BARS).confidence_e4 == 5_500


def test_only_the_channel_counts() -> None:
    assert decided(111.0, past=[(500.0, 5.0, 100.0), *PAST]).side == "long"


@pytest.mark.parametrize("known", [0, 1, ENTER_BARS])
def test_too_few_bars_abstain(known: int) -> None:
    proposed = proposed_by(breakout, seen([(1.0, 1.0, 1.0)] * known))
    assert (proposed.action, proposed.confidence_e4) == ("hold", 0)
    assert proposed.reason == f"fewer than {ENTER_BARS + 1} bars"


@given(st.lists(st.tuples(*[st.integers(1, 200).map(float)] * 3), min_size=ENTER_BARS + 1, max_size=ENTER_BARS + 1))
def test_it_opens_beyond_the_channel_and_nowhere_else(prices: list[Prices]) -> None:
    before, close = prices[-ENTER_BARS - 1 : -1], prices[-1][2]
    over, under = close > max(high for high, _, _ in before), close < min(low for _, low, _ in before)
    proposed = proposed_by(breakout, seen(prices))
    assert (proposed.action == "open") == (over or under)
    assert proposed.side == ("long" if over else "short" if under else None)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)), min_size=6, max_size=20))
def test_its_side_is_that_of_a_walk_over_all_channels(prices: list[tuple[int, int, int]]) -> None:
    highs, lows, closes = zip(*prices, strict=True)
    steps: list[tuple[PositionSide | None, bool, bool]] = []
    for at in range(5, len(closes)):
        wants: PositionSide | None = "long" if closes[at] > max(highs[at - 5 : at]) else None
        wants = wants or ("short" if closes[at] < min(lows[at - 5 : at]) else None)
        steps.append((wants, closes[at] >= min(lows[at - 2 : at]), closes[at] <= max(highs[at - 2 : at])))
    signal = BreakoutEngine(BreakoutSettings(enter_bars=5, leave_bars=2)).bar_signal(BarPrices(highs, lows, closes))
    assert signal.target_e4 == side_target_e4(walk_side(steps))
