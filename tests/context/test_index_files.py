"""The shelf is bounded, and tells markets apart by all they depend on."""

import msgspec

from tapebook.context import MarketCache, MarketKey
from tapebook.domain.agent import Subscriptions
from tests.context.situations import market

KEY = MarketKey("BTC", 5, 100, 1_000, 7)


def test_market_is_found_under_its_key_alone() -> None:
    shelf, here = MarketCache(), market()
    shelf.store_market(KEY, here)
    assert shelf.get(KEY) is here
    others = {
        "symbol": "ETH",
        "bar_minutes": 1,
        "bar_count": 99,
        "as_of": 1_001,
        "watermark": 8,
        "lookback": True,
        "subscriptions": Subscriptions(macro=()),
    }
    assert others.keys() == set(MarketKey.__struct_fields__)
    for name, value in others.items():
        assert shelf.get(msgspec.structs.replace(KEY, **{name: value})) is None


def test_the_oldest_gives_way() -> None:
    shelf = MarketCache(most=3)
    keys = [msgspec.structs.replace(KEY, as_of=at) for at in range(5)]
    for key in keys:
        shelf.store_market(key, market())
    assert len(shelf) == 3
    assert [shelf.get(key) is not None for key in keys] == [False, False, True, True, True]
