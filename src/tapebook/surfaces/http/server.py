"""Makes the application of an open home (`create_app`), and serves it (`serve`).

    with tapebook.open("home") as book:
        uvicorn.run(create_app(book))

What is served in the same process (pages, MCP) is mounted on the application; what it has to start and end goes in by
`run_beside`. NiceGUI wraps the lifespan that is here in its own.
"""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import Any

import msgspec
import uvicorn
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from tapebook.api.app import Tapebook
from tapebook.api.open_home import server_presence
from tapebook.clock import elapsed_seconds
from tapebook.errors import BadInput, TapebookError
from tapebook.surfaces.http.access import LOOPBACK_NAMES, HomeAccess, RequestChecks, is_loopback
from tapebook.surfaces.http.answers import TypedRoute, install_problem_handlers, openapi_document
from tapebook.surfaces.http.events import EVENT_ROUTERS, HomePulse
from tapebook.surfaces.http.metrics import METRICS_ROUTER
from tapebook.surfaces.http.reads import READ_ROUTERS
from tapebook.surfaces.http.writes import WRITE_ROUTERS

PREFIX = "/api/v1"
API_VERSION = "1.0"
# Shorter than the desk waits for its roles to leave.
_LEAVE_SECONDS = 5
_END_POLL_SECONDS = 0.1
MOST_CONNECTIONS = 500
SEND_SECONDS = 300.0
"""How often the server looks whether texts that wait on this machine are due for an archive elsewhere."""

_LOG = logging.getLogger("tapebook.http")

StartBeside = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(*books: Tapebook, loopback: bool = True, hosts: Iterable[str] = ()) -> FastAPI:
    """The application of open homes, which their opener closes after the server has ended.

    `loopback` says that it is reached from this machine alone; `hosts` are more names by which it may be called.
    """
    app = FastAPI(
        title="Tapebook",
        version=API_VERSION,
        description="The memory of a trading agent.",
        openapi_url=f"{PREFIX}/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.access = HomeAccess(books, anyone_reads=loopback and not hosts)
    app.state.beside = [_send_texts_beside(books)]
    app.state.pulses = dict[str, HomePulse]()
    routers = (*READ_ROUTERS, *WRITE_ROUTERS, *EVENT_ROUTERS)
    for router in routers:
        app.include_router(router, prefix=PREFIX)
    # Where Prometheus looks for it.
    app.include_router(METRICS_ROUTER)
    install_problem_handlers(app)
    # Outermost, so that it stands in front of what is mounted later as well.
    app.add_middleware(RequestChecks, hosts=LOOPBACK_NAMES | set(hosts) if loopback else None)
    typed = [route for router in routers for route in router.routes if isinstance(route, TypedRoute)]

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = openapi_document(app, typed, prefix=PREFIX)
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]
    return app


def run_beside(app: FastAPI, start: StartBeside) -> None:
    """Has a context entered when the server starts, and left when it ends: that of something mounted, such as MCP."""
    app.state.beside.append(start)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for start in app.state.beside:
            await stack.enter_async_context(start(app))
        yield


def _send_texts_beside(books: Sequence[Tapebook]) -> StartBeside:
    """Sends texts of bots and documents to an archive elsewhere, since this machine may have no librarian."""

    @asynccontextmanager
    async def beside(app: FastAPI) -> AsyncIterator[None]:
        sending = asyncio.create_task(_send_texts(books))
        try:
            yield
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    return beside


async def _send_texts(books: Sequence[Tapebook]) -> None:
    while True:
        await asyncio.sleep(SEND_SECONDS)
        for book in books:
            try:
                await run_in_threadpool(book.send_due_texts)
            except TapebookError as error:
                # They wait, and are tried again; `doctor` shows them.
                _LOG.warning("texts wait", extra={"fields": {"home": str(book.folder), "error": str(error)}})


def mount_mcp(app: FastAPI) -> None:
    """Serves MCP at `/mcp` to the same callers."""
    # The SDK takes a second to import, which no test of a route needs.
    from tapebook.surfaces.mcp.server import McpEndpoint

    endpoint = McpEndpoint(app.state.access.caller)
    app.router.routes.append(Route("/mcp", endpoint))
    run_beside(app, endpoint.run)


class ListenTerms(msgspec.Struct, frozen=True):
    """Where a server listens, by which more names it may be called, and for how long it runs.

    `parent` is the process that started it, with which it ends.
    """

    host: str = "127.0.0.1"
    port: int = 8017
    hosts: tuple[str, ...] = ()
    seconds: float | None = None
    parent: int | None = None


def serve(books: Sequence[Tapebook], terms: ListenTerms) -> None:
    """Serves homes until it is told to stop; refuses to be reached from elsewhere while a home has no token."""
    loopback = is_loopback(terms.host)
    app = create_app(*books, loopback=loopback, hosts=terms.hosts)
    mount_mcp(app)
    try:
        if (not loopback or terms.hosts) and not app.state.access.has_tokens():
            where = (
                f"{terms.host} can be reached from elsewhere" if not loopback else f"{terms.hosts[0]} may be a proxy"
            )
            raise BadInput(f"{where}: make a token first with `tapebook tokens add NAME`, or listen on 127.0.0.1")
        with ExitStack() as held:
            for book in books:
                held.enter_context(server_presence(book.folder, "api"))
            run_server(app, terms)
    finally:
        app.state.access.close()


def run_server(app: FastAPI, terms: ListenTerms) -> None:
    """Runs an application until it is told to stop; BadInput when its port is taken."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        # Nothing here depends on where a request says it comes from.
        proxy_headers=False,
        # A client that opens connections and says nothing must not shut out the others.
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=_LEAVE_SECONDS,
    )
    server = uvicorn.Server(config)
    with _bound_socket(terms.host, terms.port) as bound:
        threading.Thread(target=_end_in_time, args=(server, terms), daemon=True).start()
        server.run(sockets=[bound])


def _end_in_time(server: uvicorn.Server, terms: ListenTerms) -> None:
    """Ends a server when its time is over, or when the process that started it is gone."""
    end = None if terms.seconds is None else elapsed_seconds() + terms.seconds
    while not server.should_exit:
        # Whose parent is gone is given another one.
        is_left = terms.parent is not None and os.getppid() != terms.parent
        if is_left or (end is not None and elapsed_seconds() >= end):
            server.should_exit = True
        time.sleep(_END_POLL_SECONDS)


def _bound_socket(host: str, port: int) -> socket.socket:
    """A socket of an address; bound here, so that a port that is taken is said in one line."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, number)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        raise BadInput(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another `port=` or `host=`"
        ) from error
    return made
