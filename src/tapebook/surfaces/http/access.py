"""Who may call: checks of the browser's headers, and what a caller may do.

`RequestChecks` stands in front of every route, also of what is mounted beside them: a request for another host, from
another site's page, or with a body that is too large or too slow, is refused before anything reads it.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import urlsplit

import anyio
import msgspec
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapebook.api.access import AccessScope, AccessStore
from tapebook.api.app import Tapebook
from tapebook.surfaces.http.answers import Problem, problem_response

LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))

MOST_BODY_BYTES = 2**20
"""Of a request; a day of one-minute bars is a tenth of it."""

BODY_SECONDS = 10.0
"""Within which the whole of a body must have come."""

_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Caller(msgspec.Struct, frozen=True):
    """Who sends a request, and the home that is theirs: no route has another."""

    name: str
    token_id: str
    scopes: frozenset[str]
    book: Tapebook
    store: AccessStore


class HomeAccess:
    """Whom a server answers: the one place that gives a route a home.

    A home has one owner, so whoever sends a token of one gets that owner's rows and no others; also where several
    owners share a database. Without a token, whoever is on this machine may read the one home there is, until that
    home has a token.
    """

    def __init__(self, books: Sequence[Tapebook], *, anyone_reads: bool) -> None:
        self._homes = [(book, AccessStore(book.folder)) for book in books]
        self._anyone_reads = anyone_reads and len(books) == 1

    def has_tokens(self) -> bool:
        """Whether every home has a token, so that its owner can get in."""
        return all(store.has_tokens() for _, store in self._homes)

    def caller(self, authorization: str | None) -> Caller:
        """Who sends these credentials; 401 when nobody is known by them."""
        if authorization is None:
            book, store = self._homes[0]
            if self._anyone_reads and not store.has_tokens():
                return Caller("anyone on this machine", "", frozenset(("read",)), book, store)
            raise HTTPException(401, "this server wants a token", headers=_CHALLENGE)
        kind, _, text = authorization.partition(" ")
        for book, store in self._homes:
            token = store.find(text.strip()) if kind.lower() == "bearer" else None
            if token is not None and token.owner == book.owner:
                return Caller(token.name, token.token_id, frozenset(token.scopes), book, store)
        raise HTTPException(401, "this token is not known here, or was revoked", headers=_CHALLENGE)

    def close(self) -> None:
        """Closes the tokens; the homes are their opener's."""
        for _, store in self._homes:
            store.close()


_CHALLENGE = {"www-authenticate": 'Bearer realm="tapebook"'}
_BEARER = HTTPBearer(auto_error=False, description="A token that `tapebook tokens add` made.")


def caller_with(scope: AccessScope) -> Callable[..., Coroutine[Any, Any, Caller]]:
    """A dependency that gives the caller, if they may do what a route does."""

    async def find_caller(
        request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
    ) -> Caller:
        access: HomeAccess = request.app.state.access
        caller = access.caller(request.headers.get("authorization"))
        if scope not in caller.scopes:
            remedy = f"`tapebook tokens add NAME --scope {scope}` makes a token that may"
            raise HTTPException(403, f"{caller.name} may not {scope}: {remedy}")
        return caller

    return find_caller


Reader = Annotated[Caller, Depends(caller_with("read"))]


class RequestChecks:
    """An ASGI middleware that refuses what no route should see."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] | None) -> None:
        self._app = app
        # None takes every name: where all callers have a token, no page can act in the name of one.
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers it with a problem."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        found = self._objection(scope, headers)
        if found is None and scope["type"] == "http" and scope["method"] not in _SAFE_METHODS:
            body = await _whole_body(headers, receive)
            if isinstance(body, Problem):
                found = body
            else:
                receive = _replay_body(body, receive)
        if found is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            # What was not read of a body must not be taken for the next request.
            await problem_response(found, {"connection": "close"})(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": found.title})

    def _objection(self, scope: Scope, headers: Headers) -> Problem | None:
        host = headers.get("host", "")
        if self._hosts is not None and _host_name(host) not in self._hosts:
            # A page of another site can point its own name at this address: the browser then believes it is one site.
            detail = f"this server does not answer for the host {host[:100]!r}"
            return _problem(421, "wrong-host", detail, "call it by the address it listens on, or allow the name")
        origin = headers.get("origin")
        if origin is not None and (urlsplit_host(origin) != host.lower()):
            detail = f"a page of {origin[:100]!r} may not call this server"
            return _problem(403, "cross-site", detail, "call it from a program, or from its own pages")
        path, query = scope["path"], scope.get("query_string", b"")
        if "\0" in path or b"%00" in query:
            return _problem(400, "bad-request", "a path or a query has no NUL character", "leave it out")
        is_write = scope["type"] == "http" and scope["method"] not in _SAFE_METHODS
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if (
            is_write
            and has_body
            and path.startswith("/api/")
            and not headers.get("content-type", "").startswith("application/json")
        ):
            # A form of another site can be sent without asking this server first; JSON cannot.
            return _problem(415, "not-json", "a write is JSON", "send `Content-Type: application/json`")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and (
            is_write or scope["type"] == "websocket"
        ):
            return _problem(403, "cross-site", "another site's page may not write here", "open this server's own page")
        return None


def _host_name(host: str) -> str:
    """The name of a Host header, without its port."""
    name = host.lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if name.count(":") == 1 else name


def urlsplit_host(origin: str) -> str | None:
    """The host and port of an origin, as a Host header has them; None for one that is no address."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


async def _whole_body(headers: Headers, receive: Receive) -> bytes | Problem:
    """The body of a request, or why it is not taken."""
    too_large = _problem(413, "too-large", f"a body may have {MOST_BODY_BYTES:,} bytes", "send it in several requests")
    stated = headers.get("content-length", "")
    if stated.isdecimal() and (len(stated) > 12 or int(stated) > MOST_BODY_BYTES):
        return too_large
    body = bytearray()
    with anyio.move_on_after(BODY_SECONDS):
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MOST_BODY_BYTES:
                return too_large
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                return bytes(body)
    return _problem(408, "too-slow", f"the body did not come within {BODY_SECONDS:.0f} s", "send it again, all at once")


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already, and then what else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again


def _problem(status: int, name: str, detail: str, remedy: str) -> Problem:
    titles = {
        400: "Bad Request",
        403: "Forbidden",
        415: "Unsupported Media Type",
        408: "Request Timeout",
        413: "Content Too Large",
        421: "Misdirected Request",
    }
    return Problem(f"urn:tapebook:problem:{name}", titles[status], status, detail, remedy)
