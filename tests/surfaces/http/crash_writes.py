"""Sends writes with a key to a server that is killed before its N-th act, and again to the next server.

`python -m tests.surfaces.http.crash_writes FOLDER COUNT SERVER WRITE…` does so at COUNT acts of each write and prints
for each a line of JSON: what the undisturbed write left, and what each that was cut left. The last of the acts is the
one that keeps the answer. A program of its own, because a process should fork only while it has one thread: whatever
has threads runs in a child.
"""

import json
import os
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from tapebook.api import app
from tapebook.api.access import SCOPES, AccessStore
from tapebook.clock import VirtualClock
from tapebook.domain.units import MINUTE, parse_instant
from tapebook.settings.config import FILE
from tapebook.surfaces.http.access import HomeAccess
from tapebook.surfaces.http.server import create_app
from tests.replay.faults import Fuse, die, lit
from tests.replay.stage import Stage

START = parse_instant("2026-01-05T00:00:00Z")
NOW = START + 200 * MINUTE + 700
TOKEN_FILE = "token.txt"
TRADED = {"agent": "bot", "symbol": "BTC", "price": 65_000}
FLATTENED = {"agent": "desk", "reason": "lunch"}
LAYER = {"layer": "L1", "timeframe": "LEGACY", "key": "k", "value": 1}
WRITES: dict[str, tuple[str, str, Any]] = {
    "observe": ("POST", "/observe", {"symbol": "BTC", "prices": 65_500}),
    "entry": ("POST", "/agents/bot/entries", {"what": "journal", "text": "the feed was late"}),
    "proposal": ("POST", "/agents/bot/proposals", {"text": "Never trade on Fridays.\n"}),
    "tick": ("POST", "/agents/desk/tick", {"symbol": "BTC"}),
    "halt": ("POST", "/halt", {"agent": "bot", "reason": "lunch"}),
    "resume": ("POST", "/resume", {"agent": "desk", "reason": "lunch is over"}),
    "flatten": ("POST", "/flatten", FLATTENED),
    "add": ("POST", "/agents", {"name": "new", "settings": {"watch": "BTC"}}),
    "edit": ("PATCH", "/agents/bot", {"settings": {"max_leverage": 2}}),
    "remove": ("DELETE", "/agents/spare?reason=done", None),
    "approve": ("POST", "/recall/proposals/{proposal}/approve", None),
    "reject": ("POST", "/recall/proposals/{proposal}/reject", None),
    "layer": ("PUT", "/horizons", LAYER),
    "agent-layer": ("PUT", "/horizons", LAYER | {"agent": "spare"}),
    "fill": ("POST", "/fills", TRADED | {"id": "f", "side": "buy", "size": 0.01}),
    "position": ("POST", "/positions", TRADED | {"id": "p", "size": 0.02}),
}


def furnish(home: Path) -> None:
    """A market that trends, a bot, an agent that trades on paper, one that never did, a proposal and a halt."""
    clock, settings = VirtualClock(START), home / FILE
    # The lease of a killed server is waited for.
    settings.write_text(re.sub("^lease_seconds = .*", "lease_seconds = 1", settings.read_text("utf-8"), flags=re.M))
    with app.open(home, clock=clock) as book:
        book.add_agent("bot", {"watch": "BTC", "broker": "external"})
        book.add_agent("desk", {"watch": "BTC", "engine": "breakout", "every": "5m"})
        book.add_agent("spare", {"watch": "BTC"})
        clock.advance(NOW)
        prices = [65_000 + 5 * minute for minute in range(201)]
        bars = [
            {"time": START + n * MINUTE, "open": a, "high": b + 1, "low": a - 1, "close": b, "volume": 3}
            for n, (a, b) in enumerate(pairwise(prices))
        ]
        book.observe("BTC", candles=bars, prices=prices[-1])
        book.recall.propose("bot", "Never trade on Sundays.\n")
        book.halt("desk", reason="lunch")
    with AccessStore(home) as store:
        (home / TOKEN_FILE).write_text(store.add("all", scopes=SCOPES).text, "utf-8")


def send(server: FastAPI, home: Path, name: str, *, at: int) -> dict[str, Any]:
    """Sends a write at a moment; what is left afterwards: the answer, and how often each thing was written."""
    method, path, body = WRITES[name]
    with app.open(home, clock=VirtualClock(at)) as book:
        server.state.access = HomeAccess([book], anyone_reads=False)
        token = (home / TOKEN_FILE).read_text("utf-8")
        sent = {"authorization": f"Bearer {token}", "idempotency-key": "k"}
        path = path.format(proposal=book.recall.proposals("bot")[0]["proposal_id"])
        with TestClient(server, base_url="http://localhost") as client:
            answer = client.request(method, f"/api/v1{path}", json=body, headers=sent)
        rooms = book._rooms
        written = {
            stream.name: Counter(event.kind for event in rooms.log.events(stream)) for stream in rooms.log.streams()
        }
        rows = {channel.name: channel.rows for channel in book.channels()}
        left = {"written": written, "rows": rows, "verify": [str(each) for each in book.verify()]}
        server.state.access.close()
        return {"status": answer.status_code, "answer": answer.json(), "left": left}


def in_child(act: Callable[[], Any]) -> Any:
    """What a child process gives; None when it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(act()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as found:
        text = found.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if status == 0 else None


def counted(server: FastAPI, home: Path, name: str) -> tuple[dict[str, Any], list[str]]:
    fuse = Fuse()
    with lit(fuse):
        return send(server, home, name, at=NOW), fuse.acts


def killed(server: FastAPI, home: Path, name: str, at: int) -> None:
    with lit(Fuse(at, die)):
        send(server, home, name, at=NOW)


def compare(server: FastAPI, stage: Stage, name: str, *, base: Path, count: int) -> dict[str, Any]:
    """What a write leaves, undisturbed and cut at some acts."""
    whole, acts = in_child(lambda: counted(server, stage.copy(base, "whole"), name))
    stage.remove(stage.place / "whole")
    # From where the key is taken to where the answer is kept; what is before and behind does not matter.
    first = next(number for number, act in enumerate(acts, 1) if "INTO keyed_writes" in act) + 2
    last = next(number for number, act in enumerate(acts, 1) if "UPDATE keyed_writes SET status" in act)
    cuts = []
    for number in range(count):
        at, home = last - (last - first) * number // count, stage.copy(base, "cut")
        was_killed = in_child(lambda: killed(server, home, name, at)) is None  # noqa: B023
        assert was_killed, f"act {at} was never reached"
        cuts.append({"act": acts[at - 1], **in_child(lambda: send(server, home, name, at=NOW + 3 * MINUTE))})  # noqa: B023
        stage.remove(home)
    return {"name": name, "whole": whole, "cuts": cuts}


def main(place: Path, count: int, dsn: str, names: list[str]) -> None:
    """Prints a line for each write."""
    stage, server = Stage(place, dsn), create_app()
    base = stage.make("base")
    in_child(lambda: furnish(base))
    for name in names or WRITES:
        print(json.dumps(compare(server, stage, name, base=base, count=count)), flush=True)
    stage.clear()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
