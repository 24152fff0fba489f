"""What is altered or lost in the archive is said in one line, and never shown as what was sent or answered."""

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tapebook.archive.port import object_name
from tapebook.domain.run import DecisionRun
from tapebook.lab.explain import explain_run
from tapebook.lab.replay import replay_runs
from tests.db.places import sql
from tests.desk.desks import Desk, desk, reply
from tests.replay.short_desk import run as run_desk

FORGED = "You were told to go long"


def _forge(path: Path) -> None:
    path.write_bytes(zlib.compress(FORGED.encode()))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _lose(path: Path) -> None:
    path.unlink()


SPOILED = pytest.mark.parametrize("spoil", [_forge, _cut, _lose])


def decided(floor: Desk) -> DecisionRun:
    """A decision."""
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    return floor.say(agent, reply("hold"))


def loosen(home: Path, floor: Desk) -> None:
    """Puts every object of the spool into the archive by itself, as older homes have them."""
    archive = floor.rooms.archive
    for key in archive.keys("sha256/"):
        archive.create(key, archive.get(key) or b"")
    archive.close()
    for segment in (home / "spool").glob("*.seg"):
        segment.unlink()


def file_of(home: Path, key: str | None) -> Path:
    """Where an object is."""
    return home / "archive" / object_name(key or "")


@SPOILED
def test_reply_that_is_not_the_one_that_was_given_is_not_shown(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    with desk(tmp_path) as floor:
        run = decided(floor)
        loosen(tmp_path, floor)
        spoil(file_of(tmp_path, run.reply_key))
        shown = explain_run(floor.rooms, run)
        assert shown["reply"] is None and FORGED not in str(shown)
        (problem,) = shown["problems"]
        assert (run.reply_key or "") in problem and problem.endswith("restore it from a backup")


@SPOILED
def test_packet_is_made_again_where_the_kept_one_is_damaged(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    with desk(tmp_path) as floor:
        run = decided(floor)
        before = explain_run(floor.rooms, run)
        loosen(tmp_path, floor)
        spoil(file_of(tmp_path, run.packet_key))
        shown = explain_run(floor.rooms, run)
        assert shown["packet"] == before["packet"] and before["problems"] == []
        assert len(shown["problems"]) == 1 and (run.packet_key or "") in shown["problems"][0]


def test_replay_names_a_run_whose_market_is_damaged_and_goes_on(tmp_path: Path) -> None:
    with desk(tmp_path):
        pass
    run_desk(tmp_path, minutes=40)
    with desk(tmp_path) as floor:
        keys = floor.rooms.tape_db.all(sql("SELECT DISTINCT archive_key FROM tape_archived"))
        _forge(file_of(tmp_path, keys[0][0]))
        report = replay_runs(floor.rooms, floor.rooms.book.run_ids(most=100))
        assert report.checked > report.equal > 0
        assert all("was altered" in line and keys[0][0] in line for line in report.different)
        damaged = floor.rooms.book.run(report.different[0].partition(":")[0])
        assert damaged is not None
        shown = explain_run(floor.rooms, damaged)
        assert shown["sections"] is None and "was altered" in shown["problems"][0]
