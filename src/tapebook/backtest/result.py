"""The result of a backtest: the values that are stored, compared and shown.

Nothing in them depends on when, where or how fast it ran, and every float is rounded to declared digits, so the
same backtest gives the same bytes. Money is integers; a rate or a mean carries its n and interval.
"""

from typing import Literal

import msgspec

from tapebook.backtest.plan import BacktestInputs, ChunkKind, KnownTexts, MemoryMode, MemorySource
from tapebook.domain.agent import MemoryRoom
from tapebook.domain.estimate import Estimate
from tapebook.domain.order import FillRule
from tapebook.domain.units import E6

RATE_DIGITS = 4
BPS_DIGITS = 2
SHARPE_DIGITS = 3
CHANCE_DIGITS = 6
_CENT_E6 = E6 // 100

Direction = Literal["up", "down", "unclear"]


class ChunkTrend(msgspec.Struct, frozen=True):
    """How a mean result differs from that of all chunks before; `unclear` unless luck is an unlikely reason."""

    direction: Direction
    change_bps: Estimate
    earlier_n: int
    chance: float


class ResultRow(msgspec.Struct, frozen=True):
    """How one provider, regime or asset did; `mean_bps` is of a trade, and None below two of them.

    Providers have their weight at the end and before; assets the Sharpe of their daily realised results.
    """

    name: str
    n: int
    won: int
    net_usd_e6: int
    win_rate: Estimate
    mean_bps: Estimate | None
    trend: ChunkTrend | None = None
    weight: float | None = None
    weight_before: float | None = None
    sharpe: Estimate | None = None


class ResultParts(msgspec.Struct, frozen=True):
    """Where the result of closed trades came from; the parts sum to it exactly (see `attribution`)."""

    market_usd_e6: int
    timing_usd_e6: int
    sizing_usd_e6: int
    fees_usd_e6: int
    funding_usd_e6: int


class ChunkResult(msgspec.Struct, frozen=True):
    """The measures of a stretch of a backtest.

    `trades`, `won`, gross, fees, funding and net are of the trades that ended in it; `open_usd_e6` is what else moved
    equity: what was open at either end. So equity_end - equity_start = net + open. `daily` is equity at every 00:00
    UTC from start to end, as (moment, usd_e6). `ticks` are the decisions made. `insurance_usd_e6` is what an insurance
    paid for losses beyond the margin; it is part of `open_usd_e6`, and the drawdown is that of equity without it.
    """

    name: str
    start: int
    end: int
    ticks: int
    trades: int
    won: int
    gross_usd_e6: int
    fees_usd_e6: int
    funding_usd_e6: int
    net_usd_e6: int
    open_usd_e6: int
    equity_start_usd_e6: int
    equity_end_usd_e6: int
    sharpe: Estimate | None
    drawdown_usd_e6: int
    drawdown_ppm: int
    win_rate: Estimate
    exposure: float
    parts: ResultParts
    providers: tuple[ResultRow, ...]
    regimes: tuple[ResultRow, ...]
    assets: tuple[ResultRow, ...]
    lessons_hash: str
    lessons: tuple[str, ...]
    snapshots: tuple[str, ...]
    situations: int
    daily: tuple[tuple[int, int], ...]
    packets_sha256: str
    head_seq: int
    head_hash: str
    insurance_usd_e6: int = 0

    @property
    def change_usd_e6(self) -> int:
        """What equity moved by."""
        return self.equity_end_usd_e6 - self.equity_start_usd_e6


class RandomTurnover(msgspec.Struct, frozen=True):
    """The trades replicated at random moments, many times; `beaten` is the share of them that the real trades beat.

    Low and high hold 90 of 100; the daily ones are equity at the moments of the total's `daily`.
    """

    replications: int
    beaten: Estimate
    low_usd_e6: int
    high_usd_e6: int
    beaten_by_chunk: tuple[Estimate | None, ...]
    daily_low_usd_e6: tuple[int, ...]
    daily_high_usd_e6: tuple[int, ...]


class Baseline(msgspec.Struct, frozen=True):
    """What somebody who knows nothing would have had in the same market; money is rounded to cents.

    `chunks` is the change of equity in each chunk, `daily` equity at the moments of the total's `daily`. The figures
    of the random one are medians.
    """

    name: str
    trades: int
    net_usd_e6: int
    sharpe: Estimate | None
    drawdown_ppm: int | None
    chunks: tuple[int, ...]
    daily: tuple[int, ...]
    luck: RandomTurnover | None = None


class RoomUse(msgspec.Struct, frozen=True):
    """A room of the memory: whether decisions were told of it, and what it held at the end, if anything."""

    room: MemoryRoom
    is_on: bool
    held: str = ""


class BacktestResult(msgspec.Struct, frozen=True):
    """A backtest from its first to its last tick; `total` is all chunks measured as one.

    `exposures` is what was held of each symbol on average over all of the time, in usd_e6 with its sign. Results of
    the first build say nothing of it, nor of fills and inputs: their fills were at the close of a bar. Results without
    `rooms` are from before there were any; their `off` is today's `none`. `bound_usd_e6` is how far trust in an
    ensemble's members could have put it behind doing nothing; it is left out without any.
    """

    id: str
    agent: str
    agent_version: int
    engine: str
    strategy: str
    symbols: tuple[str, ...]
    start: int
    end: int
    chunk_kind: ChunkKind
    memory: MemoryMode
    freeze_at: int | None
    notes: tuple[str, ...]
    chunks: tuple[ChunkResult, ...]
    total: ChunkResult
    baselines: tuple[Baseline, ...]
    packets_sha256: str
    fill: FillRule = "bar_close"
    inputs: BacktestInputs | None = None
    exposures: tuple[tuple[str, int], ...] = ()
    rooms: tuple[RoomUse, ...] = ()
    memory_from: MemorySource | None = None
    texts: KnownTexts | None = None
    bound_usd_e6: int | msgspec.UnsetType = msgspec.UNSET


def round_fixed(value: float, digits: int) -> float:
    """A float with so many decimals; never a negative zero, which has bytes of its own."""
    return round(value, digits) + 0.0


def round_to_cents_e6(usd: float) -> int:
    """Money of a statistic in usd_e6: what is below a cent depends on the order of sums."""
    return round(float(usd) * 100) * _CENT_E6


def round_estimate(estimate: Estimate, digits: int) -> Estimate:
    """An estimate as it is kept."""
    value, low, high = (round_fixed(each, digits) for each in (estimate.value, estimate.low, estimate.high))
    return Estimate(value, low, high, estimate.n)
