"""Bars of any size equal those rolled up from the finest there are, wherever they were read from."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, SECOND, floor_to_step
from tapebook.history.importer import assumed_known_at
from tapebook.tape.bars import BAR_LENGTHS, roll_up
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View
from tests.matrix import examples

T0 = 20_834 * DAY
END = T0 + 30 * HOUR


@contextmanager
def new_tape(now: int = END) -> Iterator[Tape]:
    """An empty tape."""
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        yield Tape(db, clock=VirtualClock(now))


@pytest.fixture
def tape() -> Iterator[Tape]:
    """An empty tape whose clock stands after all that is written to it."""
    with new_tape() as opened:
        yield opened


def bar(at: int, seconds: int = 60) -> Candle:
    """A bar with a price and a volume of its own; none has no volume at all, which larger ones would flatten."""
    price = (100 + at // MINUTE % 37) * E8
    return Candle("BTC", seconds, at, price, price + E8, price - E8, price + 5, 1.0 + at // MINUTE % 5, 0.0, 1)


def series(seconds: int, since: int = T0, until: int = END) -> list[Candle]:
    """Bars of a length without a gap."""
    return [bar(at, seconds) for at in range(since, until, seconds * SECOND)]


def seen(found: Sequence[Candle]) -> list[tuple[int, int, int, int, int, float]]:
    """What a packet shows of bars."""
    return [(bar.bucket_ts, bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8, bar.volume_base) for bar in found]


def expected(size: int, count: int, *, as_of: int, seconds: int = 60) -> list[Candle]:
    """The last bars that had ended, from bars of one length alone."""
    end = floor_to_step(as_of, size * MINUTE)
    ended = (bar for bar in series(seconds) if end - count * size * MINUTE <= bar.bucket_ts and bar.end <= end)
    return roll_up(ended, granularity_sec=size * 60)


@pytest.mark.parametrize("size", [1, 5, 15, 60, 180, 720])
@pytest.mark.parametrize("before", [0, 1, MINUTE, 5 * HOUR + 1])
def test_bars_are_those_of_the_minutes_that_had_ended(size: int, before: int) -> None:
    with new_tape(T0) as tape:
        tape.commit(series(60))
        found = tape.bars("BTC", minutes=size, count=8, view=View(END - before))
    assert seen(found) == seen(expected(size, 8, as_of=END - before))
    assert found and found[-1].end <= END - before


HOURS = st.sets(st.integers(0, 29))


def test_stored_hours_and_minutes_together_give_the_same_bars() -> None:
    hourly = roll_up(series(60), granularity_sec=3600)

    @settings(max_examples=examples(40))
    @given(HOURS, HOURS, st.sampled_from([60, 180, 720]), st.integers(1, 12))
    def check(stored: set[int], without_minutes: set[int], size: int, count: int) -> None:
        # Minutes that left may only be of hours that are stored.
        gone = stored & without_minutes
        with new_tape() as tape:
            tape.commit([bar for bar in series(60) if (bar.bucket_ts - T0) // HOUR not in gone])
            tape.commit([hourly[number] for number in sorted(stored)])
            found = tape.bars("BTC", minutes=size, count=count, view=View(END + 1))
        assert seen(found) == seen(expected(size, count, as_of=END))

    check()


def test_hours_that_are_stored_are_not_read_minute_by_minute(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    tape.commit(roll_up(series(60), granularity_sec=3600))
    read: list[int] = []
    original = Tape.candles

    def counted(self: Tape, symbol: str, **where: int) -> list[Candle]:
        read.append(where["granularity_sec"])
        return original(self, symbol, **where)  # type: ignore[arg-type]

    monkeypatch.setattr(Tape, "candles", counted)
    assert len(tape.bars("BTC", minutes=60, count=24, view=View(END))) == 24
    assert read == [3600]


@pytest.mark.parametrize("seconds", BAR_LENGTHS)
@pytest.mark.parametrize("size", [1, 5, 15, 30, 60, 240, 720, 1440])
def test_bars_of_any_length_are_rolled_up_and_never_cut(tape: Tape, seconds: int, size: int) -> None:
    tape.commit(series(seconds, until=T0 + 30 * HOUR))
    found = tape.bars("BTC", minutes=size, count=8, view=View(END))
    if size * 60 % seconds:
        # What is smaller than the stored bars, or does not end with them, cannot be had.
        assert found == ()
    else:
        assert seen(found) == seen(expected(size, 8, as_of=END, seconds=seconds)) != []


def test_a_range_is_made_of_the_finest_and_mixes_nothing(tape: Tape) -> None:
    tape.commit([*series(900, until=T0 + 15 * HOUR), *series(300, since=T0 + 15 * HOUR)], assumed=assumed_known_at)
    half = tape.bars("BTC", minutes=30, count=60, view=View(END + 2_000))
    assert seen(half) == seen(roll_up(series(300, since=T0 + 15 * HOUR), granularity_sec=1800))
    # Before the finer ones begin, the longer ones are all there is.
    early = tape.bars("BTC", minutes=30, count=4, view=View(T0 + 15 * HOUR + 2_000))
    assert seen(early) == seen(roll_up(series(900, since=T0 + 13 * HOUR, until=T0 + 15 * HOUR), granularity_sec=1800))
    tape.commit(series(60, since=END - 45 * MINUTE), assumed=assumed_known_at)
    newest = tape.bars("BTC", minutes=30, count=60, view=View(END + 2_000))
    assert [each.bucket_ts for each in newest] == [END - HOUR, END - HOUR // 2]


def test_imported_hours_give_way_to_finer_bars_behind_them(tape: Tape) -> None:
    tape.commit([*series(3600, until=T0 + 20 * HOUR), *series(300, since=T0 + 20 * HOUR)], assumed=assumed_known_at)
    found = tape.bars("BTC", minutes=60, count=24, view=View(END + 2_000))
    assert [each.bucket_ts for each in found] == [T0 + hour * HOUR for hour in range(20, 30)]
    whole = tape.bars("BTC", minutes=60, count=6, view=View(T0 + 20 * HOUR + 2_000))
    assert [each.bucket_ts for each in whole] == [T0 + hour * HOUR for hour in range(14, 20)]


def test_finest_is_what_can_be_seen(tape: Tape) -> None:
    """A minute that is imported later does not change what was known."""
    first = tape.commit(series(300), assumed=assumed_known_at)
    tape.commit(series(60, since=END - HOUR), assumed=lambda fact: END + DAY)
    for view in (View(END + 2_000), View(END + 2 * DAY, first)):
        found = tape.bars("BTC", minutes=15, count=4, view=View(END + 2_000, view.watermark))
        assert seen(found) == seen(expected(15, 4, as_of=END, seconds=300))


# The newest bar


def test_newest_bar_is_the_one_that_ended_last(tape: Tape) -> None:
    tape.commit(series(300), assumed=assumed_known_at)
    assert tape.newest_bar("BTC", view=View(T0 + 5 * MINUTE + 1_999)) is None
    assert tape.newest_bar("BTC", view=View(T0 + 5 * MINUTE + 2_000)) == bar(T0, 300)
    assert tape.newest_bar("BTC", view=View(END + 20 * DAY)) == bar(END - 5 * MINUTE, 300)
    assert tape.newest_bar("BTC", view=View(END + 31 * DAY)) is None
    assert tape.newest_bar("ETH", view=View(END)) is None


def test_longer_bar_counts_where_no_shorter_one_lies_in_it(tape: Tape) -> None:
    def newest(hours: float) -> Candle | None:
        return tape.newest_bar("BTC", view=View(T0 + round(hours * HOUR) + 2_000))

    minutes = series(60, until=T0 + 10 * HOUR - 7 * MINUTE)
    tape.commit([*minutes, *series(3600, until=T0 + 10 * HOUR)], assumed=assumed_known_at)
    # The last hour has minutes up to seven before its end.
    assert newest(10) == bar(T0 + 10 * HOUR - 8 * MINUTE)
    tape.commit(series(3600, since=T0 + 10 * HOUR, until=T0 + 20 * HOUR), assumed=assumed_known_at)
    assert newest(20.1) == bar(T0 + 19 * HOUR, 3600)
    tape.commit([bar(T0 + DAY, 86_400)], assumed=assumed_known_at)
    assert newest(47) == bar(T0 + 19 * HOUR, 3600)
    assert newest(48) == newest(72) == bar(T0 + DAY, 86_400)
