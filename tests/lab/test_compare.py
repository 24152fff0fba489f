"""Two decisions side by side: pairs are counted one by one, and a diff is of the texts that were sent."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.domain.run import DecisionRun, Verdict
from tapebook.errors import UnknownName
from tapebook.lab.explain import ShadowReport, decision_label
from tests.context.situations import action, run
from tests.desk.pairs import SHADOWED, play


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A desk with shadows."""
    folder = tmp_path_factory.mktemp("compare") / "home"
    play(folder, SHADOWED)
    return folder


@pytest.fixture(scope="module")
def report(home: Path) -> ShadowReport:
    """All its pairs."""
    with app.open(home) as book:
        return book.compare_shadow("quick-2m", most=10_000)


def test_every_figure_is_a_count_of_pairs(home: Path, report: ShadowReport) -> None:
    with app.open(home) as book:
        runs = {found["run_id"]: found for found in book.runs("quick-2m", most=10_000)}
    assert report.pairs == len(report.ticks) == len(runs) // 2 > 60
    assert (report.agent, report.unpaired) == ("quick-2m", 0)
    assert report.differing == sum(pair.differs for pair in report.ticks) > 0
    assert sum(row["pairs"] for row in report.table) == report.pairs
    assert {(row["main"], row["shadow"]): row["pairs"] for row in report.table} == Counter(
        (pair.main, pair.shadow) for pair in report.ticks
    )
    for pair in report.ticks:
        main, shadow = runs[pair.main_run], runs[pair.shadow_run]
        assert (main["symbol"], main["as_of"]) == (shadow["symbol"], shadow["as_of"]) == (pair.symbol, pair.as_of)
        assert (main["trigger"], shadow["trigger"]) == ("schedule", "shadow")
        assert (main["tokens"], shadow["tokens"]) == (pair.main_tokens, pair.shadow_tokens)
        # Other bars have another regime, which the market section shows.
        assert pair.sections is not None and "bars" in pair.sections
        assert pair.differs or pair.main == pair.shadow
    assert report.main_tokens == sum(pair.main_tokens for pair in report.ticks)
    assert report.saved_tokens == report.main_tokens - report.shadow_tokens > 0


def test_the_newest_pairs_come_first(home: Path, report: ShadowReport) -> None:
    with app.open(home) as book:
        few = book.compare_shadow("quick-2m", most=7)
    assert few.ticks == report.ticks[:7]
    assert [pair.as_of for pair in few.ticks] == sorted((pair.as_of for pair in few.ticks), reverse=True)


def test_an_agent_without_a_shadow_has_no_pairs(tmp_path: Path) -> None:
    app.init(tmp_path / "home")
    with app.open(tmp_path / "home") as book:
        book.tick("btc-5m", "BTC")
        assert book.compare_shadow("btc-5m").pairs == 0


def test_two_runs_differ_where_their_packets_do(home: Path, report: ShadowReport) -> None:
    pair = report.ticks[0]
    with app.open(home) as book:
        found = book.compare_runs(pair.main_run, pair.shadow_run)
        texts = [(book.run(run_id)["packet"] or "").split("\n") for run_id in (pair.main_run, pair.shadow_run)]
        same = book.compare_runs(pair.main_run, pair.main_run)
        with pytest.raises(UnknownName, match="there is no run 'x'"):
            book.compare_runs(pair.main_run, "x")
    assert same["diff"] == []
    assert (found["first"]["run_id"], found["second"]["run_id"]) == (pair.main_run, pair.shadow_run)
    # Taken away and put in, the lines of the diff turn one text into the other.
    diff = found["diff"] or []
    gone = Counter(line[1:] for line in diff[2:] if line.startswith("-"))
    come = Counter(line[1:] for line in diff[2:] if line.startswith("+"))
    assert Counter(texts[0]) - gone + come == Counter(texts[1])
    assert any(re.match(r"-## Open positions", line) for line in diff) or "memory" not in texts[0]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (run(), "nothing"),
        (run(error="no JSON"), "failed"),
        (run((action("hold"), Verdict(True))), "hold"),
        (run((action("open"), Verdict(True)), (action("close"), Verdict(True))), "open long + close"),
    ],
)
def test_a_decision_in_a_word(made: DecisionRun, says: str) -> None:
    assert decision_label(made) == says
