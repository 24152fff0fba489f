"""The supervisor: children are started, started again, heard and stopped; one that needs a person ends them all."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.desk import supervisor as module
from tapebook.desk.processes import RoleRecord
from tapebook.desk.roles import RoleName, StopSignal
from tapebook.desk.supervisor import SupervisorProgress, supervise_processes
from tapebook.errors import Fix, Retry, Stop
from tapebook.settings.config import FILE, with_setting


def program(text: str, *arguments: object) -> list[str]:
    """A Python program in a process of its own."""
    return [sys.executable, "-c", text, *map(str, arguments)]


SAYS = "import sys; print('worker  12 made', file=sys.stderr); print('oops: a warning', file=sys.stderr)"
# Dies at its first two starts.
COUNTS = """
import sys
from pathlib import Path
file = Path(sys.argv[1])
file.write_text(file.read_text() + 'x' if file.exists() else 'x')
sys.exit(0 if len(file.read_text()) > 2 else 1)
"""
WAITS = """
import signal, sys, time
from pathlib import Path
def leave(*_):
    Path(sys.argv[1]).write_text('left')
    sys.exit(0)
signal.signal(signal.SIGINT, leave)
print('up', file=sys.stderr, flush=True)
time.sleep(60)
"""


class Ear:
    """What the supervisor tells."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.newest = SupervisorProgress({}, 0)
        self.records: list[RoleRecord] = []

    def report(self, progress: SupervisorProgress) -> None:
        """Keeps the newest progress, and whatever is new of the workers."""
        self.newest = progress
        self.records += [known for known in progress.roles.values() if self.records[-1:] != [known]]

    def run(self, commands: dict[str, list[str]], stop: StopSignal | None = None) -> None:
        """Supervises."""
        supervise_processes(commands, stop=stop or StopSignal(), print_line=self.lines.append, report=self.report)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.02)


def test_ends_when_all_have_ended_and_passes_on_what_they_say() -> None:
    ear = Ear()
    ear.run({"worker": program(SAYS), "executor": program("pass")})
    assert ear.newest.said == {"worker": "12 made"} and ear.lines == ["worker: oops: a warning"]


def test_child_that_dies_is_started_again_and_reported(tmp_path: Path) -> None:
    ear = Ear()
    ear.run({"worker": program(COUNTS, tmp_path / "count")})
    assert (tmp_path / "count").read_text() == "xxx" and ear.newest.restarts == 2
    assert ear.lines == ["worker ended with code 1; it is started again"] * 2
    assert [known.restarts for known in ear.records] == [0, 1, 1, 2, 2]
    assert [known.process is None for known in ear.records] == [False, True, False, True, False]
    times = [known.ended_at for known in ear.records if known.ended_at]
    assert len(times) == 4 and times == sorted(times) and {known.code for known in ear.records} == {None, 1}


def test_killed_child_is_started_again(tmp_path: Path) -> None:
    kills = COUNTS.replace("else 1)", "else __import__('os').kill(__import__('os').getpid(), 9))")
    ear = Ear()
    ear.run({"worker": program(kills, tmp_path / "count")})
    assert "worker ended with code -9; it is started again" in ear.lines


def test_child_that_needs_a_person_stops_all(tmp_path: Path) -> None:
    ear = Ear()
    with pytest.raises(Stop, match="the worker needs a person to look"):
        ear.run({"executor": program(WAITS, tmp_path / "left"), "worker": program("import sys; sys.exit(3)")})
    assert ear.newest.restarts == 0


def test_child_that_cannot_run_as_things_are_stops_all(tmp_path: Path) -> None:
    ear = Ear()
    with pytest.raises(Fix, match="the worker cannot run as things are"):
        ear.run({"executor": program(WAITS, tmp_path / "left"), "worker": program("import sys; sys.exit(2)")})
    assert ear.newest.restarts == 0


def test_child_that_is_refused_later_is_tried_again_a_few_times(tmp_path: Path) -> None:
    ear = Ear()
    dies = COUNTS.replace("0 if len(file.read_text()) > 2 else 1", "min(2, len(file.read_text()))")
    with pytest.raises(Fix):
        ear.run({"worker": program(dies, tmp_path / "count")})
    assert (tmp_path / "count").read_text() == "x" * (1 + module._MOST_REFUSALS)


def test_time_is_kept_by_children_that_are_started_again(tmp_path: Path) -> None:
    """Each start gets what is left, and nothing is started when nothing is left."""
    ear = Ear()
    dies = "import sys; print('left', sys.argv[2], file=sys.stderr); sys.exit(75)"
    with pytest.raises(Retry, match="the worker could not do its work until the end"):
        supervise_processes(
            {"worker": program(dies)}, stop=StopSignal(), print_line=ear.lines.append, report=ear.report, seconds=0.6
        )
    given = [float(line.split()[-1]) for line in ear.lines if line.startswith("worker: left")]
    assert given and given == sorted(given, reverse=True) and all(0 < each <= 0.6 for each in given)


def test_child_that_does_not_keep_its_time_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OVERTIME_SECONDS", 0.2)
    ear, file = Ear(), tmp_path / "left"
    supervise_processes(
        {"worker": program(WAITS, file)}, stop=StopSignal(), print_line=ear.lines.append, report=ear.report, seconds=1.0
    )
    assert file.read_text() == "left"


def test_an_outage_is_said_once_for_all_roles() -> None:
    outages = module._DatabaseOutages()
    said = [
        (role, line, outages.is_news(role, line))
        for role, line in (
            ("worker", "warning: database away since 12:00, trying again"),
            ("scheduler", "warning: database away since 12:01, trying again"),
            ("worker", "database back after 1.0 s"),
            ("worker", "warning: something else"),
            ("scheduler", "database back after 2.0 s"),
            ("worker", "warning: database away since 12:09, trying again"),
        )
    ]
    assert [news for *_, news in said] == [True, False, False, True, True, True]


def once(condition: Callable[[], bool], act: Callable[[], None]) -> None:
    """Does something as soon as a condition holds, from another thread."""

    def watch() -> None:
        while not condition():
            time.sleep(0.01)
        act()

    threading.Thread(target=watch, daemon=True).start()


def test_stop_is_passed_on_and_waited_for(tmp_path: Path) -> None:
    ear = Ear()
    with StopSignal() as stop:
        once(lambda: ear.lines == ["worker: up"], lambda: os.kill(os.getpid(), signal.SIGTERM))
        ear.run({"worker": program(WAITS, tmp_path / "left")}, stop)
    assert (tmp_path / "left").read_text() == "left"


def test_child_that_does_not_leave_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAVE_SECONDS", 0.2)
    deaf = "import signal, sys, time; signal.signal(2, signal.SIG_IGN); print('up', file=sys.stderr); time.sleep(60)"
    ear = Ear()
    begun = time.monotonic()
    with StopSignal() as stop:
        once(lambda: ear.lines == ["worker: up"], lambda: os.kill(os.getpid(), signal.SIGINT))
        ear.run({"worker": program(deaf)}, stop)
    assert time.monotonic() - begun < 30


def test_pauses_grow_and_are_forgotten_by_a_healthy_child(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(module, "elapsed_seconds", lambda: seconds[0])
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.5)
    child = module._RoleProcess("worker", program("pass"), on_line=lambda name, line: None)
    pauses = []
    for lived in (1, 1, 1, 100, 1):
        child.start_if_due()
        assert child.process
        child.process.wait()
        seconds[0] += lived
        assert child.exit_code() == 0 and child.exit_code() is None
        pauses.append(child._start_at - seconds[0])
        child.start_if_due()
        assert child.process is None
        seconds[0] = child._start_at
    assert pauses == [0.5, 1.0, 2.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("only", "place", "expected"),
    [
        (None, "", ["scheduler", "worker", "executor", "librarian", "ingest"]),
        (None, "../backups", ["scheduler", "worker", "executor", "librarian", "backup", "ingest"]),
        (["scheduler", "executor"], "../backups", ["scheduler", "executor", "ingest"]),
    ],
)
def test_a_desk_has_the_roles_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only: list[RoleName] | None, place: str, expected: list[str]
) -> None:
    app.init(tmp_path / "home")
    file = tmp_path / "home" / FILE
    file.write_text(with_setting(file.read_text(), ("backup", "place"), place))
    started: list[str] = []
    monkeypatch.setattr(module, "supervise_processes", lambda commands, **how: started.extend(commands))
    module.run_desk(
        tmp_path / "home",
        only=only,
        with_ingest=True,
        url=None,
        seconds=1,
        print_line=started.append,
        report=lambda now: None,
    )
    assert started == expected
