"""Outages of a live tape: what was fetched afterwards is a filled gap, and what has no history stays open."""

import asyncio
from pathlib import Path

from tapebook.domain.instants import HOUR, MINUTE
from tapebook.loop.health import checks
from tapebook.tape.store import RecordedGap
from tapebook.world.server import Faults
from tests.loop import weather
from tests.loop.weather import BORN, FOREVER, SYMBOLS

START = BORN + 2 * HOUR
KILLED, BACK = START + 7 * MINUTE, START + 31 * MINUTE


def interrupted(home: Path, *, kill_again: bool = False) -> list[RecordedGap]:
    """A process is killed, and another begins 24 minutes later; the gaps they leave."""

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url:
            async with weather.listening(home, server, url) as first:
                await first.play(KILLED)
            await server.advance(BACK)
            if kill_again:
                async with weather.listening(home, server, url) as second:
                    # The gaps are committed, the bars are not.
                    waiting = second.intake.drain()
                    second.rooms.tape.commit([], gaps=waiting.gaps)
            async with weather.listening(home, server, url) as third:
                await third.play(BACK + 10 * MINUTE)

    asyncio.run(scene())
    with weather.opened(home) as rooms:
        (said,) = [check.detail for check in checks(rooms) if check.name == "gaps"]
        assert said.endswith(f"open, {len(SYMBOLS)} filled")
        return rooms.tape.gaps(as_of=FOREVER)


def test_a_repaired_candle_outage_leaves_a_filled_gap(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    found = interrupted(home)
    candles = [each for each in found if each.gap.channel == "candles"]
    assert {each.gap.subject for each in candles} == set(SYMBOLS) and len(candles) == len(SYMBOLS)
    for each in candles:
        assert (each.gap.from_ts, each.gap.to_ts, each.gap.reason) == (KILLED, BACK - MINUTE, "not running")
        assert each.filled_at is not None and each.found_at <= each.filled_at <= BACK + MINUTE
    others = [each for each in found if each.gap.channel != "candles"]
    assert {each.gap.channel for each in others} == {"mids", "contexts", "books"}, "these have no history"
    assert all(each.filled_at is None for each in others)


def test_a_process_killed_before_the_answers_leaves_gaps_that_the_next_one_fills(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    candles = [each for each in interrupted(home, kill_again=True) if each.gap.channel == "candles"]
    assert {each.gap.subject for each in candles} == set(SYMBOLS)
    assert all(each.filled_at is not None for each in candles)
