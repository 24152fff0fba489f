"""Quiet minutes of a live tape are no holes; what a gap names, what nobody heard and what a file lacks are."""

from collections.abc import Iterable
from pathlib import Path

import pytest

import tapebook
from tapebook.backtest.planning import bar_coverage
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Candle, Gap, Mid
from tapebook.domain.units import HOUR, MINUTE, parse_instant
from tapebook.errors import BadInput
from tapebook.history.importer import assumed_known_at
from tapebook.tape.retention import retire_rows
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.wiring import Rooms
from tests.backtest.bars import bars, make_home

T0 = parse_instant("2026-03-02T10:00:00Z")


def live(tape: Tape, clock: VirtualClock, minutes: dict[str, Iterable[int]], *, mids: Iterable[int] = ()) -> None:
    """Commits each minute by itself when it is over, as ingestion does."""
    for number in sorted({*mids, *(each for those in minutes.values() for each in those)}):
        clock.advance(T0 + (number + 1) * MINUTE + 2_000)
        facts: list[Candle | Mid] = [bar(symbol, number) for symbol, those in minutes.items() if number in those]
        facts += [Mid("BTC", T0 + number * MINUTE + 5_000, 500)] if number in mids else []
        tape.commit(facts)


def bar(symbol: str, number: int) -> Candle:
    return Candle(symbol, 60, T0 + number * MINUTE, 500, 900, 100, 300, 1.0, 2.0, 3)


def without(*numbers: int, of: int = 60) -> list[int]:
    return [number for number in range(of) if number not in numbers]


def holes(tape: Tape, symbol: str = "BTC") -> list[tuple[int, int]]:
    found = bar_coverage(tape, symbol)
    assert found is not None
    return [((since - T0) // MINUTE, (until - T0) // MINUTE) for since, until in found.holes]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(T0)


@pytest.fixture
def tape(clock: VirtualClock) -> Tape:
    db = connect(":memory:")
    migrate(db, (MIGRATIONS,))
    return Tape(db, clock=clock)


def test_a_minute_in_which_others_traded_was_quiet(tape: Tape, clock: VirtualClock) -> None:
    live(tape, clock, {"BTC": without(7, 8, 30), "ETH": without(7, 31)}, mids=[7])
    assert holes(tape) == [] and holes(tape, "ETH") == []


def test_a_minute_in_which_nothing_was_heard_is_a_hole(tape: Tape, clock: VirtualClock) -> None:
    live(tape, clock, {"BTC": without(7, 8, 9, 30), "ETH": without(7, 9)}, mids=[9])
    assert holes(tape) == [(7, 8)] and holes(tape, "ETH") == [(7, 8)]


def test_a_dex_is_not_heard_by_what_another_says(tape: Tape, clock: VirtualClock) -> None:
    live(tape, clock, {"xyz:TSLA": without(7), "BTC": without()}, mids=range(60))
    assert holes(tape, "xyz:TSLA") == [(7, 8)]


@pytest.mark.parametrize(
    ("subject", "channel", "filled", "wanted"),
    [
        ("BTC", "candles", False, [(20, 22)]),
        ("*", "candles", False, [(20, 22)]),
        ("BTC", "candles", True, []),
        ("ETH", "candles", False, []),
        ("*", "mids", False, []),
    ],
)
def test_a_recorded_gap_makes_missing_minutes_holes_until_it_is_filled(
    tape: Tape, clock: VirtualClock, subject: str, channel: str, filled: bool, wanted: list[tuple[int, int]]
) -> None:
    live(tape, clock, {"BTC": without(7, 20, 21, 22), "ETH": without()})
    gap = Gap("hyperliquid", channel, subject, T0 + 15 * MINUTE, T0 + 22 * MINUTE, "closed")
    tape.commit([], gaps=[gap])
    tape.commit([], filled=[gap] if filled else [])
    assert holes(tape) == wanted


def test_what_came_in_one_answer_shows_what_was_quiet_between(tape: Tape, clock: VirtualClock) -> None:
    clock.advance(T0 + HOUR)
    tape.commit([bar("BTC", number) for number in without(3, 4, 9)])
    assert holes(tape) == []


def test_imported_history_keeps_its_holes(tape: Tape, clock: VirtualClock) -> None:
    clock.advance(T0 + HOUR)
    tape.commit([bar("BTC", number) for number in without(7)], assumed=assumed_known_at)
    tape.commit([bar("ETH", number) for number in range(60)])
    assert holes(tape) == [(7, 8)]


def test_quiet_minutes_stay_quiet_in_the_archive(tape: Tape, clock: VirtualClock) -> None:
    live(tape, clock, {"BTC": without(7, 30), "ETH": without(7, of=50)}, mids=[30])
    kept: dict[str, bytes] = {}

    def put(folder: str, content: bytes) -> str:
        kept[key := str(len(kept))] = content
        return key

    cold = Tape(tape._db, clock=clock, fetch=kept.get)
    before = bar_coverage(cold, "BTC", start=T0, end=T0 + HOUR)
    keep = dict.fromkeys(("mids", "candles_60", "candles_3600", "contexts", "predicted", "funding", "books"), 0)
    keep |= dict.fromkeys(("volatility", "pressure", "positioning", "commits"), 0)
    assert retire_rows(tape._db, put, keep=keep, now=T0 + 24 * HOUR, watched=lambda: ("BTC",)) > 100
    assert bar_coverage(cold, "BTC", start=T0, end=T0 + HOUR) == before
    assert before is not None and [(since - T0) // MINUTE for since, _ in before.holes] == [7]


def test_a_backtest_runs_over_a_tape_of_ones_own_with_quiet_minutes(tmp_path: Path) -> None:
    home = make_home(tmp_path, days=0, every_minutes="5")
    clock = VirtualClock(T0)
    rooms = Rooms(home, clock=clock)
    found = list(bars("BTC", seed=3, days=0.25, start=T0, minutes=1))
    for number, each in enumerate(found):
        clock.advance(each.end + 2_000)
        quiet = number % 11 == 5 or 100 < number < 112
        rooms.tape.commit([*([] if quiet else [each]), Mid("BTC", each.bucket_ts + 30_000, each.close_e8)])
    gap = Gap("hyperliquid", "candles", "BTC", T0 + 3 * HOUR, T0 + 3 * HOUR + 20 * MINUTE, "closed")
    with tapebook.open(home) as book:
        result = book.backtest("tester", chunks="none")
    assert result.total.ticks >= 60 and not any("gaps" in note for note in result.notes)
    rooms.tape.commit([], gaps=[gap])
    with tapebook.open(home) as book, pytest.raises(BadInput, match=r"^BTC has no bars from 2026-03-02T13:"):
        book.backtest("tester", chunks="none")
    rooms.close()
