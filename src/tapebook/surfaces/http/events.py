"""The stream of changes, as server-sent events: what moved in a home, whichever process wrote it.

1. A `HomePulse` looks at the heads of a home's streams for all who listen, and wakes them when one has moved.
2. Each listener then asks what moved since it looked last. Its event has the heads as `id`, so that whoever was cut off
   goes on with `Last-Event-ID` where they were, and misses nothing.
"""

import asyncio
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec
from anyio import Event, move_on_after
from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from tapebook.api.app import Tapebook
from tapebook.api.changes import HomeChanges
from tapebook.errors import BadInput, Busy, TapebookError
from tapebook.surfaces.http.access import HomeAccess, Reader
from tapebook.surfaces.http.answers import TypedRoute

_LOG = logging.getLogger("tapebook.http")
# Short enough for a person who watches; one statement each time, however many listen.
_LOOK_SECONDS = 0.25
# Proxies end connections that say nothing for a minute; and a token that was revoked is noticed.
_PING_SECONDS = 15.0
MOST_LISTENERS = 200
_Heads = dict[str, int]


class HomePulse:
    """Wakes whoever listens to a home when one of its streams has moved."""

    def __init__(self, book: Tapebook) -> None:
        self._book = book
        self._heads: _Heads | None = None
        self._listeners = 0
        self._task: asyncio.Task[None] | None = None
        self.moved = Event()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Looks for as long as somebody listens; Busy when too many do."""
        if self._listeners >= MOST_LISTENERS:
            raise Busy(f"{MOST_LISTENERS} listen already: end another stream first")
        self._listeners += 1
        if self._task is None:
            self._task = asyncio.create_task(self._watch_heads())
        try:
            yield
        finally:
            self._listeners -= 1
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _watch_heads(self) -> None:
        while True:
            try:
                heads = await run_in_threadpool(self._book.heads, tape=True)
                if heads != self._heads:
                    self._heads, before, self.moved = heads, self.moved, Event()
                    before.set()
            except TapebookError as error:
                # A server that restarts is asked again; listeners get their pings meanwhile.
                _LOG.warning("changes cannot be read", extra={"fields": {"error": str(error)}})
            await asyncio.sleep(_LOOK_SECONDS)


def cursor_of(heads: _Heads) -> str:
    """Heads as the `id` of an event."""
    return urlsafe_b64encode(msgspec.json.encode(heads)).decode()


def heads_of(cursor: str) -> _Heads:
    """The heads that a cursor stands for; BadInput when it is none."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor.encode()), type=_Heads)
    except (ValueError, msgspec.DecodeError) as error:
        raise BadInput("this is no id of an event: leave it out to begin now") from error


_events = APIRouter(route_class=TypedRoute, tags=["changes"])
Since = Annotated[str | None, Query(max_length=100_000, description="The `id` of an event, or `cursor` of a page.")]
WithTape = Annotated[bool, Query(description="Commits of the market count as well.")]


class ChangePage(HomeChanges, frozen=True):
    """What moved since a cursor, and the next."""

    cursor: str = ""


@_events.get("/changes")
def list_changes(caller: Reader, since: Since = None, tape: WithTape = False) -> ChangePage:
    """What moved since a cursor; without one, nothing but where everything stands."""
    heads = caller.book.heads(tape=tape) if since is None else heads_of(since)
    found = caller.book.changes(heads)
    return ChangePage(found.heads, found.moved, cursor_of(found.heads))


@_events.get(
    "/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_changes(
    request: Request,
    caller: Reader,
    tape: WithTape = False,
    last_event_id: Annotated[str | None, Header(max_length=100_000)] = None,
) -> Response:
    """What moves, as it moves: events named `change`, each with the `id` to go on from after a loss."""
    heads = heads_of(last_event_id) if last_event_id else await run_in_threadpool(caller.book.heads, tape=tape)
    pulses: dict[str, HomePulse] = request.app.state.pulses
    pulse = pulses.setdefault(str(caller.book.folder), HomePulse(caller.book))
    return StreamingResponse(
        _event_lines(request, caller.book, pulse, heads=heads),
        media_type="text/event-stream",
        # A proxy that collects answers would hold events back.
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def _event_lines(request: Request, book: Tapebook, pulse: HomePulse, *, heads: _Heads) -> AsyncIterator[str]:
    access: HomeAccess = request.app.state.access
    async with pulse.listening():
        yield f"retry: 1000\nid: {cursor_of(heads)}\n: listening\n\n"
        while not await request.is_disconnected():
            # Taken before looking: what moves in between sets it.
            moved = pulse.moved
            try:
                access.caller(request.headers.get("authorization"))
                found = await run_in_threadpool(book.changes, heads)
            except HTTPException:
                return
            except TapebookError as error:
                yield f": {type(error).__name__}\n\n"
                await asyncio.sleep(1)
                continue
            if found.moved:
                heads = found.heads
                data = msgspec.json.encode(found.moved).decode()
                yield f"id: {cursor_of(heads)}\nevent: change\ndata: {data}\n\n"
                continue
            with move_on_after(_PING_SECONDS) as waited:
                await moved.wait()
            if waited.cancelled_caught:
                yield ": ping\n\n"


EVENT_ROUTERS = (_events,)
"""The routes of changes."""
