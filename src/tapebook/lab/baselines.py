"""What knowing nothing would have come to, in the same market over the same chunks, costs included.

    cash            nothing is done
    buy and hold    the starting cash, in equal parts, buys every symbol at its first price and sells at the end
    random          the agent's own turnover at random moments on random sides, many times over (`luck`)

Orders pay the paper broker's taker fee and half its spread; funding is paid and received where the tape has it.
"""

from collections.abc import Sequence

import numpy as np

from tapebook.domain.money import E6
from tapebook.domain.trade import ClosedTrade
from tapebook.lab.bars_of import Moments, Numbers
from tapebook.lab.curve import returns, sharpe
from tapebook.lab.luck import Throws, luck, thrown, tickets_of
from tapebook.lab.paths import Costs, Path, costs_of, paths_of
from tapebook.lab.plan import Plan
from tapebook.lab.result import SHARPE_DIGITS, Baseline, ChunkResult, cents_e6, rounded
from tapebook.wiring import Rooms

CASH, HOLD, RANDOM = "cash", "buy and hold", "random, same turnover"


def baselines(
    rooms: Rooms, plan: Plan, total: ChunkResult, *, chunks: Sequence[ChunkResult], trades: Sequence[ClosedTrade]
) -> tuple[Baseline, ...]:
    """Cash, buy and hold where there are bars, and the random one where there are trades."""
    days = np.array([day for day, _ in total.daily], dtype=np.int64)
    found = [_cash(total, chunks)]
    paths, costs = paths_of(rooms, plan), costs_of(rooms)
    if paths:
        found.append(_held(paths, costs, total, days=days, chunks=chunks))
    tickets = tickets_of(paths, trades, chunks=chunks)
    throws = thrown(plan, tickets, costs=costs, days=days) if tickets else None
    if throws is not None:
        found.append(_random(throws, total, chunks))
    return tuple(found)


def held_equity(paths: Sequence[Path], costs: Costs, cash: float, moments: Moments) -> Numbers:
    """What equal parts of some cash in every symbol are worth at each moment, not sold yet."""
    part = cash / len(paths)
    worth = np.full(len(moments), cash)
    for path in paths:
        size = part / (path.price[0] * (1 + costs.half_spread))
        place = path.place(moments)
        known = np.maximum(place, 0)
        gain = size * (path.price[known] - path.funding[known]) - part * (1 + costs.fee)
        worth += np.where(place >= 0, gain, 0.0)
    return worth


def selling_costs(paths: Sequence[Path], costs: Costs, cash: float) -> float:
    """What it takes to sell all of it at the last prices."""
    each = (path.price[-1] / (path.price[0] * (1 + costs.half_spread)) for path in paths)
    return float(sum(each)) * cash / len(paths) * (costs.half_spread + costs.fee * (1 - costs.half_spread))


def _held(
    paths: Sequence[Path], costs: Costs, total: ChunkResult, *, days: Moments, chunks: Sequence[ChunkResult]
) -> Baseline:
    cash = total.equity_start_usd_e6 / E6
    step = min(path.step_ms for path in paths)
    steps = np.append(np.arange(total.start, total.end, step, dtype=np.int64), total.end)
    worth = held_equity(paths, costs, cash, steps)
    last = worth[-1] - selling_costs(paths, costs, cash)
    worth[-1] = last
    daily = held_equity(paths, costs, cash, days)
    if len(days) and days[-1] == total.end:
        daily[-1] = last
    ends = held_equity(paths, costs, cash, np.array([chunk.end for chunk in chunks], dtype=np.int64))
    ends[-1] = last
    ratio = sharpe(returns(daily.tolist()))
    peak = np.maximum.accumulate(worth)
    return Baseline(
        name=HOLD,
        trades=len(paths),
        net_usd_e6=cents_e6(last - cash),
        sharpe=None if ratio is None else rounded(ratio, SHARPE_DIGITS),
        drawdown_ppm=round(float(np.max((peak - worth) / peak)) * 1e6),
        chunks=tuple(cents_e6(each) for each in np.diff(ends, prepend=cash)),
        daily=tuple(map(cents_e6, daily)),
    )


def _cash(total: ChunkResult, chunks: Sequence[ChunkResult]) -> Baseline:
    days = (total.equity_start_usd_e6,) * len(total.daily)
    return Baseline(CASH, 0, 0, None, 0, (0,) * len(chunks), days)


def _random(throws: Throws, total: ChunkResult, chunks: Sequence[ChunkResult]) -> Baseline:
    cash = total.equity_start_usd_e6
    net, middle = (np.median(each, axis=0) for each in (throws.by_chunk, throws.by_day))
    return Baseline(
        name=RANDOM,
        trades=total.trades,
        net_usd_e6=cents_e6(np.median(throws.nets)),
        sharpe=None,
        drawdown_ppm=None,
        chunks=tuple(map(cents_e6, net)),
        daily=tuple(cash + cents_e6(each) for each in middle),
        luck=luck(throws, total, chunks),
    )
