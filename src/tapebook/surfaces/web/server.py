"""Mounts the pages on an application, and serves them.

    app = create_app(book)
    mount_pages(app, book)

Outside text is shown as text (`markup.py`); a policy for the browser stands behind that: nothing is loaded from, or
sent to, anywhere else.
"""

import gc
from importlib import resources

from fastapi import FastAPI
from nicegui import ui
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tapebook.api.app import Tapebook
from tapebook.api.open_home import server_presence
from tapebook.errors import BadInput
from tapebook.surfaces.http.access import is_loopback
from tapebook.surfaces.http.server import ListenTerms, create_app, run_server
from tapebook.surfaces.web import agents, backtests, decisions, documents, horizons, markets, memory, overview, system

# Vue compiles its templates in the page and NiceGUI writes its start into it, so scripts inside it must run; what comes
# from outside is escaped before.
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}


class PageHeaders:
    """An ASGI middleware that adds the browser's policy to every answer that has none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on; its answer gets the headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def mount_pages(app: FastAPI, book: Tapebook) -> None:
    """Puts the pages of an open home on an application, at its root."""
    for part in (overview, agents, decisions, memory, horizons, documents, markets, backtests, system):
        part.register(book)
    static = resources.files("tapebook.surfaces.web").joinpath("static")
    ui.add_css(static.joinpath("style.css").read_text("utf-8"), shared=True)
    ui.add_head_html(f"<script>{static.joinpath('page.js').read_text('utf-8')}</script>", shared=True)
    ui.run_with(
        app, title="Tapebook", dark=None, language="en-US", show_welcome_message=False, tailwind=False, favicon=_FAVICON
    )
    app.add_middleware(PageHeaders)


_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#3b8eea" stroke-width="2.6">'
    '<path d="M4 19V5m5 14V9m5 10V3m5 16v-7"/></svg>'
)


def create_page_app(book: Tapebook) -> FastAPI:
    """The application of the API with the pages on it, for this machine alone."""
    app = create_app(book)
    mount_pages(app, book)
    # What is loaded by now stays: a collector that looks through all of it stops every page for a tenth of a second.
    gc.collect()
    gc.freeze()
    return app


def serve_pages(
    book: Tapebook, *, host: str, port: int, seconds: float | None = None, parent: int | None = None
) -> None:
    """Serves the pages of a home, and its API, until it is told to stop, or its time or its parent process ends."""
    if not is_loopback(host):
        raise BadInput(f"{host} can be reached from elsewhere: listen on 127.0.0.1, and tunnel to it")
    app = create_page_app(book)
    try:
        with server_presence(book.folder, "web"):
            run_server(app, ListenTerms(host, port, seconds=seconds, parent=parent))
    finally:
        app.state.access.close()
