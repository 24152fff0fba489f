"""The past of an invented market on a tape."""

import asyncio
from contextlib import closing
from pathlib import Path

from tapebook.clock import VirtualClock
from tapebook.desk.demo import DEMO_SOURCES
from tapebook.domain.units import DAY
from tapebook.home import DEMO_START, make_home
from tapebook.ingest.world_past import write_past
from tapebook.wiring import Rooms
from tapebook.world.market import World

CHANNELS = ("immediate_markets", "capital_flows")


def test_what_is_told_once_a_day_has_no_gaps(tmp_path: Path) -> None:
    make_home(tmp_path / "home", sources=DEMO_SOURCES)
    clock, reached = VirtualClock(DEMO_START - 3 * DAY), list[int]()
    world = World(7, start=DEMO_START - 3 * DAY, symbols=("BTC",))
    with closing(Rooms(tmp_path / "home", clock=clock)) as rooms:
        asyncio.run(write_past(rooms, clock, world, until=DEMO_START, progress=reached.append))
        assert reached == [DEMO_START - days * DAY for days in (2, 1, 0)]
        told = {channel.name: channel.rows for channel in rooms.tape.channels()}
        assert all(told[channel] >= 3 for channel in CHANNELS)
        assert rooms.tape.gaps(as_of=DEMO_START) == []
