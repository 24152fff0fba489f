"""Baselines: what knowing nothing would have earned, in the same market over the same chunks, costs included.

    cash            nothing is done
    buy and hold    the starting cash, in equal parts, buys every symbol at its first price and sells at the end
    same exposure   holds of every symbol what the agent had of it on average, long or short, from first to last
    random          the agent's own trades, sides and sizes, at random moments, many times over

Orders pay the paper broker's taker fee and half its spread; funding is paid and received where the tape has it.

For the random one every closed trade is made again with the same symbol, side, notional and holding time, at a random
moment of its chunk. So an agent that is always long is compared with others that are always long, and a rise that
all of them had is no merit. All trades once are a replication; there are enough of them for the share that the agent
beats to have a narrow interval. Random numbers are bytes of SHAKE-256 over a seed, the same on every machine.
"""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tapebook.backtest.equity import sharpe_ratio, step_returns
from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.price_series import Moments, Numbers, OrderCosts, PriceSeries, order_costs, price_series
from tapebook.backtest.result import (
    RATE_DIGITS,
    SHARPE_DIGITS,
    Baseline,
    ChunkResult,
    RandomTurnover,
    round_estimate,
    round_to_cents_e6,
)
from tapebook.domain.estimate import Estimate, rate_estimate
from tapebook.domain.position import ClosedTrade
from tapebook.domain.units import E6
from tapebook.settings.config import Config
from tapebook.tape.store import Tape

Draws = npt.NDArray[np.uint64]


def uniform_u64(seed: str, count: int) -> Draws:
    """So many integers of 64 bits, evenly spread."""
    return np.frombuffer(hashlib.shake_256(seed.encode()).digest(8 * count), dtype="<u8").astype(np.uint64)


def uniform_below(draws: Draws, most: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Draws as integers from 0 to below each bound, of which none exceeds 32 bits, from their upper halves."""
    return ((draws >> np.uint64(32)) * most.astype(np.uint64) >> np.uint64(32)).astype(np.int64)


# Enough for the 5 % and 95 % quantiles to rest on twenty-five throws each.
REPLICATIONS = 500
_LOW, _HIGH = 0.05, 0.95
# Draws at a time: enough for numpy to be fast, few enough to stay small.
_BLOCK = 1_000_000


class TradeColumns(msgspec.Struct, frozen=True):
    """The trades of one symbol as columns: how many bars each was held, between which bars it may begin, its size.

    `side` is 1 for a long and -1 for a short.
    """

    path: PriceSeries
    bars: Moments
    first: Moments
    room: Moments
    usd: Numbers
    side: Numbers
    chunk: Moments

    def __len__(self) -> int:
        return len(self.bars)


class Replications(msgspec.Struct, frozen=True):
    """What every replication came to, in USD: in all, in each chunk, and by each day."""

    nets: Numbers
    by_chunk: Numbers
    by_day: Numbers


def replicate_trades(
    plan: BacktestPlan, tickets: Sequence[TradeColumns], *, costs: OrderCosts, days: Moments
) -> Replications:
    """All replications of some trades."""
    by_chunk = np.zeros((REPLICATIONS, len(plan.chunks)))
    by_day = np.zeros((REPLICATIONS, len(days) + 1))
    for each in tickets:
        block = max(1, _BLOCK // len(each))
        for start in range(0, REPLICATIONS, block):
            part = slice(start, min(start + block, REPLICATIONS))
            seed = f"{plan.id} {each.path.symbol} {start}"
            result, ends = _replicate(each, costs, seed, count=part.stop - part.start)
            by_chunk[part] += _sums_by_place(result, np.broadcast_to(each.chunk, result.shape), by_chunk.shape[1])
            by_day[part] += _sums_by_place(result, np.searchsorted(days, ends, side="left"), by_day.shape[1])
    by_day = np.cumsum(by_day, axis=1)
    return Replications(by_day[:, -1], by_chunk, by_day[:, :-1])


def random_turnover(throws: Replications, total: ChunkResult, chunks: Sequence[ChunkResult]) -> RandomTurnover:
    """Where the agent's closed trades stand among the replications."""
    cash = total.equity_start_usd_e6
    low, high = (np.quantile(throws.nets, share) for share in (_LOW, _HIGH))
    bands = [np.quantile(throws.by_day, share, axis=0) for share in (_LOW, _HIGH)]
    daily_low, daily_high = (tuple(cash + round_to_cents_e6(each) for each in band) for band in bands)
    beaten = [
        _share_beaten(throws.by_chunk[:, place], chunk.net_usd_e6) if chunk.trades else None
        for place, chunk in enumerate(chunks)
    ]
    return RandomTurnover(
        replications=len(throws.nets),
        beaten=_share_beaten(throws.nets, total.net_usd_e6),
        low_usd_e6=round_to_cents_e6(low),
        high_usd_e6=round_to_cents_e6(high),
        beaten_by_chunk=tuple(beaten),
        daily_low_usd_e6=daily_low,
        daily_high_usd_e6=daily_high,
    )


def _share_beaten(nets: Numbers, net_usd_e6: int) -> Estimate:
    """The share of replications below a result; what is equal to the cent is not beaten."""
    net = round_to_cents_e6(net_usd_e6 / E6)
    return round_estimate(rate_estimate(sum(round_to_cents_e6(each) < net for each in nets), len(nets)), RATE_DIGITS)


def trade_columns(
    paths: Sequence[PriceSeries], trades: Sequence[ClosedTrade], *, chunks: Sequence[ChunkResult]
) -> list[TradeColumns]:
    """The trades of all chunks, oldest exit first, by symbol; those of a symbol without a market are left out."""
    chunk = np.repeat(np.arange(len(chunks)), [each.trades for each in chunks])
    spans = np.array([[each.start, each.end] for each in chunks], dtype=np.int64)
    found = []
    for path in paths:
        own = [place for place, trade in enumerate(trades) if trade.state.symbol == path.symbol]
        if own:
            found.append(_columns_of(path, [trades[place] for place in own], chunk=chunk[own], spans=spans))
    return found


def _columns_of(path: PriceSeries, own: Sequence[ClosedTrade], *, chunk: Moments, spans: Moments) -> TradeColumns:
    held = np.array([trade.holding_ms for trade in own], dtype=np.int64)
    last = len(path.at) - 1
    bars = np.clip((held + path.step_ms // 2) // path.step_ms, 1, last)
    first = np.searchsorted(path.at, spans[chunk, 0], side="left")
    latest = path.place(spans[chunk, 1]) - bars
    # What was held for longer than its chunk may begin anywhere.
    # A trade held longer than its chunk fits nowhere inside it.
    roams = latest < first
    first, latest = np.where(roams, 0, first), np.where(roams, last - bars, latest)
    usd = np.array([abs(trade.state.entered_usd_e6) / E6 for trade in own])
    side = np.array([1.0 if trade.state.side == "long" else -1.0 for trade in own])
    return TradeColumns(path, bars, first, latest - first + 1, usd, side, chunk)


def _replicate(tickets: TradeColumns, costs: OrderCosts, seed: str, *, count: int) -> tuple[Numbers, Moments]:
    """The results of `count` throws of all tickets, a row each, and when each trade ended."""
    draws = uniform_u64(seed, count * len(tickets)).reshape(count, len(tickets))
    path = tickets.path
    begin = tickets.first + uniform_below(draws, tickets.room)
    end = begin + tickets.bars
    entry = path.price[begin]
    grown = path.price[end] / entry
    # Longs pay a positive rate, so it is subtracted here and turned round by the side below.
    moved = grown - 1 - (path.funding[end] - path.funding[begin]) / entry
    result = tickets.usd * (tickets.side * moved - costs.each_way * (1 + grown))
    return result, path.at[end]


def _sums_by_place(values: Numbers, places: Moments, width: int) -> Numbers:
    """Each row's values added up by place."""
    rows = len(values)
    flat = (np.arange(rows)[:, None] * width + places).ravel()
    sums = np.bincount(flat, weights=values.ravel(), minlength=rows * width).astype(np.float64)
    return sums.reshape(rows, width)


CASH, BUY_AND_HOLD, SAME_EXPOSURE = "cash", "buy and hold", "buy and hold, same exposure"
RANDOM_ENTRIES = "random entries, same sides"


def measure_baselines(
    tape: Tape,
    config: Config,
    plan: BacktestPlan,
    total: ChunkResult,
    *,
    chunks: Sequence[ChunkResult],
    trades: Sequence[ClosedTrade],
    exposures: Mapping[str, float],
) -> tuple[Baseline, ...]:
    """Cash, both ways to buy and hold where there are bars, and the random one where there are trades."""
    days = np.array([day for day, _ in total.daily], dtype=np.int64)
    found = [_cash_baseline(total, chunks)]
    paths, costs = price_series(tape, plan), order_costs(config)
    if paths:
        equal = [total.equity_start_usd_e6 / E6 / len(paths)] * len(paths)
        found.append(_held_baseline(BUY_AND_HOLD, Holdings(paths, equal, costs), total, days=days, chunks=chunks))
        same = [exposures.get(path.symbol, 0.0) for path in paths]
        if any(same):
            found.append(_held_baseline(SAME_EXPOSURE, Holdings(paths, same, costs), total, days=days, chunks=chunks))
    tickets = trade_columns(paths, trades, chunks=chunks)
    throws = replicate_trades(plan, tickets, costs=costs, days=days) if tickets else None
    if throws is not None:
        found.append(_random_baseline(throws, total, chunks))
    return tuple(found)


class Holdings(msgspec.Struct, frozen=True):
    """Something that is bought, or sold short, at each symbol's first price: USD of each, negative for a short."""

    paths: Sequence[PriceSeries]
    usd: Sequence[float]
    costs: OrderCosts

    def equity(self, cash: float, moments: Moments) -> Numbers:
        """The equity of some cash and the open holdings at each moment."""
        worth = np.full(len(moments), cash)
        for path, usd in zip(self.paths, self.usd, strict=True):
            place = path.place(moments)
            known = np.maximum(place, 0)
            gain = self._size(path, usd) * (path.price[known] - path.funding[known]) - usd - abs(usd) * self.costs.fee
            worth += np.where(place >= 0, gain, 0.0)
        return worth

    def closing_costs(self) -> float:
        """What it costs to close all of it at the last prices."""
        fee, half = self.costs.fee, self.costs.half_spread
        values = [self._size(path, usd) * path.price[-1] for path, usd in zip(self.paths, self.usd, strict=True)]
        return float(sum(abs(value) * (half + fee * (1 - _sign(value) * half)) for value in values))

    def _size(self, path: PriceSeries, usd: float) -> float:
        return float(usd / (path.price[0] * (1 + _sign(usd) * self.costs.half_spread)))


def _sign(value: float) -> int:
    return -1 if value < 0 else 1


def _held_baseline(
    name: str, holdings: Holdings, total: ChunkResult, *, days: Moments, chunks: Sequence[ChunkResult]
) -> Baseline:
    cash = total.equity_start_usd_e6 / E6
    step = min(path.step_ms for path in holdings.paths)
    steps = np.append(np.arange(total.start, total.end, step, dtype=np.int64), total.end)
    worth = holdings.equity(cash, steps)
    last = worth[-1] - holdings.closing_costs()
    # The last point is after closing: a baseline must not end with costs unpaid.
    worth[-1] = last
    daily = holdings.equity(cash, days)
    if len(days) and days[-1] == total.end:
        daily[-1] = last
    ends = holdings.equity(cash, np.array([chunk.end for chunk in chunks], dtype=np.int64))
    ends[-1] = last
    ratio = sharpe_ratio(step_returns(daily.tolist()))
    peak = np.maximum.accumulate(worth)
    return Baseline(
        name=name,
        trades=sum(usd != 0 for usd in holdings.usd),
        net_usd_e6=round_to_cents_e6(last - cash),
        sharpe=None if ratio is None else round_estimate(ratio, SHARPE_DIGITS),
        drawdown_ppm=round(float(np.max((peak - worth) / peak)) * 1e6),
        chunks=tuple(round_to_cents_e6(each) for each in np.diff(ends, prepend=cash)),
        daily=tuple(map(round_to_cents_e6, daily)),
    )


def _cash_baseline(total: ChunkResult, chunks: Sequence[ChunkResult]) -> Baseline:
    days = (total.equity_start_usd_e6,) * len(total.daily)
    return Baseline(CASH, 0, 0, None, 0, (0,) * len(chunks), days)


def _random_baseline(throws: Replications, total: ChunkResult, chunks: Sequence[ChunkResult]) -> Baseline:
    cash = total.equity_start_usd_e6
    # Medians, since the mean of a few hundred throws is moved by a single lucky one.
    net, middle = (np.median(each, axis=0) for each in (throws.by_chunk, throws.by_day))
    return Baseline(
        name=RANDOM_ENTRIES,
        trades=total.trades,
        net_usd_e6=round_to_cents_e6(np.median(throws.nets)),
        sharpe=None,
        drawdown_ppm=None,
        chunks=tuple(map(round_to_cents_e6, net)),
        daily=tuple(cash + round_to_cents_e6(each) for each in middle),
        luck=random_turnover(throws, total, chunks),
    )
