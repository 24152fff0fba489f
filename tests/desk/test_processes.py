"""Processes at work: every role by its lock, what a supervisor notes of them, and what a killed one left."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.clock import elapsed_seconds
from tapebook.desk.health import Check
from tapebook.desk.processes import RoleAtWork, RoleRecord, desk_record, roles_at_work
from tapebook.domain.units import parse_instant
from tapebook.home import exclusive_lock, places_open_to_others, presence_lock, process_name, role_lock
from tapebook.log.lease import Leases

ENDED = parse_instant("2026-10-05T12:30:00Z")
ME = os.getpid()
HOLDS = """
import sys
from pathlib import Path
from tapebook.home import presence_lock
with presence_lock(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A new home."""
    app.init(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def other(home: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that is at work as a worker."""
    command, pipe = [sys.executable, "-c", HOLDS, str(home), "worker"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def processes_check(home: Path) -> Check:
    """What `doctor` says of processes."""
    with app.open(home) as book:
        (found,) = [check for check in book.doctor() if check.name == "processes"]
    return found


def test_every_role_is_named_once_in_order(home: Path, other: "subprocess.Popen[str]") -> None:
    assert roles_at_work(home) == [RoleAtWork("worker", other.pid, None)]
    with ExitStack() as held:
        for role in ("web", "api", "worker"):
            held.enter_context(presence_lock(home, role))
        for role in ("executor", "scheduler", "librarian", "backup", "desk"):
            held.enter_context(role_lock(home, role))
        held.enter_context(exclusive_lock(home, "tape"))
        found = [(each.role, each.process) for each in roles_at_work(home)]
        workers = [("worker", process) for process in sorted((ME, other.pid))]
        alone = [(role, ME) for role in ("executor", "librarian", "backup", "ingest", "api", "web")]
        assert found == [("scheduler", ME), *workers, *alone]
        said = processes_check(home)
    assert said.ok and said.detail == ", ".join(f"{role} {process}" for role, process in found)


def test_a_worker_is_named_with_its_agents_wherever_it_runs(home: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    killed, elsewhere = process_name().replace(str(ME), str(gone.pid)), "box:17:abc"
    with app.open(home) as book:
        rooms = book._rooms
        hold = partial(Leases, rooms.book_db, ttl_seconds=60.0, elapsed=elapsed_seconds)
        rooms.leases.acquire([rooms.book.stream("one")], most=1)
        hold(holder=killed).acquire([rooms.book.stream("two")], most=1)
        hold(holder=elsewhere).acquire([rooms.book.stream(name) for name in ("three", "four")], most=2)
        with presence_lock(home, "worker"):
            found = processes_check(home)
        assert found.detail == f"worker {ME} with 1 agent, worker {elsewhere} with 2 agents"
        rooms.leases.release_all()


def test_restarts_are_said_and_a_role_that_is_down_is_a_failure(home: Path) -> None:
    with desk_record(home) as note, presence_lock(home, "worker"):
        note({"worker": RoleRecord(ME, 2, ENDED, -9), "api": RoleRecord(4711)})
        found = processes_check(home)
        assert found.ok and found.detail == (
            f"worker {ME} (2 restarts, last 2026-10-05T12:30:00 after code -9), api 4711"
        )
        note({"worker": RoleRecord(ME, 2, ENDED, -9), "api": RoleRecord(None, 1, ENDED, 1)})
        found = processes_check(home)
        down = "api is down and is started again (1 restart, last 2026-10-05T12:30:00 after code 1)"
        assert not found.ok and found.detail.endswith(down)
        with app.open(home) as book:
            status = book.status()
        assert {"name": "processes", "detail": found.detail} in status["incidents"]
    assert roles_at_work(home) == [] and list(home.glob(".desk-*")) == [], "nothing is left"


def test_the_file_is_private_and_what_a_killed_supervisor_left_counts_for_nothing(home: Path) -> None:
    stale = home / ".desk-4711.json"
    stale.write_text('{"worker": {"process": 4711, "restarts": 9, "ended_at": 1, "code": 1}}')
    assert roles_at_work(home) == [] and stale in places_open_to_others(home)
    with desk_record(home) as note:
        assert not stale.exists()
        note({"worker": RoleRecord(ME)})
        file = home / f".desk-{ME}.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        before = file.stat().st_ino
        note({"worker": RoleRecord(ME)})
        assert file.stat().st_ino == before, "no news, no write"
        assert roles_at_work(home) == [RoleAtWork("worker", ME, RoleRecord(ME))]
        file.write_text("{torn")
        assert roles_at_work(home) == []


def test_a_home_that_cannot_be_written_in_does_not_end_a_desk(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with desk_record(home) as note:
        with monkeypatch.context() as full:
            full.setattr("tapebook.domain.files.write_whole", fail)
            note({"worker": RoleRecord(ME)})
            assert roles_at_work(home) == []
        note({"worker": RoleRecord(ME)})
        assert [each.role for each in roles_at_work(home)] == ["worker"], "the next look writes it"
