"""Two real ledgers through the book: fills of an exchange, and the trades of another backtester.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project.
"""

import csv
import gzip
import json
import os
from bisect import bisect_left, bisect_right
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tapebook.domain.order import Fill, FundingPayment
from tapebook.domain.position import ClosedTrade
from tapebook.domain.units import (
    E6,
    E8,
    E12,
    HOUR,
    MINUTE,
    SECOND,
    divide_half_even,
    notional_usd_e6,
    parse_instant,
    to_units,
)
from tests.book.account_oracle import Desk, SlowAccount

pytestmark = pytest.mark.outside

Bar = tuple[int, int, int]


@pytest.fixture(scope="module")
def ledgers() -> Path:
    """The folder of recorded ledgers."""
    return Path(os.environ["TAPEBOOK_OUTSIDE_DATA"]) / "ledgers"


@pytest.fixture(scope="module")
def perp_fills(ledgers: Path) -> list[dict[str, str]]:
    """Perp fills of two accounts in the order they were executed; coins that start with @ are spot."""
    with gzip.open(ledgers / "hyperliquid_fills_two_accounts.csv.gz", "rt", newline="") as file:
        return [row for row in csv.DictReader(file) if not row["coin"].startswith("@")]


def fill_of(row: dict[str, str]) -> Fill:
    """A row of the exchange as a fill."""
    return Fill(
        fill_id=row["seq"],
        symbol=row["coin"],
        happened_at=parse_instant(row["time_utc_minute"]),
        signed_size_e8=to_units(row["sz"], E8) * (1 if row["side"] == "B" else -1),
        price_e8=to_units(row["px"], E8),
        fee_usd_e6=to_units(row["fee"], E6),
        maker=row["crossed"] == "False",
    )


def test_real_fills_make_the_exchanges_lifetimes_and_results(perp_fills: list[dict[str, str]]) -> None:
    desks: dict[str, Desk] = defaultdict(Desk)
    slow: dict[str, SlowAccount] = defaultdict(SlowAccount)
    reported: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for row in perp_fills:
        account, fill = row["account"], fill_of(row)
        held = desks[account].portfolio.positions.get(fill.symbol)
        assert (held.size_e8 if held else 0) == to_units(row["startPosition"], E8)
        desks[account].fill(fill)
        slow[account].fill(fill.symbol, fill.signed_size_e8, fill.price_e8)
        reported[account, fill.symbol] += Fraction(row["closedPnl"]) * E6
    assert sum(len(desk.closed) for desk in desks.values()) == 37
    ours = {key: desks[key[0]].posted("realised_pnl", key[1]) for key in reported}
    # The exchange rounds entry prices; we do not.
    total = sum(reported.values(), Fraction(0))
    assert abs(sum(ours.values()) - total) <= abs(total) / 1000
    for key, exchange in reported.items():
        assert abs(ours[key] - exchange) <= abs(exchange) / 1000, key
    for account, desk in desks.items():
        check_against_fractions(desk, slow[account])


def check_against_fractions(desk: Desk, slow: SlowAccount) -> None:
    """Cash is the sum of nets, and every lifetime realises what exact average cost says."""
    symbols = list(slow.symbols)
    assert desk.portfolio.cash_usd_e6 == sum(each.net_usd_e6 for symbol in symbols for each in desk.states(symbol))
    for symbol in symbols:
        for trade, exact in zip(desk.states(symbol), slow.symbols[symbol].trades, strict=True):
            assert abs(trade.realised_usd_e6 - exact.realised) <= exact.fills


@pytest.fixture(scope="module")
def other_trades(ledgers: Path) -> list[dict[str, Any]]:
    """Leveraged LTC trades of another backtester."""
    with gzip.open(ledgers / "freqtrade_LTC_trades.json.gz", "rt") as file:
        trades: list[dict[str, Any]] = json.load(file)
    return trades


@pytest.fixture(scope="module")
def bars(ledgers: Path) -> list[Bar]:
    """15-minute bars those trades were made on: time, low, high."""
    rows = parquet(ledgers / "LTC_15m-futures.parquet")
    return [(instant(row["date"]), to_units(row["low"], E8), to_units(row["high"], E8)) for row in rows]


@pytest.fixture(scope="module")
def funding(ledgers: Path) -> dict[int, tuple[int, int]]:
    """Rate and mark of every settlement; a few are stamped some milliseconds late."""
    marks = {instant(row["date"]): to_units(row["open"], E8) for row in parquet(ledgers / "LTC_8h-mark.parquet")}
    rates = parquet(ledgers / "LTC_8h-funding_rate.parquet")
    by_second = {instant(row["date"]) // SECOND * SECOND: to_units(row["open"], E12) for row in rates}
    return {at: (rate, marks[at]) for at, rate in by_second.items() if at in marks}


def parquet(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file."""
    rows: list[dict[str, Any]] = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return rows


def instant(moment: datetime) -> int:
    """A moment in milliseconds."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def ends_of(trade: dict[str, Any]) -> tuple[Fill, Fill]:
    """The two fills of a trade, fees included."""
    size = to_units(trade["amount"], E8) * (-1 if trade["is_short"] else 1)
    ends = []
    for end, signed in (("open", size), ("close", -size)):
        price = to_units(trade[f"{end}_rate"], E8)
        fee = divide_half_even(abs(size) * price * to_units(trade[f"fee_{end}"], E12), 10**22)
        at = trade[f"{end}_timestamp"]
        ends.append(Fill(f"{end}@{at}", "LTC", at, signed, price, fee, maker=True))
    return ends[0], ends[1]


def replay(desk: Desk, trade: dict[str, Any], lived: list[Bar], paid: dict[int, tuple[int, int]]) -> ClosedTrade:
    """One trade: open, every bar's low and high, funding as it was settled, close."""
    opening, closing = ends_of(trade)
    desk.fill(opening)
    for at, (rate, mark) in paid.items():
        amount = -divide_half_even(opening.signed_size_e8 * mark * rate, 10**22)
        desk.fund(FundingPayment("LTC", at, amount, rate))
    for at, low, high in lived:
        desk.mark(at, {"LTC": low})
        desk.mark(at, {"LTC": high})
    desk.fill(closing, reason=trade["exit_reason"])
    desk.marks.clear()
    return desk.closed[-1]


def test_another_backtesters_trades_rederive(
    other_trades: list[dict[str, Any]], bars: list[Bar], funding: dict[int, tuple[int, int]]
) -> None:
    """Profit, duration and extremes. The recorded extremes include the whole bar of the exit, so that bar is shown."""
    desk, times = Desk(), [at for at, _, _ in bars]
    for trade in other_trades:
        start, end = trade["open_timestamp"], trade["close_timestamp"]
        lived = bars[bisect_left(times, start) : bisect_right(times, end)]
        grid = range(start - start % (8 * HOUR), end + 1, 8 * HOUR)
        paid = {at: funding[at] for at in grid if at >= start and at in funding}
        ours = replay(desk, trade, lived, paid)
        # Half a µUSD for each of two notionals, two fees and every settlement; prices have 8 decimals, the record more.
        allowed = Fraction(4 + len(paid), 2) + abs(Fraction(trade["amount"])) / 100 + 1
        assert abs(ours.state.net_usd_e6 - Fraction(trade["profit_abs"]) * E6) <= allowed
        assert ours.holding_ms == trade["trade_duration"] * MINUTE
        check_extremes(ours, trade)
    assert len(desk.closed) == len(other_trades) == 490
    assert desk.portfolio.positions == {}
    assert desk.portfolio.cash_usd_e6 == sum(each.state.net_usd_e6 for each in desk.closed)


def check_extremes(ours: ClosedTrade, trade: dict[str, Any]) -> None:
    """MFE and MAE are what the position was worth at the recorded best and worst rate."""
    assert (ours.state.mae_usd_e6, ours.state.mfe_usd_e6) == recorded_extremes(ours, trade)


def recorded_extremes(ours: ClosedTrade, trade: dict[str, Any]) -> tuple[int, int]:
    """MAE and MFE from the recorded rates."""
    side = -1 if trade["is_short"] else 1
    worth = [notional_usd_e6(ours.state.entered_e8, to_units(trade[rate], E8)) for rate in ("min_rate", "max_rate")]
    results = [0, ours.state.realised_usd_e6, *(side * (each - ours.state.entered_usd_e6) for each in worth)]
    return min(results), max(results)


def test_causal_extremes_lie_within_the_recorded_ones(other_trades: list[dict[str, Any]], bars: list[Bar]) -> None:
    """Without the bar of the exit, which was not over when the trade was: ours, as a live desk would see them."""
    desk, times, narrower = Desk(), [at for at, _, _ in bars], 0
    for trade in other_trades:
        lived = bars[bisect_left(times, trade["open_timestamp"]) : bisect_left(times, trade["close_timestamp"])]
        ours = replay(desk, trade, lived, {})
        worst, best = recorded_extremes(ours, trade)
        assert worst <= ours.state.mae_usd_e6 <= ours.state.realised_usd_e6 <= ours.state.mfe_usd_e6 <= best
        narrower += (worst, best) != (ours.state.mae_usd_e6, ours.state.mfe_usd_e6)
    assert 0 < narrower < len(other_trades)
