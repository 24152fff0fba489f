"""The HTTP API: requests a second and the 99th percentile of reads, against a bare FastAPI route in the same run.

The bare route gives the same document from memory, with no token, no check of headers and no database: what FastAPI,
its encoder and uvicorn take by themselves. Each server is a process of its own and is asked over kept connections.
"""

import http.client
import json
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from bench.figure import Figure, seconds
from tapebook.api import app
from tapebook.api.access import AccessStore
from tapebook.surfaces.http.server import ListenTerms, serve

ROUTES = ("/runs?most=20", "/agents/btc-5m/trades?most=20", "/portfolio")
CONNECTIONS = 8
REQUESTS = 100
ROUNDS = 3


def run() -> list[Figure]:
    """Both figures of each route."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        app.demo(home, seconds=12.0, seed=7, paced=False, progress=lambda step: None)
        with AccessStore(home) as store:
            token = store.add("bench", scopes=["read"]).text
        with serving(_serve_home, str(home)) as port:
            return [figure for route in ROUTES for figure in _compare(route, port, token)]


def _compare(route: str, port: int, token: str) -> list[Figure]:
    """A route of the home and a bare one that gives the same bytes, in turns."""
    path = f"/api/v1{route}"
    document = _ask(http.client.HTTPConnection("127.0.0.1", port), path, token)
    ours, floors = [], []
    with serving(_serve_bare, document) as bare:
        for _ in range(ROUNDS):
            ours.append(measure(port, path, token))
            floors.append(measure(bare, "/", token))
    rate, floor = (statistics.median(each[0] for each in found) for found in (ours, floors))
    tail, least = (statistics.median(each[1] for each in found) for found in (ours, floors))
    name = f"GET {route}, {CONNECTIONS} connections"
    return [
        Figure(f"{name}: requests", rate, "per s", floor, rate / floor),
        Figure(f"{name}: p99", tail, "ms", least, least / tail),
    ]


def measure(port: int, path: str, token: str) -> tuple[float, float]:
    """Requests a second of all connections together, and the 99th percentile of how long one takes in milliseconds."""
    times: list[float] = []

    def ask_often() -> None:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        _ask(link, path, token)
        mine = [seconds(lambda: _ask(link, path, token)) for _ in range(REQUESTS)]
        link.close()
        times.extend(mine)

    callers = [threading.Thread(target=ask_often) for _ in range(CONNECTIONS)]

    def ask_all() -> None:
        for each in callers:
            each.start()
        for each in callers:
            each.join()

    took = seconds(ask_all)
    assert len(times) == CONNECTIONS * REQUESTS, "a request failed"
    # The first request of each connection is not timed by itself, but it is made within the time of all.
    return (len(times) + CONNECTIONS) / took, 1000 * statistics.quantiles(times, n=100)[98]


def _ask(link: http.client.HTTPConnection, path: str, token: str) -> bytes:
    link.request("GET", path, headers={"authorization": f"Bearer {token}"})
    answer = link.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    return body


@contextmanager
def serving(target: Any, given: object) -> Iterator[int]:
    """The port of a server in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = multiprocessing.get_context("spawn").Process(target=target, args=(given, port), daemon=True)
    process.start()
    try:
        while not _is_listening(port):
            assert process.is_alive(), "the server ended"
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.join()


def _is_listening(port: int) -> bool:
    with socket.socket() as made:
        return made.connect_ex(("127.0.0.1", port)) == 0


def _serve_home(home: str, port: int) -> None:
    with app.open(home) as book:
        serve([book], ListenTerms(port=port))


def _serve_bare(document: bytes, port: int) -> None:
    bare, given = FastAPI(), json.loads(document)

    @bare.get("/")
    def give() -> Any:
        return given

    uvicorn.run(bare, host="127.0.0.1", port=port, log_level="warning", access_log=False)
