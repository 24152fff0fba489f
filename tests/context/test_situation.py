"""What a situation says of itself."""

from tapebook.domain.market import Mid
from tapebook.domain.units import E8
from tests.context.situations import NOW, empty_situation, market, situation


def test_age_of_the_price() -> None:
    assert situation(market=market(mid=Mid("BTC", NOW - 3_000, E8))).price_age_ms == 3_000
    assert situation(market=market(mid=Mid("BTC", NOW, E8))).price_age_ms == 0
    assert empty_situation().price_age_ms is None
