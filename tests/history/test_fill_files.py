"""Files of fills as rows: the exchange's own answers and exports, in the order of execution, each fill once."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.domain.units import E8, parse_instant
from tapebook.errors import BadInput
from tapebook.history.fill_files import FillFile, FillRow, read_fill_rows
from tests.matrix import examples

START = parse_instant("2026-01-05T00:00:00Z")
NOW = START + 10**9
OPEN = {"coin": "SOL", "px": "150.5", "sz": "2", "side": "B", "time": START, "startPosition": "0.0", "dir": "Open Long"}
OPEN |= {"closedPnl": "0.0", "hash": "0xa", "oid": 11, "crossed": True, "fee": "0.1", "tid": 901, "feeToken": "USDC"}
CLOSE = OPEN | {"side": "A", "time": START + 5, "startPosition": "2.0", "dir": "Close Long", "closedPnl": "1"}
CLOSE |= {"tid": 902}
SPOT = OPEN | {"coin": "@107", "dir": "Buy", "px": "7.98", "fee": "0.0056", "feeToken": "HYPE", "tid": 903}


def read(folder: Path, *documents: Any, name: str = "fills.json", **options: Any) -> FillFile:
    """A file of one document, or of one per line, as rows."""
    path = folder / name
    path.write_text("\n".join(map(json.dumps, documents)))
    return read_fill_rows(path, now=NOW, **options)


def test_an_answer_of_the_exchange_is_read_newest_first(tmp_path: Path) -> None:
    first, last = read(tmp_path, [CLOSE, OPEN]).rows
    assert (first.fill.fill_id, first.fill.signed_size_e8, first.start_e8) == ("901", 2 * E8, 0)
    assert (first.fill.maker, first.fill.client_id, first.fill.fee_usd_e6) == (False, "11", 100_000)
    assert (last.fill.signed_size_e8, last.start_e8, last.closed_pnl_usd_e6) == (-2 * E8, 2 * E8, 1_000_000)


def test_what_an_answer_is_wrapped_in_is_taken_off(tmp_path: Path) -> None:
    expected = [row.fill for row in read(tmp_path, [OPEN, CLOSE]).rows]
    frame = {"channel": "userFills", "data": {"isSnapshot": True, "user": "0xme", "fills": [OPEN, CLOSE]}}
    answered = {"request": {"type": "userFills"}, "response": [CLOSE, OPEN]}
    lines = [["0xme", OPEN], ["0xme", CLOSE]]
    for documents in ([frame], [answered], lines):
        assert [row.fill for row in read(tmp_path, *documents).rows] == expected


def test_columns_that_some_rows_lack_are_read(tmp_path: Path) -> None:
    forced = CLOSE | {"liquidation": {"liquidatedUser": "0xME", "markPx": "150", "method": "market"}}
    assert [row.fill.liquidation for row in read(tmp_path, [OPEN, forced], account="0xme").rows] == [False, True]
    assert not read(tmp_path, [OPEN, forced], account="0xother").rows[1].fill.liquidation
    taken_over = OPEN | {"liquidation": {"markPx": "150", "method": "backstop"}}
    assert not read(tmp_path, [taken_over, CLOSE]).rows[0].fill.liquidation


def test_spot_rows_and_fees_in_tokens_stand_apart(tmp_path: Path) -> None:
    dust = SPOT | {"side": "A", "dir": "Spot Dust Conversion", "tid": 0, "feeToken": "USDC", "sz": "0.0000086141"}
    named = SPOT | {"coin": "PURR/USDC", "tid": 904}
    perp = OPEN | {"feeToken": "HYPE", "fee": "0.25"}
    rows = read(tmp_path, [SPOT, dust, named, perp]).rows
    assert [row.spot for row in rows] == [True, True, True, False]
    assert [(row.fee_token, row.fee_e8) for row in rows] == [
        *(("HYPE", 560_000), ("USDC", 560_000), ("HYPE", 560_000), ("HYPE", E8 // 4)),
    ]
    assert [row.fill.fee_usd_e6 for row in rows] == [0, 0, 0, 0]


def test_fee_tokens_that_a_file_does_not_name(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != "feeToken"} for row in (OPEN, SPOT)]
    found = read(tmp_path, rows)
    assert [row.fee_token for row in found.rows] == ["", "@107"]
    assert "no column for feeToken: fees of spot buys are in what was bought, others in dollars" in found.notes
    said = read(tmp_path, [OPEN | {"feeToken": "USDT"}])
    assert (said.rows[0].fill.fee_usd_e6, said.notes) == (100_000, ("fees in USDT count as dollars",))


def test_tid_0_is_no_id_and_a_row_of_two_pages_is_one(tmp_path: Path) -> None:
    first = OPEN | {"tid": 0, "sz": "1"}
    second = first | {"startPosition": "1.0"}
    found = read(tmp_path, [first, second, CLOSE], [second, CLOSE], name="pages.jsonl")
    assert (len(found.rows), found.repeated) == (3, 2)
    assert len({row.fill.fill_id for row in found.rows}) == 3
    alone = read(tmp_path, [second]).rows[0].fill
    assert alone.fill_id == found.rows[1].fill.fill_id


def test_an_id_of_two_different_fills_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="row 2: the id '901' stands in more than one row, for different fills"):
        read(tmp_path, [OPEN, OPEN | {"sz": "3"}])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"coin": "SOL", "time": START, "side": "B"}], "has no column for size, price: fills need time, symbol, side"),
        ([OPEN | {"side": "A"}], "row 1: side is 'A' and dir 'Open Long': one of them is wrong"),
        ([OPEN | {"startPosition": "much"}], "row 1: 'much' is not a number"),
        ([], "has no fills"),
        ([OPEN, {"coin": "SOL"}], "row 2: None is not a time like the others"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, rows: list[Any], says: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(tmp_path, rows)
    assert says in str(refused.value) and "fills.json" in str(refused.value) and "\n" not in str(refused.value)


def test_a_file_of_two_accounts_asks_whose(tmp_path: Path) -> None:
    path = tmp_path / "fills.csv"
    line = "2026-01-05T00:00:00Z,SOL,{},150,1,Open Long,0.0"
    lines = ["time_utc,coin,account,px,sz,dir,startPosition", line.format("0xA"), line.format("0xB")]
    path.write_text("\n".join(lines))
    with pytest.raises(BadInput, match=r"has fills of 2 accounts \(0xa, 0xb\): say whose with `account=`"):
        read_fill_rows(path, now=NOW)
    (row,) = read_fill_rows(path, now=NOW, account="0xb").rows
    # There is no side: the direction says it.
    assert (row.number, row.fill.signed_size_e8, row.fill.happened_at) == (3, E8, START)
    with pytest.raises(BadInput, match="has no fills of the account 0xc: it has 0xa, 0xb"):
        read_fill_rows(path, now=NOW, account="0xc")


def test_a_self_trade_is_two_fills_that_cancel(tmp_path: Path) -> None:
    """Both are told with the position before the two; the one that closes comes first."""
    held = OPEN | {"side": "A", "startPosition": "0", "dir": "Open Short", "sz": "7"}
    more = held | {"startPosition": "-7", "sz": "3", "time": START + 5, "tid": 902}
    less = more | {"side": "B", "dir": "Close Short", "tid": 903}
    last = less | {"sz": "2", "tid": 904}
    found = read(tmp_path, [last, less, more, held]).rows
    assert holds(found) and [row.fill.fill_id for row in found] == ["901", "903", "902", "904"]


def chain_of(moves: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Fills that follow one another; several may share a moment."""
    held, at, rows = 0, START, []
    for number, (size, later) in enumerate(moves):
        at += later
        side = {"side": "B" if size > 0 else "A", "sz": str(abs(size)), "time": at, "startPosition": str(held)}
        rows.append(OPEN | side | {"dir": "", "tid": number + 1, "coin": "SOL" if number % 5 else "@1"})
        held += size if number % 5 else 0
    return rows


def holds(rows: list[FillRow]) -> bool:
    """Whether every perp fill begins where the one before it ended."""
    held = 0
    for row in rows:
        if not row.spot:
            if row.start_e8 != held:
                return False
            held += row.fill.signed_size_e8
    return True


@settings(max_examples=examples(60))
@given(
    moves=st.lists(st.tuples(st.integers(-3, 3).filter(bool), st.integers(0, 1)), min_size=2, max_size=14),
    chance=st.randoms(use_true_random=False),
)
def test_fills_of_one_moment_are_put_in_the_order_of_their_positions(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[int, int]], chance: random.Random
) -> None:
    folder, rows = tmp_path_factory.mktemp("chain"), chain_of(moves)
    mixed = sorted(chance.sample(rows, len(rows)), key=lambda row: -row["time"])
    for order in (rows, rows[::-1], mixed):
        found = read(folder, order).rows
        assert holds(found) and len(found) == len(rows)
        assert [row.fill.happened_at for row in found] == sorted(row["time"] for row in rows)
