"""What a broker is told: the tape as it was known, and never more than is known now."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, Observation
from tapebook.domain.money import E6, E8
from tapebook.domain.position import Position
from tapebook.loop.quotes import TapeQuotes, marks_of
from tapebook.tape.store import MIGRATIONS, Tape, View

NOON = 500_000 * HOUR


class Recorder:
    """A tape, and a clock that is set before each commit."""

    def __init__(self, tape: Tape, clock: VirtualClock) -> None:
        self.tape = tape
        self._clock = clock

    def learn(self, at: int, *facts: Observation) -> None:
        """Commits facts at a moment."""
        self._clock.advance(at)
        self.tape.commit(facts)

    def quotes(self, as_of: int, **watermark: int) -> TapeQuotes:
        """The market as far as it is known at a moment."""
        return TapeQuotes(self.tape, View(as_of, **watermark))

    def spread(self, as_of: int, *, at: int) -> int | None:
        """The spread of the book a broker is shown."""
        found = self.quotes(as_of).book("BTC", at=at)
        return None if found is None else found.spread_ppm


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """An empty tape."""
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        clock = VirtualClock(0)
        yield Recorder(Tape(db, clock=clock), clock)


def mid(at: int, price: int) -> Mid:
    """A midpoint of BTC."""
    return Mid("BTC", at, price * E8)


def book(at: int, spread_bps: float) -> Liquidity:
    """An order book of BTC."""
    return Liquidity("BTC", at, 100 * E8, spread_bps, 1.0, 1.0, 1.0, 0.0)


def bar(minute: int, price: int) -> Candle:
    """A bar of BTC that opens at a price and closes a hundred above it."""
    close = (price + 100) * E8
    return Candle("BTC", 60, NOON + minute * MINUTE, price * E8, close, price * E8, close, 1.0, 1.0, 1)


def shown(at: int, rate: int) -> AssetContext:
    """What the exchange shows of BTC's funding."""
    return AssetContext("BTC", at, rate, 0, 1.0, E8, E8)


def test_mids_between_two_moments(recorder: Recorder) -> None:
    mids = [mid(NOON + second * 5_000, 100 + second) for second in range(5)]
    recorder.learn(NOON + MINUTE, *mids, Mid("ETH", NOON, E8))
    quotes = recorder.quotes(NOON + MINUTE)
    assert quotes.mids("BTC", since=NOON + 5_000, until=NOON + 15_000) == mids[1:4]
    assert quotes.mids("BTC", since=NOON + 5_001, until=NOON + 14_999) == mids[2:3]
    assert recorder.quotes(NOON).mids("BTC", since=0, until=NOON + MINUTE) == []


def test_mark_is_the_midpoint_last_known_at_a_moment(recorder: Recorder) -> None:
    recorder.learn(NOON, mid(NOON, 100))
    recorder.learn(NOON + 5_000, mid(NOON + 5_000, 101))
    recorder.learn(NOON + 20_000, mid(NOON + 10_000, 102))
    quotes = recorder.quotes(NOON + MINUTE)
    marks = [quotes.mark_e8("BTC", at=NOON + 1_000 * second) for second in (-1, 0, 4, 5, 19, 20, 60)]
    # The third became known ten seconds late: before that it was nobody's mark.
    assert marks == [None, 100 * E8, 100 * E8, 101 * E8, 101 * E8, 102 * E8, 102 * E8]
    assert quotes.mark_e8("ETH", at=NOON + MINUTE) is None


def test_minute_without_midpoints_has_the_open_of_its_bar(recorder: Recorder) -> None:
    """Where nothing but candles was imported, and where the midpoints stayed away."""
    mids = [mid(NOON + MINUTE + second * 1_000, 100) for second in (5, 30)]
    recorder.learn(NOON + 10 * MINUTE, *mids, *(bar(minute, 90 + minute) for minute in (0, 1, 2, 3, 5)))
    quotes = recorder.quotes(NOON + 10 * MINUTE)

    def seen(since: int, until: int) -> list[tuple[int, int]]:
        found = quotes.mids("BTC", since=since, until=until)
        return [((each.bucket_ts - NOON) // 1_000, each.price_e8 // E8) for each in found]

    assert seen(NOON, NOON + 6 * MINUTE) == [(0, 90), (65, 100), (90, 100), (120, 92), (180, 93), (300, 95)]
    # A bar is known when it has ended, and counts from its start on.
    assert seen(NOON + 1, NOON + 3 * MINUTE - 1) == [(65, 100), (90, 100)]
    assert seen(NOON + 1, NOON + 3 * MINUTE) == [(65, 100), (90, 100), (120, 92)]
    assert recorder.quotes(NOON + 9 * MINUTE).mids("BTC", since=NOON, until=NOON + 5 * MINUTE) == []


def test_bars_that_have_ended(recorder: Recorder) -> None:
    bars = [bar(minute, 90 + minute) for minute in range(5)]
    recorder.learn(NOON + 10 * MINUTE, *bars)
    quotes = recorder.quotes(NOON + 10 * MINUTE)
    assert quotes.bars("BTC", since=NOON + MINUTE, until=NOON + 4 * MINUTE) == bars[1:4]
    assert quotes.bars("BTC", since=NOON + 1, until=NOON + 4 * MINUTE - 1) == bars[1:3]


def test_mark_of_a_symbol_without_midpoints_is_its_last_close(recorder: Recorder) -> None:
    recorder.learn(NOON + MINUTE, bar(0, 90))
    recorder.learn(NOON + 2 * MINUTE, bar(1, 91))
    recorder.learn(NOON + 40 * MINUTE, mid(NOON + 30 * MINUTE, 70))
    quotes = recorder.quotes(NOON + 3 * HOUR)
    marks = {minute: quotes.mark_e8("BTC", at=NOON + minute * MINUTE) for minute in (0, 1, 2, 20, 39, 40, 180)}
    # The midpoint is newer than the bars from the moment it was known.
    expected = {0: None, 1: 190, 2: 191, 20: 191, 39: 191, 40: 70, 180: 70}
    assert marks == {minute: price and price * E8 for minute, price in expected.items()}


def test_last_mark_counts_however_old_it_is(recorder: Recorder) -> None:
    recorder.learn(NOON, mid(NOON, 100))
    recorder.learn(NOON + 20 * DAY, bar(20 * 24 * 60 - 1, 80))
    assert recorder.quotes(NOON + 19 * DAY).mark_e8("BTC", at=NOON + 19 * DAY) == 100 * E8
    assert recorder.quotes(NOON + 40 * DAY).mark_e8("BTC", at=NOON + 40 * DAY) == 180 * E8


def test_positions_are_valued_at_what_was_last_known_of_them(recorder: Recorder) -> None:
    recorder.learn(NOON, mid(NOON, 100))
    held = [Position(symbol, E8, 50 * E6) for symbol in ("BTC", "ETH", "SOL")]
    marks = marks_of(recorder.quotes(NOON), held, at=NOON, before={"BTC": 1, "ETH": 60 * E8})
    assert marks == {"BTC": 100 * E8, "ETH": 60 * E8, "SOL": 50 * E8}


@pytest.mark.parametrize(
    ("at", "spread"),
    [(NOON - 1, None), (NOON, 125), (NOON + HOUR, 125), (NOON + HOUR + 1, None), (NOON + 2 * HOUR, 340)],
)
def test_book_counts_for_an_hour(recorder: Recorder, at: int, spread: int | None) -> None:
    recorder.learn(NOON, book(NOON, 1.25))
    recorder.learn(NOON + 2 * HOUR, book(NOON + 2 * HOUR, 3.4))
    assert recorder.spread(NOON + 3 * HOUR, at=at) == spread


@pytest.mark.parametrize(
    ("imbalance", "bids", "asks"),
    [(0.0, (50, 100, 200), (50, 100, 200)), (0.5, (75, 150, 300), (25, 50, 100)), (-1.0, (0, 0, 0), (100, 200, 400))],
)
def test_depth_is_shared_as_the_imbalance_says(
    recorder: Recorder, imbalance: float, bids: tuple[int, ...], asks: tuple[int, ...]
) -> None:
    recorder.learn(NOON, Liquidity("BTC", NOON, 100 * E8, 1.0, 100.0, 200.0, 400.0, imbalance))
    found = recorder.quotes(NOON).book("BTC", at=NOON)
    assert found is not None
    assert found.bids_usd_e6 == tuple(usd * E6 for usd in bids)
    assert found.asks_usd_e6 == tuple(usd * E6 for usd in asks)


def test_settled_rate_wins_over_the_one_shown(recorder: Recorder) -> None:
    recorder.learn(NOON - MINUTE, shown(NOON - MINUTE, 7))
    recorder.learn(NOON + MINUTE, FundingRate("BTC", NOON, 9, 0))
    assert recorder.quotes(NOON + MINUTE - 1).funding_e12("BTC", hour=NOON) == 7
    assert recorder.quotes(NOON + MINUTE).funding_e12("BTC", hour=NOON) == 9


def test_every_settled_hour_keeps_its_own_rate(recorder: Recorder) -> None:
    recorder.learn(NOON - MINUTE, shown(NOON - MINUTE, 7))
    for hour in range(3):
        recorder.learn(NOON + hour * HOUR + MINUTE, FundingRate("BTC", NOON + hour * HOUR, 100 + hour, 0))
    quotes = recorder.quotes(NOON + 5 * HOUR)
    assert [quotes.funding_e12("BTC", hour=NOON + hour * HOUR) for hour in range(4)] == [100, 101, 102, 7]


def test_rate_shown_is_the_one_before_the_hour(recorder: Recorder) -> None:
    assert recorder.quotes(NOON).funding_e12("BTC", hour=NOON) is None
    recorder.learn(NOON - MINUTE, shown(NOON - MINUTE, 7))
    recorder.learn(NOON + MINUTE, shown(NOON + MINUTE, 8))
    quotes = recorder.quotes(NOON + 2 * HOUR)
    assert [quotes.funding_e12("BTC", hour=NOON + hour * HOUR) for hour in (0, 1)] == [7, 8]


def test_nothing_beyond_what_is_known_now(recorder: Recorder) -> None:
    recorder.learn(NOON, mid(NOON, 100), book(NOON, 1.0), shown(NOON, 7))
    future = NOON + MINUTE
    recorder.learn(future, mid(future, 200), book(future, 9.0), shown(future, 8), FundingRate("BTC", NOON + HOUR, 9, 0))
    later = NOON + HOUR
    for quotes in (recorder.quotes(future - 1), recorder.quotes(2 * later, watermark=1)):
        assert quotes.mark_e8("BTC", at=later) == 100 * E8
        known = quotes.book("BTC", at=later)
        assert known is not None and known.spread_ppm == 100
        assert quotes.funding_e12("BTC", hour=later) == 7
        assert quotes.mids("BTC", since=0, until=later) == [mid(NOON, 100)]
    assert recorder.quotes(future).mark_e8("BTC", at=later) == 200 * E8
