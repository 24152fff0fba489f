"""The trend engine: with the averages, against churning, and never without enough bars."""

import pytest

from tapebook.decision import EngineTerms
from tapebook.decision.engines import trend
from tapebook.decision.engines.trend import TrendSettings
from tapebook.domain.run import Action
from tapebook.domain.units import E6
from tests.decision.engines.seen import FLAT, LONG, SHORT, action_in, proposed_by, seen

USUAL = TrendSettings()
FAST, SLOW, ENTER_BPS, LEAVE_BPS = USUAL.fast, USUAL.slow, USUAL.enter_bps, USUAL.leave_bps


def decided(closes: list[float], *, held: int = FLAT) -> Action:
    """What the engine proposes on bars with these closes."""
    return proposed_by(trend, seen([(close, close, close) for close in closes], held=held))


def gap(bps: float) -> list[float]:
    """Closes whose fast average stands that far from the slow one; five digits are what a packet shows."""
    # The newest FAST of SLOW closes are raised by x: fast/slow − 1 = x (1 − FAST/SLOW) / (1 + x FAST/SLOW).
    share, target = FAST / SLOW, bps / 10_000
    rise = target / (1 - share - target * share)
    return [100_000.0] * (SLOW - FAST) + [100_000.0 * (1 + rise)] * FAST


@pytest.mark.parametrize(
    ("bps", "held", "kind", "side"),
    [
        (ENTER_BPS + 1, FLAT, "open", "long"),
        (ENTER_BPS - 1, FLAT, "hold", None),
        (-ENTER_BPS - 1, FLAT, "open", "short"),
        (-ENTER_BPS + 1, FLAT, "hold", None),
        (0, FLAT, "hold", None),
        (ENTER_BPS + 1, LONG, "hold", None),
        (-ENTER_BPS - 1, SHORT, "hold", None),
        (LEAVE_BPS - 1, LONG, "close", None),
        (-LEAVE_BPS + 1, SHORT, "close", None),
        (-ENTER_BPS - 1, LONG, "open", "short"),
        (ENTER_BPS + 1, SHORT, "open", "long"),
        (-ENTER_BPS + 1, LONG, "close", None),
    ],
)
def test_band(bps: float, held: int, kind: str, side: str | None) -> None:
    proposed = decided(gap(bps), held=held)
    assert (proposed.action, proposed.side) == (kind, side)


def test_it_stays_with_a_trend_it_has_seen_begin_until_the_inner_band() -> None:
    rising = gap(ENTER_BPS + 5)
    # One bar after the other falls back; what is held makes no difference to what is wanted.
    fading = [*rising, *[rising[-1] * 0.999] * 3]
    assert -ENTER_BPS < _newest_gap(fading) < ENTER_BPS
    wanted = [decided(fading, held=held) for held in (FLAT, LONG, SHORT)]
    assert [each.action for each in wanted] == ["open", "hold", "open"]
    assert _newest_gap(fading) > LEAVE_BPS
    assert decided([*fading, *[rising[0]] * FAST], held=LONG).action == "close"


def _newest_gap(closes: list[float]) -> float:
    return (sum(closes[-FAST:]) / FAST / (sum(closes[-SLOW:]) / SLOW) - 1) * 10_000


def test_open_has_a_size_and_a_story() -> None:
    proposed = decided(gap(100))
    assert (proposed.notional_usd_e6, proposed.leverage) == (round(USUAL.notional_usd * E6), USUAL.leverage)
    assert proposed.confidence_e4 == 7_500
    assert proposed.reason == f"average of {FAST} bars is +100.0 bps from the average of {SLOW}"


def test_too_few_bars_hold() -> None:
    assert decided(gap(1_000)[1:]).action == "hold"
    assert decided(gap(1_000)[1:]).reason == f"fewer than {SLOW} bars"
    assert decided([]).action == "hold"


def test_only_the_newest_bars_count() -> None:
    assert decided([1.0] * 30 + gap(ENTER_BPS + 1)).side == "long"


def test_prices_of_nothing_open_nothing() -> None:
    assert decided([0.0] * SLOW).action == "hold"
    assert decided([0.0] * SLOW, held=LONG).action == "close"


def test_settings_decide_how_many_bars_count_and_how_much_is_traded() -> None:
    rising = seen([(price, price, price) for price in (100.0, 100.0, 101.0, 102.0)])
    assert proposed_by(trend, rising).reason == f"fewer than {SLOW} bars"
    settings = (("fast", "2"), ("leverage", "3"), ("notional_usd", "250.5"), ("slow", "4"))
    proposed = action_in(trend.create(EngineTerms(settings=settings)).decide(rising))
    assert (proposed.action, proposed.side, proposed.notional_usd_e6, proposed.leverage) == (
        "open",
        "long",
        250_500_000,
        3,
    )
    assert proposed.reason == "average of 2 bars is +74.4 bps from the average of 4"
    # Two engines with other settings share no answer.
    wide = action_in(trend.create(EngineTerms(settings=(*settings, ("enter_bps", "500")))).decide(rising))
    assert wide.action == "hold"
