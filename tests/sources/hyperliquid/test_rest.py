"""Asking REST: a refusal is a value that says how long to wait, and an answer can be kept with its question."""

import asyncio

import aiohttp
import msgspec
import pytest
from aiohttp import web

from tapebook.sources.hyperliquid.rest import (
    MOST_WAIT_S,
    EncodedRequest,
    RecordedExchange,
    RestQueue,
    RestRefusal,
    RestRequest,
    answer_frame,
    encode_request,
    post_request,
)

QUESTION = EncodedRequest(b'{"type":"meta"}', 20)


def asked(status: int, headers: dict[str, str], body: bytes = b"null") -> bytes | RestRefusal:
    """What comes of a question to a server that answers like this."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers, body=body)

    async def scene() -> bytes | RestRefusal:
        app = web.Application()
        app.add_routes([web.post("/info", answer)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            async with aiohttp.ClientSession() as http:
                url = f"http://127.0.0.1:{runner.addresses[0][1]}/info"
                return await post_request(http, url, QUESTION, timeout_s=5.0)
        finally:
            await runner.cleanup()

    return asyncio.run(scene())


@pytest.mark.parametrize(
    ("said", "wait_s"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("100000", MOST_WAIT_S),
        ("soon", 0.0),
        ("-3", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0),
    ],
)
def test_the_seconds_a_busy_exchange_names_are_kept_in_bounds(said: str, wait_s: float) -> None:
    assert asked(429, {"Retry-After": said}) == RestRefusal("429 null", limited=True, wait_s=wait_s)


def test_other_refusals_hold_up_nothing_but_themselves() -> None:
    assert asked(429, {}) == RestRefusal("429 null", limited=True)
    assert asked(503, {"Retry-After": "7"}) == RestRefusal("503 null")
    assert asked(200, {"Retry-After": "7"}, b"[]") == b"[]"


def test_all_questions_wait_as_long_as_they_are_told_to() -> None:
    waiting = RestQueue()
    for errand in (RestRequest("contexts", "", 0), RestRequest("books", "BTC", 0)):
        waiting.add(errand)
    first = waiting.take_ready(100.0, lambda errand: True)
    assert first is not None
    waiting.retry_later(first, 100.0, limited=True, wait_s=42.0)
    assert waiting.take_ready(141.9, lambda errand: True) is None
    assert waiting.take_ready(142.0, lambda errand: True) is not None


@pytest.mark.parametrize(
    ("answer", "kept"), [(b'[{"a": 1}]', b'[{"a": 1}]'), (b"null", b"null"), (b"<html>", b'"<html>"')]
)
def test_an_answer_is_kept_as_a_frame_with_its_question(answer: bytes, kept: bytes) -> None:
    question = encode_request(RestRequest("books", "BTC", 0, figures=4), now=5)
    frame = msgspec.json.decode(answer_frame(question, answer, asked_at=1_234))
    assert frame["channel"] == "info" and frame["data"]["asked_at"] == 1_234
    assert frame["data"]["request"] == {"type": "l2Book", "coin": "BTC", "nSigFigs": 4, "mantissa": None}
    data = msgspec.json.decode(answer_frame(question, answer, asked_at=1_234), type=dict[str, msgspec.Raw])["data"]
    assert bytes(msgspec.json.decode(data, type=RecordedExchange).answer) == kept
