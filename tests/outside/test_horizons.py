"""Two real ledgers through the layers: fills of an exchange, and the trades of another backtester.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project.
"""

import random
import statistics
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from tapebook.domain.position import ClosedTrade
from tapebook.domain.units import DAY, E6, HOUR
from tapebook.horizons.aggregate import TradeExit, exit_of
from tapebook.horizons.contexts import LayerConnection
from tapebook.horizons.layers import LAYER_OF, period_of
from tapebook.horizons.rollup import rollup_values
from tests.book.account_oracle import Desk
from tests.horizons.makers import SCOPE, Ledger, in_memory, roll
from tests.horizons.oracle import check_conservation, deepest_fall, from_scratch, in_time, periods_of, stored
from tests.outside.test_real_ledgers import fill_of, replay
from tests.outside.test_real_ledgers import funding as funding
from tests.outside.test_real_ledgers import ledgers as ledgers
from tests.outside.test_real_ledgers import other_trades as other_trades
from tests.outside.test_real_ledgers import perp_fills as perp_fills

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def backtested(other_trades: list[dict[str, Any]], funding: dict[int, tuple[int, int]]) -> list[TradeExit]:
    """490 trades of a year and more, with the funding they paid."""
    desk, closed = Desk(), []
    for trade in other_trades:
        start, end = trade["open_timestamp"], trade["close_timestamp"]
        grid = range(start - start % (8 * HOUR), end + 1, 8 * HOUR)
        closed.append(replay(desk, trade, [], {at: funding[at] for at in grid if at >= start and at in funding}))
    return unique(closed)


@pytest.fixture(scope="module")
def exchanged(perp_fills: list[dict[str, str]]) -> list[TradeExit]:
    """37 round trips of two accounts."""
    desks: dict[str, Desk] = defaultdict(Desk)
    for row in perp_fills:
        desks[row["account"]].fill(fill_of(row))
    return unique([trade for desk in desks.values() for trade in desk.closed])


def unique(closed: Sequence[ClosedTrade]) -> list[TradeExit]:
    """Exits of one ledger: desks number their trades each for itself."""
    exits = [exit_of(trade) for trade in closed]
    return [msgspec.structs.replace(each, trade_id=f"t{at}") for at, each in enumerate(exits)]


@pytest.mark.parametrize("name", ["backtested", "exchanged"])
def test_every_layer_of_a_real_ledger(name: str, request: pytest.FixtureRequest) -> None:
    """In order and one by one; shuffled and in ten runs: what a fresh start gives, and sums that agree."""
    exits: list[TradeExit] = request.getfixturevalue(name)
    assert len(exits) == {"backtested": 490, "exchanged": 37}[name]
    shuffled = random.Random(7).sample(exits, len(exits))
    orders = (sorted(exits, key=lambda each: each.exited_at), 1), (shuffled, max(1, len(exits) // 10))
    for order, size in orders:
        ledger = Ledger()
        with in_memory(ledger) as conn:
            for start in range(0, len(order), size):
                ledger.learn(order[start : start + size])
                assert roll(conn) >= 1
            check_conservation(conn, exits)
            assert stored(conn, exits) == from_scratch(exits)
            check_statistics(conn, exits)


def check_statistics(conn: LayerConnection, exits: list[TradeExit]) -> None:
    """Drawdown of every month and Sharpe ratio of every year, by the trades themselves."""
    seq = conn.head(SCOPE)
    for kind in ("month", "year"):
        for period in periods_of(exits, kind):
            told = rollup_values(conn.store, SCOPE, LAYER_OF[kind], period.key, seq=seq)
            ended = in_time(exits, period)
            fall = deepest_fall([each.net_usd_e6 for each in ended])
            assert Decimal(told["max_drawdown"]) * E6 == fall
            days = [0] * ((ended[-1].exited_at // DAY) - (ended[0].exited_at // DAY) + 1)
            for each in ended:
                days[each.exited_at // DAY - ended[0].exited_at // DAY] += each.net_usd_e6
            if len(days) >= 3 and any(days):
                expected = statistics.fmean(days) / statistics.stdev(days) * 365**0.5
                assert float(told["sharpe_ratio"]) == pytest.approx(expected, abs=1e-4)


def test_the_backtesters_own_total_is_that_of_all_time(
    backtested: list[TradeExit], other_trades: list[dict[str, Any]]
) -> None:
    """To a cent in 490 trades: prices there have more decimals than ours."""
    ledger = Ledger()
    ledger.learn(backtested)
    with in_memory(ledger) as conn:
        roll(conn)
        legacy = rollup_values(conn.store, SCOPE, LAYER_OF["legacy"], "LEGACY", seq=conn.head(SCOPE))
        recorded = sum(Fraction(trade["profit_abs"]) for trade in other_trades)
        assert abs(Fraction(legacy["total_pnl"]) - recorded) < Fraction(1, 100)
        assert legacy["trade_count"] == "490"
        years = {period_of("year", trade["close_timestamp"]).key for trade in other_trades}
        assert int(legacy["years_traded"]) == len(years) > 1
