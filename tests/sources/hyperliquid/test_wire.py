"""Frames become values, exactly and without exceptions."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tapebook.domain.market import Candle
from tapebook.domain.units import E8, to_units
from tapebook.sources.hyperliquid.wire import (
    Ack,
    CandlesFrame,
    ErrorFrame,
    Malformed,
    MidsFrame,
    OtherFrame,
    Pong,
    price_e8,
    read_frame,
)

BAR = {
    **{"t": 1_785_053_340_000, "T": 1_785_053_399_999, "s": "BTC", "i": "1m"},
    **{"o": "64340.0", "c": "64352.0", "h": "64354.0", "l": "64340.0", "v": "1.07768", "n": 79},
}


def frame(channel: str, data: Any) -> bytes:
    return json.dumps({"channel": channel, "data": data}).encode()


def mids(prices: dict[str, Any], **more: Any) -> MidsFrame:
    found = read_frame(frame("allMids", {"mids": prices, **more}))
    assert isinstance(found, MidsFrame)
    return found


def prices_of(found: MidsFrame) -> dict[str, int]:
    return dict(zip(found.symbols, found.prices_e8, strict=True))


def texts(most_digits: int) -> st.SearchStrategy[str]:
    """Positive prices of up to so many digits before the point and eight after it, as the exchange writes them."""
    units = st.integers(1, 10 ** (most_digits + 8) - 1)
    return units.map(lambda unit: f"{Decimal(unit).scaleb(-8):f}")


@given(texts(10))
@example("0.00000001")
@example("8999999.99999999")
@example("90071992.54740993")
def test_a_price_is_exact_to_its_last_digit(text: str) -> None:
    assert price_e8(text) == to_units(text, E8)


@given(st.dictionaries(st.text(min_size=1, max_size=8), texts(7), min_size=1, max_size=20))
def test_mids_are_exact_whichever_way_they_are_read(prices: dict[str, str]) -> None:
    found = mids(prices)
    assert prices_of(found) == {name: to_units(text, E8) for name, text in prices.items()}
    assert not found.bad


@given(st.lists(st.integers(0, 10**6).map(lambda units: f"{Decimal(2 * units + 1).scaleb(-9) * 5:f}"), min_size=1))
def test_what_lies_between_two_prices_goes_to_the_even_one(texts: list[str]) -> None:
    found = mids({str(place): text for place, text in enumerate(texts)})
    exact = {str(place): to_units(text, E8) for place, text in enumerate(texts)}
    assert prices_of(found) == {name: price for name, price in exact.items() if price}
    assert found.bad == tuple(name for name, price in exact.items() if not price)


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | texts(8)


@given(st.dictionaries(st.sampled_from([*BAR, "other"]), ANYTHING), st.dictionaries(st.text(max_size=4), ANYTHING))
def test_a_frame_says_the_same_however_it_is_written(damage: dict[str, Any], prices: dict[str, Any]) -> None:
    """The exchange writes no spaces and the channel first; such a text is read only once, as any other twice."""
    for channel, data in (("candle", BAR | damage), ("candle", [BAR | damage, BAR]), ("allMids", {"mids": prices})):
        usual = json.dumps({"channel": channel, "data": data}, separators=(",", ":"))
        assert usual.startswith(f'{{"channel":"{channel}",')
        found = read_frame(usual)
        for other in (usual.encode(), json.dumps({"data": data, "channel": channel}, indent=1)):
            again = read_frame(other)
            if isinstance(again, CandlesFrame) and isinstance(found, CandlesFrame):
                assert again.candles == found.candles and len(again.bad) == len(found.bad)
            else:
                assert again == found or (isinstance(again, Malformed) and isinstance(found, Malformed))


def test_numbers_are_texts_and_a_trailing_zero_is_nothing() -> None:
    assert mids({"BTC": "64340.0", "@1": "13.835", "#1710": "0.5", "PURR": "0.08", "PURR/USDC": "0.0804"}) == MidsFrame(
        "",
        ["BTC", "@1", "#1710", "PURR", "PURR/USDC"],
        [64_340 * E8, 1_383_500_000, E8 // 2, 8_000_000, 8_040_000],
    )


@pytest.mark.parametrize("bad", ["", "abc", "nan", "inf", "-1.0", "0.0", "1e400", None, True, [], "0.000000001"])
def test_one_bad_price_does_not_hide_the_others(bad: Any) -> None:
    for names in (["BAD", "BTC", "ETH"], ["BTC", "BAD", "ETH"], ["BTC", "ETH", "BAD"]):
        found = mids({name: {"BTC": "64340.5", "BAD": bad, "ETH": "2000.1"}[name] for name in names})
        assert found.bad == ("BAD",)
        assert prices_of(found) == {"BTC": 6_434_050_000_000, "ETH": 200_010_000_000}


@pytest.mark.parametrize(("more", "dex"), [({}, ""), ({"dex": "xyz"}, "xyz"), ({"dex": None}, "")])
def test_a_builder_dex_names_itself(more: dict[str, Any], dex: str) -> None:
    assert mids({"xyz:TSLA": "400.0"}, **more).dex == dex


def test_an_empty_map_of_mids_is_no_error() -> None:
    assert mids({}) == MidsFrame("", [], [])


def test_a_candle_is_one_object_or_as_documented_an_array() -> None:
    candle = Candle(
        symbol="BTC",
        granularity_sec=60,
        bucket_ts=1_785_053_340_000,
        open_e8=64_340 * E8,
        high_e8=64_354 * E8,
        low_e8=64_340 * E8,
        close_e8=64_352 * E8,
        volume_base=1.07768,
        volume_quote_usd=1.07768 * (64_340 + 64_354 + 64_340 + 64_352) / 4,
        sample_count=79,
    )
    assert read_frame(frame("candle", BAR)) == CandlesFrame((candle,))
    assert read_frame(frame("candle", [BAR])) == CandlesFrame((candle,))
    assert read_frame(frame("candle", [])) == CandlesFrame(())


@pytest.mark.parametrize(
    "damage",
    [
        {"i": "1d"},
        {"t": 1_785_053_340_001},
        {"t": -60_000},
        {"t": 10**17},
        {"t": "1785053340000"},
        {"o": "0.0"},
        {"h": "nan"},
        {"l": None},
        {"v": "-1"},
        {"v": "inf"},
        {"v": "nan"},
        {"n": -1},
        {"s": None},
    ],
)
def test_a_damaged_candle_is_malformed(damage: dict[str, Any]) -> None:
    assert isinstance(read_frame(frame("candle", BAR | damage)), Malformed)


@pytest.mark.parametrize(
    ("subscription", "ack"),
    [
        ({"type": "allMids"}, Ack("subscribe", "allMids", "", "")),
        ({"type": "allMids", "dex": "xyz"}, Ack("subscribe", "allMids", "", "xyz")),
        ({"type": "allMids", "dex": None}, Ack("subscribe", "allMids", "", "")),
        ({"interval": "1m", "type": "candle", "coin": "HYPE"}, Ack("subscribe", "candle", "HYPE", "")),
        (
            {"type": "l2Book", "coin": "BTC", "nSigFigs": None, "mantissa": None, "fast": False},
            Ack("subscribe", "l2Book", "BTC", ""),
        ),
    ],
)
def test_an_acknowledgement_is_read_by_what_it_must_name(subscription: dict[str, Any], ack: Ack) -> None:
    answer = {"method": "subscribe", "subscription": subscription}
    assert read_frame(frame("subscriptionResponse", answer)) == ack


def test_complaints() -> None:
    assert read_frame(frame("error", 'Already subscribed: {"type":"allMids"}')) == Ack("subscribe", "allMids", "", "")
    gone = 'Already unsubscribed: {"type":"candle","coin":"BTC","interval":"1m"}'
    assert read_frame(frame("error", gone)) == Ack("unsubscribe", "candle", "BTC", "")
    refused = 'Invalid subscription {"type":"candle","coin":"BTC","interval":"7m"}'
    assert read_frame(frame("error", refused)) == Ack("refuse", "candle", "BTC", "")
    assert read_frame(frame("error", "Cannot track more than 15 total users.")) == ErrorFrame(
        "Cannot track more than 15 total users."
    )


def test_a_pong_has_no_data() -> None:
    assert read_frame('{"channel":"pong"}') == Pong()


def test_what_is_not_for_us() -> None:
    assert read_frame("Websocket connection established.") == OtherFrame("greeting")
    assert read_frame(frame("trades", [])) == OtherFrame("trades")


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", '{"channel":7}', "<html>502 Bad Gateway</html>", '{"channel":"candle"', b"\xff\xfe", "["],
)
def test_what_cannot_be_read_is_a_value_that_shows_it(text: str | bytes) -> None:
    found = read_frame(text)
    assert isinstance(found, Malformed)
    assert found.why and len(found.text) <= 200


@pytest.mark.parametrize("channel", ["allMids", "candle", "subscriptionResponse", "error"])
def test_deep_nesting_does_not_end_the_stream(channel: str) -> None:
    deep = '{"channel":"' + channel + '","data":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert isinstance(read_frame(deep), Malformed)


@given(st.one_of(st.text(), st.binary()))
def test_nothing_a_socket_can_bring_raises(text: str | bytes) -> None:
    read_frame(text)


WHOLE = [
    frame("candle", BAR),
    frame("allMids", {"mids": {"BTC": "64340.5"}}),
    frame("subscriptionResponse", {"method": "subscribe", "subscription": {"type": "allMids"}}),
    frame("error", 'Already subscribed: {"type":"allMids"}'),
]


@given(st.sampled_from(WHOLE), st.data())
def test_a_frame_cut_off_or_changed_anywhere_does_not_raise(whole: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert isinstance(read_frame(whole[:cut]), Malformed)
    read_frame(whole[:cut] + data.draw(st.binary(min_size=1, max_size=3)) + whole[cut + 1 :])
