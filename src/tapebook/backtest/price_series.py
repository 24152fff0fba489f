"""A symbol's bars and prices over a plan's range as columns of numbers, for baselines and charts; never for money.

`finest_bars` gives the bars, `price_series` the prices that somebody without memory could have traded at, with the
funding that one unit has paid by each moment, and `order_costs` what the paper broker charges for taking.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from tapebook.backtest.plan import BacktestPlan
from tapebook.broker import PaperTerms
from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.units import DAY, E8, SECOND
from tapebook.settings.config import Config
from tapebook.tape.bars import BAR_LENGTHS
from tapebook.tape.store import Tape
from tapebook.tape.view import GRACE_MS, View
from tapebook.wiring import paper_terms

Numbers = npt.NDArray[np.float64]
Moments = npt.NDArray[np.int64]

# A year of minutes at once would be half a million rows in memory.
_PAGE = 30 * DAY
# The finest bars that reach over nearly all of what any reach over.
# A few missing days at the end must not make a year of minutes lose to daily bars.
_ENOUGH = 0.95


class BarColumns(msgspec.Struct, frozen=True):
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


def finest_bars(tape: Tape, plan: BacktestPlan, symbol: str) -> BarColumns | None:
    """The finest bars a symbol has over a plan's range, as the plan may know them; None when it has none."""
    found: BarColumns | None = None
    for granularity in BAR_LENGTHS:
        bars = _read_bars(tape, plan, symbol, granularity)
        if bars is None:
            continue
        if _span_ms(bars) >= _ENOUGH * (plan.end - plan.start):
            return bars
        if found is None or _span_ms(found) < _ENOUGH * _span_ms(bars):
            found = bars
    return found


def _span_ms(bars: BarColumns) -> int:
    return int(bars.end[-1] - bars.at[0])


def _read_bars(tape: Tape, plan: BacktestPlan, symbol: str, granularity: int) -> BarColumns | None:
    # The bar that ends with the plan is known a little later; one that ends after it is not read.
    view = View(plan.end + GRACE_MS, plan.tape_seq)
    rows: list[Candle] = []
    for since in range(plan.start, plan.end, _PAGE):
        rows += tape.candles(symbol, granularity_sec=granularity, since=since, until=since + _PAGE - 1, view=view)
    if not rows:
        return None
    columns = [[getattr(row, name) for row in rows] for name in ("open_e8", "high_e8", "low_e8", "close_e8")]
    prices = [np.array(column, dtype=np.float64) / E8 for column in columns]
    return BarColumns(symbol, granularity * SECOND, np.array([row.bucket_ts for row in rows], dtype=np.int64), *prices)


_PPM = 1e6
_E12 = 1e12


class OrderCosts(msgspec.Struct, frozen=True):
    """What a market order costs, as shares of its value: the fee, and half the spread."""

    fee: float
    half_spread: float

    @property
    def each_way(self) -> float:
        """Both together."""
        return self.fee + self.half_spread


class PriceSeries(msgspec.Struct, frozen=True):
    """Prices at moments: the open of every bar, and the close of the last.

    `funding` is what one unit held since the beginning has paid by each moment; a stretch paid the difference.
    """

    symbol: str
    step_ms: int
    at: Moments
    price: Numbers
    funding: Numbers

    def place(self, moments: Moments) -> Moments:
        """Where the newest price at or before each moment stands; -1 before the first."""
        return np.searchsorted(self.at, moments, side="right") - 1


def price_series(tape: Tape, plan: BacktestPlan) -> list[PriceSeries]:
    """The price series of every symbol that has bars, in the order of the plan."""
    found = (finest_bars(tape, plan, symbol) for symbol in plan.symbols)
    return [_series_of(tape, plan, bars) for bars in found if bars is not None]


def order_costs(config: Config) -> OrderCosts:
    """What the paper broker charges for taking, where no book was recorded and size does not matter."""
    terms: PaperTerms = paper_terms(config)
    return OrderCosts(terms.taker_fee_ppm / _PPM, terms.spread_ppm / 2 / _PPM)


def _series_of(tape: Tape, plan: BacktestPlan, bars: BarColumns) -> PriceSeries:
    at = np.append(bars.at, bars.end[-1])
    # Opens: they are what somebody who acts at a bar's beginning could have had.
    price = np.append(bars.open, bars.close[-1])
    bare = PriceSeries(bars.symbol, bars.step_ms, at, price, np.zeros(len(at)))
    return msgspec.structs.replace(bare, funding=_funding_paid(tape, plan, bare))


def _funding_paid(tape: Tape, plan: BacktestPlan, path: PriceSeries) -> Numbers:
    view = View(plan.end + GRACE_MS, plan.tape_seq)
    rates = tape.facts(FundingRate, path.symbol, since=int(path.at[0]) + 1, view=view)
    if not rates:
        return path.funding
    hours = np.array([rate.bucket_ts for rate in rates], dtype=np.int64)
    due = path.price[path.place(hours)] * np.array([rate.rate_e12 for rate in rates], dtype=np.float64) / _E12
    paid = np.concatenate([[0.0], np.cumsum(due)])
    return paid[np.searchsorted(hours, path.at, side="right")]
