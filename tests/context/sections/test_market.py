"""Market: what is known, in declared digits; what is not known is left out."""

from tapebook.context.sections import market
from tapebook.domain.market import AssetContext, Mid
from tapebook.domain.money import E8
from tests.context.situations import NOW, situation


def test_every_value_in_its_digits() -> None:
    section = market.build(situation())
    assert section is not None
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
    )
    assert market.LAYOUT.line(section.rows[0]) == "- price: 65900"


def test_what_is_not_known_is_left_out() -> None:
    section = market.build(situation(liquidity=None, context=None))
    assert section is not None
    assert [name for name, _ in section.rows] == ["price", "price_age_s"]
    assert market.build(situation(mid=None, liquidity=None, context=None)) is None


def test_age_is_of_the_price_that_is_shown() -> None:
    section = market.build(situation(mid=Mid("BTC", NOW - 119_999, E8)))
    assert section is not None
    assert section.get("price_age_s") == "119"


def test_negative_funding_keeps_its_sign() -> None:
    section = market.build(situation(context=AssetContext("BTC", NOW, -40_000_000, 0, 0.0, E8, E8)))
    assert section is not None
    assert section.get("funding_rate_1h_pct") == "-0.00400"
