"""`tapebook up`: the desk as real processes, on a world that runs fast, and what it refuses."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import httpx
import msgspec
import psutil
import pytest

from tapebook.api import app
from tapebook.clock import SystemClock
from tapebook.desk import supervisor
from tapebook.desk.roles import ROLES
from tapebook.domain.market import Mid
from tapebook.home import exclusive_lock, role_lock
from tapebook.settings.config import FILE, LlmSettings, as_toml, load_config
from tapebook.tape.view import NO_WATERMARK, View
from tests.llm.conftest import one_server, server
from tests.llm.hostile_servers import BILLED, HOSTILE, KEY, many_tempered
from tests.llm.model_server import ModelServer
from tests.replay.storm import ROOT, environment

__all__ = ["one_server", "server"]

Run = Callable[..., tuple[int, str, str]]


def start(*words: str, **environ: str) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    command, pipe = [sys.executable, "-m", "tapebook", *words], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment(**environ), stdout=pipe, stderr=pipe, text=True)


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
    port = free_port()
    server = start("world", "--port", str(port), "--speed", "60")
    assert server.stdout and "serving" in server.stdout.readline()
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.communicate()


def test_the_whole_desk_on_a_world_that_runs_fast(home: str, world: str) -> None:
    desk = start("up", "--with-ingest", "--url", world, "--seconds", "9", "--home", home)
    out, said = desk.communicate(timeout=90)
    assert (desk.returncode, said) == (0, ""), "progress is no problem"
    *lines, last = out.splitlines()
    counted = re.fullmatch(r"([\d,]+) decisions? \(([\d,]+) holds?\), ([\d,]+) orders? sent, ([\d,]+) fills?, .*", last)
    assert counted and int(counted[1]) >= 6, out
    shown = Counter(line.split()[4] for line in lines)
    with app.open(home) as book:
        runs, orders = book.runs(most=10_000), book.orders(most=10_000)
        decided = [run for run in runs if run["status"] not in ("failed", "expired") and run["error"] is None]
        held = [run for run in decided if run["status"] == "held"]
        fills = sum(len(book.run(order["run_id"])["fills"]) for order in orders)
        assert tuple(int(counted[n]) for n in (1, 2, 3, 4)) == (len(decided), len(held), len(orders), fills)
        assert (shown["decision"], shown["order"], shown["fill"]) == (len(decided), len(orders), fills), "each once"
        assert len({run["run_id"] for run in runs}) == len(runs) and {run["trigger"] for run in runs} == {"schedule"}
        assert book.verify() == [] and book.replay().different == []


@pytest.mark.soak
def test_the_whole_desk_among_hostile_models(home: str, world: str, server: ModelServer) -> None:
    """All processes stay, agents of rules and of good models decide as ever, every failure has its run and cost."""
    server.says(many_tempered(large=100_000_000, seconds_a_byte=2.0))
    llm = LlmSettings(openai_url=f"{server.url}/v1", attempts=2, timeout_seconds=4.0, total_seconds=6.0)
    (Path(home) / FILE).write_text(as_toml(msgspec.structs.replace(load_config(Path(home), {}), llm=llm)), "utf-8")
    names = [*HOSTILE, "echoes-in-its-answer", "good"]
    with app.open(home) as book:
        for name in names:
            book.add_agent(name, {"watch": "BTC", "engine": "openai", "model": name, "every_minutes": "10"})
    desk = start("up", "--with-ingest", "--url", world, "--seconds", "60", "--home", home, OPENAI_API_KEY=KEY)
    out, said = desk.communicate(timeout=180)
    assert desk.returncode == 0 and "Traceback" not in said and KEY not in out + said
    with app.open(home) as book:
        runs = [book.run(run["run_id"]) for run in book.runs(most=10_000)]
        assert book.verify() == [] and book.replay().different == []
    by_agent = {name: [run for run in runs if run["agent"] == name] for name in (*names, "btc-5m")}
    for name, fault in HOSTILE.items():
        asked = [run for run in by_agent[name] if run["status"] == "failed" and run["usage"]]
        assert asked and all((run["error"] or "").startswith(f"{fault} after ") for run in asked), name
        assert all((run["usage"]["cost_usd"] > 0) == (name in BILLED) for run in asked if run["usage"]), name
    for name in ("good", "echoes-in-its-answer"):
        assert [run for run in by_agent[name] if run["usage"] and run["error"] is None]
    assert len([run for run in by_agent["btc-5m"] if run["status"] == "held"]) >= 20
    kept = [path for path in Path(home).rglob("*") if path.is_file()]
    assert all(KEY.encode() not in path.read_bytes() for path in kept)


class Wire:
    """The way to a server on this machine, which can be cut and mended: whoever comes meanwhile is refused."""

    def __init__(self, url: str) -> None:
        self._server = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._port}"
        self._serve(self._listener)

    def cut(self) -> None:
        """Ends every connection; nobody listens any more."""
        # A blocked accept is woken by this, and not by a close.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ends.clear()

    def mend(self) -> None:
        """Listens again, at the same address."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._serve(self._listener)

    def _serve(self, listener: socket.socket) -> None:
        def accept() -> None:
            with suppress(OSError):
                while True:
                    near, far = listener.accept()[0], socket.create_connection(self._server)
                    self._ends += [near, far]
                    for source, sink in ((near, far), (far, near)):
                        threading.Thread(target=carry, args=(source, sink), daemon=True).start()

        def carry(source: socket.socket, sink: socket.socket) -> None:
            with suppress(OSError), source:
                while data := source.recv(65_536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)

        threading.Thread(target=accept, daemon=True).start()


@pytest.mark.soak
def test_a_market_that_goes_away_and_comes_back_is_one_line_each(home: str, world: str) -> None:
    """With all its processes; what is said of a tape that lost its source is in tests/desk/test_home_events.py."""
    wire = Wire(world)
    # It ends by itself where something never happens.
    desk = start("up", "--json", "--with-ingest", "--url", wire.url, "--seconds", "90", "--home", home)
    assert desk.stdout
    seen: list[dict[str, Any]] = []

    def read_until(*wanted: str) -> None:
        while not {event.get("market", event["event"]) for event in seen}.issuperset(wanted):
            line = desk.stdout.readline()  # type: ignore[union-attr]
            assert line, seen
            seen.append(json.loads(line))

    read_until("decision")
    # A desk decides before it has heard of the market; what was never there is not lost.
    until = time.monotonic() + 60
    with app.open(home) as book:
        while book._rooms.tape.newest(Mid, "BTC", view=View(NO_WATERMARK)) is None:
            assert time.monotonic() < until, "nothing was heard of the market"
            time.sleep(0.1)
    wire.cut()
    read_until("lost", "stale")
    wire.mend()
    read_until("back", "gap filled")
    desk.send_signal(signal.SIGTERM)
    seen += [json.loads(line) for line in desk.stdout]
    assert desk.communicate(timeout=90)[1] == "" and desk.returncode == 0
    wire.cut()
    # Sources that are asked by requests say themselves, once each, that nobody answers.
    notices = [event["text"] for event in seen if event["event"] == "notice"]
    assert all(" does not answer (" in text for text in notices) and len(notices) <= 2
    states = [event["market"] for event in seen if event.get("market") in ("lost", "stale", "back")]
    # A busy machine may be late for a second, which is a minute of this world: stale before or after that is true.
    outage = states[states.index("lost") :]
    assert sorted(outage[: outage.index("back")]) in (["lost"], ["lost", "stale"]) and states.count("lost") == 1, seen
    for filled in [event["text"] for event in seen if event.get("market") == "gap filled"]:
        assert re.fullmatch(r"gap filled: candles of \d+ symbols?, [\d:]{8} to [\d:]{8}", filled)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def ask_api(port: int, path: str, **headers: str) -> tuple[int, Any]:
    """The status and the answer of the API of a desk; waits until it listens."""
    until = time.monotonic() + 60
    while True:
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/api/v1{path}", headers=headers, timeout=20)
            return answer.status_code, answer.json()
        except httpx.ConnectError:
            assert time.monotonic() < until, "the API never listened"
            time.sleep(0.1)


def test_a_killed_child_comes_back_and_children_do_not_outlive_a_killed_desk(home: str) -> None:
    port = free_port()
    desk = start("up", "--with-api", "--api-port", str(port), "--home", home)
    first = await_children(desk.pid, 5)
    first[0].kill()
    until = time.monotonic() + 30
    while len(set(psutil.Process(desk.pid).children()) - set(first)) == 0:
        assert time.monotonic() < until, "nobody came back"
        time.sleep(0.05)
    children = await_children(desk.pid, 5)
    # The API says nothing while it serves: a pipe that nobody reads any more is not how it learns of the end.
    assert ask_api(port, "/me")[0] == 200
    desk.kill()
    said = desk.communicate()[1]
    assert "ended with code -9; it is started again" in said
    assert not psutil.wait_procs(children, timeout=30)[1]


def test_the_page_is_served_beside_the_desk_comes_back_and_ends_with_it(home: str, run: Run) -> None:
    port = free_port()
    desk = start("up", "--with-web", "--web-port", str(port), "--home", home)
    children = await_children(desk.pid, 5)
    await_role_locks(home, {str(child.pid) for child in children})
    assert ask_api(port, "/me")[0] == 200, "the page has the API below it"
    assert "Tapebook" in httpx.get(f"http://127.0.0.1:{port}/", timeout=20).text
    (page,) = [child for child in children if "web" in child.cmdline()]
    page.kill()
    page.wait(10)
    assert ask_api(port, "/me")[0] == 200, "it is started again"
    children = await_children(desk.pid, 5)
    (page,) = [child for child in children if "web" in child.cmdline()]
    said = run("doctor", "--home", home)[1]
    assert [said.count(f"{role} {child.pid}") for role, child in by_role(children).items()] == [1] * 5, said
    assert re.search(rf"web {page.pid} \(1 restart, last \d{{4}}-\S+ after code -9\)", said), said
    status = json.loads(run("status", "--json", "--home", home)[1])
    (detail,) = [each["detail"] for each in status["health"] if each["name"] == "processes"]
    assert f"web {page.pid} (1 restart" in detail
    desk.send_signal(signal.SIGTERM)
    assert "web ended with code -9; it is started again" in desk.communicate(timeout=60)[1] and desk.returncode == 0
    assert not any(child.is_running() for child in children)
    assert "none: nothing is decided" in run("doctor", "--home", home)[1]


def by_role(children: list[psutil.Process]) -> dict[str, psutil.Process]:
    """The processes below a desk by their roles."""
    return {next(word for word in child.cmdline() if word in (*ROLES, "web")): child for child in children}


def test_stops_cleanly_when_told_to_and_writes_a_token_nowhere(home: str, run: Run) -> None:
    port = free_port()
    desk = start("--log-json", "up", "--with-api", "--api-port", str(port), "--home", home)
    children = await_children(desk.pid, 5)
    status, agents = ask_api(port, "/agents")
    assert status == 200, "nobody has a token yet"
    assert {agent["name"] for agent in agents} == {"btc-5m", "demo-ensemble"}
    token = run("tokens", "add", "bot", "--home", home)[1].splitlines()[0]
    assert ask_api(port, "/agents")[0] == 401, "from the first token on, everybody needs one"
    assert ask_api(port, "/agents", authorization=f"Bearer {token}")[0] == 200
    status, refused = ask_api(port, "/agents", authorization=f"Bearer {token}x")
    assert status == 401 and token[-20:] not in str(refused)
    desk.send_signal(signal.SIGTERM)
    texts = [*desk.communicate(timeout=60), *(run(command, "--home", home)[1] for command in ("doctor", "backup"))]
    assert desk.returncode == 0 and all(texts), "log lines, events, and both commands said something"
    assert not any(child.is_running() for child in children)
    with app.open(home) as book:
        assert book._rooms.leases.watch_others() == 0 and book.verify() == []
    kept = [path.read_bytes() for path in Path(home).rglob("*") if path.is_file()]
    assert all(token[-20:].encode() not in each for each in [*kept, *(text.encode() for text in texts)])


def test_an_api_whose_port_is_taken_is_one_line(home: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # One role stands for all that are stopped.
    monkeypatch.setattr(supervisor, "ROLES", ("executor",))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run("up", "--with-api", "--api-port", str(port), "--seconds", "20", "--home", home)
    assert code == 2 and f"cannot listen on 127.0.0.1:{port}" in err and "choose another --port" in err


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
    with role_lock(Path(home), "executor"):
        code, _, err = run("up", "--home", home)
        assert code == 2 and err.count("\n") == 1 and f"there is an executor on {home} already" in err
    with exclusive_lock(Path(home), "tape"):
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
    assert code == 0 and out.count("\n") == 2, err
    words = {"scheduler": "listed", "worker": "made", "executor": "serves", "librarian": "1 sync"}
    assert words[role] in out and out.splitlines()[1].startswith("0 decisions (0 holds), 0 orders sent")
    code, out, _ = run("up", "--only", role, "--quiet", "--seconds", "0.1", "--home", home)
    assert code == 0 and out.count("\n") == 1


def test_events_and_log_lines_are_json_and_there_is_a_summary(home: str) -> None:
    desk = start("--log-json", "up", "--only", "worker", "--only", "executor", "--json", "--home", home)
    (worker,) = [each for each in await_children(desk.pid, 2) if "worker" in each.cmdline()]
    assert "--log-json" in worker.cmdline()
    with app.open(home) as book:
        book.halt(reason="a test")
    worker.kill()
    ticked = start("tick", "btc-5m", "BTC", "--home", home)
    assert ticked.communicate(timeout=60) and ticked.returncode == 0, "a process that is not of the desk"
    assert desk.stdout and desk.stderr
    events = read_until_seen(desk.stdout, {"decision", "notice"})
    lines = read_until_seen(desk.stderr, {"role ended", "desk"})
    desk.send_signal(signal.SIGTERM)
    # Not `communicate`, which does not know what was read ahead.
    *later, summary = map(json.loads, desk.stdout)
    lines += [json.loads(line) for line in desk.stderr]
    desk.communicate(timeout=90)
    assert desk.returncode == 0
    decisions = [event for event in events + later if event["event"] == "decision"]
    mine = next(event for event in decisions if event["agent"] == "btc-5m")
    assert mine["symbol"] == "BTC" and mine["actions"] == ["hold"] and mine["run_id"]
    notices = [event["text"] for event in events + later if event["event"] == "notice"]
    assert any("ended with code -9; it is started again" in text for text in notices)
    assert (summary["event"], summary["decisions"], summary["restarts"]) == ("summary", len(decisions), 1)
    assert summary["holds"] == len([event for event in decisions if event["status"] == "held"])
    ended = next(each for each in lines if each["event"] == "role ended")
    assert (ended["level"], ended["logger"], ended["role"], ended["code"]) == ("warning", "tapebook.desk", "worker", -9)
    halted = next(each for each in lines if each["event"] == "desk")
    assert halted["level"] == "warning" and "a test" in str(halted["text"])


def read_until_seen(pipe: IO[str], wanted: set[str]) -> list[dict[str, Any]]:
    """The lines of a desk, each an object, until every wanted event was among them."""
    found: list[dict[str, Any]] = []
    while not {each["event"] for each in found} >= wanted:
        line = pipe.readline()
        assert line, found
        found.append(json.loads(line))
    return found


def test_a_closed_pipe_ends_the_desk(home: str) -> None:
    desk = start("up", "--only", "executor", "--only", "librarian", "--home", home)
    children = await_children(desk.pid, 2)
    assert desk.stdout
    desk.stdout.close()
    start("tick", "btc-5m", "BTC", "--home", home).communicate(timeout=60)
    desk.communicate(timeout=60)
    assert desk.returncode == 141
    assert not psutil.wait_procs(children, timeout=30)[1]


def test_what_it_refuses(home: str, run: Run, tmp_path: Path, demo_hour: Path) -> None:
    assert run("up", "--only", "cook", "--home", home)[0] == 2
    assert run("up", "--only", "worker", "--with-ingest", "--home", home)[0] == 2
    code, _, err = run("up", "--home", str(tmp_path / "none"))
    assert code == 2 and "no tapebook home" in err
    code, _, err = run("up", "--home", str(demo_hour))
    assert code == 2 and "is a demo" in err and err.count("\n") == 1


def test_tick_waits_for_nobody_who_is_alive(home: str, run: Run) -> None:
    with app.open(home, clock=SystemClock()) as book:
        rooms = book._rooms
        rooms.leases.watch_others()
        held = rooms.leases.acquire([rooms.book.stream("btc-5m.paper")], most=1)
        ticking = start("tick", "btc-5m", "BTC", "--home", home)
        while ticking.poll() is None:
            rooms.leases.heartbeat()
            time.sleep(0.05)
        out, err = ticking.communicate()
        assert (ticking.returncode, out) == (75, "")
        assert "local/btc-5m.paper is in the hands of" in err and "try again" in err and err.count("\n") == 1
        rooms.leases.release(held)
    code, out, err = run("tick", "btc-5m", "BTC", "--home", home)
    assert code == 0, err
