"""A whole desk with ingestion, its book and its tape on a PostgreSQL server that restarts again and again."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.domain.units import MINUTE
from tapebook.settings.config import FILE
from tests.db.places import sql
from tests.db.servers import Server, own_server
from tests.replay.storm import ROOT, environment

pytestmark = pytest.mark.soak

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "restarts.json"
SECONDS = 60


def start(*words: str) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    command, pipe = [sys.executable, "-m", "tapebook", *words], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
def world() -> Iterator[str]:
    """The address of an invented market, sixty times as fast as real time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = start("world", "--port", str(port), "--speed", "60")
    assert server.stdout and "serving" in server.stdout.readline()
    yield f"http://127.0.0.1:{port}"
    server.send_signal(signal.SIGTERM)
    server.communicate()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of this test's own."""
    with own_server() as running:
        yield running


def home_on(server: Server, home: Path) -> None:
    """A home with book and tape on a server, whose agents decide every minute."""
    home.mkdir()
    url = server.url
    (home / FILE).write_text(f'[store]\nbook = "{url}"\ntape = "{url}"\n', "utf-8")
    with app.open(home) as book:
        for name, engine in (("first", "trend"), ("second", "breakout"), ("third", "hold")):
            book.add_agent(name, {"watch": "BTC, ETH", "engine": engine, "every_minutes": "1"})


def test_a_desk_goes_on_through_restarts_of_its_server(server: Server, world: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home_on(server, home)
    begun = time.monotonic()
    desk = start("up", "--with-ingest", "--url", world, "--seconds", str(SECONDS), "--home", str(home))
    time.sleep(8)
    kinds = Counter[str]()
    for number in range(7):
        how = ("fast", "immediate", "kill")[number % 3]
        server.stop(how)  # type: ignore[arg-type]
        time.sleep(0.5 + number % 3)
        server.start()
        kinds[how] += 1
        time.sleep(2)
        server.kill_backends()
        kinds["sessions cut"] += 1
        time.sleep(1)
    _, said = desk.communicate(timeout=SECONDS + 60)
    took = time.monotonic() - begun
    assert desk.returncode == 0, said
    assert "needs a person" not in said and "Traceback" not in said and took < SECONDS + 20
    # Said once for the whole desk, as often as it was away; two outages in a row may be one.
    aways, backs = (len(re.findall(rf"^\w+: .*database {what} ", said, re.MULTILINE)) for what in ("away", "back"))
    assert aways == backs and 3 <= aways <= 20, said
    with app.open(home) as book:
        db = book._rooms.book_db
        rows = db.all(sql("SELECT deployment, symbol, scheduled_for, status FROM decision_runs"))
        events = db.one(sql("SELECT COUNT(*) FROM log_events WHERE kind = 'run.decided'"))
        assert events == (len(rows),)
        slots = Counter(row[:3] for row in rows)
        assert set(slots.values()) == {1}
        for pair in {row[:2] for row in rows}:
            mine = sorted(row[2] for row in rows if row[:2] == pair)
            assert mine == list(range(mine[0], mine[-1] + 1, MINUTE)), "a slot was neither decided nor recorded"
        orders = Counter(db.all(sql("SELECT run_id FROM orders WHERE run_id <> ''")))
        assert all(count == 1 for count in orders.values())
        assert db.all(sql("SELECT deployment FROM leases WHERE holder <> ''")) == []
        assert book.verify() == [] and book.replay().different == []
    statuses = Counter(row[3] for row in rows)
    assert statuses["expired"] < len(rows) / 2, statuses
    figures = {"server": dict(kinds), "runs": dict(statuses), "said away": aways, "seconds": round(took, 1)}
    FIGURES.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", "utf-8")
