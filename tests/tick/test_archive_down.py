"""An archive that cannot be written never stops a tick, and nothing of it is lost."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.clock import SystemClock
from tapebook.decision import EngineAnswer
from tapebook.desk import health
from tapebook.desk.librarian import Librarian
from tapebook.domain.agent import Deployment
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun, Usage
from tapebook.domain.units import MINUTE
from tapebook.errors import StoreFailed
from tapebook.lab.explain import explain_run
from tapebook.lab.replay import replay_runs
from tapebook.tick.decide import Slot
from tapebook.tick.story import tick
from tapebook.wiring import Rooms
from tests.desk.desks import Desk, desk, reply
from tests.library.libraries import library

Run = Callable[..., tuple[int, str, str]]


@contextmanager
def archive_down(home: Path) -> Iterator[None]:
    """The archive is no folder for a while, as when its disk is not mounted; everything in it comes back."""
    archive, away = home / "archive", home / "archive.away"
    archive.mkdir(exist_ok=True)
    archive.rename(away)
    archive.write_text("not mounted")
    try:
        yield
    finally:
        archive.unlink()
        away.rename(archive)


@contextmanager
def spool_down(home: Path) -> Iterator[None]:
    """Nothing can be written to the spool either."""
    spool, away = home / "spool", home / "spool.away"
    spool.mkdir(exist_ok=True)
    spool.rename(away)
    spool.write_text("no folder")
    try:
        yield
    finally:
        spool.unlink()
        away.rename(spool)


def check(rooms: Rooms) -> health.Check:
    """The line of `doctor`."""
    (found,) = [each for each in health.health_checks(rooms) if each.name == "spool"]
    return found


def begun(floor: Desk) -> Deployment:
    """An agent that has decided once."""
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    floor.say(agent, reply("hold"))
    return agent


def test_a_tick_goes_on_and_its_texts_reach_the_archive_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "home"
    with desk(home) as floor:
        agent = begun(floor)
        with archive_down(home), caplog.at_level(logging.WARNING, "tapebook"):
            floor.later(MINUTE, BTC=100, ETH=10)
            run = floor.say(agent, reply("open", "long", 500))
            floor.later(10_000, BTC=100, ETH=10)
            floor.work(agent)
            shown = explain_run(floor.rooms, run)
            assert (shown["packet"] or "").startswith("You are") and shown["reply"] == reply("open", "long", 500)
            assert not check(floor.rooms).ok and "cannot be written" in check(floor.rooms).detail
        assert run.status == "placed" and floor.held(agent) == {"BTC": 500_000_000}
        assert run.degraded == () and run.packet_key and run.reply_key
        assert run.degraded_causes == () and caplog.records == [], "a decision does not even hear of it"
        waiting = floor.rooms.archive.spool_state().objects
        assert waiting >= 4 and floor.rooms.archive.drain().moved == waiting
        assert list((home / "archive" / "packs").rglob("*.z")) and not list((home / "spool").glob("*.seg"))
        assert explain_run(floor.rooms, run)["packet"] == shown["packet"] and check(floor.rooms).ok
        assert replay_runs(floor.rooms, floor.rooms.book.run_ids(most=9)).different == [] and floor.is_whole()


def test_without_archive_and_spool_the_decision_still_stands(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with desk(home) as floor:
        agent = begun(floor)
        floor.rooms.archive.close()
        with archive_down(home), spool_down(home):
            floor.later(MINUTE, BTC=100, ETH=10)
            run = floor.say(agent, reply("open", "long", 500))
        assert run.status == "placed" and (run.packet_key, run.reply_key) == (None, None)
        assert run.degraded_causes[0].startswith("archive: ")
        # The packet is what replay makes.
        assert (explain_run(floor.rooms, run)["packet"] or "").startswith("You are")
        assert replay_runs(floor.rooms, [run.run_id]).different == [] and floor.is_whole()


class Paid:
    """An engine whose answers cost money."""

    identity = "a model with its parameters"

    def decide(self, packet: Packet) -> EngineAnswer:
        """An answer that must not be lost."""
        return EngineAnswer(reply("hold"), usage=Usage("m", 10, 2, 7, 1))


def test_a_reply_that_was_paid_for_is_in_the_book_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    with desk(home) as floor:
        agent = begun(floor)
        monkeypatch.setattr(floor.rooms, "engine", lambda agent: Paid())
        floor.rooms.archive.close()
        with archive_down(home), spool_down(home):
            floor.later(MINUTE, BTC=100, ETH=10)
            run = tick(floor.rooms, Slot(agent, "BTC", floor.clock.now()))
        assert run.packet_key is None and explain_run(floor.rooms, run)["reply"] == reply("hold")


def test_whatever_an_archive_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [OSError(28, "No space left on device"), TimeoutError("slow"), KeyError("bucket"), MemoryError()]
    with desk(tmp_path / "home") as floor:
        agent, runs = begun(floor), list[DecisionRun]()
        for error in errors:

            def fail(*_: object, error: Exception = error) -> None:
                raise error

            with monkeypatch.context() as patch:
                patch.setattr(floor.rooms.archive._archive, "create_all", fail)
                patch.setattr(floor.rooms.archive._segments, "append", fail)
                floor.later(MINUTE, BTC=100, ETH=10)
                runs.append(floor.say(agent, reply("hold")))
        assert [run.degraded_causes[0].split(": ")[1] for run in runs] == [type(error).__name__ for error in errors]
        assert {run.status for run in runs} == {"held"}
        assert replay_runs(floor.rooms, [run.run_id for run in runs]).different == []


def test_the_librarian_goes_on_and_moves_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setattr("tapebook.archive.spool._LONGEST_WAIT_MS", 0)
    with library(home) as shelf:
        shelf.write("global/a.md", "a")
        with archive_down(home):
            role = Librarian(shelf.rooms)
            role.turn()
            assert role.problem is None and shelf.text("global/a.md") == "a"
            waiting = shelf.rooms.archive.spool_state().objects
            assert waiting == 1
            again = Librarian(shelf.rooms)
            again.turn()
            assert again.problem is not None and again.problem.startswith(
                "1 object not in the archive yet: cannot write"
            )
        last = Librarian(shelf.rooms)
        last.turn()
        assert last.problem is None and shelf.rooms.archive.spool_state().objects == 0
        assert shelf.text("global/a.md") == "a"


def test_without_archive_and_spool_the_librarian_says_so_and_goes_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with library(home) as shelf:
        shelf.write("global/a.md", "a")
        role = Librarian(shelf.rooms)
        with archive_down(home), spool_down(home):
            assert role.turn() is False
        assert role.problem is not None and role.problem.startswith("StoreFailed: cannot write")
        assert shelf.paths() == set()


def test_doctor_moves_what_waits_when_asked_to(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with desk(home) as floor:
        agent = begun(floor)
        with archive_down(home):
            floor.later(MINUTE, BTC=100, ETH=10)
            floor.say(agent, reply("hold"))
    with app.open(home, clock=SystemClock()) as book:
        with archive_down(home):
            (line,) = [each for each in book.doctor() if each.name == "spool"]
            assert not line.ok and line.detail.startswith("waiting for the archive: ")
            assert "`tapebook doctor --fix`" in line.detail
        (line,) = [each for each in book.doctor() if each.name == "spool"]
        assert line.ok and line.detail.endswith("the librarian packs them")
        (line,) = [each for each in book.doctor(fix=True) if each.name == "spool"]
        assert line == health.Check("spool", True, "nothing waits for the archive")


def test_who_deletes_after_archiving_is_refused(tmp_path: Path) -> None:
    """Rows of the tape leave their database only for the archive itself; see also `test_compaction`."""
    home = tmp_path / "home"
    with desk(home) as floor, archive_down(home):
        with pytest.raises(StoreFailed):
            floor.rooms.archive.create("anchors/local/-/1", b"hash")
        assert not (home / "spool").exists()


def test_doctor_names_objects_that_were_healed_and_clears_what_killed_writers_left(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with desk(home) as floor:
        agent = begun(floor)
        floor.later(MINUTE, BTC=100, ETH=10)
        run = floor.say(agent, reply("hold"))
        floor.rooms.archive.create(run.reply_key or "", reply("hold").encode())
        (home / "archive" / f"{run.reply_key}.z").write_bytes(b"")
        left = home / "archive" / "sha256" / "left.z.1.1.part"
        left.write_bytes(b"half")
        os.utime(left, (1_000, 1_000))
    with app.open(home) as book:
        (before,) = [each for each in book.doctor() if each.name == "archive"]
        assert before.ok and "no damaged object" in before.detail
        book._rooms.archive.create(run.reply_key or "", reply("hold").encode())
        (healed,) = [each for each in book.doctor() if each.name == "archive"]
        assert "replaced by the right bytes: 1 damaged object:" in healed.detail
        assert (run.reply_key or "").replace("/", "_") in healed.detail and left.exists()
        book.doctor(fix=True)
        assert not left.exists() and book.run(run.run_id)["reply"] == reply("hold")
