"""Fleets under kills: every slot of every pair is recorded once, whoever dies; and an hour of 200 agents on one box."""

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tapebook.api import app
from tapebook.clock import elapsed_seconds
from tapebook.domain.agent import AgentProfile
from tapebook.domain.units import HOUR, MINUTE, SECOND
from tapebook.settings.config import FILE
from tapebook.wiring import Rooms
from tapebook.world import assets
from tapebook.world.server import Faults, WorldServer
from tapebook.world.server.service import advance_in_real_time
from tests.db.places import sql
from tests.db.servers import Shutdown, own_server
from tests.desk.busy_desk import _market, opened
from tests.ingest import ingest_harness as weather
from tests.replay.stage import Stage
from tests.replay.storm import ROOT, environment

pytestmark = pytest.mark.soak

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "fleet-soak.json"


class Crew:
    """Processes of a desk, each started again at once when it is killed."""

    def __init__(self, commands: dict[str, list[str]], *, seed: int) -> None:
        self._commands = commands
        self._chance = random.Random(seed)
        self.processes = {name: self._start(name) for name in commands}
        self.kills: Counter[str] = Counter()
        self.ended: list[str] = []

    def _start(self, name: str) -> "subprocess.Popen[Any]":
        command = [sys.executable, "-m", "tapebook", *self._commands[name]]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=quiet, stderr=quiet)

    def kill_one(self, *, but: str = "") -> None:
        """Kills one of them without a word, and starts it again."""
        name = self._chance.choice([each for each in self.processes if each != but])
        self.processes[name].kill()
        self.processes[name].wait()
        self.processes[name] = self._start(name)
        self.kills[name] += 1

    def restart_ended(self) -> None:
        """Starts those again that have ended by themselves, as a supervisor would; they are remembered."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                self.ended.append(f"{name}: code {process.returncode}")
                self.processes[name] = self._start(name)

    def rss_bytes(self) -> dict[str, int]:
        """The memory of each, now."""
        return {name: psutil.Process(process.pid).memory_info().rss for name, process in self.processes.items()}

    def stop(self, *names: str) -> None:
        """Asks some of them, or all, to leave."""
        for name in names or tuple(self.processes):
            process = self.processes.pop(name)
            process.terminate()
            process.wait(60)


def slots_recorded(rooms: Rooms, *, step: int, pairs: int) -> dict[str, int]:
    """Runs by status; fails where a pair lacks a slot between its first and its last, or has one twice."""
    rows = rooms.book_db.all(sql("SELECT deployment, symbol, scheduled_for, status FROM decision_runs"))
    by_pair: dict[tuple[str, str], list[int]] = {}
    for deployment, symbol, scheduled_for, _ in rows:
        by_pair.setdefault((deployment, symbol), []).append(scheduled_for)
    assert len(by_pair) == pairs
    for pair, slots in by_pair.items():
        assert sorted(slots) == list(range(min(slots), max(slots) + 1, step)), pair
    assert len({(min(slots), max(slots)) for slots in by_pair.values()}) == 1, "every pair has the same slots"
    return dict(Counter(status for *_, status in rows))


def await_nothing_left(home: Path, *, seconds: float) -> None:
    """Waits until no decision waits."""
    until = elapsed_seconds() + seconds
    with opened(home) as rooms:
        while left := rooms.work.counts_by_state():
            assert elapsed_seconds() < until, left
            time.sleep(0.2)


def test_two_minutes_of_kills_and_two_restarts_record_every_slot_once(tmp_path: Path) -> None:
    seconds, cadence, agents, symbols = 120.0, 20 * SECOND, 20, tuple(f"S{number}" for number in range(10))
    with own_server() as server:
        home = Stage(tmp_path, server.url).make("home")
        text = (home / FILE).read_text("utf-8")
        # Machines share their archive as well.
        text = text.replace('place = "archive"', f'place = "{home / "archive"}"')
        for name, value in (("lease_seconds", 2.0), ("batch", 5)):
            text = re.sub(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        (home / FILE).write_text(text, "utf-8")
        with opened(home) as rooms:
            rooms.tape.commit(list(_market(rooms.clock.now())))
            for number in range(agents):
                agent = AgentProfile(f"agent-{number:02d}", symbols, engine="hold", cadence_ms=cadence)
                rooms.book.save_agent(agent, at=rooms.clock.now())
        # A scheduler of another machine, which has the same settings and no tape: the other one's, in this test.
        other = tmp_path / "machines" / "other"
        shutil.copytree(home, other, ignore=shutil.ignore_patterns("*.lock"))
        roles = {"scheduler": home, "standby": other, "worker 1": home, "worker 2": home, "worker 3": other}
        crew = Crew(
            {
                name: ["up", "--only", "worker" if "worker" in name else "scheduler", "--quiet", "--home", str(where)]
                for name, where in roles.items()
            },
            seed=1,
        )
        restarts: dict[float, Shutdown] = {40.0: "fast", 80.0: "immediate"}
        begun, next_kill = elapsed_seconds(), 3.0
        while (now := elapsed_seconds() - begun) < seconds:
            if now >= next_kill:
                crew.kill_one()
                next_kill = now + 3.0
            for at in [at for at in restarts if now >= at]:
                server.restart(restarts.pop(at))
            crew.restart_ended()
            time.sleep(0.1)
        crew.stop("scheduler", "standby")
        await_nothing_left(home, seconds=120)
        crew.stop()
        with opened(home) as rooms:
            statuses = slots_recorded(rooms, step=cadence, pairs=agents * len(symbols))
        with app.open(home) as book:
            assert book.verify() == []
    assert sum(crew.kills.values()) >= 20 and not restarts
    figures = {
        "kills": dict(crew.kills),
        "server_restarts": 2,
        "runs": statuses,
        "ended_by_themselves": crew.ended,
        "load_average": round(os.getloadavg()[1], 1),
    }
    _store("kills and restarts on PostgreSQL", figures)
    assert statuses.get("failed", 0) == 0


# Twenty perps: those of the world, and more like them.
_MORE = {f"X{number:02d}": ("ETH", "SOL", "DOGE")[number % 3] for number in range(14)}
SYMBOLS = (*weather.SYMBOLS, *_MORE)
AGENTS, TRADING_AGENTS, SPEED = 200, 20, 8.0


@contextmanager
def running_world(server: WorldServer) -> Iterator[str]:
    """The world behind its server, in a thread, many times as fast as real time."""
    loop, url = asyncio.new_event_loop(), list[str]()
    ready, ends = threading.Event(), asyncio.Event()

    async def scene() -> None:
        async with weather.served(server) as address:
            url.append(address)
            ready.set()
            pacing = asyncio.create_task(
                advance_in_real_time(server, speed=SPEED, monotonic=elapsed_seconds, sleep=asyncio.sleep)
            )
            await ends.wait()
            pacing.cancel()
            await asyncio.gather(pacing, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(scene()))
    thread.start()
    ready.wait(60)
    try:
        yield url[0]
    finally:
        loop.call_soon_threadsafe(ends.set)
        thread.join(60)
        loop.close()


def make_box(folder: Path) -> Path:
    """A home for 200 agents, a tenth of which trade."""
    folder.mkdir()
    symbols = msgspec.json.encode(SYMBOLS).decode()
    text = f"[hyperliquid]\nsymbols = {symbols}\nhistory_hours = 1\n[desk]\nlease_seconds = 2.0\n"
    (folder / FILE).write_text(text, "utf-8")
    with weather.opened(folder, at=weather.BORN + 2 * HOUR - MINUTE) as rooms:
        for number in range(AGENTS):
            engine = "trend" if number < TRADING_AGENTS else "hold"
            profile = AgentProfile(f"agent-{number:03d}", SYMBOLS, engine=engine, cadence_ms=5 * MINUTE)
            rooms.book.save_agent(profile, at=rooms.clock.now())
    return folder


def test_200_agents_on_20_symbols_for_an_hour_of_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {name: msgspec.structs.replace(assets.asset_of(like), symbol=name) for name, like in _MORE.items()}
    monkeypatch.setattr(assets, "_ALL", assets._ALL | more)
    monkeypatch.setattr(weather, "SYMBOLS", SYMBOLS)
    home = make_box(tmp_path / "home")
    server = weather.world_server(seed=5, faults=Faults(), history_ms=2 * HOUR)
    backlog, memory = list[int](), list[int]()
    with running_world(server) as url:
        where = ["--home", str(home), "--url", url]
        roles = {name: ["up", "--only", name, "--quiet", *where] for name in ("scheduler", "executor", "worker")}
        crew = Crew(roles | {"survivor": roles["worker"], "ingest": ["ingest", *where]}, seed=3)
        end, next_kill, next_look = server.now + HOUR, elapsed_seconds() + 10, 0.0
        with opened(home) as rooms:
            while server.now < end:
                if elapsed_seconds() >= next_kill:
                    crew.kill_one(but="survivor")
                    next_kill = elapsed_seconds() + random.Random(len(backlog)).uniform(4, 10)
                if elapsed_seconds() >= next_look:
                    backlog.append(sum(rooms.work.counts_by_state().values()))
                    memory.append(crew.rss_bytes()["survivor"])
                    next_look = elapsed_seconds() + 5
                crew.restart_ended()
                time.sleep(0.2)
        crew.stop("scheduler")
        await_nothing_left(home, seconds=300)
        crew.stop()
    with weather.opened(home) as rooms:
        statuses = slots_recorded(rooms, step=5 * MINUTE, pairs=AGENTS * len(SYMBOLS))
        ledgers = weather.ledgers(rooms.tape)
        gaps = Counter(each.gap.channel for each in rooms.tape.gaps(as_of=weather.FOREVER))
    with app.open(home) as book:
        assert book.verify() == []
    third = len(memory) // 3
    figures = {
        "agents": AGENTS,
        "agents_that_trade": TRADING_AGENTS,
        "symbols": len(SYMBOLS),
        "market_minutes": 60,
        "speed": SPEED,
        "kills": dict(crew.kills),
        "ended_by_themselves": crew.ended,
        "runs": statuses,
        "backlog": {"most": max(backlog), "median": sorted(backlog)[len(backlog) // 2], "end": 0},
        "worker_rss_mb": {"after_a_third": memory[third] // 2**20, "end": memory[-1] // 2**20},
        "load_average": round(os.getloadavg()[1], 1),
        "gaps": dict(gaps),
        "gaps_not_recorded": {name: len(found.unnamed) for name, found in ledgers.items()},
    }
    _store("an hour of 200 agents on 20 symbols, SQLite", figures)
    assert max(backlog) <= 2 * AGENTS * len(SYMBOLS), "a slot is shed before the next but one"
    assert memory[-1] < 1.25 * memory[third]
    assert all(not found.unnamed and not found.twice for found in ledgers.values())
    assert statuses.get("failed", 0) == 0 and crew.kills.total() >= 30


def _store(name: str, figures: dict[str, object]) -> None:
    known = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    FIGURES.write_text(json.dumps(known | {name: figures}, indent=2, sort_keys=True) + "\n", "utf-8")
