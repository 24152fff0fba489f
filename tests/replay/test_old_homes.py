"""Homes that an older tapebook made open, verify and replay for ever.

`homes/renderer_2.tar.xz` was made by the last commit that wrote renderer 2: a demo of five seconds, and a home with
eight days of imported five-minute bars and a backtest of an ensemble over them (trades, a note, experience, layers).

`homes/renderer_3.tar.xz` was made by the last commit that wrote renderer 3: a desk of 84 minutes in virtual time whose
engine puts characters that nobody sees into its reasons and notes, with more of them in documents, a curated
layer, a note that is promoted, a strategy, avoid rules and a manual; and a home with three days of imported
five-minute bars and a backtest over two of them. The index of documents is not in it: replay builds it again.

`homes/renderer_4.tar.xz` was made by the last commit that wrote renderer 4: a demo of eight seconds with a document,
and a home with nine days of imported five-minute bars and a backtest of an ensemble over three of them (trades, notes,
experience, layers).

`homes/recall_1.tar.xz` was made by the last commit that searched by the first rules of recall: a desk of ten minutes
whose decisions cite front matter, the same file by way of two folders, and trades that their packets show as well.
"""

import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

import tapebook
from tapebook.clock import VirtualClock
from tapebook.domain.units import parse_instant

HOMES = ("renderer_2", "renderer_3", "renderer_4", "recall_1")
WITH_BACKTESTS = HOMES[:3]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old homes, unpacked, those of each renderer in a folder of its name."""
    place = tmp_path_factory.mktemp("old")
    for name in HOMES:
        with tarfile.open(Path(__file__).parent / "homes" / f"{name}.tar.xz") as packed:
            # Python before 3.11.4, such as that of Debian 12, has no filter to name.
            terms: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            packed.extractall(place / name, **terms)
    return place


@pytest.mark.parametrize(
    ("name", "runs", "step"),
    [
        ("renderer_2/demo", 91, 1),
        ("renderer_2/plain/backtests/*", 384, 6),
        ("renderer_3/hidden", 65, 1),
        ("renderer_3/plain/backtests/*", 96, 1),
        ("renderer_4/demo", 91, 1),
        ("renderer_4/plain/backtests/*", 576, 6),
        ("recall_1/recall_1", 13, 1),
        # Packets of a backtest differ little from one to the next: `make proof` looks at all of them.
        pytest.param("renderer_2/plain/backtests/*", 384, 1, marks=pytest.mark.proof),
        pytest.param("renderer_4/plain/backtests/*", 576, 1, marks=pytest.mark.proof),
    ],
)
def test_every_packet_replays_and_every_table_verifies(homes: Path, name: str, runs: int, step: int) -> None:
    (home,) = homes.glob(name)
    with tapebook.open(home) as tb:
        assert tb.verify() == []
        made = tb.runs(most=10_000)
        assert len(made) == runs
        reports = [tb.replay()] if step == 1 else [tb.replay(run["run_id"]) for run in made[::step]]
        assert [report.different for report in reports] == [[]] * len(reports)
        assert sum(report.checked for report in reports) == len(made[::step])


def test_rows_of_old_homes_have_their_times(homes: Path) -> None:
    with tapebook.open(homes / "renderer_2" / "demo") as tb:
        runs, orders = tb.runs(most=1_000), tb.orders(most=1_000)
        assert runs and all(run["as_of"] == run["started_at"] for run in runs)
        assert all(run["as_of"] <= run["created_at"] <= run["updated_at"] for run in runs)
        assert all(run["completed_at"] or run["status"] == "placed" for run in runs)
        assert orders and all(each["intended_at"] <= each["created_at"] <= each["updated_at"] for each in orders)
        placed = {each["client_id"] for each in orders}
        assert {action["order_id"] for run in runs for action in run["actions"] if action["order_id"]} == placed


@pytest.mark.parametrize("renderer", WITH_BACKTESTS)
def test_old_backtest_is_listed_under_its_id(homes: Path, renderer: str) -> None:
    home = homes / renderer / "plain"
    with tapebook.open(home) as tb:
        (found,) = tb.backtests.all()
        folder = next((home / "backtests").iterdir()).name
        assert found["id"] == folder
        assert tb.backtests.show(folder)["id"] == folder


def test_documents_are_searched_by_the_rules_of_their_time(homes: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(homes / "recall_1" / "recall_1", home)
    clock = VirtualClock(parse_instant("2026-01-05T08:00:00Z"))
    with tapebook.open(home, clock=clock) as tb:
        before = [run["run_id"] for run in tb.runs(most=100)]
        tb.recall.sync()
        cited = tb.context("ann", "BTC").citations
        assert cited and not any("title" in each.snippet for each in cited)
        report = tb.replay()
        assert report.different == [] and report.checked == len(before) == 13
        first = tb.run(before[0])["citations"]
        assert any("title: Feed outages" in (each["text"] or "") for each in first or [])
