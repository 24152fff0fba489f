"""Whatever is sent, the server answers: requests made from its own OpenAPI document, and the attacks of the table."""

import socket
import threading
import time
from contextlib import suppress
from typing import Any, cast
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case

from tapebook.surfaces.http import access
from tapebook.surfaces.http.access import MOST_BODY_BYTES
from tapebook.surfaces.http.server import ListenTerms, run_server
from tests.matrix import EXAMPLES
from tests.surfaces.http.conftest import API, BotServer, free_port, is_listening

# A normal run tries every fourth route; `make proof` tries all of them, fifty times each.
FEW = max(1, EXAMPLES // 10 - 1)
EVERY = 4 if FEW < 10 else 1


# The client of schemathesis calls itself by another name.
HOST = {"host": "localhost"}


def operations(server: BotServer) -> dict[str, Any]:
    schema = schemathesis.openapi.from_asgi(f"{API}/openapi.json", server.client.app, headers=HOST)
    found: list[Any] = [cast(Any, result).ok() for result in schema.get_all_operations()]
    return {f"{each.method.upper()} {each.path}": each for each in found if each.path != f"{API}/events"}


def call(server: BotServer, case: Case[Any]) -> None:
    """One request; the answer is one that the document describes, and never an error nobody expected."""
    answer = case.call(headers=HOST | {"authorization": f"Bearer {server.tokens['all']}"})
    assert answer.status_code != 500, f"{case.as_curl_command()}\n{answer.text}"
    kind = answer.headers["content-type"][0].partition(";")[0]
    if answer.status_code >= 400:
        assert kind == "application/problem+json", case.as_curl_command()
        assert answer.json()["remedy"]
    else:
        case.validate_response(answer, checks=[schemathesis.checks.response_schema_conformance])


def test_requests_of_every_kind_are_answered(server: BotServer) -> None:
    server.add_token("all", "read", "record", "trade", "admin")
    for name, operation in list(operations(server).items())[::EVERY]:

        @settings(max_examples=FEW, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def send(case: Case[Any]) -> None:
            call(server, case)

        try:
            send()
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error
    assert server.book.verify() == []


# Words of other languages than ours, in every place that takes words.
ATTACKS = [
    *("' OR 1=1 --", '"; DROP TABLE tokens; --', "%' UNION SELECT sha256 FROM tokens --", "\\", "%", "_", "*"),
    *('"', "NEAR(", "a AND", "NOT", "col:x", "{a b}:c", "^x", "x*", "(", "-x", "AND OR", '"unbalanced', "a NEAR/0 b"),
    *("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "file:///etc/passwd", "....//....//x", "~root"),
    *("\u202e\u2066", "\ufeff", "🜲" * 50, "\x1b[2J", "\n\r\n", "A" * 1999, "{{7*7}}", "${jndi:ldap://x}", "<script>"),
]


PLACES = [
    *("/recall/search?query={}", "/recall/document?path={}", "/agents/{}", "/agents/{}/trades", "/runs/{}"),
    *("/runs?agent={}", "/runs?before={}", "/market/{}", "/backtests/{}", "/horizons?layer={}"),
]


def test_words_of_other_languages_are_words(server: BotServer) -> None:
    heads = server.book.heads(tape=True)
    for words in ATTACKS:
        for path in (
            "/recall/search?query={}",
            "/recall/document?path={}",
            "/agents/{}",
            "/agents/{}/trades",
            "/runs/{}",
        ):
            answer = ask(server, path, words)
            assert answer.status_code in (200, 404, 422), f"{path} {words!r}: {answer.text}"
            assert "root:" not in answer.text
        for path in ("/runs?agent={}", "/runs?before={}", "/market/{}", "/backtests/{}", "/horizons?layer={}"):
            answer = ask(server, path, words)
            assert answer.status_code in (200, 404, 422), f"{path} {words!r}: {answer.text}"
    assert server.book.heads(tape=True) == heads


def ask(server: BotServer, path: str, words: str) -> Any:
    return server.call("GET", path.format(quote(words, safe="%" if "%2f" in words else "")))


@pytest.mark.parametrize("raw", [b"/api/v1/../../etc/passwd", b"/api/v1/runs/%00", b"/api/v1/runs?agent=%00", b"//etc"])
def test_paths_that_lead_elsewhere_lead_nowhere(raw: bytes, loopback: int) -> None:
    answer = send(loopback, b"GET " + raw + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.split(b" ", 2)[1] in (b"400", b"401", b"404") and b"root:" not in answer


def test_a_body_that_is_too_large_is_refused_before_it_is_read(loopback: int) -> None:
    head = b"POST /api/v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    stated = send(loopback, head + b"Content-Length: 99999999999\r\n\r\n{}")
    assert stated.startswith(b"HTTP/1.1 413") and b"too-large" in stated
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    chunked = send(loopback, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * (MOST_BODY_BYTES // 65536 + 2))
    assert chunked.startswith(b"HTTP/1.1 413")


def test_a_body_that_is_too_slow_is_refused(loopback: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "BODY_SECONDS", 0.2)
    head = b"POST /api/v1/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert send(loopback, head + b"Content-Length: 10\r\n\r\n{").startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_form_of_another_site_is_no_write(server: BotServer, kind: str) -> None:
    sent = {"authorization": f"Bearer {server.tokens['record']}", "content-type": kind}
    assert server.client.post(f"{API}/learn", content=b"{}", headers=sent).status_code == 415


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"nul", b"\xff\xfe", b"[" * 20_000, b'{"agent":' * 5_000, b'{"agent": "\\ud800"}']
)
def test_a_body_that_is_no_request_is_refused(server: BotServer, body: bytes) -> None:
    sent = {"authorization": f"Bearer {server.tokens['record']}", "content-type": "application/json"}
    answer = server.client.post(f"{API}/learn", content=body, headers=sent)
    assert answer.status_code in (400, 422), answer.text


def test_connections_that_say_nothing_do_not_shut_others_out(loopback: int) -> None:
    silent = [socket.create_connection(("127.0.0.1", loopback)) for _ in range(50)]
    for each in silent:
        each.sendall(b"GET /api/v1/me HTTP/1.1\r\nHost: loc")
    answer = send(loopback, b"GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401")
    for each in silent:
        each.close()


@pytest.fixture(scope="module")
def loopback(server: BotServer) -> int:
    """The port of a real server."""
    port = free_port()
    running = threading.Thread(
        target=run_server, args=(server.client.app, ListenTerms(port=port, seconds=60)), daemon=True
    )
    running.start()
    while not is_listening(port):
        time.sleep(0.02)
    return port


def send(port: int, request: bytes) -> bytes:
    """What a server answers to bytes; it may stop listening before it has heard all of them."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        with suppress(OSError):
            connection.sendall(request)
        found = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(65536):
                found += part
    return found
