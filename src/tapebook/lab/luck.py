"""The agent's trades at random moments: how much of its result anybody would have had with the same sides and sizes.

Every closed trade is thrown again: the same symbol, side, notional and holding time, at a random moment of its chunk.
So an agent that is always long is held against others that are always long, and a rise that all of them had is no
merit. It pays the taker fee and half the spread on both ways, and funding. One throw of all trades is a
replication; there are enough of them for the share that the agent beats to have a narrow interval.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from tapebook.domain.estimate import Estimate, rate
from tapebook.domain.money import E6
from tapebook.domain.trade import ClosedTrade
from tapebook.lab.bars_of import Moments, Numbers
from tapebook.lab.dice import below, throw
from tapebook.lab.paths import Costs, Path
from tapebook.lab.plan import Plan
from tapebook.lab.result import RATE_DIGITS, ChunkResult, Luck, cents_e6, rounded

REPLICATIONS = 500
_LOW, _HIGH = 0.05, 0.95
# Draws at a time: enough for numpy to be fast, few enough to stay small.
_BLOCK = 1_000_000


class Tickets(msgspec.Struct, frozen=True):
    """The trades of one symbol as columns: how many bars each was held, between which bars it may begin, its size.

    `side` is 1 for a long and -1 for a short.
    """

    path: Path
    bars: Moments
    first: Moments
    room: Moments
    usd: Numbers
    side: Numbers
    chunk: Moments

    def __len__(self) -> int:
        return len(self.bars)


class Throws(msgspec.Struct, frozen=True):
    """What every replication came to, in USD: in all, in each chunk, and by each day."""

    nets: Numbers
    by_chunk: Numbers
    by_day: Numbers


def thrown(plan: Plan, tickets: Sequence[Tickets], *, costs: Costs, days: Moments) -> Throws:
    """All replications of some trades."""
    by_chunk = np.zeros((REPLICATIONS, len(plan.chunks)))
    by_day = np.zeros((REPLICATIONS, len(days) + 1))
    for each in tickets:
        block = max(1, _BLOCK // len(each))
        for start in range(0, REPLICATIONS, block):
            part = slice(start, min(start + block, REPLICATIONS))
            seed = f"{plan.id} {each.path.symbol} {start}"
            result, ends = _throw(each, costs, seed, count=part.stop - part.start)
            by_chunk[part] += _summed(result, np.broadcast_to(each.chunk, result.shape), by_chunk.shape[1])
            by_day[part] += _summed(result, np.searchsorted(days, ends, side="left"), by_day.shape[1])
    by_day = np.cumsum(by_day, axis=1)
    return Throws(by_day[:, -1], by_chunk, by_day[:, :-1])


def luck(throws: Throws, total: ChunkResult, chunks: Sequence[ChunkResult]) -> Luck:
    """Where the agent's closed trades stand among the replications."""
    cash = total.equity_start_usd_e6
    low, high = (np.quantile(throws.nets, share) for share in (_LOW, _HIGH))
    bands = [np.quantile(throws.by_day, share, axis=0) for share in (_LOW, _HIGH)]
    daily_low, daily_high = (tuple(cash + cents_e6(each) for each in band) for band in bands)
    beaten = [
        _beaten(throws.by_chunk[:, place], chunk.net_usd_e6) if chunk.trades else None
        for place, chunk in enumerate(chunks)
    ]
    return Luck(
        replications=len(throws.nets),
        beaten=_beaten(throws.nets, total.net_usd_e6),
        low_usd_e6=cents_e6(low),
        high_usd_e6=cents_e6(high),
        beaten_by_chunk=tuple(beaten),
        daily_low_usd_e6=daily_low,
        daily_high_usd_e6=daily_high,
    )


def _beaten(nets: Numbers, net_usd_e6: int) -> Estimate:
    """The share of replications below a result; what is equal to the cent is not beaten."""
    net = cents_e6(net_usd_e6 / E6)
    return rounded(rate(sum(cents_e6(each) < net for each in nets), len(nets)), RATE_DIGITS)


def tickets_of(
    paths: Sequence[Path], trades: Sequence[ClosedTrade], *, chunks: Sequence[ChunkResult]
) -> list[Tickets]:
    """The trades of all chunks, oldest exit first, by symbol; those of a symbol without a market are left out."""
    chunk = np.repeat(np.arange(len(chunks)), [each.trades for each in chunks])
    spans = np.array([[each.start, each.end] for each in chunks], dtype=np.int64)
    found = []
    for path in paths:
        own = [place for place, trade in enumerate(trades) if trade.state.symbol == path.symbol]
        if own:
            found.append(_tickets(path, [trades[place] for place in own], chunk=chunk[own], spans=spans))
    return found


def _tickets(path: Path, own: Sequence[ClosedTrade], *, chunk: Moments, spans: Moments) -> Tickets:
    held = np.array([trade.holding_ms for trade in own], dtype=np.int64)
    last = len(path.at) - 1
    bars = np.clip((held + path.step_ms // 2) // path.step_ms, 1, last)
    first = np.searchsorted(path.at, spans[chunk, 0], side="left")
    latest = path.place(spans[chunk, 1]) - bars
    # What was held for longer than its chunk may begin anywhere.
    roams = latest < first
    first, latest = np.where(roams, 0, first), np.where(roams, last - bars, latest)
    usd = np.array([abs(trade.state.entered_usd_e6) / E6 for trade in own])
    side = np.array([1.0 if trade.state.side == "long" else -1.0 for trade in own])
    return Tickets(path, bars, first, latest - first + 1, usd, side, chunk)


def _throw(tickets: Tickets, costs: Costs, seed: str, *, count: int) -> tuple[Numbers, Moments]:
    """The results of `count` throws of all tickets, a row each, and when each trade ended."""
    draws = throw(seed, count * len(tickets)).reshape(count, len(tickets))
    path = tickets.path
    begin = tickets.first + below(draws, tickets.room)
    end = begin + tickets.bars
    entry = path.price[begin]
    grown = path.price[end] / entry
    moved = grown - 1 - (path.funding[end] - path.funding[begin]) / entry
    result = tickets.usd * (tickets.side * moved - costs.each_way * (1 + grown))
    return result, path.at[end]


def _summed(values: Numbers, places: Moments, width: int) -> Numbers:
    """Each row's values added up by place."""
    rows = len(values)
    flat = (np.arange(rows)[:, None] * width + places).ravel()
    sums = np.bincount(flat, weights=values.ravel(), minlength=rows * width).astype(np.float64)
    return sums.reshape(rows, width)
