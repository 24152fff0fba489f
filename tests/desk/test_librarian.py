"""The librarian of a desk syncs at the start and every few minutes, and survives what people must put right."""

import shutil
from pathlib import Path

import pytest

from tapebook.desk import librarian as module
from tapebook.desk.librarian import Librarian
from tests.library.libraries import library


def test_it_syncs_when_it_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module, "elapsed_seconds", lambda: now[0])
    with library(tmp_path / "home", settings="[recall]\nsync_minutes = 2\n") as shelf:
        shelf.write("global/a.md", "a")
        role = Librarian(shelf.rooms)
        assert not role.turn() and shelf.paths() == {"global/a.md"}
        shelf.write("global/b.md", "b")
        now[0] += 119
        role.turn()
        assert shelf.paths() == {"global/a.md"} and role.progress_line() == "1 sync, 1 document changed"
        now[0] += 1
        role.turn()
        assert (
            shelf.paths() == {"global/a.md", "global/b.md"} and role.progress_line() == "2 syncs, 2 documents changed"
        )
        role.close()


def test_a_workspace_that_went_away_is_a_problem_and_no_end(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "a")
        Librarian(shelf.rooms).turn()
        shutil.rmtree(shelf.workspace)
        role = Librarian(shelf.rooms)
        assert not role.turn()
        assert role.problem is not None and "put it back" in role.problem and shelf.paths() == {"global/a.md"}
