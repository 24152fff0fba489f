"""Homes that are served in the test's process: a small demo, and one with a bot."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tapebook.api import app
from tapebook.api.access import SCOPES, AccessStore
from tapebook.clock import VirtualClock
from tapebook.domain.units import MINUTE, parse_instant
from tapebook.home import make_home
from tapebook.surfaces.http.server import create_app

API = "/api/v1"
START = parse_instant("2026-01-05T00:00:00Z")
Answer = Any


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as made:
        return made.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def demo_home(demo_minutes: Path) -> Path:
    """A home with some minutes of a demo; only to be read or copied."""
    return demo_minutes


@pytest.fixture(scope="module")
def book(demo_home: Path) -> Iterator[app.Tapebook]:
    """That home, opened."""
    with app.open(demo_home) as tb:
        yield tb


@pytest.fixture(scope="module")
def client(book: app.Tapebook) -> Iterator[TestClient]:
    """A program that calls it."""
    with TestClient(create_app(book), base_url="http://localhost:8017") as made:
        yield made


class BotServer:
    """A home with a bot, served; tokens by scope."""

    def __init__(self, folder: Path) -> None:
        make_home(folder)
        self.folder = folder
        self.clock = VirtualClock(START + 200 * MINUTE + 700)
        self.book = app.open(folder, clock=self.clock)
        self.book.add_agent("bot", {"watch": "BTC", "broker": "external"})
        with AccessStore(folder) as store:
            self.tokens: dict[str, str] = {scope: store.add(scope, scopes=[scope]).text for scope in SCOPES}
            self.tokens["bot"] = store.add("bot", scopes=["read", "record"]).text
        self.client = TestClient(create_app(self.book), base_url="http://localhost")

    def add_token(self, name: str, *scopes: str) -> None:
        with AccessStore(self.folder) as store:
            self.tokens[name] = store.add(name, scopes=scopes).text

    def call(self, method: str, path: str, body: object = None, *, by: str = "bot", **headers: str) -> Answer:
        sent = {"authorization": f"Bearer {self.tokens[by]}"} | {
            each.replace("_", "-"): headers[each] for each in headers
        }
        return self.client.request(method, f"{API}{path}", json=body, headers=sent)

    def post(self, path: str, body: object = None, **more: str) -> Answer:
        return self.call("POST", path, body, **more)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    made = BotServer(tmp_path_factory.mktemp("writes") / "home")
    bars = [
        {"time": START + each * MINUTE, "open": 65_000, "high": 65_050, "low": 64_990, "close": 65_020.5, "volume": 3}
        for each in range(200)
    ]
    answer = made.post("/observe", {"symbol": "BTC", "candles": bars, "prices": 65_021.5})
    assert answer.status_code == 200 and answer.json() > 0, answer.text
    yield made
    made.client.close()
    made.book.close()
