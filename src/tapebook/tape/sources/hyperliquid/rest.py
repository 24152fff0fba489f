"""Asking REST: one question, and either the bytes of an answer or the reason why there is none."""

import asyncio

import aiohttp
import msgspec

from tapebook.tape.sources.hyperliquid.errands import Request

_TOO_MANY = 429


class Refusal(msgspec.Struct, frozen=True):
    """Why there is no answer; `limited` when this address has asked too much."""

    why: str
    limited: bool = False


async def ask(http: aiohttp.ClientSession, url: str, request: Request, *, timeout_s: float) -> bytes | Refusal:
    """Posts a question. A busy, broken or silent server is a value, not an exception."""
    headers = {"Content-Type": "application/json"}
    try:
        async with asyncio.timeout(timeout_s), http.post(url, data=request.body, headers=headers) as response:
            body = await response.read()
    except TimeoutError:
        return Refusal(f"no answer within {timeout_s:g} s")
    except (aiohttp.ClientError, OSError) as error:
        return Refusal(f"{type(error).__name__}: {error}")
    if response.status == 200:
        return body
    said = f"{response.status} {body[:100].decode(errors='replace')}"
    return Refusal(said, limited=response.status == _TOO_MANY)
