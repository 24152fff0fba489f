"""The backtests of a home: listed however far they came, shown, exported, removed; and one line for what cannot be."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tapebook.api.backtests import BacktestReportView, Backtests
from tapebook.errors import BadInput, HomeError, UnknownName
from tapebook.home import exclusive_lock
from tests.backtest.books import WEEKS, play, played


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a finished backtest, and one without memory that was stopped in its second week."""
    home = tmp_path_factory.mktemp("shelf") / "home"
    shutil.copytree(played(tmp_path_factory.getbasetemp()).parent, home)
    assert play(home, memory="off", chunks=1) is None
    return home


@pytest.fixture
def copy(parent: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy that may be changed."""
    shutil.copytree(parent, tmp_path / "home")
    yield tmp_path / "home"


def ids(home: Path) -> tuple[str, str]:
    """The finished one and the other."""
    rows = {row["memory"]: row["id"] for row in Backtests(home).all()}
    return rows["on"], rows["off"]


def test_the_list_says_how_far_each_came(parent: Path) -> None:
    rows = {row["memory"]: row for row in Backtests(parent).all()}
    assert rows["on"]["status"] == "done" and rows["off"]["status"] == f"1 of {WEEKS} chunks done"
    assert (rows["on"]["chunks_done"], rows["off"]["chunks_done"], rows["off"]["chunks_planned"]) == (4, 1, 4)
    assert (rows["on"]["trades"] or 0) > (rows["off"]["trades"] or 0) > 0
    shown = Backtests(parent).show(rows["on"]["id"])
    assert shown["total"] is not None
    change = shown["total"]["equity"]["end_usd"] - shown["total"]["equity"]["start_usd"]
    assert rows["on"]["change_usd"] == pytest.approx(change)


def test_no_home_has_backtests_at_first(tmp_path: Path) -> None:
    assert Backtests(tmp_path).all() == []
    with pytest.raises(UnknownName, match="there is no backtest 'x'; backtests: none yet"):
        Backtests(tmp_path).show("x")


def test_a_backtest_is_named_by_its_beginning(parent: Path) -> None:
    done, partial = ids(parent)
    shelf = Backtests(parent)
    assert shelf.show(done[:6])["id"] == done and shelf.show(partial)["total"] is None
    with pytest.raises(UnknownName, match=f"there is no backtest 'zz'; backtests: .*{done}"):
        shelf.show("zz")
    with pytest.raises(UnknownName, match="there is no backtest ''"):
        shelf.show("")


def test_a_finished_one_is_shown_with_its_speed(parent: Path) -> None:
    done, _ = ids(parent)
    found = Backtests(parent).show(done)
    assert found["status"] == "done" and found["total"] is not None
    assert found["ticks_per_second"] == found["total"]["ticks"] / 2.0
    stored = (parent / "backtests" / done / "result.json").read_text()
    assert "ticks_per_second" not in stored and str(parent) not in stored
    summary, chunks = Backtests(parent).lines(done), Backtests(parent).lines(done, chunks=True)
    assert chunks[-len(summary) :] == summary and len(chunks) > len(summary) + 4 * 15


def test_one_that_is_not_finished_shows_what_there_is(parent: Path) -> None:
    _, partial = ids(parent)
    shelf = Backtests(parent)
    found = shelf.show(partial)
    assert [chunk["name"] for chunk in found["chunks"]] == ["2026-W02"] and found["baselines"] is None
    lines = shelf.lines(partial)
    assert lines[0].startswith("STALE: made with other code than now") and lines[1].startswith("2026-W02  ")
    then = "the same `tapebook backtest` again begins another: its inputs are no longer the same"
    assert lines[-1] == f"{partial}: 1 of 4 chunks done; {then}"
    said = rf"backtest {partial} is not finished \(1 of 4 chunks done\): run the same `tapebook backtest` again"
    for ask in (lambda: shelf.compare(partial, partial), lambda: shelf.export(partial, html="x.html")):
        with pytest.raises(BadInput, match=said):
            ask()


def test_files_are_written_where_asked(parent: Path, tmp_path: Path) -> None:
    done, _ = ids(parent)
    shelf = Backtests(parent)
    places = {"csv": tmp_path / "tables", "html": tmp_path / "report.html", "json": tmp_path / "result.json"}
    assert shelf.export(done, csv=places["csv"], html=places["html"], json=places["json"]) == [
        str(place) for place in places.values()
    ]
    assert sorted(path.name for path in places["csv"].iterdir()) == ["chunks.csv", "equity.csv", "trades.csv"]
    assert places["html"].read_text("utf-8").startswith("<!doctype html>")
    view = json.loads(places["json"].read_bytes())
    shown, known = shelf.show(done), BacktestReportView.__annotations__.keys()
    assert shown.keys() <= known and msgspec.convert(shown, BacktestReportView)["total"] is not None
    assert view["id"] == done and view | {"status": "done"} == json.loads(json.dumps(shelf.show(done)))
    with pytest.raises(BadInput, match=r"report.html is there already: choose another name, or `overwrite=`"):
        shelf.export(done, html=places["html"])
    shelf.export(done, html=places["html"], overwrite=True)
    with pytest.raises(BadInput, match="say what to write, and where: csv, html or json"):
        shelf.export(done)


def test_reading_changes_nothing(parent: Path, tmp_path: Path) -> None:
    done, _ = ids(parent)
    folder = parent / "backtests" / done
    before = {path.name: path.read_bytes() for path in folder.rglob("*.json")}
    Backtests(parent).export(done, html=tmp_path / "report.html")
    Backtests(parent).compare(done, done)
    assert {path.name: path.read_bytes() for path in folder.rglob("*.json")} == before


def test_a_removed_one_is_gone_unless_somebody_runs_it(copy: Path) -> None:
    done, partial = ids(copy)
    shelf = Backtests(copy)
    with exclusive_lock(copy / "backtests" / done), pytest.raises(HomeError, match="is in use by process"):
        shelf.remove(done)
    assert shelf.remove(done[:8]) == done
    assert [row["id"] for row in shelf.all()] == [partial] and not (copy / "backtests" / done).exists()
    with pytest.raises(UnknownName):
        shelf.remove("../..")
    assert (copy / "tape.db").exists()


def test_a_damaged_one_is_listed_and_can_be_removed(copy: Path) -> None:
    done, partial = ids(copy)
    path = copy / "backtests" / done / "result.json"
    path.write_bytes(path.read_bytes().replace(b'"ticks":', b'"tocks":', 1))
    rows = {row["id"]: row for row in Backtests(copy).all()}
    assert rows[done]["status"] == "damaged" and rows[partial]["status"] == "1 of 4 chunks done"
    assert Backtests(copy).remove(done) == done


def test_similar_ones_are_found_with_what_differs(copy: Path) -> None:
    done, partial = ids(copy)
    shelf = Backtests(copy)
    # One that is not finished is compared with nothing.
    assert shelf.similar(done) == []
    with pytest.raises(BadInput, match="is not finished"):
        shelf.similar(partial)
    shutil.rmtree(copy / "backtests" / partial)
    assert play(copy, memory="off", seed="another") is not None
    plain, silent = ids(copy)
    (found,) = shelf.similar(plain)
    assert (
        found["id"] == silent and found["parts"]["agent"] == found["parts"]["market"] == found["parts"]["period"] == 1
    )
    assert 0.5 < found["parts"]["settings"] < 1 and 0 < found["parts"]["result"] < 1
    assert "memory: on here, off there" in found["differs"]
    assert found["likeness"] == pytest.approx(sum(found["parts"].values()) / 5, abs=1e-3)
    (back,) = shelf.similar(silent)
    assert (back["id"], back["parts"], back["likeness"]) == (plain, found["parts"], found["likeness"])
    with pytest.raises(BadInput, match="asks for nothing"):
        shelf.similar(plain, most=0)
    (copy / "backtests" / silent / "plan.json").write_text("{")
    assert shelf.similar(plain) == []
