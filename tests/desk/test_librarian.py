"""The librarian of a desk syncs at the start and every few minutes, and survives what people must put right."""

import shutil
from pathlib import Path

import pytest

from tapebook.desk import librarian as module
from tapebook.desk.librarian import Librarian
from tapebook.domain.agent import AgentProfile
from tapebook.domain.units import parse_instant
from tapebook.horizons import ContextLayer, ContextStore
from tests.api.test_live import layers
from tests.desk.desks import desk
from tests.desk.exits import booked
from tests.horizons.makers import exit_at
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


def test_the_layers_of_all_agents_are_kept_up_every_day(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        one, other, rooms = floor.hire(), floor.hire(AgentProfile("b", ("BTC",))), floor.rooms
        role = Librarian(rooms)

        def days() -> list[str]:
            head = rooms.book.head()
            return rooms.horizons.store.timeframes("", ContextLayer.L6_DAILY, seq=head)

        booked(rooms, one, [exit_at("2026-01-05T10:00", 3.0)])
        booked(rooms, other, [exit_at("2026-01-05T11:00", 4.0), exit_at("2026-01-06T11:00", 1.0)])
        assert days() == []
        # A Tuesday, then a Wednesday, and one three months later on which the first days are past their time.
        for day, kept in (("2026-01-06", 1), ("2026-01-07", 2), ("2026-04-06", 1)):
            floor.clock.advance(parse_instant(f"{day}T12:00"))
            role._due = 0.0
            role.turn()
            assert role.problem is None and len(days()) == kept
            head = rooms.book.head()
            role._due = 0.0
            role.turn()
            Librarian(rooms).turn()
            assert rooms.book.head() == head
        total = ContextStore(layers(floor)).get_context(ContextLayer.L1_LEGACY, "LEGACY", "total_pnl")
        assert total == 8.0 and floor.is_whole()


def test_a_workspace_that_went_away_is_a_problem_and_no_end(tmp_path: Path) -> None:
    with library(tmp_path / "home") as shelf:
        shelf.write("global/a.md", "a")
        Librarian(shelf.rooms).turn()
        shutil.rmtree(shelf.workspace)
        role = Librarian(shelf.rooms)
        assert not role.turn()
        assert role.problem is not None and "put it back" in role.problem and shelf.paths() == {"global/a.md"}
