"""Marks: midpoints at their moment, and of a bar only what is a price at a known moment."""

from pathlib import Path

import pytest

from tapebook.domain.market import Mid
from tapebook.domain.units import E8, HOUR, MINUTE
from tapebook.errors import BadInput
from tests.history.files import HEADER, MIDNIGHT, ask, lines, parsed, whys

MARKS = ask("marks", interval=None)


def test_a_series_of_prices(tmp_path: Path) -> None:
    rows = [f"{MIDNIGHT + n * MINUTE + 8},{100 + n}.5" for n in range(3)]
    found = parsed(tmp_path, ["time,markPrice", *rows], asked=MARKS)
    assert found.rows == [Mid("BTC", MIDNIGHT + n * MINUTE, (201 + 2 * n) * E8 // 2) for n in range(3)]
    assert found.known_at(found.rows[0]) == MIDNIGHT + 7_000
    assert (found.stated, found.told.spacing_ms) == (("price_e8",), MINUTE)
    assert found.told.notes == ("kept as midpoints: each is the price of its five seconds",)


def test_of_a_bar_the_open_is_kept(tmp_path: Path) -> None:
    found = parsed(tmp_path, [HEADER, *lines(3, step=8 * HOUR)], asked=ask("marks", interval="8h"))
    assert found.rows == [Mid("BTC", MIDNIGHT + n * 8 * HOUR, (100 + n) * E8) for n in range(3)]
    assert found.told.unused == ("high", "low", "close", "volume")
    assert "of each bar the open is kept, the price when it began; high, low and close are not" in found.told.notes
    with pytest.raises(BadInput, match="the rows are 8h apart but `interval=` says 1m"):
        parsed(tmp_path, [HEADER, *lines(3, step=8 * HOUR)], asked=ask("marks"))


def test_a_price_comes_before_an_open_and_now_is_not_the_future(tmp_path: Path) -> None:
    text = ["time,open,mark", f"{MIDNIGHT},1,2"]
    found = parsed(tmp_path, text, asked=ask("marks", interval=None, now=MIDNIGHT))
    assert found.rows == [Mid("BTC", MIDNIGHT, 2 * E8)]


def test_the_first_price_of_five_seconds_counts(tmp_path: Path) -> None:
    rows = [f"{MIDNIGHT + n * 2_000},{100 + n}" for n in range(6)]
    found = parsed(tmp_path, ["time,price", *rows], asked=MARKS)
    assert [(mid.bucket_ts - MIDNIGHT, mid.price_e8 // E8) for mid in found.rows] == [  # type: ignore[union-attr]
        *((0, 100), (5_000, 103), (10_000, 105)),
    ]
    assert "3 prices have another in their five seconds" in found.told.notes


def test_bad_rows(tmp_path: Path) -> None:
    rows = [f"{MIDNIGHT},1", "x,1", f"{MIDNIGHT + MINUTE},-1", f"{MIDNIGHT + 2 * MINUTE},1", f"{MIDNIGHT + MINUTE},1"]
    found = parsed(tmp_path, ["time,price", *rows], asked=MARKS)
    assert [row for row, _ in whys(found)] == [3, 4, 6]
    assert whys(found)[1] == (4, "price -1 is negative")
    later = parsed(tmp_path, ["time,price", *rows[:1]], asked=ask("marks", interval=None, now=MIDNIGHT - 1))
    assert whys(later) == [(2, "2023-07-24T00:00:00.000Z lies in the future")]
