"""Follows the files of a home: a change is synced at once, and everything at the latest every few minutes."""

from collections.abc import Iterator
from threading import Event

from tapebook.clock import elapsed_seconds
from tapebook.errors import Retry
from tapebook.loop.sync import SyncReport, require_workspace, sync
from tapebook.recall.workspace import FOLDER
from tapebook.wiring import Rooms

# Changes that come within this time of one another are one.
_QUIET_MS = 400


def watch(rooms: Rooms, *, seconds: float | None = None, stop: Event | None = None) -> Iterator[SyncReport]:
    """Syncs now, and then after every change, until its time is over; gives what each sync found.

    A sync that somebody else is in the way of is tried again at the next change or the next round.
    """
    from watchfiles import watch as changes

    require_workspace(rooms)
    yield from _synced(rooms)
    end = None if seconds is None else elapsed_seconds() + seconds
    round_ms = rooms.config.recall.sync_minutes * 60_000
    places = [str(rooms.home / FOLDER), *rooms.documents.folders().values()]
    # An empty set is what comes when nothing changed for a while; it lets us look at the time.
    waited = 0
    step_ms = round_ms if seconds is None else min(round_ms, 500)
    for changed in changes(*places, debounce=_QUIET_MS, rust_timeout=step_ms, yield_on_timeout=True, stop_event=stop):
        waited += step_ms
        if changed or waited >= round_ms:
            waited = 0
            yield from _synced(rooms)
        if end is not None and elapsed_seconds() >= end:
            return


def _synced(rooms: Rooms) -> Iterator[SyncReport]:
    try:
        yield sync(rooms)
    except Retry:
        return
