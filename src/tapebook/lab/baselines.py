"""What knowing nothing would have come to, in the same market over the same chunks, costs included.

    cash            nothing is done
    buy and hold    the starting cash, in equal parts, buys every symbol at its first price and sells at the end
    same exposure   holds of every symbol what the agent had of it on average, long or short, from first to last
    random          the agent's own trades, sides and sizes, at random moments, many times over (`luck`)

Orders pay the paper broker's taker fee and half its spread; funding is paid and received where the tape has it.
"""

from collections.abc import Mapping, Sequence

import msgspec
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

CASH, HOLD, EXPOSED = "cash", "buy and hold", "buy and hold, same exposure"
RANDOM = "random entries, same sides"


def baselines(
    rooms: Rooms,
    plan: Plan,
    total: ChunkResult,
    *,
    chunks: Sequence[ChunkResult],
    trades: Sequence[ClosedTrade],
    exposures: Mapping[str, float],
) -> tuple[Baseline, ...]:
    """Cash, both ways to buy and hold where there are bars, and the random one where there are trades."""
    days = np.array([day for day, _ in total.daily], dtype=np.int64)
    found = [_cash(total, chunks)]
    paths, costs = paths_of(rooms, plan), costs_of(rooms)
    if paths:
        equal = [total.equity_start_usd_e6 / E6 / len(paths)] * len(paths)
        found.append(_held(HOLD, Holdings(paths, equal, costs), total, days=days, chunks=chunks))
        same = [exposures.get(path.symbol, 0.0) for path in paths]
        if any(same):
            found.append(_held(EXPOSED, Holdings(paths, same, costs), total, days=days, chunks=chunks))
    tickets = tickets_of(paths, trades, chunks=chunks)
    throws = thrown(plan, tickets, costs=costs, days=days) if tickets else None
    if throws is not None:
        found.append(_random(throws, total, chunks))
    return tuple(found)


class Holdings(msgspec.Struct, frozen=True):
    """Something that is bought, or sold short, at each symbol's first price: USD of each, negative for a short."""

    paths: Sequence[Path]
    usd: Sequence[float]
    costs: Costs

    def equity(self, cash: float, moments: Moments) -> Numbers:
        """What some cash and the holdings are worth at each moment, not given back yet."""
        worth = np.full(len(moments), cash)
        for path, usd in zip(self.paths, self.usd, strict=True):
            place = path.place(moments)
            known = np.maximum(place, 0)
            gain = self._size(path, usd) * (path.price[known] - path.funding[known]) - usd - abs(usd) * self.costs.fee
            worth += np.where(place >= 0, gain, 0.0)
        return worth

    def closing_costs(self) -> float:
        """What it takes to give all of it back at the last prices."""
        fee, half = self.costs.fee, self.costs.half_spread
        values = [self._size(path, usd) * path.price[-1] for path, usd in zip(self.paths, self.usd, strict=True)]
        return float(sum(abs(value) * (half + fee * (1 - _sign(value) * half)) for value in values))

    def _size(self, path: Path, usd: float) -> float:
        return float(usd / (path.price[0] * (1 + _sign(usd) * self.costs.half_spread)))


def _sign(value: float) -> int:
    return -1 if value < 0 else 1


def _held(
    name: str, holdings: Holdings, total: ChunkResult, *, days: Moments, chunks: Sequence[ChunkResult]
) -> Baseline:
    cash = total.equity_start_usd_e6 / E6
    step = min(path.step_ms for path in holdings.paths)
    steps = np.append(np.arange(total.start, total.end, step, dtype=np.int64), total.end)
    worth = holdings.equity(cash, steps)
    last = worth[-1] - holdings.closing_costs()
    worth[-1] = last
    daily = holdings.equity(cash, days)
    if len(days) and days[-1] == total.end:
        daily[-1] = last
    ends = holdings.equity(cash, np.array([chunk.end for chunk in chunks], dtype=np.int64))
    ends[-1] = last
    ratio = sharpe(returns(daily.tolist()))
    peak = np.maximum.accumulate(worth)
    return Baseline(
        name=name,
        trades=sum(usd != 0 for usd in holdings.usd),
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
