"""Played backtests for all tests of the lab that only read them."""

from contextlib import closing

import pytest

from tapebook.clock import VirtualClock
from tapebook.lab.backtest_home import BacktestHome
from tapebook.lab.bars_of import Bars
from tapebook.lab.result import BacktestResult
from tapebook.lab.story import Story, markets, story
from tapebook.wiring import Rooms
from tests.lab import books
from tests.lab.books import Played


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
def shown(played: Played) -> tuple[Story, list[Bars]]:
    """What a report of the voter's weeks is made of."""
    home = BacktestHome(played.parent / "backtests" / played.result.id)
    plan = home.plan()
    with closing(Rooms(home.folder, clock=VirtualClock(plan.end))) as rooms:
        return story(rooms, plan, played.result), markets(rooms, plan)
