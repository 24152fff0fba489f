"""The played backtests of `tests/backtest/conftest.py`, to be drawn."""

from tests.backtest.conftest import played as played
from tests.backtest.conftest import rival as rival
from tests.backtest.conftest import shown as shown
