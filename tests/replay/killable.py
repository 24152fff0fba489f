"""The command line, which says on stdout how far it has come, so that a test can kill it anywhere.

Run as `python -m tests.replay.killable demo --fast …`.
"""

import os
import sys
from unittest import mock

from tapebook.backtest.result import BacktestResult
from tapebook.backtest.run import BacktestRun
from tapebook.clock import VirtualClock
from tapebook.surfaces.cli import main

_advance = VirtualClock.advance
_run_to_end = BacktestRun.run_to_end


def _told(clock: VirtualClock, to: int) -> None:
    _advance(clock, to)
    # In one call of the system, so that a line is there whole or not at all.
    os.write(1, f"at {to}\n".encode())


def _run_backtest(run: BacktestRun) -> BacktestResult:
    os.write(1, b"backtest\n")
    return _run_to_end(run)


if __name__ == "__main__":
    patch = mock.patch.object
    with patch(VirtualClock, "advance", _told), patch(BacktestRun, "run_to_end", _run_backtest):
        sys.exit(main())
