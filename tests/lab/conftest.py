"""Played backtests for all tests of the lab that only read them."""

import pytest

from tapebook.lab.result import BacktestResult
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
