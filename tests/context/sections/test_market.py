"""Market: what is known, in declared digits and with its age; what is not known is left out."""

from tapebook.context import market_sections as section_of
from tapebook.context.situation import Feature, Market
from tapebook.domain.market import AssetContext, Liquidity, Mid
from tapebook.domain.packet import Section
from tapebook.domain.units import E8, MINUTE
from tests.context.situations import NOW, market

PRESSURE = (
    *(("aboveOtherVenues8h", "0.0000500000"), ("fundingRate1h", "0.0000125000"), ("fundingRate8h", "0.0001000000")),
    *(("openInterestChange1hPct", "4.10"), ("premium", "0.0004"), ("regime", "crowded_long")),
)


def built(found: Market) -> Section:
    """The section of a market that has something to say."""
    section = section_of.MARKET_SECTION.section(found)
    assert section is not None
    return section


def test_every_value_in_its_digits() -> None:
    section = built(market())
    assert section.title == "Market: BTC"
    assert section.rows == (
        ("price", "65900"),
        ("price_age_s", "3"),
        ("spread_bps", "1.25"),
        ("depth_usd_0.1pct", "1000000"),
        ("depth_usd_1pct", "3000000"),
        ("imbalance", "-0.25"),
        ("book_age_s", "60"),
        ("funding_rate_1h_pct", "0.00125"),
        ("premium_pct", "-0.0003"),
        ("open_interest", "1234"),
        ("funding_age_s", "60"),
        ("fundingPressure", "fundingRate8h=0.0001000000 regime=crowded_long age_s=120"),
    )
    assert section_of.MARKET_SECTION.text(section.rows[:1]) == "- price: 65900"


def test_features_stand_in_their_order_with_chosen_figures_and_their_age() -> None:
    features = (
        Feature("liquidityProfile", NOW - MINUTE, (("booksUsed", "288"), ("regime", "thin"), ("spreadBps", "1.2"))),
        Feature("fundingPressure", NOW - 5 * MINUTE, PRESSURE),
        Feature("volatilityProfile", NOW, (("realizedVol1h", "0.034000"), ("regime", "high"))),
        Feature("positioningPressure", NOW, (("confidence", "0.6"), ("direction", "long_pressure"), ("score", "0.7"))),
    )
    section = built(market(mid=None, liquidity=None, context=None, features=features))
    assert section.rows == (
        ("liquidityProfile", "booksUsed=288 regime=thin age_s=60"),
        (
            "fundingPressure",
            "fundingRate8h=0.0001000000 aboveOtherVenues8h=0.0000500000 openInterestChange1hPct=4.10 "
            "regime=crowded_long age_s=300",
        ),
        ("volatilityProfile", "realizedVol1h=0.034000 regime=high age_s=0"),
        ("positioningPressure", "direction=long_pressure score=0.7 confidence=0.6 age_s=0"),
    )


def test_what_is_not_known_is_left_out() -> None:
    section = built(market(liquidity=None, context=None, features=()))
    assert [name for name, _ in section.rows] == ["price", "price_age_s"]
    assert section_of.MARKET_SECTION.section(market(mid=None, liquidity=None, context=None, features=())) is None


def test_age_is_of_the_price_that_is_shown() -> None:
    assert built(market(mid=Mid("BTC", NOW - 119_999, E8))).get("price_age_s") == "119"


def test_negative_funding_keeps_its_sign() -> None:
    section = built(market(context=AssetContext("BTC", NOW, -40_000_000, 0, 0.0, E8, E8)))
    assert section.get("funding_rate_1h_pct") == "-0.00400"


def test_equal_books_have_equal_texts() -> None:
    """A zero may have a sign, and is still the same zero."""
    books = [Liquidity("BTC", NOW, E8, zero, zero, zero, zero, zero) for zero in (0.0, -0.0)]
    assert books[0] == books[1]
    assert built(market(liquidity=books[0])) == built(market(liquidity=books[1]))
