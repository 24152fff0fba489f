"""Bars of any size equal those rolled up from minutes, wherever they were read from."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.domain.market import AssetContext, Candle, FeatureRow, Liquidity, Mid
from tapebook.domain.money import E8
from tapebook.errors import Damaged
from tapebook.loop.market import bars, read_market, with_features
from tapebook.tape.rollup import roll_up
from tapebook.tape.store import MIGRATIONS, Tape, View

T0 = 500_000 * HOUR
END = T0 + 30 * HOUR


@pytest.fixture
def tape() -> Iterator[Tape]:
    """An empty tape whose clock stands after all that is written to it."""
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        yield Tape(db, clock=VirtualClock(END))


def minute(at: int) -> Candle:
    """A minute with a price and a volume of its own."""
    price = (100 + at // MINUTE % 37) * E8
    return Candle("BTC", 60, at, price, price + E8, price - E8, price + 5, float(at // MINUTE % 5), 0.0, 1)


def all_minutes() -> list[Candle]:
    """Thirty hours of them."""
    return [minute(at) for at in range(T0, END, MINUTE)]


def seen(found: list[Candle]) -> list[tuple[int, int, int, int, int, float]]:
    """What a packet shows of bars."""
    return [(bar.bucket_ts, bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8, bar.volume_base) for bar in found]


def expected(size: int, count: int, *, as_of: int) -> list[Candle]:
    """The last bars that had ended, from minutes alone."""
    end = floor(as_of, size * MINUTE)
    ended = (bar for bar in all_minutes() if end - count * size * MINUTE <= bar.bucket_ts < end)
    return roll_up(ended, granularity_sec=size * 60)


@pytest.mark.parametrize("size", [1, 5, 15, 60, 180, 720])
@pytest.mark.parametrize("before", [0, 1, MINUTE, 5 * HOUR + 1])
def test_bars_are_those_of_the_minutes_that_had_ended(size: int, before: int) -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        tape = Tape(db, clock=VirtualClock(T0))
        tape.commit(all_minutes())
        found = bars(tape, "BTC", minutes=size, count=8, view=View(END - before))
    assert seen(found) == seen(expected(size, 8, as_of=END - before))
    assert found and found[-1].end <= END - before


HOURS = st.sets(st.integers(0, 29))


def test_stored_hours_and_minutes_together_give_the_same_bars() -> None:
    hourly = roll_up(all_minutes(), granularity_sec=3600)

    @settings(max_examples=40)
    @given(HOURS, HOURS, st.sampled_from([60, 180, 720]), st.integers(1, 12))
    def check(stored: set[int], without_minutes: set[int], size: int, count: int) -> None:
        # Minutes that left may only be of hours that are stored.
        gone = stored & without_minutes
        with closing(connect(":memory:")) as db:
            migrate(db, (MIGRATIONS,))
            tape = Tape(db, clock=VirtualClock(END))
            tape.commit([bar for bar in all_minutes() if (bar.bucket_ts - T0) // HOUR not in gone])
            tape.commit([hourly[number] for number in sorted(stored)])
            found = bars(tape, "BTC", minutes=size, count=count, view=View(END + 1))
        assert seen(found) == seen(expected(size, count, as_of=END))

    check()


def test_hours_that_are_stored_are_not_read_minute_by_minute(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    tape.commit(roll_up(all_minutes(), granularity_sec=3600))
    read: list[int] = []
    original = Tape.candles

    def counted(self: Tape, symbol: str, **where: int) -> list[Candle]:
        read.append(where["granularity_sec"])
        return original(self, symbol, **where)  # type: ignore[arg-type]

    monkeypatch.setattr(Tape, "candles", counted)
    assert len(bars(tape, "BTC", minutes=60, count=24, view=View(END))) == 24
    assert read == [3600]


def test_market_with_everything(tape: Tape) -> None:
    book = Liquidity("BTC", END - MINUTE, 100 * E8, 1.5, 10.0, 50.0, 100.0, 0.25)
    context = AssetContext("BTC", END, 1, 2, 3.0, 4, 5)
    families = ("pressure", "volatility")
    rows = [FeatureRow("BTC", END - at, f'{{"regime":"r{at}"}}', name) for at, name in enumerate(families)]
    tape.commit([*all_minutes(), Mid("BTC", END, 7), book, context, *rows])
    plain = read_market(tape, "BTC", minutes=5, count=3, view=View(END))
    assert (len(plain.bars), plain.mid, plain.liquidity, plain.features) == (3, Mid("BTC", END, 7), None, ())
    full = with_features(tape, plain, view=View(END))
    assert (full.bars, full.liquidity, full.context) == (plain.bars, book, context)
    assert [feature.name for feature in full.features] == ["liquidityProfile", "fundingPressure", "volatilityProfile"]
    assert full.features[1:] == tuple(
        type(full.features[0])(name, END - at, (("regime", f"r{at}"),))
        for at, name in enumerate(("fundingPressure", "volatilityProfile"))
    )


def test_book_of_days_ago_is_shown_with_its_age_and_not_profiled(tape: Tape) -> None:
    old = Liquidity("BTC", END - 25 * HOUR, 100 * E8, 1.5, 10.0, 50.0, 100.0, 0.25)
    tape.commit([old])
    found = with_features(tape, read_market(tape, "BTC", minutes=5, count=3, view=View(END)), view=View(END))
    assert (found.liquidity, found.features) == (old, ())


def test_feature_that_is_no_json_is_damage(tape: Tape) -> None:
    tape.commit([FeatureRow("BTC", END, "{", "pressure")])
    with pytest.raises(Damaged, match="a feature of BTC is not readable"):
        with_features(tape, read_market(tape, "BTC", minutes=5, count=3, view=View(END)), view=View(END))
