"""A backtest on bars alone against a bare loop: the same fills and funding, to the millionth of a dollar."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tapebook
from tapebook.backtest.result import BacktestResult
from tapebook.book.events import FillObserved, FundingObserved, event_body
from tapebook.clock import SystemClock
from tapebook.domain.order import FillRule
from tapebook.domain.units import DAY, HOUR
from tapebook.wiring import Rooms
from tests.backtest import bare_loop
from tests.backtest.bars import START, bars, fill_tape, make_home

DAYS = 18


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some weeks of five minutes, with funding every eight hours, and an agent that follows the trend."""
    home = make_home(tmp_path_factory.mktemp("bare"), days=0, engine="trend", members="", every_minutes="5")
    fill_tape(home, market())
    return home


def market() -> list[Any]:
    return list(bars("BTC", seed=4, days=DAYS, price=40_000.0))


OTHERS = [pytest.param(fill, marks=pytest.mark.soak) for fill in ("worst", "bar_close")]


@pytest.mark.parametrize("fill", ["next_open", *OTHERS])
def test_every_fill_is_that_of_a_bare_loop(home: Path, fill: FillRule) -> None:
    with tapebook.open(home) as book:
        result = book.backtest("tester", chunks="none", memory="off", fill=fill)
    rows = [bare_loop.Bar(bar.bucket_ts, bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8) for bar in market()]
    assert min(row.low for row in rows) > 10_000 * 10**8
    # The rates of `fill_tape`.
    rates = {at: 10_000_000 for at in range(START, START + DAYS * DAY, 8 * HOUR)}
    compare(home, result, rows, rates)
    assert result.fill == fill


def compare(
    home: Path, result: BacktestResult, rows: Sequence[bare_loop.Bar], rates: Mapping[int, int]
) -> bare_loop.Account:
    """Holds what a backtest booked against the loop over the same bars."""
    expected = bare_loop.bare_loop(rows, rates, fill=result.fill)
    fills, funding = booked(home, result)
    assert len(expected.fills) > 40 and len(expected.funding) > 20
    assert {fill.size > 0 for fill in fills} == {True, False}
    assert fills == expected.fills
    assert funding == expected.funding
    return expected


def booked(home: Path, result: BacktestResult) -> tuple[list[bare_loop.Fill], list[tuple[int, int]]]:
    fills, funding = list[bare_loop.Fill](), list[tuple[int, int]]()
    with closing(Rooms(home / "backtests" / result.id, clock=SystemClock())) as rooms:
        for event in rooms.log.events(rooms.book.stream(f"{result.agent}.paper")):
            if event.kind == "fill.observed":
                said = event_body(event, FillObserved).fill
                fills.append(bare_loop.Fill(said.happened_at, said.signed_size_e8, said.price_e8, said.fee_usd_e6))
            elif event.kind == "funding.observed":
                paid = event_body(event, FundingObserved).payment
                funding.append((paid.happened_at, paid.amount_usd_e6))
    return fills, funding
