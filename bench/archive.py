"""What the archive costs a desk: the time of a tick while a bucket is away, bytes for a packet, requests for decisions.

Two desks of one seed trade one after the other: one with an archive in a folder, one with a bucket whose server takes
connections and never answers. Both anchor and move old rows as a live desk does: the time of a tick includes what the
desk does for them between two ticks. Their decisions are equal; what differs is what a decision waits for.

Packs and files of old rows are counted on a third desk, over a day: packs as a librarian makes them who looks every
five minutes of the market, files with the wait for others that the settings say. Rows of every family leave on that
day, since they are kept for an hour. Anchors are not counted: one a minute, however many decisions that is.
"""

import asyncio
import os
import re
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

from bench.figure import Figure
from tapebook import anchors
from tapebook.anchors import AnchorTimer
from tapebook.clock import VirtualClock
from tapebook.desk import demo
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import StoreFailed
from tapebook.home import DEMO_START
from tapebook.ingest import stepwise
from tapebook.ingest.compaction import RowMover, move_old_rows
from tapebook.settings.config import FILE, Config, with_setting
from tapebook.tick.story import tick
from tapebook.wiring import Rooms

SECONDS, ROUNDS = 8, 3
# Of a demo, of which each is twenty minutes: by then rows that were kept for an hour have waited for a day.
DAY_SECONDS = 78
# So often instead of once a minute, and at every tick instead of once an hour: a bench is short.
ANCHOR_SECONDS = 0.5


def run() -> list[Figure]:
    """All figures of the archive."""
    folder_times, bucket_times = list[float](), list[float]()
    with _silent_server() as away, mock.patch.dict(os.environ, away), tempfile.TemporaryDirectory() as place:
        for number in range(ROUNDS):
            folder_times += _trade(Path(place) / f"folder{number}", "archive")
            bucket_times += _trade(Path(place) / f"bucket{number}", "s3://bench/archive")
        packet_bytes, packs, others = _objects_of_a_day(Path(place) / "day")
    folder, bucket = _p99_ms(folder_times), _p99_ms(bucket_times)
    aim = "≥ 0.91"
    return [
        Figure("a tick with an archive in a folder, p99", folder, "ms"),
        Figure("a tick while the bucket is silent, p99", bucket, "ms", floor=folder, ratio=folder / bucket, aim=aim),
        Figure("a stored packet with its reply", packet_bytes, "bytes", aim="≤ 400"),
        Figure("packs for 1,000 decisions", packs, "requests", aim="≤ 20"),
        Figure("files of old rows and catalogues for 1,000 decisions", others, "requests"),
        Figure("all requests for 1,000 decisions", packs + others, "requests", aim="≤ 20"),
    ]


@contextmanager
def _silent_server() -> Iterator[dict[str, str]]:
    """The environment of a bucket whose server takes connections of this machine and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}",
            "AWS_REGION": "auto",
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
        }


def _p99_ms(times: list[float]) -> float:
    return 1_000 * statistics.quantiles(times, n=100)[98]


def _trade(home: Path, place: str) -> list[float]:
    """How long each tick of a demo takes, with what a live desk does for anchors and old rows beside it."""
    demo.prepare_demo_home(home, seed=7)
    # In virtual time old rows are moved by the loop itself; here by a thread, as live.
    text = with_setting((home / FILE).read_text(), ("archive", "place"), place)
    (home / FILE).write_text(text.replace("cold_file_hours = 24", "cold_file_hours = 0"))
    clock, times = VirtualClock(DEMO_START), list[float]()
    rooms = Rooms(home, clock=clock)
    beside = AnchorTimer(rooms), RowMover(rooms.clock, rooms.home)

    def timed(*args: object, **named: object) -> DecisionRun:
        start = time.perf_counter()
        made = _call(tick, args, named)
        beside[0].anchor_if_due()
        beside[1].move_if_due()
        times.append(time.perf_counter() - start)
        return made

    patches = mock.patch.object(demo, "tick", timed), mock.patch.object(anchors, "ANCHOR_SECONDS", ANCHOR_SECONDS)
    try:
        # All is decided by then: the anchor at the end needs the archive itself.
        with patches[0], patches[1], mock.patch.object(stepwise, "retention_by_channel", _none), suppress(StoreFailed):
            asyncio.run(demo.run_demo(rooms, clock, seconds=SECONDS, paced=False, progress=lambda step: None))
    finally:
        beside[1].close()
        rooms.close()
    return times


def _none(config: Config) -> None:
    """Nothing is moved by the loop."""


def _call(decide: Callable[..., DecisionRun], args: tuple[object, ...], named: dict[str, object]) -> DecisionRun:
    return decide(*args, **named)


def _objects_of_a_day(home: Path) -> tuple[float, float, float]:
    """Bytes of packs for a decision; packs, and files of old rows with catalogues, for a thousand decisions."""
    demo.prepare_demo_home(home, seed=7)
    text = (home / FILE).read_text()
    for name in ("candles", "hourly_candles", "features", "funding"):
        text = re.sub(rf"^{name}_hours = .*$", f"{name}_hours = 1", text, flags=re.MULTILINE)
    (home / FILE).write_text(text)
    clock, hour, looked = VirtualClock(DEMO_START), DEMO_START // HOUR, DEMO_START
    rooms = Rooms(home, clock=clock)
    # A spool goes by the machine's time: here a day of the market is one of the machine.
    archive = rooms.archive
    archive._now = archive._segments._now = clock.now

    def tick_and_move(*args: object, **named: object) -> DecisionRun:
        nonlocal hour, looked
        if clock.now() // HOUR > hour:
            hour = clock.now() // HOUR
            move_old_rows(home, clock, lambda: False)
        if clock.now() >= looked + 5 * MINUTE:
            looked = clock.now()
            assert archive.drain(when_due=True).problem is None
        return _call(tick, args, named)

    try:
        with mock.patch.object(demo, "tick", tick_and_move), mock.patch.object(stepwise, "retention_by_channel", _none):
            asyncio.run(demo.run_demo(rooms, clock, seconds=DAY_SECONDS, paced=False, progress=lambda step: None))
        archive.drain()
        sizes = [path.stat().st_size for path in (home / "archive" / "packs").rglob("*.z")]
        files = len(archive.keys("cold/")) + len(archive.keys("catalogue/"))
        decisions = len(rooms.book.run_ids(most=1_000_000))
        return sum(sizes) / decisions, 1_000 * len(sizes) / decisions, 1_000 * files / decisions
    finally:
        rooms.close()
