"""Played backtests for all tests of the lab that only read them."""

from contextlib import closing

import pytest

from tapebook.backtest.home import BacktestHome
from tapebook.backtest.price_series import BarColumns
from tapebook.backtest.result import BacktestResult
from tapebook.clock import VirtualClock
from tapebook.report.export import ReportData, market_bars, report_data
from tapebook.wiring import Rooms
from tests.backtest import books
from tests.backtest.books import Played


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Four weeks of the voter, measured."""
    return books.played(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def rival(tmp_path_factory: pytest.TempPathFactory) -> BacktestResult:
    """The same weeks without memory and with other trades."""
    result = books.play(tmp_path_factory.mktemp("rival") / "home", memory="off", seed="another")
    assert result is not None
    return result


@pytest.fixture(scope="session")
def shown(played: Played) -> tuple[ReportData, list[BarColumns]]:
    """What a report of the voter's weeks is made of."""
    home = BacktestHome(played.parent / "backtests" / played.result.id)
    plan = home.plan()
    with closing(Rooms(home.folder, clock=VirtualClock(plan.end))) as rooms:
        return report_data(rooms.book, rooms.book_db, plan, played.result), market_bars(rooms.tape, plan)
