"""The stream of changes and the metrics, over a real server: nothing is missed, a revoked token ends its stream."""

import json
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from starlette.testclient import TestClient

from tapebook.api import app
from tapebook.api.access import AccessStore
from tapebook.errors import BadInput
from tapebook.surfaces.http import events
from tapebook.surfaces.http.events import cursor_of, heads_of
from tapebook.surfaces.http.server import ListenTerms, serve
from tests.surfaces.http.conftest import API, free_port, is_listening


class RunningServer:
    """A server in a thread, as programs meet it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with AccessStore(home) as store:
            text = store.add("page", scopes=["read", "trade"]).text
        self.book = app.open(home)
        port = free_port()
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {text}"}, timeout=20
        )
        self._thread = threading.Thread(target=serve, args=([self.book], ListenTerms(port=port, seconds=60)))
        self._thread.daemon = True
        self._thread.start()
        while not is_listening(port):
            time.sleep(0.02)


@pytest.fixture(scope="module")
def server(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    made = RunningServer(shutil.copytree(demo_home, tmp_path_factory.mktemp("events") / "home"))
    yield made
    made.client.close()


def read_events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """The events of a stream, comments apart."""
    event: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            event[name] = value
        elif not line and event:
            yield event
            event = {}


def changes_of(event: dict[str, str]) -> list[Any]:
    return list(msgspec.json.decode(event["data"]))


def test_what_moves_is_streamed_and_a_lost_stream_goes_on(server: RunningServer) -> None:
    with server.client.stream("GET", f"{API}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        found = read_events(stream.iter_lines())
        first = next(found)
        server.book.halt("btc-5m", reason="one")
        [moved] = changes_of(event := next(found))
        assert moved["stream"] == "owner" and sum(moved["kinds"].values()) == 1
        assert event["event"] == "change" and event["id"] != first["id"]
    # Nobody listens now; what happens is told to whoever goes on behind the last event.
    server.book.resume("btc-5m", reason="two")
    server.book.halt("btc-5m", reason="three")
    with server.client.stream("GET", f"{API}/events", headers={"last-event-id": event["id"]}) as stream:
        found = read_events(stream.iter_lines())
        next(found)
        [moved] = changes_of(next(found))
        assert sum(moved["kinds"].values()) == 2


def test_changes_can_be_asked_for_as_well(server: RunningServer) -> None:
    start = server.client.get(f"{API}/changes").json()
    assert start["moved"] == [] and heads_of(start["cursor"]) == start["heads"]
    server.book.halt(reason="all")
    page = server.client.get(f"{API}/changes", params={"since": start["cursor"]}).json()
    assert [each["stream"] for each in page["moved"]] == ["owner"]
    after = server.client.get(f"{API}/changes", params={"since": page["cursor"], "tape": True}).json()
    assert after["moved"] == []


@pytest.mark.parametrize("cursor", ["x", "é", "[]", cursor_of({})[:-2], "e30", "eyJhIjoieCJ9"])
def test_a_cursor_that_is_none_is_refused(client: TestClient, cursor: str) -> None:
    assert client.get(f"{API}/changes", params={"since": cursor}).status_code == 422
    with pytest.raises(BadInput):
        heads_of(cursor)


def test_a_revoked_token_ends_its_stream(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_PING_SECONDS", 0.05)
    with AccessStore(server.home) as store:
        text = store.add("short", scopes=["read"]).text
        with server.client.stream("GET", f"{API}/events", headers={"authorization": f"Bearer {text}"}) as stream:
            lines = stream.iter_lines()
            next(lines)
            store.revoke("short")
            assert "change" not in "".join(lines)


def test_the_dashboard_of_grafana_shows_every_metric_and_no_other(server: RunningServer) -> None:
    board = json.loads((Path(__file__).parents[3] / "docs" / "grafana.json").read_text("utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    exported = set(re.findall(r"^# TYPE (tapebook_\w+)", server.client.get("/metrics").text, re.MULTILINE))
    named = {name for text in asked for name in re.findall(r"tapebook_\w+", text)}
    assert named == exported
    # Labels that are named exist on that metric.
    text = server.client.get("/metrics").text
    for panel in board["panels"]:
        for target in panel["targets"]:
            labels = re.findall(r"{{(\w+)}}", target["legendFormat"]) + re.findall(r"{(\w+)=~", target["expr"])
            (name,) = re.findall(r"tapebook_\w+", target["expr"])
            assert all(re.search(rf"^{name}{{.*\b{label}=", text, re.MULTILINE) for label in labels), panel["title"]
    places = [panel["gridPos"] for panel in board["panels"]]
    assert len({(each["x"], each["y"]) for each in places}) == len(places)


def test_metrics_are_those_of_the_home(server: RunningServer) -> None:
    text = server.client.get("/metrics").text
    figures = {name: float(value) for name, value in re.findall(r"^(tapebook_\S+) (\S+)$", text, re.MULTILINE)}
    status = server.book.status()
    for account in status["accounts"]:
        assert figures[f'tapebook_equity_usd{{agent="{account["agent"]}"}}'] == pytest.approx(account["equity_usd"])
    held = sum(len(account["positions"]) for account in status["accounts"])
    assert held and len([name for name in figures if name.startswith("tapebook_position_value_usd")]) == held
    counts = server.book.run_counts()
    assert sum(counts.values()) == sum(
        value for name, value in figures.items() if name.startswith("tapebook_runs_total")
    )
    assert figures["tapebook_tick_seconds_count"] > 0
    assert any(name.startswith("tapebook_channel_lag_seconds") for name in figures)
    assert figures["tapebook_model_usd_today"] == 0
    assert httpx.get(f"{server.client.base_url}/metrics").status_code == 401
