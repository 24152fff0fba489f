"""`tapebook up`: the desk as real processes, on a world that runs fast, and what it refuses."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tapebook import app
from tapebook.clock import SystemClock
from tapebook.home import only_one, sole_writer
from tests.replay.storm import ROOT, environment

Run = Callable[..., tuple[int, str, str]]


def start(*words: str) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    command, pipe = [sys.executable, "-m", "tapebook", *words], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
def home(own: str) -> str:
    """A new home whose agents decide every minute."""
    with app.open(own) as book:
        book.edit_agent("btc-5m", {"every_minutes": "1"})
        book.edit_agent("demo-ensemble", {"every_minutes": "1"})
    return own


@pytest.fixture
def world() -> Iterator[str]:
    """The address of an invented market, sixty times as fast as real time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = start("world", "--port", str(port), "--speed", "60")
    assert server.stdout and "serving" in server.stdout.readline()
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.communicate()


def test_the_whole_desk_on_a_world_that_runs_fast(home: str, world: str) -> None:
    desk = start("up", "--with-ingest", "--url", world, "--seconds", "9", "--home", home)
    out, said = desk.communicate(timeout=90)
    assert desk.returncode == 0, said
    made = re.search(r"^worker +([\d,]+) decisions made", out, re.MULTILINE)
    assert made and int(made[1]) >= 6, out + said
    assert re.search(r"^scheduler +\d+ decisions listed", out, re.MULTILINE)
    with app.open(home) as book:
        runs = book.runs(most=10_000)
        assert len(runs) >= int(made[1]) and len({run["run_id"] for run in runs}) == len(runs)
        assert {run["trigger"] for run in runs} == {"schedule"}
        assert book.verify() == [] and book.replay().different == []


def test_stops_cleanly_when_told_to(home: str) -> None:
    desk = start("up", "--home", home)
    children = await_children(desk.pid, 4)
    time.sleep(1.0)
    desk.send_signal(signal.SIGTERM)
    _, said = desk.communicate(timeout=60)
    assert desk.returncode == 0, said
    assert not any(child.is_running() for child in children)
    with app.open(home) as book:
        assert book._rooms.leases.others() == 0 and book.verify() == []


def test_a_killed_child_comes_back_and_children_do_not_outlive_a_killed_desk(home: str) -> None:
    desk = start("up", "--home", home)
    first = await_children(desk.pid, 4)
    first[0].kill()
    until = time.monotonic() + 30
    while len(set(psutil.Process(desk.pid).children()) - set(first)) == 0:
        assert time.monotonic() < until, "nobody came back"
        time.sleep(0.05)
    children = await_children(desk.pid, 4)
    desk.kill()
    said = desk.communicate()[1]
    assert "ended with code -9; it is started again" in said
    assert not psutil.wait_procs(children, timeout=30)[1]


def test_a_second_desk_says_so_once_and_ends(home: str, run: Run) -> None:
    desk = start("up", "--home", home)
    children = await_children(desk.pid, 4)
    await_role_locks(home, {str(child.pid) for child in children})
    try:
        code, out, err = run("up", "--home", home)
        assert (code, out) == (2, "") and err.count("\n") == 1
        assert f"there is a desk on {home} already: process {desk.pid}" in err and "up --only worker" in err
        for role, named in (("scheduler", "a scheduler"), ("executor", "an executor"), ("librarian", "a librarian")):
            code, out, err = run("up", "--only", role, "--seconds", "1", "--home", home)
            assert (code, out) == (2, "") and err.count("\n") == 1 and f"there is {named} on" in err
            assert re.search(r"process (\d+)", err)[1] in {str(child.pid) for child in children}  # type: ignore[index]
        assert run("up", "--only", "worker", "--seconds", "0.2", "--home", home)[0] == 0
    finally:
        desk.kill()
        desk.communicate()
        psutil.wait_procs(children, timeout=30)
    # The locks of killed processes hold nobody up.
    assert run("up", "--seconds", "0.5", "--home", home)[0] == 0


def await_role_locks(home: str, children: set[str]) -> None:
    """Waits until every role that runs once has its lock; the desk itself looks at them before."""
    until = time.monotonic() + 60
    for role in ("scheduler", "executor", "librarian"):
        while not (Path(home) / f".{role}.lock").exists() or (Path(home) / f".{role}.lock").read_text() not in children:
            assert time.monotonic() < until, f"the {role} never began"
            time.sleep(0.05)


def test_a_desk_beside_another_role_or_ingestion_does_not_begin(home: str, run: Run) -> None:
    with only_one(Path(home), "executor"):
        code, _, err = run("up", "--home", home)
        assert code == 2 and err.count("\n") == 1 and f"there is an executor on {home} already" in err
    with sole_writer(Path(home), "tape"):
        code, _, err = run("up", "--with-ingest", "--home", home)
        assert code == 2 and err.count("\n") == 1 and "is in use by process" in err


def await_children(pid: int, count: int) -> list[psutil.Process]:
    """The processes below one, when there are so many."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found: list[psutil.Process] = psutil.Process(pid).children()
        if len(found) == count:
            return found
        time.sleep(0.05)
    pytest.fail(f"never {count} processes")


@pytest.mark.parametrize("role", ["scheduler", "worker", "executor", "librarian"])
def test_one_role_alone(home: str, role: str, run: Run) -> None:
    code, out, err = run("up", "--only", role, "--seconds", "0.3", "--home", home)
    assert code == 0 and out.count("\n") == 1, err
    words = {"scheduler": "listed", "worker": "made", "executor": "looked after", "librarian": "1 syncs"}
    assert words[role] in out


def test_what_it_refuses(home: str, run: Run, tmp_path: Path) -> None:
    assert run("up", "--only", "cook", "--home", home)[0] == 2
    assert run("up", "--only", "worker", "--with-ingest", "--home", home)[0] == 2
    code, _, err = run("up", "--home", str(tmp_path / "none"))
    assert code == 2 and "no tapebook home" in err
    run("demo", "--fast", "--seconds", "0.1", "--home", str(tmp_path / "demo"))
    code, _, err = run("up", "--home", str(tmp_path / "demo"))
    assert code == 2 and "is a demo" in err and err.count("\n") == 1


def test_tick_waits_for_nobody_who_is_alive(home: str, run: Run) -> None:
    with app.open(home, clock=SystemClock()) as book:
        rooms = book._rooms
        rooms.leases.others()
        held = rooms.leases.take([rooms.book.stream("btc-5m.paper")], most=1)
        ticking = start("tick", "btc-5m", "BTC", "--home", home)
        while ticking.poll() is None:
            rooms.leases.beat()
            time.sleep(0.05)
        out, err = ticking.communicate()
        assert (ticking.returncode, out) == (75, "")
        assert "local/btc-5m.paper is in the hands of" in err and "try again" in err and err.count("\n") == 1
        rooms.leases.release(held)
    code, out, err = run("tick", "btc-5m", "BTC", "--home", home)
    assert code == 0, err
