"""Forty clients read everything over HTTP while a desk trades: no request fails, and no tick is missed."""

import json
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tapebook.api import app
from tapebook.domain.units import MINUTE, parse_instant
from tests.surfaces.cli.conftest import made, own
from tests.surfaces.cli.test_desk import ask_api, free_port, start
from tests.surfaces.http.test_reads import API, READS

__all__ = ["made", "own"]

pytestmark = pytest.mark.soak

CLIENTS = 40
SPEED = 10
SECONDS = 90.0
FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "api-clients.json"


class ReadingClient(threading.Thread):
    """Asks for one read after the other, from a place of its own among them, until it is told to stop."""

    def __init__(self, port: int, place: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._url = f"http://127.0.0.1:{port}"
        paths = [path for path in READS if "as_of" not in path] + ["/me", "/changes"]
        self._paths = paths[place % len(paths) :] + paths[: place % len(paths)]
        self._stop_asked = stop
        self.times: list[float] = []
        self.errors: list[str] = []
        self.read: Counter[str] = Counter()

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            while not self._stop_asked.is_set():
                for path in self._paths:
                    if not self._stop_asked.is_set():
                        self._ask(client, path)

    def _ask(self, client: httpx.Client, path: str) -> None:
        if "{run}" in path:
            newest = client.get(f"{API}/runs?most=1").json()["rows"][0]["run_id"]
            asked = path.replace("{run}", newest)
        else:
            asked = path
        begun = time.monotonic()
        try:
            answer = client.get(f"{API}{asked}")
        except httpx.HTTPError as error:
            self.errors.append(f"{asked}: {error!r}")
            return
        self.times.append(time.monotonic() - begun)
        self.read[path] += 1
        if answer.status_code != 200:
            self.errors.append(f"{asked}: {answer.status_code} {answer.text[:300]}")


def test_forty_clients_read_everything_while_a_desk_trades(own: str) -> None:
    with app.open(own) as book:
        book.edit_agent("btc-5m", {"every_minutes": "1", "engine": "trend"})
        book.edit_agent("demo-ensemble", {"every_minutes": "1"})
    world_port, port = free_port(), free_port()
    world = start("world", "--port", str(world_port), "--speed", str(SPEED))
    assert world.stdout and "serving" in world.stdout.readline()
    url = f"http://127.0.0.1:{world_port}"
    words = ("--with-ingest", "--with-api", "--api-port", str(port), "--url", url, "--quiet", "--home", own)
    desk = start("up", *words)
    stop = threading.Event()
    clients = [ReadingClient(port, place, stop) for place in range(CLIENTS)]
    try:
        while not ask_api(port, "/runs?most=1")[1]["rows"]:
            time.sleep(0.2)
        for client in clients:
            client.start()
        stop.wait(SECONDS)
    finally:
        stop.set()
        for client in clients:
            client.join(120)
        desk.send_signal(signal.SIGTERM)
        _, said = desk.communicate(timeout=120)
        world.terminate()
        world.communicate()
    errors = [error for client in clients for error in client.errors]
    read = sum((client.read for client in clients), Counter[str]())
    assert errors == [] and len(read) == len(clients[0]._paths), (errors[:5], said)
    assert desk.returncode == 0, said
    slots = _slots(own)
    assert len(slots) == 3 and all(len(each) >= SECONDS * SPEED / 60 * 0.8 for each in slots.values()), slots
    missed = {pair: _missed(each) for pair, each in slots.items()}
    assert not any(missed.values()), missed
    times = sorted(each for client in clients for each in client.times)
    figures = {
        "clients": CLIENTS,
        "seconds": SECONDS,
        "reads": len(times),
        "errors": len(errors),
        "per_second": round(len(times) / SECONDS, 1),
        "p99_seconds": round(times[len(times) * 99 // 100], 2),
        "ticks": sum(map(len, slots.values())),
        "ticks_missed": 0,
    }
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


def _slots(home: str) -> dict[str, list[int]]:
    """The slots that were decided of each agent and symbol; a decision that failed or came too late is none."""
    found: dict[str, list[int]] = {}
    with app.open(home) as book:
        runs = book.runs(most=10_000)
        assert book.verify() == []
        assert book.replay().different == []
    assert [run for run in runs if run["status"] in ("failed", "expired")] == []
    for run in runs:
        found.setdefault(f"{run['agent']} {run['symbol']}", []).append(parse_instant(str(run["scheduled_for"])))
    return found


def _missed(slots: list[int]) -> set[int]:
    return set(range(min(slots), max(slots), MINUTE)) - set(slots)
