"""A home that is started again around a full hour, when rates are settled, has the bytes of one that never stopped."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.desk.demo import MARKET_MS_PER_SECOND
from tapebook.domain.units import HOUR, MINUTE, SECOND, parse_instant
from tapebook.home import make_home
from tapebook.ingest.stepwise import STEP_MS, SteppedFeed
from tapebook.wiring import Rooms
from tapebook.world.market import World
from tests.replay.home_fingerprint import Remains, assert_whole

SEED = 7
NOON = parse_instant("2026-01-05T12:00:00Z")
BEGIN, END = NOON - 30 * SECOND, NOON + MINUTE
# A world starts on the hour.
HISTORY = 3 * HOUR - 30 * SECOND
# Rates are asked for a quarter of a minute after the hour.
AROUND = tuple(range(-10 * SECOND, 30 * SECOND, 5 * SECOND))


async def _ingest(home: Path, *, until: int) -> None:
    """Takes in the market up to a moment, from where an earlier process ended."""
    clock = VirtualClock(BEGIN)
    with closing(Rooms(home, clock=clock)) as rooms:
        world = World(SEED, start=BEGIN - HISTORY, symbols=("BTC", "HYPE"))
        async with SteppedFeed(rooms, clock, world, history_ms=HISTORY) as feed:
            for at in range(feed.next_step(), until + 1, STEP_MS):
                await feed.play_step(at)


def test_starts_around_a_full_hour_change_no_row(tmp_path: Path) -> None:
    home, undisturbed = tmp_path / "home", tmp_path / "undisturbed"
    make_home(home)
    make_home(undisturbed)
    for stop in (*(NOON + stop for stop in AROUND), END):
        asyncio.run(_ingest(home, until=stop))
    asyncio.run(_ingest(undisturbed, until=END))
    expected = Remains.of(undisturbed)
    # The columns of a rate: chunk, symbol, bucket.
    assert NOON in {row[2] for row in expected.tables["hyperliquid_funding_rates"]}
    expected.assert_same_in(home)


def _demo_seconds(market_ms: int) -> float:
    """So many seconds take a demo to a moment, counted from its start, and not to the step after it."""
    return (market_ms + SECOND) / MARKET_MS_PER_SECOND


@pytest.mark.soak
@pytest.mark.parametrize("stop", AROUND)
def test_one_start_around_each_of_six_hours_changes_nothing(stop: int, tmp_path: Path) -> None:
    for hour in range(1, 7):
        app.demo(tmp_path / "home", seconds=_demo_seconds(hour * HOUR + stop), seed=SEED)
    end = _demo_seconds(6 * HOUR + MINUTE)
    app.demo(tmp_path / "home", seconds=end, seed=SEED)
    app.demo(tmp_path / "undisturbed", seconds=end, seed=SEED)
    one, other = Remains.of(tmp_path / "undisturbed"), Remains.of(tmp_path / "home")
    assert other.tables == one.tables
    assert _without_anchors(other) == _without_anchors(one)
    assert_whole(tmp_path / "home")


def _without_anchors(found: Remains) -> dict[str, bytes]:
    """The archive, without what every end of a demo leaves in it."""
    return {key: content for key, content in found.archive.items() if not key.startswith("anchors/")}
