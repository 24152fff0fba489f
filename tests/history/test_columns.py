"""Columns: the names of exchanges and tools, and the usual order where there are none."""

import pytest

from tapebook.errors import BadInput
from tapebook.history.table_columns import Columns, find_columns, is_header
from tapebook.history.tables import Table, placeholder_names


def found(names: str, kind: str = "candles", *, header: bool = True) -> dict[str, int]:
    return find_columns(Table("CSV", "line", tuple(names.split(",")), header, iter(())), kind).at


@pytest.mark.parametrize(
    ("names", "at"),
    [
        ("date,open,high,low,close,volume", {"time": 0, "open": 1, "high": 2, "low": 3, "close": 4, "volume": 5}),
        ("Time,Low,High,Open,Close,Volume", {"time": 0, "open": 3, "high": 2, "low": 1, "close": 4, "volume": 5}),
        # Binance
        (
            "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume",
            {"time": 0, "open": 1, "high": 2, "low": 3, "close": 4, "volume": 5, "quote_volume": 7, "trades": 8},
        ),
        # Hyperliquid: two columns that differ by case alone
        (
            "T,t,s,i,o,c,h,l,v,n",
            {
                "time": 1,
                "open": 4,
                "close": 5,
                "high": 6,
                "low": 7,
                "volume": 8,
                "trades": 9,
                "symbol": 2,
                "interval": 3,
            },
        ),
        # A site that names the coin, and writes each time twice
        (
            "Unix,Date,Symbol,Open,High,Low,Close,Volume BTC,Volume USDT,tradecount",
            {
                **{"time": 0, "open": 3, "high": 4, "low": 5, "close": 6, "volume": 7},
                **{"quote_volume": 8, "trades": 9, "symbol": 2},
            },
        ),
        (
            "<DATE>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>",
            dict(zip(("time", "open", "high", "low", "close", "volume"), range(6), strict=True)),
        ),
        ("calc_time,funding_interval_hours,last_funding_rate", {"time": 0, "rate": 2}),
        ("coin,fundingRate,premium,time", {"symbol": 0, "rate": 1, "premium": 2, "time": 3}),
        ("symbol,timestamp,datetime,fundingRate", {"symbol": 0, "time": 1, "rate": 3}),
        ("time,markPrice,market", {"time": 0, "price": 1, "market": 2}),
    ],
)
def test_names(names: str, at: dict[str, int]) -> None:
    assert found(names) == at


@pytest.mark.parametrize(
    ("kind", "width", "fields"),
    [
        ("candles", 6, ["time", "open", "high", "low", "close", "volume"]),
        ("candles", 12, ["time", "open", "high", "low", "close", "volume", "quote_volume", "trades"]),
        ("funding", 2, ["time", "rate"]),
        ("funding", 6, ["time", "open", "high", "low", "close", "volume"]),
        ("marks", 2, ["time", "price"]),
        ("marks", 5, ["time", "open", "high", "low", "close"]),
    ],
)
def test_places(kind: str, width: int, fields: list[str]) -> None:
    assert list(found(",".join(placeholder_names(width)), kind, header=False)) == fields
    assert found(",".join(placeholder_names(12)), header=False)["quote_volume"] == 7


def test_what_cannot_be_placed_or_is_missing() -> None:
    with pytest.raises(BadInput, match="the file has no header and 7 columns; candles without a header have 6 or 12"):
        found(",".join(placeholder_names(7)), header=False)
    columns = Columns({"time": 0, "open": 1}, ("when", "open"))
    columns.require("time", "open")
    with pytest.raises(
        BadInput, match=r"no column for close \(called close, close_price, c, …\); the file has: when, open"
    ):
        columns.require("time", "close")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("date,open,high", True),
        ("time,rate", True),
        ("https://www.example.com", False),
        ("1690156800000,100,101", False),
        ("date,first,second", False),
        ("open,high,low", False),
    ],
)
def test_headers(line: str, expected: bool) -> None:
    assert is_header(line.split(",")) is expected
