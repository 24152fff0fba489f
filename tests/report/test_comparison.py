"""Two backtests side by side: their figures, their differences, and a verdict that has to be earned."""

import re

import msgspec
import pytest
import scipy

from tapebook.backtest.equity import step_returns
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.report.comparison import compare_backtests
from tests.backtest.books import Played


def lifted(result: BacktestResult, bps: float) -> BacktestResult:
    """The same backtest, a little better every day."""

    def better(chunk: ChunkResult) -> ChunkResult:
        first = chunk.daily[0][0]
        grown = tuple((day, round(usd * (1 + bps / 1e4) ** ((day - first) // 86_400_000))) for day, usd in chunk.daily)
        return msgspec.structs.replace(chunk, daily=grown, equity_end_usd_e6=grown[-1][1])

    changed = tuple(map(better, result.chunks))
    return msgspec.structs.replace(result, id="lifted", chunks=changed, total=better(result.total))


def test_figures_and_differences(played: Played, rival: BacktestResult) -> None:
    found = compare_backtests(played.result, rival)
    assert set(found.differs) == {"memory", "packets"} and found.differs["memory"] == ("on", "off")
    assert (
        found.test is not None
        and found.unpaired == ""
        and [each.chunk for each in found.chunks] == [chunk.name for chunk in rival.chunks]
    )
    series = [step_returns([usd for _, usd in each.total.daily]) for each in (played.result, rival)]
    test = scipy.stats.ttest_rel(*series)
    assert found.test.days == 28 and found.test.chance == pytest.approx(test.pvalue, abs=1e-6)
    assert found.verdict == "not enough evidence"
    said = "\n".join(found.lines())
    assert "verdict: not enough evidence" in said and "n=28 days" in said and "80 % power" in said
    assert found.to_dict()["chunks"][1]["first_usd"] == played.result.chunks[1].change_usd_e6 / 1e6


def test_no_rate_is_bare(played: Played, rival: BacktestResult) -> None:
    for line in compare_backtests(played.result, rival).lines():
        if line.startswith(("won", "Sharpe")):
            assert line.count("n=") == 2 and line.count("(") == 2


def test_a_better_one_is_named_and_only_that(played: Played) -> None:
    better = lifted(played.result, 25)
    assert compare_backtests(better, played.result).verdict == "lifted did better"
    assert compare_backtests(played.result, better).verdict == "lifted did better"
    alike = compare_backtests(played.result, played.result)
    assert alike.verdict == "not enough evidence" and alike.differs == {}


def test_two_ranges_are_not_paired(played: Played) -> None:
    shorter = msgspec.structs.replace(played.result, id="shorter", end=played.result.end - 86_400_000)
    found = compare_backtests(played.result, shorter)
    assert (found.test, found.chunks, found.verdict) == (None, (), "cannot be compared")
    said = "\n".join(found.lines())
    assert re.search(r"days are not paired: one runs from 2026-01-05T00:00 to .* run both over one range", said)
    assert found.to_dict()["verdict"] == "cannot be compared"


def test_other_chunks_of_one_range_are_compared_as_a_whole(played: Played) -> None:
    whole = msgspec.structs.replace(played.result, id="whole", chunks=(played.result.total,))
    found = compare_backtests(played.result, whole)
    assert found.test is not None and found.chunks == ()
    assert "verdict: not enough evidence" in found.lines()
