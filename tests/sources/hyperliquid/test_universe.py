"""Who is watched."""

import pytest

from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import ListedNames, WatchedNames
from tapebook.sources.hyperliquid.wire import Perp

MAIN = [Perp("BTC"), Perp("MATIC", is_delisted=True), Perp("POL"), None, Perp("PURR")]
XYZ = [Perp("xyz:TSLA"), Perp("NVDA"), Perp("xyz:OLD", is_delisted=True)]
SPOTS = ["PURR/USDC", "@107"]
ALL = ["BTC", "MATIC", "POL", "PURR", "PURR/USDC", "@107", "@999", "#1710", "xyz:TSLA", "xyz:OLD", "NEW"]


def names(settings: HyperliquidSourceSettings) -> ListedNames:
    known = ListedNames(settings)
    known.learn_perps("", MAIN)
    known.learn_perps("xyz", XYZ)
    known.learn_spots(SPOTS)
    return known


@pytest.mark.parametrize(
    ("settings", "mids", "watched"),
    [
        (
            HyperliquidSourceSettings(dexes=("xyz",)),
            ["BTC", "POL", "PURR", "PURR/USDC", "@107", "@999", "xyz:TSLA"],
            WatchedNames(
                ("BTC", "POL", "PURR", "xyz:TSLA", "xyz:NVDA"), ("BTC", "POL", "PURR", "xyz:TSLA", "xyz:NVDA"), ()
            ),
        ),
        (
            HyperliquidSourceSettings(spot=False, outcomes=True),
            ["BTC", "POL", "PURR", "#1710", "xyz:TSLA"],
            WatchedNames(("BTC", "POL", "PURR"), ("BTC", "POL", "PURR"), ()),
        ),
        (
            HyperliquidSourceSettings(symbols=("POL", "@107", "MATIC", "NEW"), spot=False),
            ["POL", "@107"],
            WatchedNames(("POL",), ("POL", "@107"), ("MATIC", "NEW")),
        ),
        (
            HyperliquidSourceSettings(candle_symbols=("@107", "BTC", "UBTC", "BTC")),
            ["BTC", "POL", "PURR", "PURR/USDC", "@107", "@999", "xyz:TSLA"],
            WatchedNames(("BTC", "POL", "PURR"), ("@107", "BTC"), ("UBTC",)),
        ),
    ],
)
def test_what_is_watched(settings: HyperliquidSourceSettings, mids: list[str], watched: WatchedNames) -> None:
    known = names(settings)
    assert [name for name in ALL if known.has_mid(name)] == mids
    assert known.watched == watched


def test_a_perp_is_watched_from_its_listing_to_its_delisting() -> None:
    known = ListedNames(HyperliquidSourceSettings())
    known.learn_perps("", [Perp("BTC")])
    before = known.version
    known.learn_perps("", [Perp("BTC")])
    assert known.version == before
    known.learn_perps("", [Perp("BTC"), Perp("NEW")])
    assert known.version > before and known.watched.candles == ("BTC", "NEW")
    known.learn_perps("", [Perp("BTC", is_delisted=True), Perp("NEW")])
    assert known.watched.perps == ("NEW",) and not known.has_mid("BTC")


def test_nothing_can_be_asked_for_before_the_main_dex_is_known() -> None:
    known = ListedNames(HyperliquidSourceSettings(dexes=("xyz",)))
    known.learn_perps("xyz", XYZ)
    assert not known.ready
    known.learn_perps("", [])
    assert known.ready
