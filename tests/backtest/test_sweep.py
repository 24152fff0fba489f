"""Sweeps: every combination in a fixed order; the same on a pool and on a cluster, also when workers die."""

import os
import signal
import threading
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

import tapebook
from tapebook.api.backtests import Backtests
from tapebook.backtest.sweep import SweepCase, SweepRow, read_sweep, sweep_cases
from tapebook.errors import BadInput, HomeError
from tapebook.surfaces.cli import main
from tests.backtest.bars import make_home
from tests.replay.test_fixed_runs import without_code

FILE = """
agents = ["tester"]

[options]
chunks = "none"

[vary]
memory = ["on", "off"]

[vary.agent]
max_leverage = [1, 3]
"""


def test_every_combination_comes_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(FILE)
    found = read_sweep(tmp_path / "sweep.toml")
    assert [(each.options["memory"], each.profile["max_leverage"]) for each in found] == [
        ("on", 1),
        ("on", 3),
        ("off", 1),
        ("off", 3),
    ]
    assert all(each.agent == "tester" and each.options["chunks"] == "none" for each in found)
    assert sweep_cases({"agents": ["a", "b"]}, "x") == [SweepCase("a", {}, {}), SweepCase("b", {}, {})]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agents = 1", "say which agents"),
        ("agents = []", "say which agents"),
        ("", "say which agents"),
        ('agents = ["a"]\n[vary]\nmemory = "on"', "`memory` is varied: give a list"),
        ('agents = ["a"]\n[vary]\nmemory = []', "`memory` is varied: give a list"),
        ('agents = ["a"]\nother = 1', "a sweep has no 'other'"),
        ('agents = ["a"]\noptions = 1', "are sections"),
        ("agents = [", "is not TOML"),
        ('agents = ["a"]\n[vary]\n' + "\n".join(f"k{n} = {list(range(10))}" for n in range(5)), "more than 10000"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(BadInput, match=says):
        read_sweep(tmp_path / "sweep.toml")
    with pytest.raises(BadInput, match="cannot read"):
        read_sweep(tmp_path / "none.toml")


def as_bytes(rows: list[SweepRow]) -> bytes:
    """What a sweep came to, as it would be stored."""
    return msgspec.json.encode(rows)


def test_pool_cluster_and_one_by_one_give_the_same_in_the_same_order(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    homes = [make_home(tmp_path / name, days=0.7) for name in ("pool", "cluster")]
    (tmp_path / "sweep.toml").write_text(FILE.replace("[1, 3]", "[3]"))
    cases = read_sweep(tmp_path / "sweep.toml")
    with tapebook.open(homes[0]) as book:
        ended: list[int] = []
        on_pool = book.sweep(cases, workers=2, done=ended.append)
        assert ended == [1, 2]
        book.edit_agent("tester", {"max_leverage": "3"})
        alone = [book.backtest("tester", chunks="none", memory=memory) for memory in ("on", "off")]
        assert [each.result.total for each in on_pool] == [each.total for each in alone]
    with (
        local_cluster(processes=False) as cluster,
        tapebook.open(homes[1]) as book,
    ):
        on_cluster = book.sweep(cases, cluster=cluster.scheduler_address)
    assert [each.result.total for each in on_cluster] == [each.result.total for each in on_pool]
    assert main(["backtest", "--sweep", str(tmp_path / "sweep.toml"), "--home", str(homes[0])]) == 0
    assert "max_leverage=3" in capfd.readouterr().out


def test_a_cluster_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapebook.backtest.sweep._CONNECT_SECONDS", 0.2)
    tapebook.init(tmp_path / "home")
    with tapebook.open(tmp_path / "home") as book, pytest.raises(HomeError, match="no Dask scheduler answers"):
        book.sweep([], cluster="tcp://127.0.0.1:9")


def test_an_agent_and_a_file_are_not_both_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["backtest", "tester", "--sweep", "x.toml", "--home", str(tmp_path)]) == 2
    assert main(["backtest", "--home", str(tmp_path)]) == 2
    assert "names its agents" in (said := capfd.readouterr().err) and "name an agent" in said


def local_cluster(**terms: object) -> Any:
    """A Dask cluster on this machine, as a context."""
    distributed: Any = import_module("distributed")
    return distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, **terms)


def kill_workers(stop: threading.Event, killed: list[int]) -> None:
    """Kills a process below this one now and then that has worked for a while."""
    while not stop.wait(1.0) and len(killed) < 2:
        for child in psutil.Process().children(recursive=True):
            try:
                busy = child.cpu_times().user > 2.5 and "spawn_main" in " ".join(child.cmdline())
            except psutil.Error:
                continue
            if busy:
                os.kill(child.pid, signal.SIGKILL)
                killed.append(child.pid)
                time.sleep(3)
                break


def sweep_with_kills(home: Path, cases: list[SweepCase], *, on_cluster: bool) -> list[SweepRow]:
    """Runs a sweep while processes of it are killed."""
    stop, killed = threading.Event(), list[int]()
    thread = threading.Thread(target=kill_workers, args=(stop, killed))
    with ExitStack() as held:
        book = held.enter_context(tapebook.open(home))
        thread.start()
        # It ends after the cluster, whose own end nobody waits for.
        held.callback(thread.join)
        held.callback(stop.set)
        where = {"cluster": held.enter_context(local_cluster()).scheduler_address} if on_cluster else {"workers": 2}
        found = book.sweep(cases, **where)
    assert killed, "no worker was killed on the way"
    return found


@pytest.mark.proof
def test_a_sweep_of_24_comes_to_the_same_on_a_pool_and_on_a_cluster_whose_workers_are_killed(tmp_path: Path) -> None:
    vary = {"memory": ["on", "off", "none"], "fill": ["next_open", "worst"], "agent": {"max_leverage": [1, 2, 3, 5]}}
    cases = sweep_cases({"agents": ["tester"], "options": {"chunks": "none"}, "vary": vary}, "sweep")
    homes = {name: make_home(tmp_path / name, days=4) for name in ("pool", "cluster")}
    found = {name: sweep_with_kills(home, cases, on_cluster=name == "cluster") for name, home in homes.items()}
    assert len(found["pool"]) == 24 and as_bytes(found["pool"]) == as_bytes(found["cluster"])
    shown = {name: [Backtests(home).show(each.result.id) for each in found[name]] for name, home in homes.items()}
    assert without_code(shown["pool"]) == without_code(shown["cluster"])
    with tapebook.open(homes["pool"]) as book:
        # Some are made again one by one, and nobody is killed.
        for each in found["pool"][::8]:
            book.backtests.remove(each.result.id)
        again = book.sweep(cases, workers=1)
        assert [each.result for each in again] == [each.result for each in found["pool"]]
