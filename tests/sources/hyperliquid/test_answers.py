"""Answers of REST become values; an odd row never hides the others."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.sources.hyperliquid import wire
from tapebook.sources.hyperliquid.wire import (
    AnswerRows,
    ContextRow,
    FundingRow,
    Malformed,
    Perp,
    Perps,
    SpotPair,
    VenueRow,
)

META = {"universe": [{"name": "BTC", "szDecimals": 5}, {"name": "MATIC", "szDecimals": 1, "isDelisted": True}]}
CONTEXT = {
    **{"funding": "0.0000125", "openInterest": "24469.14838", "prevDayPx": "67779.0", "premium": "-0.0004239084"},
    **{"oraclePx": "70770.0", "markPx": "70736.0", "midPx": "70739.5", "impactPxs": ["70739.0", "70740.0"]},
}
DEAD = {"funding": "0.0", "openInterest": "0.0", "premium": None, "oraclePx": "0.37", "markPx": "0.37", "midPx": None}


BTC, MATIC = Perp("BTC", sz_decimals=5), Perp("MATIC", is_delisted=True, sz_decimals=1)


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_names_say_who_is_delisted() -> None:
    assert wire.read_meta(body(META)) == Perps([BTC, MATIC], [])


def test_contexts_belong_to_the_names_by_place() -> None:
    found = wire.read_contexts(body([META, [CONTEXT, DEAD]]))
    assert isinstance(found, Perps) and not found.problems
    assert found.contexts == [
        ContextRow("0.0000125", "24469.14838", "70736.0", "70770.0", "-0.0004239084"),
        ContextRow("0.0", "0.0", "0.37", "0.37", None),
    ]


def test_contexts_of_another_length_belong_to_nobody() -> None:
    assert isinstance(wire.read_contexts(body([META, [CONTEXT]])), Malformed)


def test_an_odd_row_keeps_its_place_and_the_others_theirs() -> None:
    odd = {"universe": [{"name": None}, *META["universe"]]}
    found = wire.read_contexts(body([odd, [CONTEXT, CONTEXT | {"markPx": 7}, DEAD]]))
    assert isinstance(found, Perps)
    assert found.universe == [None, BTC, MATIC]
    assert [row is None for row in found.contexts] == [False, True, False]
    assert len(found.problems) == 2


def test_the_number_of_a_pair_is_not_its_place() -> None:
    pairs = [{"tokens": [1, 0], "name": "PURR/USDC", "index": 0}, {"tokens": [150, 0], "name": "@107", "index": 107}]
    found = wire.read_spot_meta(body({"universe": pairs, "tokens": []}))
    assert found == AnswerRows([SpotPair("PURR/USDC", 0, [1, 0]), SpotPair("@107", 107, [150, 0])])


def test_a_book_nobody_knows_is_null() -> None:
    assert wire.read_book(b"null") is None


def test_a_book_may_name_its_spread() -> None:
    found = wire.read_book(body({"coin": "BTC", "time": 1, "levels": [[], []], "spread": "1.0"}))
    assert isinstance(found, wire.BookRow) and found.levels == ([], [])


def test_predictions_have_empty_slots_and_unnamed_intervals() -> None:
    slots = [
        ["BinPerp", {"fundingRate": "0.00005", "nextFundingTime": 1_789_833_600_000}],
        ["HlPerp", {"fundingRate": "0.0001", "nextFundingTime": 1_789_822_800_000, "fundingIntervalHours": 1}],
        ["BybitPerp", None],
    ]
    found = wire.read_predicted(body([["0G", slots], ["ODD", 7]]))
    assert isinstance(found, AnswerRows)
    assert found.good_rows() == [
        (
            "0G",
            [
                ("BinPerp", VenueRow("0.00005", 1_789_833_600_000)),
                ("HlPerp", VenueRow("0.0001", 1_789_822_800_000, 1)),
                ("BybitPerp", None),
            ],
        )
    ]
    assert len(found.problems) == 1


def test_a_settled_rate_may_come_without_its_premium() -> None:
    rows = [{"coin": "BTC", "fundingRate": "0.0000125", "premium": "-0.0002", "time": 1_772_546_400_039}]
    rows.append({"coin": "BTC", "fundingRate": "0.0000033", "time": 1_772_550_000_007})
    found = wire.read_funding(body(rows))
    assert isinstance(found, AnswerRows)
    assert found.rows == [
        FundingRow("BTC", "0.0000125", 1_772_546_400_039, "-0.0002"),
        FundingRow("BTC", "0.0000033", 1_772_550_000_007),
    ]


def test_a_bar_that_is_none_is_left_out() -> None:
    bar = {"t": 60_000, "T": 119_999, "s": "BTC", "i": "1m", "o": "1", "c": "1", "h": "1", "l": "1", "v": "0.0", "n": 0}
    found = wire.read_candles(body([bar, bar | {"o": "x"}, bar | {"n": "x"}]))
    assert isinstance(found, AnswerRows)
    assert [candle.bucket_ts for candle in found.good_rows()] == [60_000]
    assert len(found.problems) == 2


READERS = [
    wire.read_meta,
    wire.read_contexts,
    wire.read_spot_meta,
    wire.read_candles,
    wire.read_predicted,
    wire.read_funding,
]


@pytest.mark.parametrize("reader", [*READERS, wire.read_book], ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("text", [b"", b"{", b"7", b"<html>", b"\xff", b"[" * 100_000])
def test_what_cannot_be_read_is_a_value(reader: Any, text: bytes) -> None:
    assert isinstance(reader(text), Malformed)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_null_is_an_answer_only_to_a_book(reader: Any) -> None:
    assert isinstance(reader(b"null"), Malformed)


@given(st.binary(max_size=50), st.sampled_from([*READERS, wire.read_book]))
def test_no_body_raises(text: bytes, reader: Any) -> None:
    reader(text)
