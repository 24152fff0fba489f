"""Several machines on one PostgreSQL: one leader of each role with others standing by, and workers that are woken."""

import asyncio
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tapebook.api.processes import ingest
from tapebook.clock import SystemClock, elapsed_seconds
from tapebook.db import connect
from tapebook.desk.supervisor import await_role, is_role_lost
from tapebook.domain.agent import AgentProfile
from tapebook.errors import DatabaseAway
from tapebook.settings.config import FILE, load_config
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.desk.busy_desk import opened, settle
from tests.desk.worker_harness import shops
from tests.replay.stage import Stage
from tests.replay.storm import ROOT, environment


@pytest.fixture
def stage(postgres_dsn: str, tmp_path: Path) -> Iterator[Stage]:
    """Homes with their books on a server."""
    stage = Stage(tmp_path, postgres_dsn)
    yield stage
    stage.clear()


def second_machine(home: Path) -> Path:
    """Another folder with the same settings: a home of the same book on another machine."""
    other = home.parent / "machines" / "other"
    other.mkdir(parents=True)
    shutil.copy(home / "tapebook.toml", other)
    return other


class RoleProcess:
    """A role as a process of its own, and what it prints."""

    def __init__(self, home: Path, *words: str) -> None:
        command = [sys.executable, "-m", "tapebook", *words, "--home", str(home)]
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append(line)

    def await_line(self, part: str) -> None:
        """Waits until it has printed a line with a text in it."""
        await_true(lambda: any(part in line for line in self.lines), lambda: f"{part!r} not in {self.lines}")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends it."""
        self.process.send_signal(how)
        code = self.process.wait(60)
        self._reader.join(5)
        assert self.process.stderr
        self.process.stderr.close()
        return code


def await_true(condition: Callable[[], bool], says: Callable[[], str], *, seconds: float = 60) -> None:
    """Waits until something holds."""
    until = elapsed_seconds() + seconds
    while not condition():
        assert elapsed_seconds() < until, says()
        time.sleep(0.02)


def test_a_second_scheduler_stands_by_and_takes_over_when_the_first_is_killed(stage: Stage) -> None:
    home = settle(stage, pairs=10)
    other = second_machine(home)
    first = RoleProcess(home, "up", "--only", "scheduler", "--quiet")
    first.await_line("listed")
    second = RoleProcess(other, "up", "--only", "scheduler", "--quiet")
    second.await_line("standing by: scheduler")
    with opened(home) as rooms:
        rooms.book.save_agent(AgentProfile("late", ("S0",), engine="hold"), at=rooms.clock.now())
        await_true(lambda: "late.paper" in rooms.work.waiting_deployments(most=99), lambda: "not listed by the first")
        first.end(signal.SIGKILL)
        second.await_line("scheduler takes over")
        rooms.book.save_agent(AgentProfile("later", ("S0",), engine="hold"), at=rooms.clock.now())
        await_true(lambda: "later.paper" in rooms.work.waiting_deployments(most=99), lambda: "not listed by the second")
        twice = rooms.book_db.all(sql("SELECT run_id FROM work GROUP BY run_id HAVING COUNT(*) > 1"))
    assert second.end() == 0 and twice == []


def test_who_lost_its_role_while_the_server_was_away_stands_by(stage: Stage) -> None:
    home, said = stage.make("home"), list[str]()
    url = load_config(home, {}).store.book

    def claims(rooms: Rooms, *, seconds: float) -> bool:
        until = elapsed_seconds() + seconds
        wait: Any = {"until": until, "stopped": lambda: False, "report": said.append}
        return await_role(rooms.book_db, "executor", owner="local", **wait)

    with closing(connect(url)) as rival:

        def lose(rooms: Rooms) -> None:
            assert claims(rooms, seconds=9)
            cut_others(url)
            with pytest.raises(DatabaseAway):
                rival.one(sql("SELECT 1"))
            assert rival.claim("local/executor", holder="executor there:2") is None
            with pytest.raises(DatabaseAway):
                rooms.book.head()
            rooms.book.head()

        assert is_role_lost(lambda: Rooms(home, clock=SystemClock()), lose)
        with opened(home) as rooms:
            assert not claims(rooms, seconds=0)
            assert said == ["standing by: executor there:2 runs as executor on this database"]
            threading.Timer(0.5, rival.close).start()
            assert claims(rooms, seconds=30)


def cut_others(url: str) -> None:
    """Cuts every other session of a database off."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_worker_is_woken_when_decisions_are_listed(stage: Stage) -> None:
    with shops(stage.make("home")) as (one, other):
        one.hire(AgentProfile("a", ("BTC",), engine="hold"))
        one.quote("BTC")
        assert not other.rooms.work.wait_for_more(seconds=0.01)
        woken = list[tuple[bool, float]]()

        def wait() -> None:
            begun = elapsed_seconds()
            woken.append((other.rooms.work.wait_for_more(seconds=50), elapsed_seconds() - begun))

        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.2)
        assert one.list_due() == 1
        waiter.join(60)
        assert woken[0][0] and woken[0][1] < 30
        assert one.list_due() == 0 and not other.rooms.work.wait_for_more(seconds=0.1), "nothing new wakes nobody"


def test_an_ingestion_stands_by_for_another_machine_and_ends_on_time(stage: Stage, postgres_url: str) -> None:
    home, said = stage.make("home"), list[str | None]()
    text = (home / FILE).read_text("utf-8")
    (home / FILE).write_text(re.sub(r'^tape = ".*"', f'tape = "{postgres_url}"', text, flags=re.MULTILINE), "utf-8")
    with closing(connect(postgres_url)) as other:
        assert other.claim("local/ingest", holder="ingest there:2") is None
        asyncio.run(ingest(home, url=None, seconds=0.2, report=lambda progress: said.append(progress.problem)))
    assert said == ["standing by: ingest there:2 runs as ingest on this database"]
