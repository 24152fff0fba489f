"""Reads of a tape whose clock goes ahead and back: nothing of later, nothing lost, and what was read once stays."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tapebook.db import Database, connect, migrate
from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import DAY, HOUR, MINUTE, parse_instant
from tapebook.log.store import TOLERATED_MS
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres

NOON = parse_instant("2026-01-05T12:00:00Z")


class HandClock:
    """Shows what it is told to."""

    def __init__(self) -> None:
        self.at = NOON

    def now(self) -> int:
        return self.at


@contextmanager
def opened() -> Iterator[tuple[Tape, HandClock]]:
    clock = HandClock()
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        yield Tape(db, clock=clock, may_go_back=lambda before, now: now), clock


def bar(minute: int, price: int = 100) -> Candle:
    return Candle("BTC", 60, NOON + minute * MINUTE, price, price, price, price, 1.0, 1.0, 1)


def test_bars_of_a_clock_that_was_ahead_are_known_when_it_is_back_and_prices_of_its_future_never(db: Database) -> None:
    clock = HandClock()
    tape = Tape(db, clock=clock, may_go_back=lambda before, now: now)
    tape.commit([bar(0), Mid("BTC", NOON, 100)])
    clock.at = NOON + 2 * MINUTE + 6 * HOUR
    ahead = tape.commit([bar(1), Mid("BTC", clock.at, 101)])
    then = View(clock.at, ahead)
    assert tape.newest(Mid, "BTC", view=then) == Mid("BTC", clock.at, 101)
    clock.at = NOON + 3 * MINUTE
    tape.commit([bar(2), Mid("BTC", clock.at, 102)])
    now = View(clock.at)
    assert tape.head()[1] == clock.at
    known = [each.bucket_ts for each in tape.candles("BTC", granularity_sec=60, since=0, view=now)]
    assert known == [NOON + minute * MINUTE for minute in range(3)]
    assert tape.newest(Mid, "BTC", view=now) == Mid("BTC", clock.at, 102)
    # A day later the price of a moment that had not come is not there, and a replay of then still sees it.
    assert tape.newest(Mid, "BTC", view=View(NOON + DAY)) == Mid("BTC", NOON + 3 * MINUTE, 102)
    assert tape.newest(Mid, "BTC", view=then) == Mid("BTC", NOON + 2 * MINUTE + 6 * HOUR, 101)
    # When that moment comes, the price of it is a fact, even if it is the same.
    clock.at = NOON + 2 * MINUTE + 6 * HOUR
    tape.commit([Mid("BTC", clock.at, 101)])
    assert tape.newest(Mid, "BTC", view=View(NOON + DAY)) == Mid("BTC", clock.at, 101)


def test_small_steps_back_are_bridged() -> None:
    with opened() as (tape, clock):
        tape.commit([bar(0)])
        _, before = tape.head()
        clock.at -= TOLERATED_MS
        tape.commit([bar(1)])
        assert tape.head()[1] == before + 1
        assert tape.set_backs() == []


class Read(msgspec.Struct, frozen=True):
    """A read and what it gave."""

    view: View
    found: tuple[Any, ...]


def _read(tape: Tape, view: View) -> Read:
    bars = tape.candles("BTC", granularity_sec=60, since=0, view=view)
    mids = tape.facts(Mid, "BTC", since=0, until=view.as_of, view=view)
    return Read(view, (tuple(bars), tuple(mids), tape.newest(Mid, "BTC", view=view), tape.last_price("BTC", view=view)))


@given(ahead=st.lists(st.sampled_from((0, 0, 0, HOUR, 6 * HOUR, 2 * DAY)), min_size=1, max_size=12))
def test_whatever_the_clock_does_reads_stay_and_show_nothing_of_later(ahead: list[int]) -> None:
    with opened() as (tape, clock):
        reads: list[Read] = []
        for minute, hours in enumerate(ahead):
            market = NOON + (minute + 1) * 2 * MINUTE
            clock.at = market + hours
            seq = tape.commit([bar(2 * minute, 100 + minute), Mid("BTC", clock.at, 100 + minute)])
            reads.append(_read(tape, View(clock.at, seq)))
        for read in reads:
            assert _read(tape, read.view) == read
            bars, mids, newest, price = read.found
            assert all(each.end <= read.view.as_of for each in bars)
            assert all(each.bucket_ts <= read.view.as_of for each in (*mids, newest, price) if each)
        # Once the clock is right, every bar is known, and no price of a moment that has not come.
        clock.at = market + MINUTE
        tape.commit([Mid("BTC", clock.at, 1)])
        bars, mids, *_ = _read(tape, View(clock.at)).found
        assert [each.close_e8 for each in bars] == [100 + minute for minute in range(len(ahead))]
        assert tape.facts(Mid, "BTC", since=0, until=NOON + 9 * DAY, view=View(NOON + 9 * DAY)) == list(mids)
