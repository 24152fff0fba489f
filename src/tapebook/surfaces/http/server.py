"""Makes the application of an open home (`create_app`), and serves it (`serve`).

    with tapebook.open("home") as book:
        uvicorn.run(create_app(book))

What is served in the same process (pages, MCP) is mounted on the application; what it has to start and end goes in by
`run_beside`. NiceGUI wraps the lifespan that is here in its own.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.routing import Route

from tapebook.api.app import Tapebook
from tapebook.errors import BadInput
from tapebook.surfaces.http.access import LOOPBACK_NAMES, HomeAccess, RequestChecks, is_loopback
from tapebook.surfaces.http.answers import TypedRoute, install_problem_handlers, openapi_document
from tapebook.surfaces.http.reads import READ_ROUTERS
from tapebook.surfaces.http.writes import WRITE_ROUTERS

PREFIX = "/api/v1"
API_VERSION = "1.0"
# Shorter than the desk waits for its roles to leave.
_LEAVE_SECONDS = 5

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
    app.state.beside = list[StartBeside]()
    routers = (*READ_ROUTERS, *WRITE_ROUTERS)
    for router in routers:
        app.include_router(router, prefix=PREFIX)
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


def mount_mcp(app: FastAPI) -> None:
    """Serves MCP at `/mcp` to the same callers."""
    # The SDK takes a second to import, which no test of a route needs.
    from tapebook.surfaces.mcp.server import McpEndpoint

    endpoint = McpEndpoint(app.state.access.caller)
    app.router.routes.append(Route("/mcp", endpoint))
    run_beside(app, endpoint.run)


def serve(books: Sequence[Tapebook], *, host: str, port: int, hosts: Collection[str] = ()) -> None:
    """Serves homes until it is told to stop; refuses to be reached from elsewhere while a home has no token."""
    loopback = is_loopback(host)
    app = create_app(*books, loopback=loopback, hosts=hosts)
    mount_mcp(app)
    try:
        if (not loopback or hosts) and not app.state.access.has_tokens():
            where = f"{host} can be reached from elsewhere" if not loopback else f"{next(iter(hosts))} may be a proxy"
            raise BadInput(f"{where}: make a token first with `tapebook tokens add NAME`, or listen on 127.0.0.1")
        uvicorn.run(
            app,
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            # Nothing here depends on where a request says it comes from.
            proxy_headers=False,
            timeout_graceful_shutdown=_LEAVE_SECONDS,
        )
    finally:
        app.state.access.close()
