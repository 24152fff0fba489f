"""Funding pressure: rates by hand, venues by their own interval, open interest against earlier contexts."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import AssetContext, FundingRate, PredictedFunding, SettledFunding
from tapebook.domain.units import DAY, E8, E12, HOUR, MINUTE
from tapebook.tape.features import (
    FundingPressure,
    VenueRate,
    funding_pressure,
    funding_regime,
    is_rate_in_force,
    settled_funding,
    settled_pressure,
)

AS_OF = 1_760_000_400_000
REGIMES = ["crowded_short", "short_leaning", "neutral", "long_leaning", "crowded_long"]


def e12(text: str) -> int:
    """A decimal text as a rate."""
    return int(Fraction(text) * E12)


def context(age: int = 0, *, funding: str = "0.0000125", interest: float = 1000.0) -> AssetContext:
    """What the exchange said `age` before now."""
    return AssetContext("BTC", AS_OF - age, e12(funding), e12("-0.0004"), interest, 70_000 * E8, 70_028 * E8)


def quote(venue: str, rate: str, hours: int | None, *, age: int = 0) -> PredictedFunding:
    """What a venue will charge next."""
    return PredictedFunding("BTC", AS_OF - age, venue, e12(rate), hours, AS_OF + HOUR)


def pressure(contexts: list[AssetContext], predicted: list[PredictedFunding] | None = None) -> FundingPressure:
    """The pressure now, which must exist."""
    found = funding_pressure(contexts, predicted or [], as_of=AS_OF)
    assert found is not None
    return found


def test_the_usual_interest_by_hand() -> None:
    found = pressure([context()])
    assert found.rate_1h_e12 == e12("0.0000125")
    assert found.rate_8h_e12 == e12("0.0001")
    assert found.rate_annual_e12 == e12("0.1095")
    assert found.premium_e12 == e12("-0.0004")
    assert (found.symbol, found.as_of, found.regime) == ("BTC", AS_OF, "neutral")


# Hourly rate; the regime of eight of them.
@pytest.mark.parametrize(
    ("hourly", "regime"),
    [
        ("0.0015", "crowded_long"),
        ("0.0000625", "crowded_long"),
        ("0.000062499999", "long_leaning"),
        ("0.000025", "long_leaning"),
        ("0.000024999999", "neutral"),
        ("0.0000125", "neutral"),
        ("0", "neutral"),
        ("-0.000024999999", "neutral"),
        ("-0.000025", "short_leaning"),
        ("-0.000062499999", "short_leaning"),
        ("-0.0000625", "crowded_short"),
        ("-0.0015", "crowded_short"),
    ],
)
def test_regime_of_a_rate(hourly: str, regime: str) -> None:
    assert pressure([context(funding=hourly)]).regime == regime


@given(st.integers(-(10**10), 10**10), st.integers(-(10**10), 10**10))
def test_a_higher_rate_is_never_a_shorter_regime_and_signs_mirror(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert REGIMES.index(funding_regime(low)) <= REGIMES.index(funding_regime(high))
    assert REGIMES.index(funding_regime(-one)) == 4 - REGIMES.index(funding_regime(one))


def test_each_venue_is_normalised_by_its_own_interval() -> None:
    quotes = [quote("BybitPerp", "0.0001", 8), quote("BinPerp", "0.00005", 4), quote("HlPerp", "0.0001606131", 1)]
    found = pressure([context(funding="0.0001606131")], quotes)
    assert found.venues == (
        VenueRate("BinPerp", e12("0.0001")),
        VenueRate("BybitPerp", e12("0.0001")),
        VenueRate("HlPerp", e12("0.0012849048")),
    )
    assert found.venue_spread_8h_e12 == e12("0.0011849048")
    assert found.above_other_venues_8h_e12 == e12("0.0011849048")


def test_the_others_are_averaged_and_the_spread_is_between_the_extremes() -> None:
    quotes = [quote("BinPerp", "-0.0003", 8), quote("BybitPerp", "0.0001", 8), quote("HlPerp", "0.0000125", 1)]
    found = pressure([context()], quotes)
    assert found.above_other_venues_8h_e12 == e12("0.0002")
    assert found.venue_spread_8h_e12 == e12("0.0004")


def test_two_venues_make_a_spread() -> None:
    found = pressure([context()], [quote("BinPerp", "0.0003", 8), quote("BybitPerp", "-0.0001", 8)])
    assert found.venue_spread_8h_e12 == e12("0.0004")
    assert found.above_other_venues_8h_e12 == 0


@pytest.mark.parametrize("hours", [None, 0, -8])
def test_a_venue_without_an_interval_is_left_out(hours: int | None) -> None:
    quotes = [quote("BinPerp", "0.5", hours), quote("HlPerp", "0.0000125", 1)]
    found = pressure([context()], quotes)
    assert [venue.venue for venue in found.venues] == ["HlPerp"]
    assert found.venue_spread_8h_e12 is None
    assert found.above_other_venues_8h_e12 is None


def test_the_newest_quote_of_a_venue_counts_and_stale_or_later_ones_do_not() -> None:
    quotes = [
        quote("BinPerp", "0.0002", 8, age=MINUTE),
        quote("BinPerp", "0.0004", 8, age=2 * MINUTE),
        quote("BinPerp", "0.0008", 8, age=-1),
        quote("BybitPerp", "0.0001", 8, age=16 * MINUTE),
    ]
    assert pressure([context()], quotes).venues == (VenueRate("BinPerp", e12("0.0002")),)


def test_a_newest_quote_without_interval_is_not_replaced_by_an_older_one() -> None:
    quotes = [quote("BinPerp", "0.0001", 8, age=MINUTE), quote("BinPerp", "0.0001", None)]
    assert pressure([context()], quotes).venues == ()


@given(st.integers(-(10**11), 10**11), st.sampled_from([1, 2, 4, 8, 24]))
def test_a_venue_rate_is_within_half_a_unit_of_the_exact_one(rate_e12: int, hours: int) -> None:
    found = pressure([context()], [PredictedFunding("BTC", AS_OF, "BinPerp", rate_e12, hours, AS_OF + HOUR)])
    assert abs(found.venues[0].rate_8h_e12 - Fraction(rate_e12 * 8, hours)) <= Fraction(1, 2)


def test_open_interest_against_an_hour_and_a_day_ago() -> None:
    contexts = [context(DAY, interest=800.0), context(HOUR, interest=1250.0), context(interest=1000.0)]
    found = pressure(contexts)
    assert found.open_interest_change_1h_pct == pytest.approx(-20.0)
    assert found.open_interest_change_24h_pct == pytest.approx(25.0)


# How old the earlier context is; which of the two changes it can serve.
@pytest.mark.parametrize(
    ("age", "hour", "day"),
    [
        (HOUR - 5 * MINUTE, True, False),
        (HOUR + 5 * MINUTE, True, False),
        (HOUR - 5 * MINUTE - 1, False, False),
        (HOUR + 5 * MINUTE + 1, False, False),
        (DAY - 30 * MINUTE, False, True),
        (DAY + 30 * MINUTE, False, True),
        (DAY - 30 * MINUTE - 1, False, False),
        (DAY + 30 * MINUTE + 1, False, False),
    ],
)
def test_the_earlier_context_must_be_near_enough(age: int, hour: bool, day: bool) -> None:
    found = pressure([context(age, interest=500.0), context(interest=1000.0)])
    assert found.open_interest_change_1h_pct == (pytest.approx(100.0) if hour else None)
    assert found.open_interest_change_24h_pct == (pytest.approx(100.0) if day else None)


def test_the_nearest_context_is_taken_and_the_older_of_two_equals() -> None:
    far, older, younger = (
        context(HOUR + 4 * MINUTE, interest=1.0),
        context(HOUR + MINUTE, interest=500.0),
        context(HOUR - MINUTE, interest=2000.0),
    )
    assert pressure([far, older, younger, context()]).open_interest_change_1h_pct == pytest.approx(100.0)
    assert pressure([younger, older, far, context()]).open_interest_change_1h_pct == pytest.approx(100.0)


def test_an_open_interest_of_zero_has_no_change() -> None:
    assert pressure([context(HOUR, interest=0.0), context()]).open_interest_change_1h_pct is None
    assert pressure([context(HOUR), context(interest=0.0)]).open_interest_change_1h_pct == -100.0


def test_the_hour_is_counted_from_the_newest_context() -> None:
    contexts = [context(HOUR + 10 * MINUTE, interest=500.0), context(10 * MINUTE, interest=1000.0)]
    assert pressure(contexts).open_interest_change_1h_pct == pytest.approx(100.0)


@pytest.mark.parametrize("ages", [[], [-1], [16 * MINUTE], [16 * MINUTE, -MINUTE]])
def test_without_a_fresh_context_there_is_no_pressure(ages: list[int]) -> None:
    quotes = [quote("BinPerp", "0.0001", 8)]
    assert funding_pressure([context(age) for age in ages], quotes, as_of=AS_OF) is None


def test_what_comes_later_changes_nothing() -> None:
    contexts, quotes = [context(HOUR), context()], [quote("BinPerp", "0.0001", 8)]
    later = [context(-1, funding="0.01", interest=9e9), context(-HOUR, interest=1.0)]
    more = funding_pressure([*contexts, *later], [*quotes, quote("HlPerp", "0.01", 1, age=-1)], as_of=AS_OF)
    assert more == pressure(contexts, quotes)


def settled_at(*hours: int) -> SettledFunding | None:
    """What rates settled at these hours say; the newest is 0.08 %."""
    rates = [FundingRate("BTC", hour * HOUR, e12("0.0004"), 0) for hour in hours[:-1]]
    return settled_funding([*rates, *(FundingRate("BTC", hour * HOUR, e12("0.0008"), 0) for hour in hours[-1:])])


@pytest.mark.parametrize(
    ("hours", "interval"),
    [
        pytest.param((1, 2, 3, 4), 1, id="hourly"),
        pytest.param((0, 8, 16, 24), 8, id="every eight hours"),
        pytest.param((0, 8), 8, id="two rows"),
        pytest.param((0, 24), 24, id="once a day"),
        pytest.param((0, 16, 24), 8, id="of two distances the shorter"),
        pytest.param((0, 8, 16, 32), 8, id="one missing at the end"),
        pytest.param((0, 8, 24, 32), 8, id="one missing between"),
        pytest.param((0, 1, 2, 4), 1, id="an hour missing"),
        pytest.param((0, 8, 16, 20), 8, id="a stray one"),
        pytest.param((0, 8, 16, 20, 24), 4, id="every four hours from now on"),
        pytest.param((0, 4, 8, 16, 24), 8, id="every eight hours from now on"),
    ],
)
def test_how_long_a_settled_rate_was_paid_for(hours: tuple[int, ...], interval: int) -> None:
    assert settled_at(*hours) == SettledFunding("BTC", hours[-1] * HOUR, e12("0.0008"), interval)


@pytest.mark.parametrize("hours", [(), (8,), (0, 25)])
def test_of_one_rate_nobody_knows_for_how_long_it_was_paid(hours: tuple[int, ...]) -> None:
    assert settled_at(*hours) is None


@pytest.mark.parametrize(("hours", "rate_1h"), [(1, "0.0008"), (4, "0.0002"), (8, "0.0001")])
def test_a_settled_rate_is_told_by_its_own_interval(hours: int, rate_1h: str) -> None:
    found = settled_pressure(SettledFunding("BTC", AS_OF - HOUR, e12("0.0008"), hours), as_of=AS_OF)
    assert found.rate_1h_e12 == e12(rate_1h)
    assert (found.rate_8h_e12, found.rate_annual_e12) == (8 * e12(rate_1h), 8_760 * e12(rate_1h))
    assert found.regime == funding_regime(found.rate_8h_e12) and found.premium_e12 is None


def test_a_settled_rate_counts_for_two_of_its_intervals() -> None:
    rate = SettledFunding("BTC", AS_OF, 1, 8)
    moments = (AS_OF - 1, AS_OF, AS_OF + 16 * HOUR, AS_OF + 16 * HOUR + 1)
    assert [is_rate_in_force(rate, as_of=moment) for moment in moments] == [False, True, True, False]
