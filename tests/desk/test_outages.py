"""Outages of a live tape: what was fetched is a filled gap, what has no history stays open, what failed is named."""

import asyncio
from pathlib import Path

from tapebook.clock import VirtualClock
from tapebook.desk.health import health_checks
from tapebook.domain.units import HOUR, MINUTE
from tapebook.ingest.compaction import retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.tape.source import SourceProblem
from tapebook.tape.store import MOST_PROBLEMS
from tapebook.tape.view import RecordedGap
from tapebook.world.server import Faults
from tests.ingest import ingest_harness as weather
from tests.ingest.ingest_harness import BORN, FOREVER, SYMBOLS

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
                    waiting = second.intake.drain_pending()
                    second.rooms.tape.commit([], gaps=waiting.gaps)
            async with weather.listening(home, server, url) as third:
                await third.play(BACK + 10 * MINUTE)

    asyncio.run(scene())
    with weather.opened(home) as rooms:
        (said,) = [check.detail for check in health_checks(rooms) if check.name == "gaps"]
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


def test_what_could_not_be_read_is_named_by_the_doctor(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    with weather.opened(home, at=START) as rooms:
        ingester = Ingester(rooms, intake := FactBuffer(), keep=retention_by_channel(rooms.config))
        for _ in range(3):
            intake.add_problem(SourceProblem("hyperliquid", "malformed", "predictedFundings BTC BinPerp", "no rate"))
        intake.add_problem(SourceProblem("hyperliquid", "malformed", "DOGE", "no price of DOGE among the mids"))
        assert ingester.flush() is None
    with weather.opened(home, at=START + HOUR) as rooms:
        one, other = [check for check in health_checks(rooms) if check.name == "problems"]
        assert "malformed predictedFundings BTC BinPerp (3 times, last 2026-01-05T02:00:00): no rate" in other.detail
        assert "DOGE" in one.detail and [each.times for each in rooms.tape.problems(since=0)] == [1, 3]
        assert not one.ok and not other.ok
    with weather.opened(home, at=START + 25 * HOUR) as rooms:
        assert "none in the last day" in [check.detail for check in health_checks(rooms) if check.name == "problems"]


def test_problems_are_bounded(tmp_path: Path) -> None:
    with weather.opened(weather.make_home(tmp_path / "home"), at=START) as rooms:
        for number in range(0, MOST_PROBLEMS * 2, 100):
            clock = rooms.clock
            assert isinstance(clock, VirtualClock)
            clock.advance(START + number)
            rooms.tape.note_problems(
                [SourceProblem("h", "malformed", f"S{number + each}", "x" * 9) for each in range(100)]
            )
        subjects = {each.problem.subject for each in rooms.tape.problems(since=0)}
        assert len(subjects) == MOST_PROBLEMS and "S399" in subjects and "S0" not in subjects
