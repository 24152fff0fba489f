"""The application: what is served, what is refused, and what can be served beside it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tapebook.api import app
from tapebook.surfaces.http.server import create_app, run_beside

API = "/api/v1"


def test_reads_give_what_the_facade_gives(client: TestClient, book: app.Tapebook) -> None:
    runs = client.get(f"{API}/runs", params={"agent": "btc-5m", "most": 3}).json()
    expected = book.runs("btc-5m", most=3)
    assert runs == {"rows": as_json(expected), "next": expected.next}
    assert len(runs["rows"]) == 3 and runs["next"]
    run_id = runs["rows"][0]["run_id"]
    assert client.get(f"{API}/runs/{run_id}").json() == as_json(book.run(run_id))
    assert client.get(f"{API}/agents").json() == as_json(book.agents())
    assert client.get(f"{API}/orders").json()["rows"] == as_json(book.orders())


def test_pages_meet_every_row_once(client: TestClient, book: app.Tapebook) -> None:
    found, before = [], None
    while True:
        page = client.get(f"{API}/runs", params={"most": 7} | ({"before": before} if before else {})).json()
        found += [run["run_id"] for run in page["rows"]]
        before = page["next"]
        if before is None:
            break
    assert found == [run["run_id"] for run in book.runs(most=1000)]


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/runs/nothing", 404, "unknown-name"),
        ("/agents/nobody", 404, "unknown-name"),
        ("/runs?as_of=soon", 422, "bad-input"),
        ("/runs?as_of=2999-01-01", 422, "bad-input"),
        ("/runs?before=nothing", 422, "bad-input"),
        ("/runs?most=0", 422, "bad-request"),
    ],
)
def test_errors_are_problems_with_a_remedy(client: TestClient, path: str, status: int, kind: str) -> None:
    answer = client.get(f"{API}{path}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert said["status"] == status and said["type"].endswith(kind)
    assert said["detail"] and said["remedy"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8017", "127.0.0.1.evil.example", "", "[::2]"])
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get(f"{API}/agents", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8017", "[::1]:8017", "LOCALHOST:1"])
def test_loopback_is_answered(client: TestClient, host: str) -> None:
    assert client.get(f"{API}/agents", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999", "https://[", "file://"])
def test_the_page_of_another_site_is_refused(client: TestClient, origin: str) -> None:
    answer = client.get(f"{API}/agents", headers={"origin": origin})
    assert answer.status_code == 403 and answer.json()["type"].endswith("cross-site")


def test_its_own_page_is_answered(client: TestClient) -> None:
    assert client.get(f"{API}/agents", headers={"origin": "http://localhost:8017"}).status_code == 200


def test_every_answer_has_a_schema(client: TestClient) -> None:
    document = client.get(f"{API}/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation["responses"]["200"]["content"]
            [(kind, described)] = content.items()
            schema = described["schema"]
            assert kind == {"/metrics": "text/plain", f"{API}/events": "text/event-stream"}.get(
                path, "application/json"
            )
            assert schema, f"{method} {path} says nothing of what it gives"
            assert "application/problem+json" in operation["responses"]["default"]["content"]
    assert document["components"]["schemas"]["ExplainedRunView"]["properties"]["votes"]["type"] == "array"


def test_what_is_mounted_is_started_and_ended_with_it(book: app.Tapebook) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def beside(_: FastAPI) -> AsyncIterator[None]:
        events.append("started")
        yield
        events.append("ended")

    made = create_app(book)
    run_beside(made, beside)
    with TestClient(made, base_url="http://localhost") as client:
        assert events == ["started"]
        assert client.get(f"{API}/agents").status_code == 200
    assert events == ["started", "ended"]


def as_json(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
