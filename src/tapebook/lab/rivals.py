"""Two backtests side by side: what differs between them, their figures, and whether one did better."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tapebook.domain.instants import iso
from tapebook.domain.money import E6
from tapebook.lab.backtest_view import chunk_view, inputs_of, stale_sentences
from tapebook.lab.curve import returns
from tapebook.lab.paired import Paired, paired
from tapebook.lab.result import BacktestResult, ChunkResult
from tapebook.lab.words import percent, plain, record, share_within, signed, table, usd, within

_SAME = ("agent", "agent_version", "engine", "symbols", "memory", "freeze_at", "fill")


class Gap(msgspec.Struct, frozen=True):
    """One chunk of both, and the test of its days; without one there are too few of them."""

    chunk: str
    first_usd_e6: int
    second_usd_e6: int
    test: Paired | None


class Rivals(msgspec.Struct, frozen=True):
    """The comparison; `unpaired` says why days cannot be paired, and is empty when they can.

    `stale` names, by id, the inputs of each that are others by now.
    """

    first: BacktestResult
    second: BacktestResult
    differs: dict[str, tuple[str, str]]
    unpaired: str
    test: Paired | None
    chunks: tuple[Gap, ...]
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
            "chunks": [_gap_view(each) for each in self.chunks],
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
        rows = [[name, *cells] for name, *cells in _totals(first.total, second.total)]
        stale = [
            f"STALE: {each.id} was {sentence}"
            for each in (first, second)
            for sentence in stale_sentences(each.agent, self.stale.get(each.id, ()))
        ]
        return [
            *dict.fromkeys(stale),
            *table(("", first.id, second.id, "difference"), rows, indent=0),
            *record([(name, f"{one} | {other}") for name, (one, other) in self.differs.items()], indent=0),
            *([f"days are not paired: {self.unpaired}"] if self.unpaired else self._tested()),
            f"verdict: {self.verdict}",
        ]

    def _tested(self) -> list[str]:
        rows = [
            [each.chunk, usd(each.first_usd_e6, signed=True), usd(each.second_usd_e6, signed=True), *_cells(each.test)]
            for each in self.chunks
        ]
        headings = ("equity change", self.first.id, self.second.id, "bps a day (95%)", "days")
        return ["", *table(headings, rows, indent=0), *([] if self.test is None else _test_lines(self.test))]


def compare_backtests(
    first: BacktestResult, second: BacktestResult, *, stale: Mapping[str, tuple[str, ...]] | None = None
) -> Rivals:
    """Two finished backtests; their days are paired when both are of the same range."""
    unpaired = _unpaired(first, second)
    test, chunks = None, []
    if not unpaired:
        test = _test(first.total, second.total, f"{first.id} {second.id}")
        ends = [[chunk.end for chunk in each.chunks] for each in (first, second)]
        if ends[0] == ends[1]:
            pairs = zip(first.chunks, second.chunks, strict=True)
            chunks = [_gap(one, other, f"{first.id} {second.id}") for one, other in pairs]
    return Rivals(first, second, _differs(first, second), unpaired, test, tuple(chunks), dict(stale or {}))


def _unpaired(first: BacktestResult, second: BacktestResult) -> str:
    if (first.start, first.end) == (second.start, second.end):
        return ""
    spans = (f"{iso(each.start)[:16]} to {iso(each.end)[:16]}" for each in (first, second))
    return f"one runs from {' and the other from '.join(spans)}; run both over one range"


def _test(first: ChunkResult, second: ChunkResult, seed: str) -> Paired | None:
    series = [returns([equity for _, equity in each.daily]) for each in (first, second)]
    # An account that was lost has days without a return: then days of both cannot be told apart.
    if len(series[0]) != len(series[1]):
        return None
    return paired(series[0], series[1], seed=seed)


def _gap(first: ChunkResult, second: ChunkResult, seed: str) -> Gap:
    return Gap(first.name, first.change_usd_e6, second.change_usd_e6, _test(first, second, f"{seed} {first.name}"))


def _differs(first: BacktestResult, second: BacktestResult) -> dict[str, tuple[str, str]]:
    """What was asked differently."""
    both = {name: (plain(str(getattr(first, name))), plain(str(getattr(second, name)))) for name in _SAME}
    if first.inputs is not None and second.inputs is not None:
        pairs = zip(inputs_of(first), inputs_of(second), strict=True)
        both |= {name: (plain(one), plain(other)) for (name, one), (_, other) in pairs}
    both["told"] = (first.packets_sha256[:16], second.packets_sha256[:16])
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def _totals(first: ChunkResult, second: ChunkResult) -> Sequence[tuple[str, ...]]:
    money = [
        (name, usd(one, signed=True), usd(other, signed=True), usd(one - other, signed=True))
        for name, one, other in (
            ("equity change usd", first.change_usd_e6, second.change_usd_e6),
            ("net of closed usd", first.net_usd_e6, second.net_usd_e6),
            ("fees usd", first.fees_usd_e6, second.fees_usd_e6),
            ("funding usd", first.funding_usd_e6, second.funding_usd_e6),
        )
    ]
    won = [f"{share_within(each.win_rate)} n={each.trades:,}" for each in (first, second)]
    ratios = [f"{within(each.sharpe)} n={each.sharpe.n:,}d" if each.sharpe else "-" for each in (first, second)]
    return [
        *money,
        ("trades", f"{first.trades:,}", f"{second.trades:,}", f"{first.trades - second.trades:+,}"),
        ("won", *won, ""),
        ("Sharpe", *ratios, ""),
        ("drawdown", percent(first.drawdown_ppm), percent(second.drawdown_ppm), ""),
        ("held", f"{first.exposure:.0%}", f"{second.exposure:.0%}", ""),
    ]


def _cells(test: Paired | None) -> list[str]:
    return ["-", "-"] if test is None else [within(test.student_bps), f"{test.days}"]


def _test_lines(test: Paired) -> list[str]:
    each = test.student_bps
    span = f"n={test.days} days, 95% {signed(each.low, 2)} to {signed(each.high, 2)}"
    blocks = f"{signed(test.blocks_bps.low, 2)} to {signed(test.blocks_bps.high, 2)}"
    return [
        "",
        f"daily difference {signed(each.value, 2)} bps ({span}, paired t, p={test.chance:.3f}; "
        f"{blocks} in blocks of {test.block_days} days)",
        f"so many days would show a true difference of {test.detectable_bps:.2f} bps a day 80 times of 100",
    ]


def _gap_view(each: Gap) -> dict[str, Any]:
    test = None if each.test is None else msgspec.to_builtins(each.test)
    return {
        "chunk": each.chunk,
        "first_usd": each.first_usd_e6 / E6,
        "second_usd": each.second_usd_e6 / E6,
        "test": test,
    }
