"""One symbol of a file that holds several."""

from typing import Any

import pytest

from tapebook.errors import BadInput
from tapebook.history.table_columns import find_columns, rows_of_symbol
from tapebook.history.tables import Block, Table


def rows_of(symbol: str, names: list[str], markets: list[str] | None = None) -> tuple[list[int], tuple[str, ...]]:
    """The numbers of the rows that are left of two blocks, and the notes."""
    header = ("time", "open", "symbol", *(["market"] if markets else []))
    columns: list[list[Any]] = [[0] * len(names), [1] * len(names), names, *([markets] if markets else [])]
    blocks = [
        Block(range(1, 3), [column[:2] for column in columns]),
        Block(range(3, len(names) + 1), [column[2:] for column in columns]),
    ]
    table = Table("CSV", "line", header, True, iter(blocks))
    left = rows_of_symbol(table, find_columns(table, "candles"), symbol)
    return [number for block in left.blocks for number in block.numbers], left.notes


def test_only_the_rows_of_the_symbol() -> None:
    assert rows_of("B", ["A", "B", "C", "B"]) == ([2, 4], ("2 of 4 rows are of B",))


@pytest.mark.parametrize(
    "name", ["BTC/USDT", "BTCUSDT", "BTC-USD", "BTC/USDT:USDT", "BTCUSD_PERP", "BTC-PERP", "BTC_USDC"]
)
def test_a_pair_is_found_by_its_coin(name: str) -> None:
    assert rows_of("BTC", ["ETHUSDT", name, name])[0] == [2, 3]


def test_the_exact_name_comes_before_a_pair() -> None:
    assert rows_of("BTC", ["BTC", "BTCUSDT", "BTC"])[0] == [1, 3]


def test_the_perp_is_meant() -> None:
    assert rows_of("HYPE", ["HYPE"] * 4, ["spot", "perp", "spot", "perp"]) == (
        [2, 4],
        ("2 of 4 rows are of HYPE perp",),
    )


def test_refusals() -> None:
    with pytest.raises(BadInput, match=r"the file has no rows of BTC; it has: BTCDOM, ETH$"):
        rows_of("BTC", ["ETH", "BTCDOM", "ETH"])
    with pytest.raises(BadInput, match="BTC may be any of: BTCUSDT, BTCUSD; leave the rows of one"):
        rows_of("BTC", ["BTCUSDT", "BTCUSD", "BTCUSD"])
    with pytest.raises(BadInput, match=r"it has: S00, .*, S19, …$"):
        rows_of("BTC", [f"S{n:02}" for n in range(30)])


def test_without_names_all_rows_are_meant() -> None:
    table = Table("CSV", "line", ("time", "open"), True, iter(()))
    assert rows_of_symbol(table, find_columns(table, "candles"), "BTC") is table
