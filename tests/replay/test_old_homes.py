"""Homes that an older tapebook made open, verify and replay for ever.

`homes/renderer_2.tar.xz` was made by the last commit that wrote renderer 2: a demo of five seconds, and a home with
eight days of imported five-minute bars and a backtest of an ensemble over them (trades, a note, experience, layers).

`homes/renderer_3.tar.xz` was made by the last commit that wrote renderer 3: a desk of 84 minutes in virtual time whose
engine puts characters that nobody sees into its reasons and notes, with more of them in documents, a curated
layer, a note that is promoted, a strategy, avoid rules and a manual; and a home with three days of imported
five-minute bars and a backtest over two of them. The index of documents is not in it: replay builds it again.
"""

import tarfile
from pathlib import Path

import pytest

import tapebook

HOMES = ("renderer_2", "renderer_3")


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The old homes, unpacked, those of each renderer in a folder of its name."""
    place = tmp_path_factory.mktemp("old")
    for name in HOMES:
        with tarfile.open(Path(__file__).parent / "homes" / f"{name}.tar.xz") as packed:
            packed.extractall(place / name, filter="data")
    return place


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("renderer_2/demo", 91),
        ("renderer_2/plain/backtests/*", 384),
        ("renderer_3/hidden", 65),
        ("renderer_3/plain/backtests/*", 96),
    ],
)
def test_every_packet_replays_and_every_table_verifies(homes: Path, name: str, runs: int) -> None:
    (home,) = homes.glob(name)
    with tapebook.open(home) as tb:
        assert tb.verify() == []
        report = tb.replay()
        assert report.different == []
        assert report.checked == runs


def test_rows_of_old_homes_have_their_times(homes: Path) -> None:
    with tapebook.open(homes / "renderer_2" / "demo") as tb:
        runs, orders = tb.runs(most=1_000), tb.orders(most=1_000)
        assert runs and all(run["as_of"] == run["started_at"] <= run["created_at"] <= run["updated_at"] for run in runs)
        assert all(run["completed_at"] or run["status"] == "placed" for run in runs)
        assert orders and all(each["intended_at"] <= each["created_at"] <= each["updated_at"] for each in orders)
        placed = {each["client_id"] for each in orders}
        assert {action["order_id"] for run in runs for action in run["actions"] if action["order_id"]} == placed


@pytest.mark.parametrize("renderer", HOMES)
def test_old_backtest_is_listed_under_its_id(homes: Path, renderer: str) -> None:
    home = homes / renderer / "plain"
    with tapebook.open(home) as tb:
        (found,) = tb.backtests.all()
        folder = next((home / "backtests").iterdir()).name
        assert found["id"] == folder
        assert tb.backtests.show(folder)["id"] == folder
