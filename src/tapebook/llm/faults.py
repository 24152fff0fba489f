"""What an SDK raised, as a failure: both SDKs sort their errors alike and name them by the same names.

A message of the server is shown as one short line with the key taken out; that of a server that
refused the key is not shown at all, since it may quote parts of it.
"""

from typing import Any

import msgspec

from tapebook.llm.port import Failure, Fault, Key, one_line

NOT_INSTALLED = Failure("not_installed", "the SDK is not installed: pip install 'tapebook[llm]'")
# Asking again later may help: a request that was too slow in coming or met another one, and a key that asked too often.
_BY_STATUS: dict[int, Fault] = {
    **{401: "unauthorised", 402: "unauthorised", 403: "unauthorised"},
    **{408: "server_error", 409: "server_error", 429: "rate_limited"},
}


class _Error(msgspec.Struct):
    message: str


class _ErrorBody(msgspec.Struct):
    error: _Error


def no_key(variable: str) -> Failure:
    """There is no key where the server wants one."""
    return Failure("unauthorised", f"{variable} is not set in the environment")


def no_answer(why: str) -> Failure:
    """The server said something that is no answer."""
    return Failure("server_error", f"the server sent something else than an answer: {one_line(why)}")


def failure_of(error: Exception, sdk: Any, key: Key) -> Failure:
    """The failure that an error of an SDK stands for."""
    if isinstance(error, sdk.APITimeoutError):
        return Failure("timeout", "no answer came in time")
    if isinstance(error, sdk.APIConnectionError):
        return Failure("unreachable", "the server could not be reached, or broke the connection off")
    if not isinstance(error, sdk.APIStatusError):
        return no_answer(type(error).__name__)
    status: int = error.status_code
    fault = _BY_STATUS.get(status, "server_error" if status >= 500 else "rejected")
    if fault == "unauthorised":
        return Failure(fault, f"the server refused the key (status {status})")
    said = one_line(key.hidden_in(_message(error.response.content)))
    return Failure(fault, f"status {status}{': ' if said else ''}{said}", _retry_after(error.response.headers))


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_ErrorBody).error.message
    except msgspec.DecodeError:
        return ""


def _retry_after(headers: Any) -> float | None:
    """Seconds; a date is not read, since that would take a clock."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
