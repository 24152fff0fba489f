"""What knowing nothing comes to: buy and hold against a plain loop, costs and funding included."""

from contextlib import closing

import numpy as np
import pytest

from tapebook.backtest.baselines import Holdings
from tapebook.backtest.book_range import BookedFill, average_exposures, book_range
from tapebook.backtest.equity import sharpe_ratio, step_returns
from tapebook.backtest.home import BacktestHome
from tapebook.backtest.price_series import OrderCosts, PriceSeries, order_costs, price_series
from tapebook.backtest.result import BacktestResult
from tapebook.clock import VirtualClock
from tapebook.domain.units import DAY, E6, E8, HOUR
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms
from tests.backtest.books import END, PRICES, RATE_E12, START, SYMBOLS, Played

FEE, HALF = 0.00045, 0.0001


@pytest.fixture(scope="module")
def result(played: Played) -> BacktestResult:
    return played.result


def held(hours: range) -> dict[int, float]:
    """10,000 in equal parts from the first hour, before selling."""
    sizes = {symbol: 5_000 / (PRICES[symbol][START] / E8 * (1 + HALF)) for symbol in SYMBOLS}
    cash, worth = 10_000 - 2 * 5_000 * FEE, {}
    for hour in hours:
        if hour % (8 * HOUR) == 0 and hour > START:
            cash -= sizes["BTC"] * PRICES["BTC"][hour] / E8 * RATE_E12 / 1e12
        worth[hour] = cash + sum(sizes[name] * PRICES[name][hour] / E8 - 5_000 for name in SYMBOLS)
    return worth


def test_buy_and_hold_is_what_a_loop_over_the_hours_gives(result: BacktestResult) -> None:
    (found,) = [each for each in result.baselines if each.name == "buy and hold"]
    worth = held(range(START, END + 1, HOUR))
    sizes = {symbol: 5_000 / (PRICES[symbol][START] / E8 * (1 + HALF)) for symbol in SYMBOLS}
    # Proceeds are half a spread lower, and pay their fee.
    sold = sum(size * PRICES[name][END] / E8 for name, size in sizes.items())
    last = worth[END] - sold * HALF - sold * (1 - HALF) * FEE
    assert found.net_usd_e6 / E6 == pytest.approx(last - 10_000, abs=0.006)
    days = [worth[day] for day in range(START, END, DAY)] + [last]
    assert [usd / E6 for usd in found.daily] == pytest.approx(days, abs=0.006)
    ratio = sharpe_ratio(step_returns(days))
    assert found.sharpe is not None and ratio is not None and found.sharpe.value == pytest.approx(ratio.value, abs=1e-3)
    series = [*list(worth.values())[:-1], last]
    deepest = max((max(series[: end + 1]) - value) / max(series[: end + 1]) for end, value in enumerate(series))
    assert found.drawdown_ppm == pytest.approx(deepest * 1e6, abs=1)
    assert sum(found.chunks) == pytest.approx(found.net_usd_e6, abs=3 * 10_000) and len(found.chunks) == 4


def test_cash_stays(result: BacktestResult) -> None:
    cash = result.baselines[0]
    assert (cash.name, cash.net_usd_e6, cash.chunks) == ("cash", 0, (0, 0, 0, 0))
    assert set(cash.daily) == {result.total.equity_start_usd_e6}
    assert {len(each.daily) for each in result.baselines} == {len(result.total.daily)}


def path(prices: list[float], *, start: int = START, symbol: str = "X") -> PriceSeries:
    at = np.array([start + place * HOUR for place in range(len(prices))], dtype=np.int64)
    return PriceSeries(symbol, HOUR, at, np.array(prices), np.zeros(len(prices)))


def test_a_late_symbol_is_bought_when_it_comes() -> None:
    costs = OrderCosts(0.0, 0.0)
    moments = np.array([START, START + HOUR, START + 2 * HOUR], dtype=np.int64)
    paths = [path([10.0, 20.0, 20.0]), path([5.0, 10.0], start=START + HOUR, symbol="Y")]
    both = Holdings(paths, [50.0, 50.0], costs)
    assert both.equity(100.0, moments).tolist() == [100.0, 150.0, 200.0]
    assert both.closing_costs() == 0.0
    charged = Holdings(paths[:1], [100.0], OrderCosts(0.01, 0.0))
    assert charged.equity(100.0, moments).tolist() == [99.0, 199.0, 199.0]
    assert charged.closing_costs() == pytest.approx(2.0)


def test_a_short_loses_what_a_long_gains_and_pays_as_much() -> None:
    moments = np.array([START, START + HOUR, START + 2 * HOUR], dtype=np.int64)
    rising = path([10.0, 20.0, 15.0])
    short = Holdings([rising], [-100.0], OrderCosts(0.0, 0.0))
    assert short.equity(1_000.0, moments).tolist() == [1_000.0, 900.0, 950.0]
    # Sold half a spread lower, bought back half a spread higher, with a fee on both.
    costly = Holdings([rising], [-100.0], OrderCosts(0.01, 0.1))
    size = 100 / 9.0
    assert costly.equity(1_000.0, moments).tolist() == pytest.approx([1_099 - size * price for price in (10, 20, 15)])
    assert costly.closing_costs() == pytest.approx(size * (16.5 - 15) + size * 16.5 * 0.01)


def test_the_same_exposure_is_that_of_the_book(result: BacktestResult, played: Played) -> None:
    """The agent's own positions hour by hour, as a loop over its fills counts them."""
    home = BacktestHome(played.parent / "backtests" / result.id)
    with closing(Rooms(home.folder, clock=VirtualClock(END))) as rooms:
        deployment = deploy_agent(rooms.book, rooms.clock, result.agent)
        fills = book_range(rooms.book, rooms.book_db, deployment, after=0, until=result.total.head_seq).booked_fills()
    sums = dict.fromkeys(SYMBOLS, 0.0)
    for symbol in SYMBOLS:
        own = [fill for fill in fills if fill.symbol == symbol]
        assert own and len({fill.signed_size_e8 > 0 for fill in own}) == 2
        for hour in range(START, END, HOUR):
            size = sum(fill.signed_size_e8 for fill in own if fill.at <= hour)
            entry = [fill.price_e8 for fill in own if fill.at <= hour][-1:] or [0]
            # Here a position is opened by one fill and closed by another.
            sums[symbol] += size * entry[0] / 1e16 if size else 0.0
    hours = (END - START) / HOUR
    found = {symbol: usd / E6 for symbol, usd in result.exposures}
    assert found == pytest.approx({symbol: each / hours for symbol, each in sums.items()}, rel=0.01, abs=0.5)
    (same,) = [each for each in result.baselines if each.name == "buy and hold, same exposure"]
    paths, costs = paths_and_costs(played)
    holdings = Holdings(paths, [found[each.symbol] for each in paths], costs)
    last = holdings.equity(10_000.0, np.array([END], dtype=np.int64))[0] - holdings.closing_costs()
    assert same.net_usd_e6 / E6 == pytest.approx(last - 10_000, abs=0.02)
    assert same.trades == 2 and len(same.daily) == len(result.total.daily)


@pytest.mark.parametrize(
    ("fills", "usd"),
    [
        # Half of the time 1,000 long; as long 1,000 short beside it; longer than asked; added to and reduced; turned.
        ([(0, 10, 100), (5, -10, 120)], 500.0),
        ([(0, 10, 100), (5, -20, 100)], 0.0),
        ([(-5, 10, 100), (15, -10, 100)], 1_000.0),
        ([(0, 10, 100), (2, 10, 200), (4, -5, 300)], 200 + 600 + 0.6 * 2_250),
        ([(0, 10, 100), (5, -30, 50)], 500 - 500.0),
    ],
)
def test_exposure_is_what_positions_cost_by_how_long_they_were_held(
    fills: list[tuple[int, int, int]], usd: float
) -> None:
    made = [BookedFill("X", START + at * HOUR, size * E8, price * E8) for at, size, price in fills]
    assert average_exposures(made, start=START, end=START + 10 * HOUR) == {"X": pytest.approx(usd)}


def paths_and_costs(played: Played) -> tuple[list[PriceSeries], OrderCosts]:
    home = BacktestHome(played.parent / "backtests" / played.result.id)
    plan = home.plan()
    with closing(Rooms(home.folder, clock=VirtualClock(plan.end))) as rooms:
        return price_series(rooms.tape, plan), order_costs(rooms.config)


def test_paths_and_costs_are_those_of_the_home(played: Played) -> None:
    found, costs = paths_and_costs(played)
    assert [each.symbol for each in found] == list(SYMBOLS)
    assert [costs.fee, costs.half_spread] == pytest.approx([FEE, HALF])
    btc, eth = found
    assert btc.at[0] == START and btc.at[-1] == END and btc.price[0] == PRICES["BTC"][START] / E8
    assert btc.price[-1] == PRICES["BTC"][END] / E8 and not eth.funding.any()
    due = [PRICES["BTC"][hour] / E8 * RATE_E12 / 1e12 for hour in range(START + 8 * HOUR, END + 1, 8 * HOUR)]
    assert btc.funding[-1] == pytest.approx(sum(due), rel=1e-12) and btc.funding[7] == 0.0
    assert btc.place(np.array([START - 1, START, START + HOUR - 1])).tolist() == [-1, 0, 0]
