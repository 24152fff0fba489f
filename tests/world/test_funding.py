"""Premium, funding and open interest."""

from statistics import correlation, fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.units import E8, HOUR
from tapebook.world.assets import asset_of
from tapebook.world.listings import HOURLY_CAP, INTEREST, Carry, PerpState, context_of, funding_of, hourly_rate

BTC, HYPE = asset_of("BTC"), asset_of("HYPE")
BASELINE = INTEREST / 8


@pytest.mark.parametrize(
    ("average_premium", "rate"),
    [
        (0.0, 0.0000125),
        (0.0006, 0.0000125),
        (-0.0004, 0.0000125),
        (0.0014, 0.0001125),
        (-0.0005, 0.0),
        (-0.0013, -0.0001),
        (1.0, 0.04),
        (-1.0, -0.04),
    ],
)
def test_the_formula(average_premium: float, rate: float) -> None:
    assert hourly_rate(average_premium) == pytest.approx(rate, abs=1e-12)


@given(st.floats(min_value=-10, max_value=10))
def test_the_rate_is_capped_and_on_the_side_of_the_premium(premium: float) -> None:
    rate = hourly_rate(premium)
    assert -HOURLY_CAP <= rate <= HOURLY_CAP
    if premium > 0.0006001:
        assert rate > BASELINE
    elif premium < -0.0004001:
        assert rate < BASELINE
    if premium < -0.0005001:
        assert rate < 0


def after_minutes(change: float, minutes: int = 300) -> list[PerpState]:
    """The standings of HYPE while its price moves by `change` every minute."""
    carry = Carry(HYPE, 9)
    standings = []
    for _ in range(minutes):
        carry.add_minute(change, 0.0)
        standings.append(carry.standing)
    return standings


def test_the_premium_follows_momentum() -> None:
    rising, falling = after_minutes(0.0003), after_minutes(-0.0003)
    assert rising[-1].premium > 0.0005 > -0.0005 > falling[-1].premium


def test_the_premium_comes_back_when_the_move_is_over() -> None:
    carry = Carry(HYPE, 9)
    for minute in range(1_200):
        carry.add_minute(0.0005 if minute < 120 else 0.0, 0.0)
    assert abs(carry.standing.premium) < 0.0015 < 0.0005 * 120


def test_the_average_is_of_the_hour_alone() -> None:
    standings = after_minutes(0.0001, 180)
    for hour in range(3):
        premiums = [standing.premium for standing in standings[hour * 60 : hour * 60 + 60]]
        assert standings[hour * 60 + 59].average_premium == pytest.approx(fmean(premiums))
        assert standings[hour * 60].average_premium == premiums[0]


def test_jumps_cut_open_interest() -> None:
    calm, shaken = Carry(BTC, 9), Carry(BTC, 9)
    calm.add_minute(0.01, 0.0)
    shaken.add_minute(0.01, 0.01)
    assert shaken.standing.open_interest_base < calm.standing.open_interest_base


def test_open_interest_stays_about_its_usual_size() -> None:
    sizes = [standing.open_interest_base / HYPE.open_interest_base for standing in after_minutes(0.0, 20_000)]
    assert 0.6 < min(sizes) < max(sizes) < 1.6


def test_the_oracle_is_parted_from_the_mark_by_the_premium() -> None:
    standing = PerpState(premium=0.002, average_premium=0.001, momentum=0.0, open_interest_base=1.0)
    context = context_of(BTC, standing, at=0, mid_e8=70_000 * E8)
    assert context.mark_e8 == 70_000 * E8
    assert context.oracle_e8 == 69_860 * E8
    assert (context.premium_e12, context.funding_e12) == (2_000_000_000, 62_500_000)


def test_what_is_settled_is_the_average_of_the_hour() -> None:
    standing = PerpState(premium=0.002, average_premium=-0.0013, momentum=0.0, open_interest_base=1.0)
    settled = funding_of(BTC, standing, at=HOUR)
    assert (settled.bucket_ts, settled.rate_e12, settled.premium_e12) == (HOUR, -100_000_000, -1_300_000_000)


def test_premium_and_momentum_go_together_over_time() -> None:
    carry, noise = Carry(HYPE, 9), Carry(HYPE, 10)
    standings = []
    for _ in range(5_000):
        noise.add_minute(0.0, 0.0)
        carry.add_minute(noise.standing.premium, 0.0)
        standings.append(carry.standing)
    assert correlation([each.momentum for each in standings], [each.premium for each in standings]) > 0.3
