"""Past fills become trades: the same as if they had been booked when they happened, once, whole or not at all."""

import csv
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook import app
from tapebook.clock import VirtualClock
from tapebook.domain.instants import DAY, MINUTE, iso, parse_instant
from tapebook.domain.market import Candle
from tapebook.domain.money import E8
from tapebook.errors import BadInput
from tapebook.loop.backfill import FillsReport, read_fills
from tapebook.tape.importer import known_at
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres

START = parse_instant("2026-01-05T00:00:00Z")
NOW = START + 30 * DAY
CASH = 10_000
HEADER = ["time", "symbol", "side", "size", "price", "fee", "order_id"]
ROWS = [
    ["2026-01-05T00:00:00Z", "BTC", "buy", "0.5", "60000", "13.5", "o1"],
    ["2026-01-05T01:00:00Z", "BTC", "buy", "0.5", "61000", "13.7", "o2"],
    ["2026-01-05T02:00:00Z", "ETH", "sell", "2", "3000", "0", ""],
    ["2026-01-05T03:00:00Z", "BTC", "sell", "1.5", "62000", "40", "o3"],
]


@pytest.fixture
def book(tmp_path: Path) -> app.Tapebook:
    """A new home, a month after the fills."""
    app.init(tmp_path / "home")
    return app.open(tmp_path / "home", clock=VirtualClock(NOW))


def written(folder: Path, rows: list[list[str]], *, header: list[str] = HEADER) -> Path:
    """A CSV file of fills."""
    path = folder / "fills.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def brought(book: app.Tapebook, path: Path, **options: Any) -> FillsReport:
    """Imports a file for the agent that is there."""
    return book.import_fills(path, agent="btc-5m", **options)


def test_fills_become_trades(book: app.Tapebook, tmp_path: Path) -> None:
    report = brought(book, written(tmp_path, ROWS))
    assert (report.fills, report.new, report.opened, report.closed) == (4, 4, 3, 1)
    assert report.result().startswith("4 of 4 fills booked for btc-5m: 3 trades opened, 1 closed, net ")
    turned, short, closed = book.trades("btc-5m")
    assert (closed["symbol"], closed["side"], closed["entry_price"], closed["exit_price"]) == (
        "BTC",
        "long",
        60500,
        62000,
    )
    assert (closed["realized_pnl_usd"], closed["exit_reason"], closed["entry_reason"]) == (1500, "imported", "imported")
    assert closed["fees_usd"] == pytest.approx(13.5 + 13.7 + 40 * 2 / 3)
    assert (closed["entry_tick_at"], closed["exit_tick_at"]) == ("2026-01-05T00:00:00.000Z", "2026-01-05T03:00:00.000Z")
    assert (turned["symbol"], turned["side"], turned["entry_size_usd"]) == ("BTC", "short", 31_000)
    assert (short["symbol"], short["side"], short["status"]) == ("ETH", "short", "open")
    assert (closed["entry_snapshot_id"], book.verify()) == (None, [])


@pytest.fixture(params=["sqlite", "postgres"])
def shared_book(request: pytest.FixtureRequest, tmp_path: Path) -> app.Tapebook:
    """A new home with two agents, on either database."""
    home = tmp_path / "shared"
    app.init(home)
    if request.param == "postgres":
        # The anchors are those of the book that is left behind.
        shutil.rmtree(home / "archive" / "anchors")
        (home / "tapebook.toml").write_text(f'[store]\nbook = "{request.getfixturevalue("empty_postgres")}"\n')
    book = app.open(home, clock=VirtualClock(NOW))
    for name in ("first", "second"):
        book.add_agent(name, {"watch": "BTC,ETH"})
    return book


def test_same_fills_are_trades_of_each_agent_they_are_imported_for(shared_book: app.Tapebook, tmp_path: Path) -> None:
    ids = (["t1"], ["t2"], ["t3"], ["t4"])
    path = written(tmp_path, [[*row, *name] for row, name in zip(ROWS, ids, strict=True)], header=[*HEADER, "tid"])
    with shared_book as book:
        for agent in ("first", "second"):
            assert book.import_fills(path, agent=agent).new == 4
            assert book.import_fills(path, agent=agent).new == 0
        told = [[(each["symbol"], each["status"], each["net_pnl_usd"]) for each in book.trades(name)]
                for name in ("first", "second")]
        assert told[0] == told[1] and len(told[0]) == 3
        assert len({each["id"] for name in ("first", "second") for each in book.trades(name)}) == 6
        assert book.verify() == []


def test_stale_mark_is_no_extreme_of_imported_fills(book: app.Tapebook, tmp_path: Path) -> None:
    """The newest price of the tape may be hours older than a fill: extremes are of the fills' own prices."""
    rooms = book._rooms
    begins, price = parse_instant("2026-01-04T20:00:00Z"), 90_000 * E8
    stale = Candle("BTC", 3_600, begins, price, price, price, price, 1.0, 1.0, 1)
    rooms.tape.commit([stale], assumed=known_at)
    brought(book, written(tmp_path, ROWS))
    closed = book.trades("btc-5m")[-1]
    assert closed["entry_mark"] == 90_000
    assert (closed["mae_usd"], closed["mfe_usd"]) == (0, 1_500)


def test_fills_of_the_order_that_opened_a_trade_are_its_size(book: app.Tapebook, tmp_path: Path) -> None:
    times = [f"2026-01-05T0{hour}:00:00Z" for hour in range(4)]
    orders = zip(times, ("o1", "o1", "o2", "o1"), strict=True)
    brought(book, written(tmp_path, [[at, "BTC", "buy", "1", "60000", "0", order] for at, order in orders]))
    [trade] = book.trades("btc-5m")
    assert (trade["entry_size_usd"], trade["turnover_usd"]) == (180_000, 240_000)


def test_the_same_file_again_changes_nothing_and_a_longer_one_goes_on(book: app.Tapebook, tmp_path: Path) -> None:
    brought(book, written(tmp_path, ROWS[:3]))
    before = book.trades("btc-5m")
    again = brought(book, written(tmp_path, ROWS[:3]))
    assert (again.new, again.result()) == (0, "nothing new: btc-5m has all of these 3 fills already")
    assert book.trades("btc-5m") == before
    assert brought(book, written(tmp_path, ROWS)).new == 1
    assert [trade["status"] for trade in book.trades("btc-5m")] == ["open", "open", "closed"]


def test_a_dry_run_says_the_same_and_writes_nothing(book: app.Tapebook, tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    dry = brought(book, path, dry_run=True)
    assert "4 of 4 fills would be booked for btc-5m" in dry.result()
    assert (book.trades("btc-5m"), book.agent("btc-5m")["deployment"]) == ([], None)
    real = brought(book, path)
    assert (dry.opened, dry.closed, dry.net_pnl_usd) == (real.opened, real.closed, real.net_pnl_usd)


def test_nobody_knew_of_them_before_they_were_imported(book: app.Tapebook, tmp_path: Path) -> None:
    brought(book, written(tmp_path, ROWS))
    earlier = book.context("btc-5m", "BTC", as_of=NOW - MINUTE, version=1)
    assert earlier.section("recent_trades") is None
    later = app.open(tmp_path / "home", clock=VirtualClock(NOW + MINUTE)).context("btc-5m", "BTC")
    assert later.section("recent_trades") is not None


@pytest.mark.parametrize(
    ("at", "row", "says"),
    [
        (1, ["soon", "BTC", "buy", "1", "1", "0", ""], "row 3: 'soon' is not a time like the others"),
        (
            1,
            ["2099-01-05T00:00:00Z", "BTC", "buy", "1", "1", "0", ""],
            "row 3: 2099-01-05T00:00:00.000Z lies in the fut",
        ),
        (1, ["2026-01-05T01:00:00Z", "B C", "buy", "1", "1", "0", ""], "row 3: 'B C' is not a symbol"),
        (1, ["2026-01-05T01:00:00Z", "BTC", "long", "1", "1", "0", ""], "row 3: side is 'long': write buy or sell"),
        (2, ["2026-01-05T02:00:00Z", "BTC", "buy", "0", "1", "0", ""], "row 4: size and price must be above 0"),
        (2, ["2026-01-05T02:00:00Z", "BTC", "buy", "1", "-1", "0", ""], "row 4: size and price must be above 0"),
        (2, ["2026-01-05T02:00:00Z", "BTC", "buy", "x", "1", "0", ""], "row 4: 'x' is not a number"),
        (2, ["2026-01-05T02:00:00Z", "BTC", "buy", "1", "1", "free", ""], "row 4: 'free' is not a number"),
        (3, ["2026-01-05T00:30:00Z", "BTC", "buy", "1", "1", "0", ""], "row 5 is earlier than the one before it"),
        (1, ["2026-01-05T01:00:00Z", "BTC"], "row 3: has 2 fields instead of 7"),
    ],
)
def test_a_row_that_is_no_fill_refuses_the_file(
    book: app.Tapebook, tmp_path: Path, at: int, row: list[str], says: str
) -> None:
    with pytest.raises(BadInput) as refused:
        brought(book, written(tmp_path, [*ROWS[:at], row, *ROWS[at + 1 :]]))
    assert says in str(refused.value) and "fills.csv" in str(refused.value) and "\n" not in str(refused.value)
    assert book.trades("btc-5m") == []


def test_fills_cannot_come_before_those_there_are(book: app.Tapebook, tmp_path: Path) -> None:
    brought(book, written(tmp_path, ROWS[2:]))
    with pytest.raises(BadInput, match=r"row 2 is before the newest fill of btc-5m, 2026-01-05T03:00:00.000Z"):
        brought(book, written(tmp_path, ROWS))


def test_an_id_means_one_fill(book: app.Tapebook, tmp_path: Path) -> None:
    header = [*HEADER, "fill_id"]
    brought(book, written(tmp_path, [[*ROWS[0], "f1"]], header=header))
    with pytest.raises(BadInput, match="row 2: the book has another fill with the id 'f1'"):
        brought(book, written(tmp_path, [[*ROWS[1], "f1"]], header=header))
    with pytest.raises(BadInput, match="row 2: the id 'f2' stands in more than one row"):
        brought(book, written(tmp_path, [[*ROWS[1], "f2"], [*ROWS[2], "f2"]], header=header))


def test_two_equal_fills_are_two(tmp_path: Path) -> None:
    found = read_fills(written(tmp_path, [ROWS[0], ROWS[0]]), now=NOW)
    assert len({fill.fill_id for _, fill in found}) == 2
    again = read_fills(written(tmp_path, [ROWS[0], ROWS[0], ROWS[1]]), now=NOW)
    assert [fill.fill_id for _, fill in again][:2] == [fill.fill_id for _, fill in found]


def test_other_forms_of_the_same_file(tmp_path: Path) -> None:
    expected = read_fills(written(tmp_path, ROWS), now=NOW)
    objects = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
    exchange = [
        {"coin": row[1], "px": row[4], "sz": row[3], "side": {"buy": "B", "sell": "A"}[row[2]], "fee": row[5]}
        | {"time": parse_instant(row[0]), "oid": row[6]}
        for row in ROWS
    ]
    texts = {
        "a.json": json.dumps(objects),
        "b.jsonl": "\n".join(map(json.dumps, exchange)),
        "c.json": json.dumps(objects[::-1]),
        "d.csv": "\n".join(";".join(row) for row in [HEADER, *ROWS]),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found = read_fills(tmp_path / name, now=NOW)
        assert [fill for _, fill in found] == [fill for _, fill in expected], name


def test_files_that_hold_no_fills(tmp_path: Path) -> None:
    for name, text, says in (
        ("a.csv", "time,symbol,side,size\n1,2,3,4\n", "has no column 'time'"),
        ("b.json", '[{"time": 1, "symbol": "BTC", "side": "buy", "size": 1}]', "has no column 'price'"),
        ("c.json", "{", "the file is not whole JSON"),
        ("d.csv", "", "is empty"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(BadInput) as refused:
            read_fills(tmp_path / name, now=NOW)
        assert says in str(refused.value)


deals = st.tuples(
    st.sampled_from(["BTC", "ETH"]), st.sampled_from([1, -1]), st.integers(1, 5), st.integers(1, 9), st.integers(0, 3)
)


@settings(max_examples=25)
@given(st.lists(deals, min_size=1, max_size=12), st.integers(0, 12))
def test_money_adds_up_however_the_file_is_cut(found: list[tuple[str, int, int, int, int]], cut: int) -> None:
    rows = [
        [iso(START + at * MINUTE), symbol, "buy" if side > 0 else "sell", str(size), str(price), str(fee), ""]
        for at, (symbol, side, size, price, fee) in enumerate(found)
    ]
    paid = sum(side * size * price + fee for _, side, size, price, fee in found)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app.init(folder / "home")
        with app.open(folder / "home", clock=VirtualClock(NOW)) as book:
            for part in (rows[:cut], rows):
                if part:
                    brought(book, written(folder, part))
            trades = book.trades("btc-5m", most=100)
            held = {symbol: sum(s * size for c, s, size, _, _ in found if c == symbol) for symbol in ("BTC", "ETH")}
            opened = {trade["symbol"]: trade for trade in trades if trade["status"] == "open"}
            assert {symbol: size for symbol, size in held.items() if size}.keys() == opened.keys()
            account = book._rooms.book.account("btc-5m.paper", seq=10**6)
            cost = sum(position.cost_usd_e6 for position in account.portfolio.positions.values())
            assert account.portfolio.cash_usd_e6 == (CASH - paid) * 10**6 + cost
            assert sum(trade["net_pnl_usd"] for trade in trades) == pytest.approx(
                account.portfolio.cash_usd_e6 / 1e6 - CASH
            )
            assert book.verify() == []
