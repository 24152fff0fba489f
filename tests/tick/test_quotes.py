"""What a broker is told: the tape as it was known, and never more than is known now."""

from collections.abc import Iterator
from contextlib import closing
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tapebook.broker import BrokerAccount
from tapebook.broker.brokers import paper
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, Observation
from tapebook.domain.order import Order, OrderType
from tapebook.domain.position import Position
from tapebook.domain.units import DAY, E6, E8, HOUR, MINUTE
from tapebook.history.importer import assumed_known_at
from tapebook.tape import forward_tape
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View
from tapebook.tick.quotes import TapeQuotes, position_marks
from tests.broker.market import TERMS, Teller
from tests.matrix import examples
from tests.tape.random_tapes import HOURS, SYMBOLS, T0, random_tape

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


def long_bar(minute: int, price: int, *, minutes: int = 5) -> Candle:
    """The same, of five minutes."""
    return msgspec.structs.replace(bar(minute, price), granularity_sec=minutes * 60)


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


def imported(recorder: Recorder, *facts: Observation) -> None:
    """Commits history as an import does: each fact is known two seconds after its end."""
    recorder.tape.commit(facts, assumed=assumed_known_at)


def told(quotes: TapeQuotes, since: float, until: float) -> list[tuple[float, int]]:
    """What is observed between two minutes."""
    found = quotes.mids("BTC", since=NOON + round(since * MINUTE), until=NOON + round(until * MINUTE))
    return [((each.bucket_ts - NOON) / MINUTE, each.price_e8 // E8) for each in found]


def test_long_bar_tells_its_open_and_its_close(recorder: Recorder) -> None:
    imported(recorder, *(long_bar(minute, 1_000 + minute) for minute in (0, 5, 10, 20)))
    quotes = recorder.quotes(NOON + HOUR)
    # Of one moment the bar that ends is told first.
    assert told(quotes, 0, 25) == [
        *((0, 1000), (5, 1100), (5, 1005), (10, 1105), (10, 1010), (15, 1110), (20, 1020), (25, 1120)),
    ]
    assert told(quotes, 5, 14.9) == [(5, 1100), (5, 1005), (10, 1105)]
    assert told(quotes, 5.01, 10) == [(10, 1105)]
    assert quotes.bar_ms("BTC") == 5 * MINUTE
    assert quotes.bars("BTC", since=NOON, until=NOON + 10 * MINUTE) == [long_bar(0, 1_000), long_bar(5, 1_005)]
    assert quotes.bars("BTC", since=NOON + 1, until=NOON + 10 * MINUTE - 1) == []


def test_long_bar_is_told_once_it_is_known(recorder: Recorder) -> None:
    imported(recorder, *(long_bar(minute, 1_000 + minute) for minute in (0, 5, 10)))
    # An order decided when the first bar was known meets the end of the second, as soon as that is known.
    decided = (5 * MINUTE + 2_500) / MINUTE
    assert told(recorder.quotes(NOON + 10 * MINUTE + 1_999), decided, 10) == []
    assert told(recorder.quotes(NOON + 10 * MINUTE + 2_000), decided, 10.1) == [(10, 1105)]
    assert told(recorder.quotes(NOON + 15 * MINUTE + 2_000), decided, 15) == [(10, 1105), (10, 1010), (15, 1110)]


def test_midpoints_go_before_the_ends_of_long_bars(recorder: Recorder) -> None:
    mids = [mid(NOON + round(minute * MINUTE), 50) for minute in (4.5, 5, 10.25)]
    imported(recorder, long_bar(0, 1_000), long_bar(5, 1_005), long_bar(10, 1_010), *mids)
    quotes = recorder.quotes(NOON + HOUR)
    # The close at 5 and the open at 5 have midpoints in their minute; the open at 10 has, the close at 10 has not.
    assert told(quotes, 0, 15) == [(0, 1000), (4.5, 50), (5, 50), (10, 1105), (10.25, 50), (15, 1110)]


def test_length_of_bars_is_that_of_the_newest_that_is_known(recorder: Recorder) -> None:
    assert recorder.quotes(NOON).bar_ms("BTC") == MINUTE
    imported(recorder, *(long_bar(minute, 1_000) for minute in (0, 5)), *(bar(minute, 1_000) for minute in (10, 11)))
    lengths = [recorder.quotes(NOON + minute * MINUTE + 2_000).bar_ms("BTC") for minute in (4, 5, 10, 11, 60)]
    assert lengths == [MINUTE, 5 * MINUTE, 5 * MINUTE, MINUTE, MINUTE]


def test_bar_that_is_all_there_is_of_its_time(recorder: Recorder) -> None:
    imported(recorder, *(long_bar(minute, 1_000 + minute) for minute in (0, 5, 15)), mid(NOON + 9 * MINUTE, 70))
    begins = [NOON + minute * MINUTE for minute in (0, 5, 10, 15)]
    quotes = recorder.quotes(NOON + HOUR)
    found = [quotes.bar_alone("BTC", begins=each, until=NOON + HOUR) for each in begins]
    assert found == [long_bar(0, 1_000), None, None, long_bar(15, 1_015)]
    assert quotes.bar_alone("BTC", begins=NOON, until=NOON + 5 * MINUTE - 1) is None
    early = recorder.quotes(NOON + 5 * MINUTE + 1_999)
    assert early.bar_alone("BTC", begins=NOON, until=NOON + 5 * MINUTE) is None


def price_at(recorder: Recorder, ms: int) -> Mid | None:
    """The price last observed, so many milliseconds after noon."""
    return recorder.tape.last_price("BTC", view=View(NOON + ms))


def test_last_price_is_a_close_where_there_are_no_midpoints(recorder: Recorder) -> None:
    imported(recorder, *(long_bar(minute, 1_000 + minute) for minute in (0, 5)))
    assert price_at(recorder, 5 * MINUTE + 1_999) is None
    assert price_at(recorder, 5 * MINUTE + 2_000) == mid(NOON + 5 * MINUTE, 1_100)
    assert price_at(recorder, 10 * MINUTE + 1_999) == mid(NOON + 5 * MINUTE, 1_100)
    assert price_at(recorder, 10 * MINUTE + 2_000) == price_at(recorder, 20 * DAY) == mid(NOON + 10 * MINUTE, 1_105)


def test_last_price_is_a_midpoint_while_they_flow(recorder: Recorder) -> None:
    recorder.learn(NOON + MINUTE, bar(0, 90), mid(NOON + 55_000, 70))
    assert price_at(recorder, MINUTE) == price_at(recorder, 2 * MINUTE + 55_000) == mid(NOON + 55_000, 70)
    # Two minutes without one, and the bar that ended after it is newer.
    assert price_at(recorder, 2 * MINUTE + 55_001) == mid(NOON + MINUTE, 190)
    recorder.learn(NOON + 10 * MINUTE, mid(NOON + 2 * MINUTE, 71))
    assert price_at(recorder, 10 * MINUTE) == mid(NOON + 2 * MINUTE, 71)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.sampled_from([(3, 5), (8_000, 12_000)]))
def test_a_broker_hears_the_same_from_a_reel(seed: int, rows: tuple[int, int]) -> None:
    """Every tick of some hours, with orders and positions of everything, from the tape and from memory."""
    with random_tape(seed) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward_tape, "PAGE_ROWS", rows[0])
        patch.setattr(forward_tape, "KEPT_ROWS", rows[1])
        reel = ForwardTape(made.db, clock=made.clock, fetch=made.archive.get)
        lives = [_lived(tape, seed) for tape in (made.tape, reel)]
        event("events", len(lives[0].events))
        assert lives[0].events == lives[1].events
        assert lives[0].portfolio == lives[1].portfolio


def _random_order(chance: Random, number: int) -> Order:
    kind: OrderType = chance.choice(["market", "limit"])
    return Order(
        client_id=f"c{number}",
        run_id="r",
        symbol=chance.choice(SYMBOLS),
        side=chance.choice(["buy", "sell"]),
        size_e8=chance.randrange(1, 40) * E8,
        type=kind,
        limit_price_e8=chance.randrange(95, 105) * E8 if kind == "limit" else None,
        reduce_only=False,
        leverage=chance.choice([1, 5, 10]),
        intended_at=T0 + chance.randrange(HOURS * HOUR),
    )


def _lived(tape: Tape, seed: int) -> Teller:
    """An account that trades at random for six hours, asked about every few minutes."""
    chance = Random(seed)
    orders = [_random_order(chance, number) for number in range(20)]
    terms = msgspec.structs.replace(TERMS, fill=chance.choice(["next_open", "bar_close", "worst"]))
    teller, broker = Teller(BrokerAccount(2_000 * E6), orders), paper.create(terms)
    for at in range(T0, T0 + HOURS * HOUR, 7 * MINUTE):
        quotes = TapeQuotes(tape, View(at + 2_000))
        teller.hear(broker, quotes, until=at + 2_000)
        position_marks(tape, teller.portfolio.positions.values(), view=View(at))
    return teller


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
    marks = position_marks(recorder.tape, held, view=View(NOON), before={"BTC": 1, "ETH": 60 * E8})
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


def test_rate_of_an_hour_does_not_depend_on_when_it_is_asked_for(recorder: Recorder) -> None:
    recorder.learn(NOON - MINUTE, shown(NOON - MINUTE, 7))
    recorder.learn(NOON + MINUTE, FundingRate("BTC", NOON, 9, 0))
    for asked in (NOON, NOON + MINUTE - 1, NOON + MINUTE, NOON + HOUR):
        assert recorder.quotes(asked).funding_e12("BTC", hour=NOON) == 7


def test_hour_in_which_no_rate_was_shown_has_the_settled_one(recorder: Recorder) -> None:
    recorder.learn(NOON - MINUTE, shown(NOON - MINUTE, 7))
    for hour in range(3):
        recorder.learn(NOON + hour * HOUR + MINUTE, FundingRate("BTC", NOON + hour * HOUR, 100 + hour, 0))
    quotes = recorder.quotes(NOON + 5 * HOUR)
    assert [quotes.funding_e12("BTC", hour=NOON + hour * HOUR) for hour in range(4)] == [7, 101, 102, None]


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
