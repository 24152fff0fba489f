"""What the archive costs a desk: the time of a tick while a bucket is away, bytes for a packet, requests for decisions.

Two desks of one seed trade one after the other: one with an archive in a folder, one with a bucket whose server does
not answer. Their decisions are equal; what differs is what a decision waits for.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

from bench.figure import Figure
from tapebook.clock import VirtualClock
from tapebook.desk import demo
from tapebook.domain.run import DecisionRun
from tapebook.errors import StoreFailed
from tapebook.home import DEMO_START
from tapebook.settings.config import FILE, with_setting
from tapebook.tick.story import tick
from tapebook.wiring import Rooms

SECONDS, ROUNDS = 8, 3
# A port of this machine on which nobody listens.
AWAY = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_REGION": "auto",
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
}


def run() -> list[Figure]:
    """All figures of the archive."""
    folder_times, bucket_times = list[float](), list[float]()
    with mock.patch.dict(os.environ, AWAY), tempfile.TemporaryDirectory() as place:
        for number in range(ROUNDS):
            folder_times += _trade(Path(place) / f"folder{number}", "archive")
            bucket_times += _trade(Path(place) / f"bucket{number}", "s3://bench/archive")
        packet_bytes, puts = _packed(Path(place) / "folder0")
    folder, bucket = _p99_ms(folder_times), _p99_ms(bucket_times)
    return [
        Figure("a tick with an archive in a folder, p99", folder, "ms"),
        Figure("a tick while the bucket is away, p99", bucket, "ms", floor=folder, ratio=folder / bucket, aim="≥ 0.91"),
        Figure("a stored packet with its reply", packet_bytes, "bytes", aim="≤ 400"),
        Figure("packs for 1,000 decisions", puts, "requests", aim="≤ 20"),
    ]


def _p99_ms(times: list[float]) -> float:
    return 1_000 * statistics.quantiles(times, n=100)[98]


def _trade(home: Path, place: str) -> list[float]:
    """How long each tick of a demo takes."""
    demo.prepare_demo_home(home, seed=7)
    # Rows that leave the tape need the archive itself: in virtual time a demo waits for it, a live one does not.
    text = (home / FILE).read_text().replace("mids_hours = 0.5", "mids_hours = 876")
    (home / FILE).write_text(with_setting(text, ("archive", "place"), place))
    clock, times = VirtualClock(DEMO_START), list[float]()
    rooms = Rooms(home, clock=clock)

    def timed(*args: object, **named: object) -> DecisionRun:
        start = time.perf_counter()
        made = _call(tick, args, named)
        times.append(time.perf_counter() - start)
        return made

    try:
        # All is decided by then: the anchor at the end needs the archive itself.
        with mock.patch.object(demo, "tick", timed), suppress(StoreFailed):
            asyncio.run(demo.run_demo(rooms, clock, seconds=SECONDS, seed=7, paced=False, progress=lambda step: None))
    finally:
        rooms.close()
    return times


def _call(decide: Callable[..., DecisionRun], args: tuple[object, ...], named: dict[str, object]) -> DecisionRun:
    return decide(*args, **named)


def _packed(home: Path) -> tuple[float, float]:
    """Bytes of packs for a decision, and how many packs a thousand decisions are."""
    rooms = Rooms(home, clock=VirtualClock(DEMO_START))
    try:
        rooms.archive.drain()
        decisions = len(rooms.book.run_ids(most=1_000_000))
        sizes = [path.stat().st_size for path in (home / "archive" / "packs").rglob("*.z")]
    finally:
        rooms.close()
    return sum(sizes) / decisions, 1_000 * len(sizes) / decisions
