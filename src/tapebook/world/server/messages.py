"""What a client may say on a socket, and the lines the server says back."""

from collections.abc import Callable

import msgspec

PONG = '{"channel":"pong"}'

_STATUS_TEXT = {
    422: "422 Unprocessable Entity",
    429: "429 Too Many Requests",
    500: "500 Internal Server Error",
}


class _Message(msgspec.Struct, frozen=True, tag_field="method"):
    """What all have in common: the verb in `method`."""


class Subscribe(_Message, frozen=True, tag="subscribe"):
    """Begin to tell me."""

    subscription: msgspec.Raw


class Unsubscribe(_Message, frozen=True, tag="unsubscribe"):
    """Stop telling me."""

    subscription: msgspec.Raw


class Ping(_Message, frozen=True, tag="ping"):
    """Are you there?"""


class Posted(msgspec.Struct, frozen=True):
    """A question of `/info`, or an action."""

    type: str
    payload: msgspec.Raw


class Post(_Message, frozen=True, tag="post"):
    """A question over the socket, with a number to find the answer by."""

    id: int
    request: Posted


Message = Subscribe | Unsubscribe | Ping | Post
decode: Callable[[str], Message] = msgspec.json.Decoder(Message).decode


def acknowledged(method: str, subscription: str) -> str:
    """The echo of a subscription that was begun or ended."""
    return f'{{"channel":"subscriptionResponse","data":{{"method":"{method}","subscription":{subscription}}}}}'


def error(text: str) -> str:
    """Why something was not done."""
    return msgspec.json.encode({"channel": "error", "data": text}).decode()


def posted(number: int, kind: str, body: bytes) -> str:
    """The answer to a question that came over the socket."""
    return _post(number, f'{{"type":"info","payload":{{"type":"{kind}","data":{body.decode()}}}}}')


def post_failed(number: int, status: int) -> str:
    """The same when there is none: the line of the HTTP error."""
    return _post(number, f'{{"type":"error","payload":"{_STATUS_TEXT[status]}"}}')


def _post(number: int, response: str) -> str:
    return f'{{"channel":"post","data":{{"id":{number},"response":{response}}}}}'
