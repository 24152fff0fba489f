"""Which bars are final, and that nothing but the trades themselves decides what they end as."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Candle
from tapebook.domain.units import MINUTE
from tapebook.sources.hyperliquid.prices import REMEMBERED, BarFinalizer
from tests.sources.hyperliquid.candles import START, Market, flat, markets, picture

GRACE = 2_000


def test_finality_in_a_table() -> None:
    """Frames of A and moments of the clock, with the minutes and trades that leave after each.

    what            | leaves
    frame 0 x1      | -
    frame 0 x3      | -
    clock 0:59      | -
    clock 1:01.999  | -
    clock 1:02      | 0 x3
    clock 1:03      | -
    frame 1 x2      | -
    frame 2 x1      | 1 x2
    frame 1 x2      | -
    frame 1 x1      | -
    frame 1 x4      | 1 x4
    frame 0 x3      | -
    clock 3:30      | 2 x1
    clock 9:00      | -
    """
    bars = BarFinalizer(grace_ms=GRACE)
    table = (test_finality_in_a_table.__doc__ or "").splitlines()
    for line in table[3:-1]:
        what, leaves = (cell.strip() for cell in line.split("|"))
        kind, _, rest = what.partition(" ")
        left = bars.finish_by_clock(START + clock(rest)) if kind == "clock" else bars.add_frame(frame(rest))
        assert ", ".join(map(shown, left)) == leaves.replace("-", ""), line


def clock(text: str) -> int:
    minutes, seconds = text.split(":")
    return int(minutes) * MINUTE + round(float(seconds) * 1_000)


def frame(text: str) -> Candle:
    minute, trades = text.split(" x")
    return picture("A", int(minute), [5, 7, 3, 4][: int(trades)])


def shown(candle: Candle) -> str:
    return f"{(candle.bucket_ts - START) // MINUTE} x{candle.sample_count}"


def test_a_quiet_minute_leaves_nothing_but_ends_the_one_before() -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    bars.add_frame(picture("A", 0, [5]))
    assert bars.add_frame(flat("A", 1)) == [picture("A", 0, [5])]
    assert bars.finish_by_clock(START + 9 * MINUTE) == []
    assert bars.add_backfill("A", [flat("A", 1), flat("A", 2)], now=START + 9 * MINUTE) == []


def test_symbols_do_not_end_one_another() -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    bars.add_frame(picture("A", 0, [5]))
    assert bars.add_frame(picture("B", 1, [5])) == []


def test_the_forming_row_of_a_backfill_waits() -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    rows = [picture("A", 0, [5]), picture("A", 1, [6])]
    assert bars.add_backfill("A", rows, now=START + MINUTE + 30_000) == [rows[0]]
    assert bars.add_frame(picture("A", 1, [6, 7])) == []
    assert bars.finish_by_clock(START + 2 * MINUTE + GRACE) == [picture("A", 1, [6, 7])]


def test_a_bar_in_doubt_waits_for_a_new_picture() -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    bars.add_frame(picture("A", 0, [5]))
    bars.mark_doubtful(["A", "B"])
    assert bars.finish_by_clock(START + 9 * MINUTE) == []
    assert bars.add_frame(picture("A", 1, [6])) == []
    assert bars.add_backfill("A", [picture("A", 0, [5, 4])], now=START + MINUTE + 1) == [picture("A", 0, [5, 4])]


def test_a_bar_in_doubt_leaves_as_it_is_when_nothing_more_is_to_be_learned() -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    bars.add_frame(picture("A", 0, [5]))
    bars.mark_doubtful(["A"])
    bars.clear_doubt("A")
    assert bars.finish_by_clock(START + 9 * MINUTE) == [picture("A", 0, [5])]


def test_a_frame_much_too_old_is_left_alone() -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    bars.add_frame(picture("A", REMEMBERED + 1, [5]))
    assert bars.add_frame(picture("A", 0, [5])) == []
    assert bars.add_frame(picture("A", 1, [5])) == [picture("A", 1, [5])]


def test_memory_is_bounded() -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    rows = [picture("A", minute, [5]) for minute in range(5_000)]
    assert bars.add_backfill("A", rows, now=START + 6_000 * MINUTE) == rows
    assert len(bars.known_minutes("A", since=0, until=START + 6_000 * MINUTE)) == REMEMBERED


def test_known_minutes_of_a_range() -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    for minute in (0, 1, 3, 4):
        bars.add_frame(picture("A", minute, [5]))
    found = bars.known_minutes("A", since=START + MINUTE, until=START + 3 * MINUTE)
    assert found == [START + MINUTE, START + 3 * MINUTE]
    assert bars.known_minutes("B", since=0, until=START) == []


@given(markets())
def test_an_undisturbed_stream_gives_every_bar_once_and_in_time(market: Market) -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    given_out = []
    for at, candle in market.frames():
        for bar in (*bars.finish_by_clock(at), *bars.add_frame(candle)):
            assert bar.end <= at, "a forming bar left"
            given_out.append(bar)
    given_out += bars.finish_by_clock(market.end + GRACE)
    assert {(bar.symbol, bar.bucket_ts): bar for bar in given_out} == market.final()
    assert len(given_out) == len(market.final())


@given(markets(), st.data())
def test_however_frames_are_disturbed_a_backfill_gives_the_same_bars(market: Market, data: st.DataObject) -> None:
    bars = BarFinalizer(grace_ms=GRACE)
    frames = [candle for _, candle in market.frames()]
    indexes = data.draw(st.lists(st.integers(0, len(frames) - 1), max_size=2 * len(frames)), label="which, in order")
    given_out: list[Candle] = []
    for index in indexes:
        given_out += bars.add_frame(frames[index])
        step = data.draw(st.sampled_from(["", "", "tick", "doubt", "backfill"]))
        now = START + data.draw(st.integers(0, 10)) * MINUTE // 2
        if step == "tick":
            given_out += bars.finish_by_clock(now)
        elif step == "doubt":
            bars.mark_doubtful([frames[index].symbol])
        elif step == "backfill":
            seen = [row for row in market.rows(frames[index].symbol) if row.bucket_ts <= now]
            given_out += bars.add_backfill(frames[index].symbol, seen, now=now)
    for symbol in data.draw(st.permutations(market.symbols)):
        bars.clear_doubt(symbol)
        given_out += bars.add_backfill(symbol, market.rows(symbol), now=market.end)
    given_out += bars.finish_by_clock(market.end + GRACE)
    assert {(bar.symbol, bar.bucket_ts): bar for bar in given_out} == market.final()
    for before, after in pairwise(given_out):
        assert before != after, "the same picture left twice"


@pytest.mark.parametrize("grace", [0, 500, 10_000])
def test_the_grace_is_a_setting(grace: int) -> None:
    bars = BarFinalizer(grace_ms=grace)
    bars.add_frame(picture("A", 0, [5]))
    assert bars.finish_by_clock(START + MINUTE + grace - 1) == []
    assert len(bars.finish_by_clock(START + MINUTE + grace)) == 1
