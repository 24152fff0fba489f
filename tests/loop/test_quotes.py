"""What a broker is told: the tape as it was known, and never more than is known now."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import AssetContext, FundingRate, Liquidity, Mid, Observation
from tapebook.domain.money import E8
from tapebook.loop.quotes import TapeQuotes
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


@pytest.mark.parametrize(
    ("at", "spread"),
    [(NOON - 1, None), (NOON, 125), (NOON + HOUR, 125), (NOON + HOUR + 1, None), (NOON + 2 * HOUR, 340)],
)
def test_spread_counts_for_an_hour(recorder: Recorder, at: int, spread: int | None) -> None:
    recorder.learn(NOON, book(NOON, 1.25))
    recorder.learn(NOON + 2 * HOUR, book(NOON + 2 * HOUR, 3.4))
    assert recorder.quotes(NOON + 3 * HOUR).spread_ppm("BTC", at=at) == spread


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
        assert quotes.spread_ppm("BTC", at=later) == 100
        assert quotes.funding_e12("BTC", hour=later) == 7
        assert quotes.mids("BTC", since=0, until=later) == [mid(NOON, 100)]
    assert recorder.quotes(future).mark_e8("BTC", at=later) == 200 * E8
