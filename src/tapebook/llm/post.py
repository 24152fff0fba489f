"""One POST to a model's server, bounded in seconds and bytes, or the failure that came of it.

The deadline counts from the first byte of the request to the last one of the answer: a server that sends a byte now
and then, or blank lines while it thinks, gets no more time than one that is silent. What is larger than any answer,
compressed or not, is not read to its end. A message of the server is shown as one short line with the key taken out;
that of a server that refused the key is not shown at all, since it may quote parts of it.
"""

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tapebook.llm.port import Failure, Fault, Key, short_error_line

if TYPE_CHECKING:
    from aiohttp import ClientResponse

MAX_RESPONSE_BYTES = 4_000_000
"""Bytes of an answer: a hundred times what a model writes within its limit of tokens."""

# Small pieces, so that a body without an end is noticed soon.
_CHUNK_BYTES = 65_536
# Asking again later may help: a request that was too slow in coming or met another one, and a key that asked too often.
_FAULT_BY_STATUS: dict[int, Fault] = {
    **{401: "unauthorised", 402: "unauthorised", 403: "unauthorised"},
    **{408: "server_error", 409: "server_error", 429: "rate_limited"},
}


class _Error(msgspec.Struct):
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Error


class _ResponseTooLarge(Exception):
    """More bytes than any answer has."""


def post_json(
    url: str, body: Mapping[str, Any], *, headers: Mapping[str, str], seconds: float, key: Key
) -> bytes | Failure:
    """The body of an answer with status 200, or why there is none; for any thread that runs no event loop."""
    # Imported where something waits: it costs a command that waits for nothing a third of its time.
    import asyncio

    # Not asyncio.run, which would wait for a name that is still being looked up after the deadline.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_post_json(url, msgspec.json.encode(body), headers, seconds=seconds, key=key))
    finally:
        loop.close()


def missing_key_failure(variable: str) -> Failure:
    """There is no key where the server wants one."""
    return Failure("unauthorised", f"{variable} is not set in the environment")


def unreadable_response(why: str) -> Failure:
    """The server sent something that is no answer; it may well have been billed."""
    return Failure(
        "server_error", f"the server sent something else than an answer: {short_error_line(why)}", is_billed=True
    )


async def _post_json(
    url: str, content: bytes, headers: Mapping[str, str], *, seconds: float, key: Key
) -> bytes | Failure:
    # Imported where it is used: it takes longer than most commands.
    import aiohttp

    sent = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity", **headers}
    limits = aiohttp.ClientTimeout(total=seconds)
    try:
        # Unpacked here and not by aiohttp, so that a small body cannot become a large one.
        async with (
            aiohttp.ClientSession(timeout=limits, auto_decompress=False, trust_env=True) as session,
            # Whoever is redirected would send the key elsewhere.
            session.post(url, data=content, headers=sent, allow_redirects=False) as response,
        ):
            received = await _read_body(response)
            return received if response.status == 200 else _status_failure(response, received, key)
    except TimeoutError:
        return Failure("timeout", "no answer came in time", is_billed=True)
    except _ResponseTooLarge:
        return unreadable_response(f"more than {MAX_RESPONSE_BYTES} bytes")
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
        return Failure("rejected", "the address of the server is not one: check the settings in [llm]")
    except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError):
        return Failure("unreachable", "the server could not be reached, or broke the connection off")
    except (aiohttp.ClientError, zlib.error) as error:
        return unreadable_response(type(error).__name__)


async def _read_body(response: "ClientResponse") -> bytes:
    """The body, unpacked; as much of it as there may be."""
    packing = response.headers.get("Content-Encoding", "identity").lower()
    received = bytearray()
    async for piece in response.content.iter_chunked(_CHUNK_BYTES):
        received += piece
        if len(received) > MAX_RESPONSE_BYTES:
            raise _ResponseTooLarge
    if packing == "identity":
        return bytes(received)
    if packing not in ("gzip", "deflate"):
        raise zlib.error(f"packed as {packing}")
    # 32 is zlib's word for gzip or zlib, whichever it is.
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    content = unpacker.decompress(bytes(received), MAX_RESPONSE_BYTES)
    if unpacker.unconsumed_tail:
        raise _ResponseTooLarge
    return content


def _status_failure(response: "ClientResponse", body: bytes, key: Key) -> Failure:
    status = response.status
    fault = _FAULT_BY_STATUS.get(status, "server_error" if status >= 500 else "rejected")
    if fault == "unauthorised":
        return Failure(fault, f"the server refused the key (status {status})", status=status)
    message = short_error_line(key.redact(_error_message(body)))
    after = retry_after_seconds(response.headers.get("retry-after", ""))
    return Failure(fault, f"status {status}{': ' if message else ''}{message}", after, status=status)


def _error_message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_ErrorBody).error.message
    except (msgspec.DecodeError, RecursionError):
        return ""


def retry_after_seconds(text: str) -> float | None:
    """The seconds of a `Retry-After` header."""
    # A date is not read, since that would take a clock.
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
