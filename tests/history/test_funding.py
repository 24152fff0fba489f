"""Funding rates: one payment at its hour, whatever lies between two of them."""

from pathlib import Path

import pytest

from tapebook.domain.market import FundingRate
from tapebook.domain.units import E12, HOUR
from tapebook.errors import BadInput
from tests.history.files import MIDNIGHT, ask, parsed, whys

FUNDING = ask("funding", interval=None)
RATE = E12 // 10_000


def test_eight_hourly_rates_stay_as_they_are(tmp_path: Path) -> None:
    rows = [f"{MIDNIGHT + n * 8 * HOUR + n},8,0.000{n + 1}" for n in range(3)]
    found = parsed(tmp_path, ["calc_time,funding_interval_hours,last_funding_rate", *rows], asked=FUNDING)
    assert found.rows == [FundingRate("BTC", MIDNIGHT + n * 8 * HOUR, (n + 1) * RATE, 0) for n in range(3)]
    assert found.known_at(found.rows[1]) == MIDNIGHT + 8 * HOUR + 2_000
    assert found.stated == ("rate_e12",)
    assert found.told.values == "rates as fractions per settlement, from 0.0100 % to 0.0300 %"
    assert found.told.notes == (
        "no premium: stored as 0",
        "settled every 8h: each rate is one payment, hours between have none",
    )


def test_freqtrade_keeps_rates_as_bars(tmp_path: Path) -> None:
    rows = [f"{MIDNIGHT + n * 8 * HOUR},-0.0001,0.0,0.0,0.0,0.0" for n in range(3)]
    found = parsed(tmp_path, ["date,open,high,low,close,volume", *rows], asked=FUNDING)
    assert [rate.rate_e12 for rate in found.rows] == [-RATE] * 3  # type: ignore[union-attr]
    assert "rates stand in the column open, as freqtrade keeps them" in found.told.notes
    assert found.told.columns == {"time": "date", "open": "open"}
    prices = [f"{MIDNIGHT + n * 8 * HOUR},100,101,99,100,5" for n in range(3)]
    with pytest.raises(BadInput, match="these are bars with prices, not funding rates"):
        parsed(tmp_path, ["date,open,high,low,close,volume", *prices], asked=FUNDING)


def test_the_answer_of_an_exchange(tmp_path: Path) -> None:
    rows = [
        f'{{"coin": "{coin}", "fundingRate": "0.0000125", "premium": "-0.0003", "time": {MIDNIGHT + n * HOUR + 76}}}'
        for n in range(3)
        for coin in ("BTC", "ETH")
    ]
    found = parsed(tmp_path, f"[{', '.join(rows)}]", "a.json", asked=FUNDING)
    assert found.rows == [FundingRate("BTC", MIDNIGHT + n * HOUR, 12_500_000, -3 * RATE) for n in range(3)]
    assert (found.stated, found.told.notes) == (("rate_e12", "premium_e12"), ("3 of 6 rows are of BTC",))


def test_bad_rows(tmp_path: Path) -> None:
    rows = [
        f"{MIDNIGHT},0.0001",
        f"{MIDNIGHT + HOUR},",
        f"{MIDNIGHT + 2 * HOUR},abc",
        f"{MIDNIGHT + 3 * HOUR},0.2",
        f"{MIDNIGHT + 4 * HOUR + 90_000},0.0001",
        "x,0.0001",
        f"{MIDNIGHT + 6 * HOUR},0.0001",
        f"{MIDNIGHT + 6 * HOUR + 5},0.0002",
    ]
    found = parsed(tmp_path, ["time,rate", *rows], asked=FUNDING)
    assert whys(found) == [
        (3, "rate is missing"),
        (4, "rate 'abc' is not a number"),
        (5, "rate 0.2 is over 10 %: write it as a fraction, not in percent"),
        (6, "is 90s past the hour: funding is settled at full hours"),
        (7, "time 'x' cannot be read: write it like 2026-01-31T12:05:00Z or as epoch milliseconds"),
        (9, "2023-07-24T06:00:00.000Z is in 8 already with other values"),
    ]
    assert len(found.rows) == 2


def test_interval_and_future(tmp_path: Path) -> None:
    rows = [f"{MIDNIGHT + n * HOUR},0.0001" for n in range(4)]
    with pytest.raises(BadInput, match="the rows are 1h apart but `interval=` says 8h"):
        parsed(tmp_path, ["time,rate", *rows], asked=ask("funding", interval="8h"))
    found = parsed(tmp_path, ["time,rate", *rows], asked=ask("funding", interval="1h", now=MIDNIGHT + 2 * HOUR))
    assert whys(found) == [(5, "2023-07-24T03:00:00.000Z lies in the future")]
    with pytest.raises(BadInput, match="there is no column for rate"):
        parsed(tmp_path, ["time,volume", f"{MIDNIGHT},1"], asked=FUNDING)
