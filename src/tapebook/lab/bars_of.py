"""A symbol's bars over a whole range as columns of numbers, for baselines and charts; never for money."""

import msgspec
import numpy as np
import numpy.typing as npt

from tapebook.domain.instants import DAY, SECOND
from tapebook.domain.market import Candle
from tapebook.domain.money import E8
from tapebook.lab.plan import Plan
from tapebook.tape.bars import LENGTHS
from tapebook.tape.importer import GRACE_MS
from tapebook.tape.store import Tape, View

Numbers = npt.NDArray[np.float64]
Moments = npt.NDArray[np.int64]

_PAGE = 30 * DAY
# The finest bars that reach over nearly all of what any reach over.
_ENOUGH = 0.95


class Bars(msgspec.Struct, frozen=True):
    """Bars of one length, oldest first; `at` is when each begins."""

    symbol: str
    step_ms: int
    at: Moments
    open: Numbers
    high: Numbers
    low: Numbers
    close: Numbers

    def __len__(self) -> int:
        return len(self.at)

    @property
    def end(self) -> Moments:
        """When each bar ends."""
        return self.at + self.step_ms


def bars_of(tape: Tape, plan: Plan, symbol: str) -> Bars | None:
    """The finest bars a symbol has over a plan's range, as the plan may know them; None when it has none."""
    found: Bars | None = None
    for granularity in LENGTHS:
        bars = _read(tape, plan, symbol, granularity)
        if bars is None:
            continue
        if _reach(bars) >= _ENOUGH * (plan.end - plan.start):
            return bars
        if found is None or _reach(found) < _ENOUGH * _reach(bars):
            found = bars
    return found


def _reach(bars: Bars) -> int:
    return int(bars.end[-1] - bars.at[0])


def _read(tape: Tape, plan: Plan, symbol: str, granularity: int) -> Bars | None:
    # The bar that ends with the plan is known a little later; one that ends after it is not read.
    view = View(plan.end + GRACE_MS, plan.tape_seq)
    rows: list[Candle] = []
    for since in range(plan.start, plan.end, _PAGE):
        rows += tape.candles(symbol, granularity_sec=granularity, since=since, until=since + _PAGE - 1, view=view)
    if not rows:
        return None
    columns = [[getattr(row, name) for row in rows] for name in ("open_e8", "high_e8", "low_e8", "close_e8")]
    prices = [np.array(column, dtype=np.float64) / E8 for column in columns]
    return Bars(symbol, granularity * SECOND, np.array([row.bucket_ts for row in rows], dtype=np.int64), *prices)
