"""Subscriptions are spread within the exchange's limits."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import (
    MOST_CONNECTIONS,
    MOST_SUBSCRIPTIONS,
    Subscription,
    WatchedNames,
    plan_connections,
    subscription_changes,
    wanted_subscriptions,
)


def candles(count: int) -> list[Subscription]:
    return [Subscription("candles", f"C{number}") for number in range(count)]


MIDS = Subscription("mids", "")


@pytest.mark.parametrize(
    ("subscription", "said"),
    [
        (MIDS, {"type": "allMids"}),
        (Subscription("mids", "xyz"), {"type": "allMids", "dex": "xyz"}),
        (Subscription("candles", "BTC"), {"type": "candle", "coin": "BTC", "interval": "1m"}),
    ],
)
def test_messages(subscription: Subscription, said: dict[str, str]) -> None:
    assert json.loads(subscription.message()) == {"method": "subscribe", "subscription": said}
    assert json.loads(subscription.message("unsubscribe")) == {"method": "unsubscribe", "subscription": said}


def test_mids_of_every_dex_and_candles_of_every_symbol() -> None:
    watched = WatchedNames(("BTC",), ("BTC", "@107"), ())
    assert wanted_subscriptions(HyperliquidSourceSettings(dexes=("xyz",)), watched) == [
        MIDS,
        Subscription("mids", "xyz"),
        Subscription("candles", "BTC"),
        Subscription("candles", "@107"),
    ]


@given(st.integers(0, 1_500), st.integers(1, 200))
def test_the_limits_hold_and_nothing_is_lost_silently(count: int, per_connection: int) -> None:
    asked = [MIDS, *candles(count)]
    found = plan_connections(asked, per_connection=per_connection)
    placed = [one for held in found.connections for one in held]
    assert len(found.connections) <= MOST_CONNECTIONS and len(placed) <= MOST_SUBSCRIPTIONS
    assert sorted([*placed, *found.left_out], key=str) == sorted(asked, key=str)
    assert found.connections[0] == (MIDS,)
    sizes = [len(held) for held in found.connections[1:]]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert len(found.left_out) == max(0, count + 1 - MOST_SUBSCRIPTIONS)


def test_a_listing_goes_where_there_is_most_room_and_a_delisting_is_called_off() -> None:
    one, two, three, new, newer = candles(5)
    added, gone = subscription_changes([[MIDS], [one, two], [three]], [MIDS, one, three, new, newer])
    assert added == [(2, new), (1, newer)]
    assert gone == [(1, two)]


def test_a_listing_finds_a_place_even_when_only_mids_are_watched() -> None:
    assert subscription_changes([[MIDS]], [MIDS, *candles(1)]) == ([(0, candles(1)[0])], [])
    assert subscription_changes([[MIDS]], [MIDS]) == ([], [])
