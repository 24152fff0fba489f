"""The contract of the model port, kept by both providers against a real server that speaks their wire formats."""

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from time import sleep
from typing import Any

import msgspec
import pytest

from tapebook import plug
from tapebook.clock import elapsed_seconds
from tapebook.llm import Completion, Failure, Key, Model, ModelTerms
from tapebook.llm.post import MAX_RESPONSE_BYTES
from tests.llm.conftest import offline, one_server, server
from tests.llm.model_server import ModelServer, Said, anthropic_message, error, openai_chat
from tests.llm.offline import closed_port

__all__ = ["offline", "one_server", "server"]

FOLDER = "tapebook.llm.models"
MODELS = plug.names(FOLDER)
SECRET = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}
TEXT = '{"a":"b"}'

Create = Callable[..., Model]
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def create() -> Create:
    """`create(name, url)` gives a model behind an address of this machine."""

    def make(name: str, url: str, key: str = SECRET) -> Model:
        base = f"{url}/v1" if name == "openai" else url
        model: Model = plug.load(FOLDER, name).create(ModelTerms("some-model", base, Key(key), elapsed_seconds))
        return model

    return make


def asked(model: Model, timeout_seconds: float = 10.0) -> Completion | Failure:
    """One request."""
    return model.complete("be brief", "what now?", schema=SCHEMA, max_tokens=500, timeout_seconds=timeout_seconds)


def said(name: str, text: str = TEXT, *, stop: str = "end", **more: Any) -> Said:
    """An answer as the provider writes it."""
    if name == "anthropic":
        stops = {"end": "end_turn", "truncated": "max_tokens", "refused": "refusal"}
        return Said(body=anthropic_message(text, stop=stops[stop], **more))
    stops = {"end": "stop", "truncated": "length", "refused": "content_filter"}
    return Said(body=openai_chat(text, stop=stops[stop], **more))


def test_every_provider_is_covered() -> None:
    assert set(MODELS) == set(PATHS)


@every_model
def test_gives_the_text_and_its_tokens(create: Create, server: ModelServer, *, name: str) -> None:
    server.says(said(name))
    assert asked(create(name, server.url)) == Completion(TEXT, 1000, 100, "end", "hm")
    (seen,) = server.seen
    assert seen.path == PATHS[name]
    assert seen.body["model"] == "some-model"
    assert SECRET in (seen.headers.get("x-api-key", ""), seen.headers.get("authorization", "").removeprefix("Bearer "))


@every_model
@pytest.mark.parametrize("stop", ["truncated", "refused"])
def test_says_why_a_text_is_none(create: Create, server: ModelServer, *, name: str, stop: str) -> None:
    server.says(said(name, '{"a":"b', stop=stop))
    assert asked(create(name, server.url)) == Completion('{"a":"b', 1000, 100, stop, "hm")  # type: ignore[arg-type]


@every_model
@pytest.mark.parametrize(
    ("status", "fault"),
    [
        *[(401, "unauthorised"), (402, "unauthorised"), (403, "unauthorised")],
        *[(400, "rejected"), (404, "rejected"), (413, "rejected"), (422, "rejected")],
        *[(408, "server_error"), (409, "server_error"), (500, "server_error"), (503, "server_error")],
        *[(529, "server_error"), (429, "rate_limited")],
    ],
)
def test_every_status_is_one_of_the_faults(
    create: Create, server: ModelServer, *, name: str, status: int, fault: str
) -> None:
    server.says(Said(status, error("no such thing")))
    outcome = asked(create(name, server.url))
    assert isinstance(outcome, Failure)
    assert outcome.fault == fault
    assert str(status) in outcome.detail
    assert ("no such thing" in outcome.detail) == (fault != "unauthorised")


@every_model
@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("-1", None), ("nan", None), ("inf", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
def test_a_limit_says_when_to_come_back(
    create: Create, server: ModelServer, *, name: str, header: str, seconds: float | None
) -> None:
    server.says(Said(429, error("slow down"), {"retry-after": header}))
    assert asked(create(name, server.url)) == Failure("rate_limited", "status 429: slow down", seconds, 429)


@every_model
def test_one_request_and_no_more(create: Create, server: ModelServer, *, name: str) -> None:
    server.says(Said(500, error("broken")), said(name))
    assert isinstance(asked(create(name, server.url)), Failure)
    assert len(server.seen) == 1


@every_model
def test_a_slow_server_is_a_timeout(create: Create, server: ModelServer, *, name: str) -> None:
    server.says(Said(body={}, after_seconds=1.0))
    assert asked(create(name, server.url), 0.15) == Failure("timeout", "no answer came in time", is_billed=True)


@every_model
def test_no_server_is_unreachable(create: Create, name: str) -> None:
    outcome = asked(create(name, f"http://127.0.0.1:{closed_port()}"))
    assert isinstance(outcome, Failure)
    assert outcome.fault == "unreachable"


@every_model
@pytest.mark.parametrize(
    "body", [b"", b"<html>hello</html>", b"{", b"{}", b"[]", b"null", b'{"content":[{}]}', b"\xff"]
)
def test_what_is_no_answer_is_a_fault_of_the_server(
    create: Create, server: ModelServer, *, name: str, body: bytes
) -> None:
    server.says(Said(body=body))
    outcome = asked(create(name, server.url))
    assert isinstance(outcome, Failure)
    assert outcome.fault == "server_error"


@every_model
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
def test_a_key_is_never_shown(create: Create, server: ModelServer, *, name: str, status: int) -> None:
    model = create(name, server.url)
    for body in (error(f"your key {SECRET} is wrong\n{SECRET}"), f"bad {SECRET}"):
        server.says(Said(status, body, {"retry-after": "0"}))
        outcome = asked(model)
        assert SECRET not in repr(outcome) and "\n" not in repr(outcome)
    assert SECRET not in repr(model) + repr(vars(model))


@every_model
def test_a_long_message_is_cut(create: Create, server: ModelServer, *, name: str) -> None:
    server.says(Said(400, error("x\x1b[31m\u202e" * 10_000)))
    outcome = asked(create(name, server.url))
    assert isinstance(outcome, Failure)
    assert len(outcome.detail) < 200 and outcome.detail.isprintable()


@every_model
def test_the_provider_itself_wants_a_key(name: str) -> None:
    module = plug.load(FOLDER, name)
    outcome = asked(module.create(ModelTerms("m", module.URL, Key(), elapsed_seconds)))
    assert outcome == Failure("unauthorised", f"{name.upper()}_API_KEY is not set in the environment")


@every_model
def test_a_server_of_ones_own_may_want_none(
    create: Create, server: ModelServer, *, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the SDK would take from the environment by itself must not go to another server.
    monkeypatch.setenv(f"{name.upper()}_API_KEY", SECRET)
    server.says(said(name))
    assert isinstance(asked(create(name, server.url, key="")), Completion)
    assert SECRET not in repr(server.seen)


@every_model
def test_many_threads_share_one_model(create: Create, server: ModelServer, *, name: str) -> None:
    server.says(said(name))
    model = create(name, server.url)
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: asked(model), range(24)))
    assert outcomes == [Completion(TEXT, 1000, 100, "end", "hm")] * 24


def drip(header: bytes) -> Callable[[socket.socket], None]:
    """A server that sends a header and then a byte now and then, for ever."""

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            connection.sendall(header)
            while True:
                connection.sendall(b"\n")
                sleep(0.02)

    return serve


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that answers every connection with what `serve` sends, until the test is over."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(65_536)
                        serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


HEADER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@every_model
@pytest.mark.parametrize("header", [HEADER + b"Content-Length: 1000000\r\n\r\n", HEADER + b"X-Slow: "])
def test_a_byte_now_and_then_is_no_answer_in_time(create: Create, *, name: str, header: bytes) -> None:
    # The header that never ends is cut off for its length if not for its time: either way it ends.
    with raw_server(drip(header)) as url:
        outcome = asked(create(name, url), 0.3)
    assert isinstance(outcome, Failure)
    assert outcome.fault == "timeout"


@every_model
def test_what_is_larger_than_any_answer_is_not_read(create: Create, server: ModelServer, *, name: str) -> None:
    server.says(said(name, "x" * (MAX_RESPONSE_BYTES + 1)))
    outcome = asked(create(name, server.url))
    assert isinstance(outcome, Failure)
    assert (outcome.fault, outcome.is_billed, "more than" in outcome.detail) == ("server_error", True, True)


@every_model
def test_a_packed_answer_is_unpacked_and_one_that_grows_too_large_is_not(
    create: Create, server: ModelServer, *, name: str
) -> None:
    packed = {"content-encoding": "gzip"}
    whole = msgspec.json.encode(said(name).body)
    server.says(Said(body=gzip.compress(whole), headers=packed))
    assert asked(create(name, server.url)) == Completion(TEXT, 1000, 100, "end", "hm")
    for bomb in (
        gzip.compress(b" " * (MAX_RESPONSE_BYTES + 1) + whole),
        gzip.compress(whole)[:-12] + b"\0" * 12,
        b"no gzip",
    ):
        server.says(Said(body=bomb, headers=packed))
        outcome = asked(create(name, server.url))
        assert isinstance(outcome, Failure)
        assert (outcome.fault, outcome.is_billed) == ("server_error", True)
    server.says(Said(body=whole, headers={"content-encoding": "br"}))
    assert isinstance(asked(create(name, server.url)), Failure)


@every_model
@pytest.mark.parametrize("tokens", [(-1, 5), (5, -1), (2**63, 1), (10**40, 1), (1, 2**64)])
def test_counts_that_cannot_be_are_no_answer(
    create: Create, server: ModelServer, *, name: str, tokens: tuple[int, int]
) -> None:
    names = ("input_tokens", "output_tokens") if name == "anthropic" else ("prompt_tokens", "completion_tokens")
    body = {**said(name).body, "usage": dict(zip(names, tokens, strict=True))}
    server.says(Said(body=json.dumps(body).encode()))
    outcome = asked(create(name, server.url))
    assert isinstance(outcome, Failure)
    assert (outcome.fault, outcome.is_billed) == ("server_error", True)


@every_model
@pytest.mark.parametrize("status", [200, 400, 500])
def test_deep_json_is_no_answer(create: Create, server: ModelServer, *, name: str, status: int) -> None:
    deep = b'{"error":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    server.says(Said(status, deep))
    assert isinstance(asked(create(name, server.url)), Failure)


@every_model
def test_a_key_that_is_echoed_is_taken_out(create: Create, server: ModelServer, *, name: str) -> None:
    server.says(said(name, f'{{"a":"{SECRET}"}}'))
    assert asked(create(name, server.url)) == Completion('{"a":"…"}', 1000, 100, "end", "hm")


@every_model
def test_a_redirect_is_not_followed(create: Create, server: ModelServer, *, name: str) -> None:
    server.says(Said(307, b"", {"location": "/elsewhere"}), said(name))
    outcome = asked(create(name, server.url))
    assert isinstance(outcome, Failure)
    assert (outcome.fault, len(server.seen)) == ("rejected", 1)
