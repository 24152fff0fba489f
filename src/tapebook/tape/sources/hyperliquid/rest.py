"""Asking REST: one question, and either the bytes of an answer or the reason why there is none."""

import asyncio
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from tapebook.tape.sources.hyperliquid.errands import Request

if TYPE_CHECKING:
    from aiohttp import ClientSession

ANSWER_CHANNEL = "info"
MOST_WAIT_S = 120.0
"""However long the exchange says to wait, it is asked again after this."""

_TOO_MANY = 429
_whole = msgspec.json.Decoder(Raw)


class Refusal(msgspec.Struct, frozen=True):
    """Why there is no answer; `limited` when this address has asked too much, and how long it is told to wait."""

    why: str
    limited: bool = False
    wait_s: float = 0.0


class Exchanged(msgspec.Struct, frozen=True):
    """A question, when it was asked, and its answer."""

    asked_at: int
    request: Raw
    answer: Raw


async def ask(http: "ClientSession", url: str, request: Request, *, timeout_s: float) -> bytes | Refusal:
    """Posts a question. A busy, broken or silent server is a value, not an exception."""
    from aiohttp import ClientError  # importers of recordings read this module too, and never ask

    headers = {"Content-Type": "application/json"}
    try:
        async with asyncio.timeout(timeout_s), http.post(url, data=request.body, headers=headers) as response:
            body = await response.read()
    except TimeoutError:
        return Refusal(f"no answer within {timeout_s:g} s")
    except (ClientError, OSError) as error:
        return Refusal(f"{type(error).__name__}: {error}")
    if response.status == 200:
        return body
    said = f"{response.status} {body[:100].decode(errors='replace')}"
    if response.status == _TOO_MANY:
        return Refusal(said, limited=True, wait_s=_wait_s(response.headers.get("Retry-After", "")))
    return Refusal(said)


def _wait_s(said: str) -> float:
    """The seconds to wait; 0 when none are named. A date is not read: whose clock it is by, nobody knows."""
    return min(float(said), MOST_WAIT_S) if said.isascii() and said.isdecimal() else 0.0


def as_frame(request: Request, answer: bytes, *, asked_at: int) -> bytes:
    """An answer as a frame for a recording, with its question."""
    try:
        shown = _whole.decode(answer)
    except msgspec.DecodeError:
        shown = Raw(msgspec.json.encode(answer.decode(errors="replace")))
    return msgspec.json.encode({"channel": ANSWER_CHANNEL, "data": Exchanged(asked_at, Raw(request.body), shown)})
