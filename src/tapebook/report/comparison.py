"""Two backtests side by side: what differs between them, their figures, and whether one did better.

Their daily returns are paired day by day (`paired_test`). Two intervals of the mean difference must both exclude zero
before anything is claimed: Student's, which takes days as independent, and that of a circular block bootstrap, which
keeps days that hang together in blocks. Beside them stands the smallest true difference that so many days would
probably have shown.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from tapebook.backtest.baselines import uniform_below, uniform_u64
from tapebook.backtest.equity import step_returns
from tapebook.backtest.formats import (
    interval_text,
    percent_text,
    plain_text,
    share_interval_text,
    signed_text,
    text_record,
    text_table,
    usd_text,
)
from tapebook.backtest.result import BacktestResult, ChunkResult, round_estimate, round_fixed
from tapebook.backtest.summary import input_rows, stale_sentences
from tapebook.domain.estimate import Estimate, mean_estimate, student_cdf, student_quantile
from tapebook.domain.units import E6, iso_text
from tapebook.report.backtest import chunk_view

# The ends of a 95 % interval rest on fifty of them each.
RESAMPLES = 2_000
FEWEST_DAYS = 20
"""Days below which nothing is claimed, whatever the intervals say."""

DIGITS = 3
_LEVEL = 0.95
# The normal quantile of a power of 80 %.
_POWER_Z = 0.8416212335729143

PairedVerdict = Literal["first", "second", "not enough evidence"]


class PairedTest(msgspec.Struct, frozen=True):
    """The mean daily difference, first less second, in bps; `detectable_bps` is what a power of 80 of 100 needs."""

    days: int
    student_bps: Estimate
    blocks_bps: Estimate
    block_days: int
    chance: float
    detectable_bps: float
    verdict: PairedVerdict


def paired_test(first: Sequence[float], second: Sequence[float], *, seed: str) -> PairedTest | None:
    """What the daily returns of two backtests say; None below two days."""
    gaps = [10_000 * (one - other) for one, other in zip(first, second, strict=True)]
    n = len(gaps)
    if n < 2:
        return None
    student, size = mean_estimate(gaps), block_days(n)
    blocks = block_interval(gaps, size, seed=seed)
    return PairedTest(
        days=n,
        student_bps=round_estimate(student, DIGITS),
        blocks_bps=round_estimate(blocks, DIGITS),
        block_days=size,
        chance=round_fixed(paired_chance(gaps), 6),
        detectable_bps=round_fixed(detectable_difference(gaps), DIGITS),
        verdict=_verdict(student, blocks),
    )


def block_days(n: int) -> int:
    """How long a block is: the cube root of the days, the usual rate at which it may grow."""
    # The usual rate at which blocks of a bootstrap grow with the number of days.
    return max(1, round(math.pow(n, 1 / 3)))


def block_interval(gaps: Sequence[float], size: int, *, seed: str) -> Estimate:
    """The mean with the interval of means of series put together from blocks, which may run over the end."""
    values, n = np.array(gaps), len(gaps)
    count = -(-n // size)
    starts = uniform_below(uniform_u64(seed, RESAMPLES * count), np.full(RESAMPLES * count, n)).reshape(
        RESAMPLES, count
    )
    # Circular: a block that reaches past the last day goes on with the first, so that every day counts alike.
    places = (starts[:, :, None] + np.arange(size)).reshape(RESAMPLES, -1)[:, :n] % n
    low, high = np.quantile(values[places].mean(axis=1), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(math.fsum(gaps) / n, float(low), float(high), n)


def paired_chance(gaps: Sequence[float]) -> float:
    """How likely a mean this far from zero is by luck alone: the paired t-test, two-sided."""
    n, middle, error = len(gaps), math.fsum(gaps) / len(gaps), _standard_error(gaps)
    if error <= 0:
        # All days differ by the same amount: by none at all, or certainly.
        return 1.0 if middle == 0 else 0.0
    return 2 * student_cdf(-abs(middle) / error, n - 1)


def detectable_difference(gaps: Sequence[float]) -> float:
    """The true mean difference that a two-sided test at 5 of 100 finds with a power of 80 of 100."""
    return (student_quantile((1 + _LEVEL) / 2, len(gaps) - 1) + _POWER_Z) * _standard_error(gaps)


def _standard_error(gaps: Sequence[float]) -> float:
    n, middle = len(gaps), math.fsum(gaps) / len(gaps)
    return math.sqrt(math.fsum((gap - middle) ** 2 for gap in gaps) / (n - 1) / n)


def _verdict(*intervals: Estimate) -> PairedVerdict:
    if intervals[0].n < FEWEST_DAYS:
        return "not enough evidence"
    # Both intervals must agree: each alone is too sure of itself on some kinds of days.
    if all(each.low > 0 for each in intervals):
        return "first"
    return "second" if all(each.high < 0 for each in intervals) else "not enough evidence"


_COMPARED = ("agent", "agent_version", "engine", "symbols", "memory", "freeze_at", "fill")


class ChunkComparison(msgspec.Struct, frozen=True):
    """One chunk of both, and the test of its days; without one there are too few of them."""

    chunk: str
    first_usd_e6: int
    second_usd_e6: int
    test: PairedTest | None


class BacktestComparison(msgspec.Struct, frozen=True):
    """The comparison; `unpaired` says why days cannot be paired, and is empty when they can.

    `stale` names, by id, the inputs of each that are others by now.
    """

    first: BacktestResult
    second: BacktestResult
    differs: dict[str, tuple[str, str]]
    unpaired: str
    test: PairedTest | None
    chunks: tuple[ChunkComparison, ...]
    stale: dict[str, tuple[str, ...]] = {}

    def to_dict(self) -> dict[str, Any]:
        """The comparison for programs."""
        return {
            "first": {"id": self.first.id, **chunk_view(self.first.total)},
            "second": {"id": self.second.id, **chunk_view(self.second.total)},
            "differs": {name: list(both) for name, both in self.differs.items()},
            "unpaired": self.unpaired,
            "stale": {name: list(changed) for name, changed in self.stale.items()},
            "test": None if self.test is None else msgspec.to_builtins(self.test),
            "verdict": self.verdict,
            "chunks": [_chunk_comparison_view(each) for each in self.chunks],
        }

    @property
    def verdict(self) -> str:
        """Which of them did better, if that can be said."""
        if self.unpaired:
            return "cannot be compared"
        found = "not enough evidence" if self.test is None else self.test.verdict
        return {"first": f"{self.first.id} did better", "second": f"{self.second.id} did better"}.get(found, found)

    def lines(self) -> list[str]:
        """The comparison for a terminal."""
        first, second = self.first, self.second
        rows = [[name, *cells] for name, *cells in _total_rows(first.total, second.total)]
        stale = [
            f"STALE: {each.id} was {sentence}"
            for each in (first, second)
            for sentence in stale_sentences(each.agent, self.stale.get(each.id, ()))
        ]
        return [
            *dict.fromkeys(stale),
            *text_table(("", first.id, second.id, "difference"), rows, indent=0),
            *text_record([(name, f"{one} | {other}") for name, (one, other) in self.differs.items()], indent=0),
            *([f"days are not paired: {self.unpaired}"] if self.unpaired else self._test_table()),
            f"verdict: {self.verdict}",
        ]

    def _test_table(self) -> list[str]:
        rows = [
            [
                each.chunk,
                usd_text(each.first_usd_e6, signed=True),
                usd_text(each.second_usd_e6, signed=True),
                *_test_cells(each.test),
            ]
            for each in self.chunks
        ]
        headings = ("equity change", self.first.id, self.second.id, "bps a day (95%)", "days")
        return ["", *text_table(headings, rows, indent=0), *([] if self.test is None else _test_lines(self.test))]


def compare_backtests(
    first: BacktestResult, second: BacktestResult, *, stale: Mapping[str, tuple[str, ...]] | None = None
) -> BacktestComparison:
    """Two finished backtests; their days are paired when both are of the same range."""
    unpaired = _why_unpaired(first, second)
    test, chunks = None, []
    if not unpaired:
        test = _daily_test(first.total, second.total, f"{first.id} {second.id}")
        ends = [[chunk.end for chunk in each.chunks] for each in (first, second)]
        if ends[0] == ends[1]:
            pairs = zip(first.chunks, second.chunks, strict=True)
            chunks = [_compare_chunk(one, other, f"{first.id} {second.id}") for one, other in pairs]
    return BacktestComparison(
        first, second, _differing_inputs(first, second), unpaired, test, tuple(chunks), dict(stale or {})
    )


def _why_unpaired(first: BacktestResult, second: BacktestResult) -> str:
    if (first.start, first.end) == (second.start, second.end):
        return ""
    spans = (f"{iso_text(each.start)[:16]} to {iso_text(each.end)[:16]}" for each in (first, second))
    return f"one runs from {' and the other from '.join(spans)}; run both over one range"


def _daily_test(first: ChunkResult, second: ChunkResult, seed: str) -> PairedTest | None:
    series = [step_returns([equity for _, equity in each.daily]) for each in (first, second)]
    # An account that was lost has days without a return: then days of both cannot be told apart.
    if len(series[0]) != len(series[1]):
        return None
    return paired_test(series[0], series[1], seed=seed)


def _compare_chunk(first: ChunkResult, second: ChunkResult, seed: str) -> ChunkComparison:
    return ChunkComparison(
        first.name, first.change_usd_e6, second.change_usd_e6, _daily_test(first, second, f"{seed} {first.name}")
    )


def _differing_inputs(first: BacktestResult, second: BacktestResult) -> dict[str, tuple[str, str]]:
    """What was asked differently."""
    both = {name: (plain_text(str(getattr(first, name))), plain_text(str(getattr(second, name)))) for name in _COMPARED}
    if first.inputs is not None and second.inputs is not None:
        pairs = zip(input_rows(first), input_rows(second), strict=True)
        both |= {name: (plain_text(one), plain_text(other)) for (name, one), (_, other) in pairs}
    # The hash of all packets: equal inputs that were told something else differ here.
    both["packets"] = (first.packets_sha256[:16], second.packets_sha256[:16])
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def _total_rows(first: ChunkResult, second: ChunkResult) -> Sequence[tuple[str, ...]]:
    money = [
        (name, usd_text(one, signed=True), usd_text(other, signed=True), usd_text(one - other, signed=True))
        for name, one, other in (
            ("equity change usd", first.change_usd_e6, second.change_usd_e6),
            ("net of closed usd", first.net_usd_e6, second.net_usd_e6),
            ("fees usd", first.fees_usd_e6, second.fees_usd_e6),
            ("funding usd", first.funding_usd_e6, second.funding_usd_e6),
        )
    ]
    won = [f"{share_interval_text(each.win_rate)} n={each.trades:,}" for each in (first, second)]
    ratios = [f"{interval_text(each.sharpe)} n={each.sharpe.n:,}d" if each.sharpe else "-" for each in (first, second)]
    return [
        *money,
        ("trades", f"{first.trades:,}", f"{second.trades:,}", f"{first.trades - second.trades:+,}"),
        ("won", *won, ""),
        ("Sharpe", *ratios, ""),
        ("drawdown", percent_text(first.drawdown_ppm), percent_text(second.drawdown_ppm), ""),
        ("held", f"{first.exposure:.0%}", f"{second.exposure:.0%}", ""),
    ]


def _test_cells(test: PairedTest | None) -> list[str]:
    return ["-", "-"] if test is None else [interval_text(test.student_bps), f"{test.days}"]


def _test_lines(test: PairedTest) -> list[str]:
    each = test.student_bps
    span = f"n={test.days} days, 95% {signed_text(each.low, 2)} to {signed_text(each.high, 2)}"
    blocks = f"{signed_text(test.blocks_bps.low, 2)} to {signed_text(test.blocks_bps.high, 2)}"
    return [
        "",
        f"daily difference {signed_text(each.value, 2)} bps ({span}, paired t, p={test.chance:.3f}; "
        f"{blocks} in blocks of {test.block_days} days)",
        f"minimum detectable difference with so many days (80 % power): {test.detectable_bps:.2f} bps a day",
    ]


def _chunk_comparison_view(each: ChunkComparison) -> dict[str, Any]:
    test = None if each.test is None else msgspec.to_builtins(each.test)
    return {
        "chunk": each.chunk,
        "first_usd": each.first_usd_e6 / E6,
        "second_usd": each.second_usd_e6 / E6,
        "test": test,
    }
