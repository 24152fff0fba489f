"""Past fills become trades: the same as if they had been booked when they happened, once, whole or not at all."""

import csv
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.db import Query, Row
from tapebook.db.sqlite import SqliteDatabase
from tapebook.domain.market import Candle, FundingRate, Mid, Observation
from tapebook.domain.order import Fill
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, iso_text, parse_instant
from tapebook.errors import BadInput
from tapebook.history.book_import import FillsReport
from tapebook.history.fill_files import read_fill_rows
from tapebook.history.importer import assumed_known_at
from tapebook.horizons import rollup
from tapebook.log import Draft, Event
from tapebook.tick import memory
from tapebook.tick.learn import learn_what_is_due
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.matrix import examples

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


def fills_of(path: Path) -> list[Fill]:
    """The fills of a file."""
    return [row.fill for row in read_fill_rows(path, now=NOW).rows]


def test_fills_become_trades(book: app.Tapebook, tmp_path: Path) -> None:
    report = brought(book, written(tmp_path, ROWS))
    assert (report.fills, report.new, report.opened, report.closed) == (4, 4, 3, 1)
    assert report.result_line().startswith("4 of 4 fills booked for btc-5m: 3 trades opened, 1 closed, net ")
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
        told = [
            [(each["symbol"], each["status"], each["net_pnl_usd"]) for each in book.trades(name)]
            for name in ("first", "second")
        ]
        assert told[0] == told[1] and len(told[0]) == 3
        assert len({each["id"] for name in ("first", "second") for each in book.trades(name)}) == 6
        assert book.verify() == []


def test_stale_mark_is_no_extreme_of_imported_fills(book: app.Tapebook, tmp_path: Path) -> None:
    """The newest price of the tape may be hours older than a fill: extremes are of the fills' own prices."""
    rooms = book._rooms
    begins, price = parse_instant("2026-01-04T20:00:00Z"), 90_000 * E8
    stale = Candle("BTC", 3_600, begins, price, price, price, price, 1.0, 1.0, 1)
    rooms.tape.commit([stale], assumed=assumed_known_at)
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
    assert (again.new, again.result_line()) == (0, "nothing new: btc-5m has all of these 3 fills already")
    assert book.trades("btc-5m") == before
    assert brought(book, written(tmp_path, ROWS)).new == 1
    assert [trade["status"] for trade in book.trades("btc-5m")] == ["open", "open", "closed"]


def test_a_dry_run_says_the_same_and_writes_nothing(book: app.Tapebook, tmp_path: Path) -> None:
    path = written(tmp_path, ROWS)
    dry = brought(book, path, dry_run=True)
    assert "4 of 4 fills would be booked for btc-5m" in dry.result_line()
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
    with pytest.raises(BadInput, match="row 3: the id 'f2' stands in more than one row"):
        brought(book, written(tmp_path, [[*ROWS[1], "f2"], [*ROWS[2], "f2"]], header=header))


def test_two_equal_fills_are_two(tmp_path: Path) -> None:
    found = fills_of(written(tmp_path, [ROWS[0], ROWS[0]]))
    assert len({fill.fill_id for fill in found}) == 2
    again = fills_of(written(tmp_path, [ROWS[0], ROWS[0], ROWS[1]]))
    assert [fill.fill_id for fill in again][:2] == [fill.fill_id for fill in found]


def test_other_forms_of_the_same_file(tmp_path: Path) -> None:
    expected = fills_of(written(tmp_path, ROWS))
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
        assert fills_of(tmp_path / name) == expected, name


def test_files_that_hold_no_fills(tmp_path: Path) -> None:
    for name, text, says in (
        ("a.csv", "time,symbol,side,size\n1,2,3,4\n", "has no column for price"),
        ("b.json", '[{"time": 1, "symbol": "BTC", "side": "buy", "size": 1}]', "has no column for price"),
        ("c.json", "{", "the file is not whole JSON"),
        ("d.csv", "", "is empty"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(BadInput) as refused:
            fills_of(tmp_path / name)
        assert says in str(refused.value)


deals = st.tuples(
    st.sampled_from(["BTC", "ETH"]), st.sampled_from([1, -1]), st.integers(1, 5), st.integers(1, 9), st.integers(0, 3)
)


@settings(max_examples=examples(25))
@given(st.lists(deals, min_size=1, max_size=12), st.integers(0, 12))
def test_money_adds_up_however_the_file_is_cut(found: list[tuple[str, int, int, int, int]], cut: int) -> None:
    rows = [
        [iso_text(START + at * MINUTE), symbol, "buy" if side > 0 else "sell", str(size), str(price), str(fee), ""]
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


FILL = {"coin": "SOL", "px": "100", "sz": "2", "side": "B", "time": START, "startPosition": "0", "dir": "Open Long"}
FILL |= {"fee": "0.1", "feeToken": "USDC", "tid": 1, "oid": 5, "crossed": True, "closedPnl": "0"}


def answered(folder: Path, *fills: dict[str, Any]) -> Path:
    """A file with an answer of the exchange, newest first."""
    path = folder / "fills.json"
    path.write_text(json.dumps(fills[::-1]))
    return path


def closing(hours: int, **fields: Any) -> dict[str, Any]:
    """The fill that ends what `FILL` began."""
    end = {"side": "A", "time": START + hours * HOUR, "startPosition": "2", "dir": "Close Long", "tid": 2, "px": "103"}
    return FILL | end | fields


def rows_of(book: app.Tapebook, sql: str) -> list[Row]:
    """The rows a statement gives."""
    return [tuple(row) for row in book._rooms.book_db.all(Query.compile("test", "", sql))]


def test_spot_fills_and_fees_in_tokens_are_booked_apart(shared_book: app.Tapebook, tmp_path: Path) -> None:
    spot = FILL | {"coin": "@107", "dir": "Buy", "fee": "0.0056", "feeToken": "HYPE", "tid": 0, "time": START + 1}
    dust = spot | {"coin": "@9", "dir": "Spot Dust Conversion", "side": "A", "fee": "0"}
    path = answered(tmp_path, FILL, spot, dust, closing(1, fee="0.5", feeToken="HYPE"))
    with shared_book as book:
        report = book.import_fills(path, agent="first")
        assert (report.new, report.spot, report.opened, report.closed) == (4, 2, 1, 1)
        assert (report.token_fees, report.net_pnl_usd) == ({"HYPE": "0.5056"}, 5.9)
        assert "2 spot fills booked apart: no trades, no part of cash" in report.lines()
        assert "fees in tokens, no part of USD results: 0.5056 HYPE" in report.lines()
        assert [trade["symbol"] for trade in book.trades("first")] == ["SOL"]
        columns = "market, signed_size_e8, fee_e8, fee_token, direction"
        spots = rows_of(book, f"SELECT {columns} FROM spot_fills ORDER BY seq")
        assert spots == [("@107", 2 * E8, 560_000, "HYPE", "Buy"), ("@9", -2 * E8, 0, "HYPE", "Spot Dust Conversion")]
        fees = rows_of(book, "SELECT fee_usd_e6, fee_token, fee_e8, bridge FROM fills ORDER BY seq")
        assert fees == [(100_000, None, None, 0), (0, "HYPE", E8 // 2, 0)]
        assert book.import_fills(path, agent="first").new == 0
        assert book.verify() == []


def test_missing_fills_are_told_with_their_row(book: app.Tapebook, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        brought(book, answered(tmp_path, FILL, closing(2, startPosition="3", tid=4), closing(1, startPosition="2.5")))
    says = r"fills.json row 1: SOL stood at 2.5 before it, by the fills known 2 (and so at 1 more row); "
    assert says in str(refused.value) and "`bridge=`" in str(refused.value)
    assert book.trades("btc-5m") == [] and book.agent("btc-5m")["closed_trades"] == 0


def test_a_bridged_trade_is_marked_and_nothing_is_learned_from_it(book: app.Tapebook, tmp_path: Path) -> None:
    """A page that begins in a long: its closes end that long, and are no shorts."""
    whole = [FILL | {"time": START + 5 * HOUR, "tid": 8}, closing(6, tid=9)]
    page = [closing(1, sz="0.5", closedPnl="1.25"), closing(2, sz="1.5", startPosition="1.5", tid=3, closedPnl="4.5")]
    report = brought(book, answered(tmp_path, *page, *whole), bridge=True)
    assert report.bridged == ("row 4: SOL stood at 2 before it, by the fills known 0",)
    assert (report.opened, report.closed, report.lacks["fills"]) == (2, 2, 1)
    good, bridged = book.trades("btc-5m")
    # The exchange gave a result for the first close, so the entry is known: 103 - 1.25 / 0.5.
    assert (bridged["side"], bridged["entry_price"], bridged["entry_reason"]) == ("long", 100.5, "bridged")
    assert (bridged["lacks"][0], bridged["realized_pnl_usd"], good["lacks"]) == ("fills", 5.0, ["funding", "path"])
    rooms, own = book._rooms, "btc-5m.paper"
    seq = rooms.book.head(own)
    learned = rooms.book.closed_after(own, after=0, seq=seq)
    assert [trade.state.trade_id for trade in learned] == [good["id"]]
    assert rooms.book.closed_count_since(own, after=0, seq=seq)[0] == 1
    assert [each.state.trade_id for each in rooms.book.closed_trades(own, seq=seq, most=9)] == [good["id"]]
    on_day = rooms.book.trades_closed_between(own, since=START, until=NOW, seq=seq)
    assert [each.trade.state.trade_id for each in on_day] == [good["id"]]
    assert not rooms.experience.is_learned(own, bridged["id"]) and rooms.experience.is_learned(own, good["id"])
    with app.open(tmp_path / "home", clock=VirtualClock(NOW + MINUTE)) as later:
        section = later.context("btc-5m", "BTC").section("recent_trades")
    assert section is not None and len(section.rows) == 1
    assert brought(book, answered(tmp_path, *page, *whole), bridge=True).new == 0
    assert book.verify() == []


def test_entry_before_a_history_follows_from_the_first_result(book: app.Tapebook, tmp_path: Path) -> None:
    """2 held at 90 and 2 added at 100 are 4 at 95: the result of selling 1 of them at 103 is 8."""
    added = FILL | {"startPosition": "2"}
    sold = closing(1, sz="1", startPosition="4", closedPnl="8")
    brought(book, answered(tmp_path, added, sold), bridge=True)
    [trade] = book.trades("btc-5m")
    assert (trade["entry_price"], trade["realized_pnl_usd"], trade["lacks"]) == (95, 8, ["fills", "funding", "path"])


def test_a_gap_within_a_trade_marks_it(book: app.Tapebook, tmp_path: Path) -> None:
    """What is missing turns the position: both the trade that ended in the gap and the next one lack fills."""
    after = FILL | {"side": "B", "startPosition": "-1", "sz": "1", "dir": "Close Short", "time": START + HOUR, "tid": 2}
    report = brought(book, answered(tmp_path, FILL, after), bridge=True)
    assert (report.closed, report.lacks["fills"]) == (2, 2)
    assert [(trade["side"], trade["exit_reason"]) for trade in book.trades("btc-5m")] == [
        *(("short", "imported"), ("long", "bridged")),
    ]


def test_liquidations_end_trades_as_such(book: app.Tapebook, tmp_path: Path) -> None:
    forced = {"liquidation": {"liquidatedUser": "0xme", "markPx": "90", "method": "market"}}
    brought(book, answered(tmp_path, FILL, closing(1, **forced)))
    assert book.trades("btc-5m")[0]["exit_reason"] == "liquidated"


def market(book: app.Tapebook, *, hours: int, low: int = 95, high: int = 108, rate_e12: int = 10**8) -> None:
    """Bars of a quarter hour around a position, a rate every hour, and a mark at each."""
    facts: list[Observation] = []
    for number in range(hours * 4):
        at = START + number * 15 * MINUTE
        facts.append(Candle("SOL", 900, at, 100 * E8, high * E8, low * E8, 101 * E8, 1.0, 1.0, 1))
    for hour in range(hours + 1):
        facts += [FundingRate("SOL", START + hour * HOUR, rate_e12, 0), Mid("SOL", START + hour * HOUR, 110 * E8)]
    book._rooms.tape.commit(facts, assumed=assumed_known_at)


def test_funding_and_path_come_from_the_tape(book: app.Tapebook, tmp_path: Path) -> None:
    market(book, hours=4)
    report = brought(book, answered(tmp_path, FILL, closing(3)))
    [trade] = book.trades("btc-5m")
    # At each of three hours 2 SOL at 110 pay 0.01 %; the fill at the third hour ends what was held then.
    assert trade["funding_usd"] == pytest.approx(-3 * 2 * 110 * 0.0001)
    assert (trade["mae_usd"], trade["mfe_usd"], trade["lacks"]) == (-10, 20, [])
    assert trade["net_pnl_usd"] == pytest.approx(6 - 0.2 - 0.066)
    assert report.result_line().endswith("net 5.73 USD (funding -0.07)") and report.lacks == {}
    assert book.verify() == []


def test_a_tape_without_rates_or_prices_is_told(book: app.Tapebook, tmp_path: Path) -> None:
    market(book, hours=4)
    late = {"time": START + 9 * HOUR}
    brought(book, answered(tmp_path, FILL, closing(9)))
    [trade] = book.trades("btc-5m")
    assert trade["lacks"] == ["funding", "path"]
    # What is there counts.
    assert trade["funding_usd"] == pytest.approx(-4 * 2 * 110 * 0.0001) and trade["mae_usd"] == -10
    lines = brought(book, answered(tmp_path, FILL, closing(9), FILL | late | {"tid": 5}, closing(10, tid=6))).lines()
    assert lines[-2:] == [
        "funding is not all known of 1 of 1 closed trade: the tape lacks rates or prices of their hours",
        "best and worst results are not all known of 1 of 1 closed trade: the tape lacks prices of their time",
    ]


def test_a_file_in_two_parts_gives_the_trades_of_the_whole(book: app.Tapebook, tmp_path: Path) -> None:
    """Funding and path of a position that stays open between two imports are booked by the second."""
    market(book, hours=4)
    more = FILL | {"startPosition": "2", "time": START + HOUR + MINUTE, "tid": 7, "px": "102"}
    end = closing(3, sz="4", startPosition="4")
    brought(book, answered(tmp_path, FILL, more))
    assert brought(book, answered(tmp_path, FILL, more, end)).new == 1
    app.init(tmp_path / "other")
    with app.open(tmp_path / "other", clock=VirtualClock(NOW)) as other:
        market(other, hours=4)
        brought(other, answered(tmp_path, FILL, more, end))
        fields = ("net_pnl_usd", "funding_usd", "mfe_usd", "mae_usd", "lacks")
        ours, whole = dict(book.trades("btc-5m")[0]), dict(other.trades("btc-5m")[0])
        assert [ours[name] for name in fields] == [whole[name] for name in fields] and not whole["lacks"]


class Killed(BaseException):
    """A process that ends without a word."""


def trips(count: int) -> list[list[str]]:
    """Round trips, six a day, that win and lose in turn."""
    rows = []
    for number in range(count):
        at, price = START + number * 4 * HOUR, 100 + 5 * (number % 3)
        rows.append([iso_text(at), "BTC", "buy", "1", "100", "0", ""])
        rows.append([iso_text(at + HOUR), "BTC", "sell", "1", str(price - 2), "0", ""])
    return rows


def all_learned(book: app.Tapebook) -> tuple[Any, ...]:
    """What experience and layers say of an agent."""
    rooms, own = book._rooms, "btc-5m.paper"
    seq = rooms.book.head(own)
    outcomes = rooms.experience.outcomes(own, seq=seq, most=1_000)
    told = rooms.horizons.packet_rows(own, seq=seq, as_of=NOW)
    return sorted(each.trade_id for each in outcomes), rooms.experience.records(own, seq=seq), told


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of four trades and two days."""
    monkeypatch.setattr(memory, "STEP_TRADES", 4)
    monkeypatch.setattr(rollup, "STEP_DAYS", 2)


def learned_at_once(folder: Path, path: Path) -> tuple[Any, ...]:
    """What a home learns from a file in one step."""
    app.init(folder / "whole")
    with app.open(folder / "whole", clock=VirtualClock(NOW)) as whole:
        brought(whole, path)
        return all_learned(whole)


def test_learning_in_steps_comes_to_the_same(
    book: app.Tapebook, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step commits more than it may, leases get their signs of life, and what is learned is what it always was."""
    path = written(tmp_path, trips(30))
    expected = learned_at_once(tmp_path, path)
    request.getfixturevalue("small_steps")
    rooms, steps, beats, shown = book._rooms, list[list[str]](), list[int](), list[str]()
    append = rooms.book.append

    def noted(deployment: str, drafts: Sequence[Draft], *, expected_seq: int) -> list[Event]:
        steps.append([draft.kind for draft in drafts])
        return append(deployment, drafts, expected_seq=expected_seq)

    def beat() -> list[Any]:
        beats.append(1)
        return []

    monkeypatch.setattr(rooms.book, "append", noted)
    monkeypatch.setattr(rooms.leases, "heartbeat_if_due", beat)
    brought(book, path, progress=shown.append)
    taught = [kinds.count("experience.learned") for kinds in steps if "fill.observed" not in kinds]
    assert max(taught) == 4 and sum(taught) == 30 and len(beats) >= 8
    assert shown[-1].endswith(" learned")
    assert all_learned(book) == expected and book.verify() == []


def test_learning_goes_on_where_it_was_killed(
    book: app.Tapebook, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, trips(30))
    expected = learned_at_once(tmp_path, path)
    request.getfixturevalue("small_steps")
    beats: list[int] = []

    def die() -> list[Any]:
        beats.append(1)
        if len(beats) == 3:
            raise Killed
        return []

    monkeypatch.setattr(book._rooms.leases, "heartbeat_if_due", die)
    with pytest.raises(Killed):
        brought(book, path)
    assert len(all_learned(book)[0]) == 12
    with app.open(tmp_path / "home", clock=VirtualClock(NOW)) as again:
        rooms, deployment = again._rooms, again._rooms.book.find_agent("btc-5m")
        # As every decision does before it is made.
        for count in (16, 20, 24, 28, 30, 30):
            assert learn_what_is_due(rooms, deployment) == ()
            assert len(all_learned(again)[0]) == count
        assert all_learned(again) == expected and again.verify() == []


def test_fills_of_the_same_time_ask_the_tape_no_more_often_the_more_there_are(
    book: app.Tapebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prices, bars and rates are read in pages: an account of years has a hundred thousand fills."""
    minutes = range(START - DAY, START + DAY, MINUTE)
    bars = [Candle("BTC", 60, at, 10**12, 10**12, 10**12, 10**12, 1.0, 1.0, 1) for at in minutes]
    rates = [FundingRate("BTC", START + hour * HOUR, 10**7, 0) for hour in range(24)]
    book._rooms.tape.commit([*bars, *rates], assumed=assumed_known_at)
    asked: list[str] = []
    real = SqliteDatabase.all

    def counted(self: SqliteDatabase, query: Query, **params: Any) -> list[Row]:
        asked.extend([query.name] * any(table.startswith("tape_") for table in query.tables))
        return real(self, query, **params)

    monkeypatch.setattr(SqliteDatabase, "all", counted)
    often = []
    for agent, count in (("few", 10), ("many", 400)):
        book.add_agent(agent, {"watch": "BTC"})
        step, sides = DAY // count, ("buy", "sell")
        rows = [
            [iso_text(START + place * step), "BTC", sides[place % 2], "0.1", "10000", "1", f"{agent}{place}"]
            for place in range(count)
        ]
        asked.clear()
        report = book.import_fills(written(tmp_path, rows), agent=agent)
        assert report.closed == count // 2 and report.lacks == {}
        often.append(len(asked))
    assert often[1] <= often[0] + 10, often
