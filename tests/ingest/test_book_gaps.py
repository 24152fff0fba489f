"""Gaps of single books: what the tape has is no gap, and what a kill took is one."""

import asyncio
from pathlib import Path

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Gap, Liquidity
from tapebook.domain.units import HOUR, MINUTE
from tapebook.ingest.ingester import PendingFacts
from tapebook.sources.hyperliquid.tape_reads import BOOK_ROUND_MS, gaps_missing_on_tape, unrecorded_book_gaps
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.world.server import Faults
from tests.ingest import ingest_harness as weather
from tests.ingest.ingest_harness import BORN, FOREVER

T0 = 1_767_571_200_000
NOW = T0 + HOUR


def book(symbol: str, number: int) -> Liquidity:
    return Liquidity(symbol, T0 + number * BOOK_ROUND_MS, 1, 1.0, 1.0, 1.0, 1.0, 0.0)


def gap(symbol: str, number: int, *, rounds: int = 1, channel: str = "books") -> Gap:
    start = T0 + number * BOOK_ROUND_MS
    return Gap("hyperliquid", channel, symbol, start, start + rounds * BOOK_ROUND_MS, "not running")


def tape_with(rounds: str, *, gaps: tuple[Gap, ...] = ()) -> Tape:
    """A column is a round; a letter says who came: b BTC, e ETH, x both, - none."""
    db = connect(":memory:")
    migrate(db, (MIGRATIONS,))
    tape = Tape(db, clock=VirtualClock(NOW))
    came = {"b": ("BTC",), "e": ("ETH",), "x": ("BTC", "ETH"), "-": ()}
    tape.commit([book(symbol, number) for number, who in enumerate(rounds) for symbol in came[who]], gaps=gaps)
    return tape


@pytest.mark.parametrize(
    ("rounds", "wanted"),
    [
        ("xxxx", []),
        ("xbxx", [gap("ETH", 1)]),
        ("xbex", [gap("ETH", 1), gap("BTC", 2)]),
        ("x--x", []),
        ("bbbx", []),
        ("xxxxxxxxxx", []),
        ("xxxxxxxxxb", [gap("ETH", 9)]),
        ("xxxxxxxxxxb", [gap("ETH", 10)]),
        ("xxxxxxxxxxxb", []),
    ],
    ids=["all", "one", "two", "nobody", "new", "whole", "over", "just over", "not over"],
)
def test_what_is_missing_where_others_came_is_named(rounds: str, wanted: list[Gap]) -> None:
    assert unrecorded_book_gaps(tape_with(rounds), now=NOW) == wanted


@pytest.mark.parametrize("named", [gap("ETH", 1), gap("*", 1), gap("*", 0, rounds=3)])
def test_what_is_named_is_not_named_again(named: Gap) -> None:
    assert unrecorded_book_gaps(tape_with("xbxx", gaps=(named,)), now=NOW) == []


def test_a_book_kept_between_two_rounds_is_no_round() -> None:
    tape = tape_with("xxxx")
    tape.commit(
        [Liquidity("BTC", T0 + BOOK_ROUND_MS + minute * MINUTE, 1, 9.0, 1.0, 1.0, 1.0, 0.0) for minute in (1, 2)]
    )
    assert unrecorded_book_gaps(tape, now=NOW) == []


def test_a_gap_of_another_is_no_excuse() -> None:
    gaps = (gap("BTC", 1), gap("*", 1, channel="mids"), gap("*", 2))
    assert unrecorded_book_gaps(tape_with("xbxx", gaps=gaps), now=NOW) == [gap("ETH", 1)]


def test_a_gap_of_a_book_that_is_there_is_not_written() -> None:
    gaps = [gap("ETH", 1), gap("BTC", 1), gap("*", 1), gap("BTC", 1, channel="candles")]
    assert gaps_missing_on_tape(tape_with("xbxx"), gaps, now=NOW) == [gaps[0], *gaps[2:]]


def test_a_kill_in_the_middle_of_a_round_leaves_exact_gaps(tmp_path: Path) -> None:
    """The round of the fifth minute had brought three books; the next process starts in the following one."""
    home = weather.make_home(tmp_path / "home")
    start = BORN + 2 * HOUR

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=start - BORN)
        async with weather.served(server) as url:
            async with weather.listening(home, server, url) as first:
                await first.play(start + 5 * MINUTE - 5_000)
                await server.advance(start + 5 * MINUTE)
                await first.source.barrier(start + 5 * MINUTE)
                waiting = first.intake.drain_pending()
                books = [fact for fact in waiting.facts if isinstance(fact, Liquidity)]
                first.intake.put_back(
                    PendingFacts([fact for fact in waiting.facts if fact not in books[3:]], waiting.gaps)
                )
                first.ingester.flush()
            await server.advance(start + 11 * MINUTE)
            async with weather.listening(home, server, url) as second:
                await second.play(start + 20 * MINUTE)

    asyncio.run(scene())
    with weather.opened(home) as rooms:
        named = [each.gap for each in rooms.tape.gaps(as_of=FOREVER) if each.gap.channel == "books"]
        assert len(named) == 3 and {each.from_ts for each in named} == {start + 5 * MINUTE}
        found = weather.ledgers(rooms.tape)["books"]
        assert not (found.unnamed or found.false or found.twice)
