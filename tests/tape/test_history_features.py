"""Features of history: the same from scratch and boundary by boundary, whatever is missing, late or revised."""

from contextlib import closing
from random import Random

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.history.importer import assumed_known_at
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.history_features import CADENCE, HistoryFeatures
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import GRACE_MS, View

T0 = 480_000 * HOUR
DAYS = 3


def candle(chance: Random, at: int, minutes: int) -> Candle:
    """A bar near 20,000, or now and then one without a price."""
    prices = sorted(chance.randint(1_999_000, 2_001_000) * 10**6 for _ in range(4))
    low = 0 if chance.random() < 0.002 else prices[0]
    return Candle("BTC", minutes * 60, at, prices[1], prices[3], low, prices[2], 1.0, 1.0, 1)


def fill(tape: Tape, *, minutes: int, seed: int) -> None:
    """Bars of which some are missing, some known late and some revised; and rates with holes."""
    chance = Random(seed)
    bars = [
        candle(chance, at, minutes) for at in range(T0, T0 + DAYS * DAY, minutes * MINUTE) if chance.random() > 0.02
    ]
    late = {bar.bucket_ts: chance.choice((MINUTE, HOUR, 7 * HOUR)) for bar in bars if chance.random() < 0.02}
    tape.commit(bars, assumed=lambda fact: assumed_known_at(fact) + late.get(fact.bucket_ts, 0))
    again = [candle(chance, bar.bucket_ts, minutes) for bar in bars if chance.random() < 0.01]
    tape.commit(again, assumed=lambda fact: assumed_known_at(fact) + 3 * HOUR)
    step = chance.choice((HOUR, 4 * HOUR, 8 * HOUR))
    rates = [FundingRate("BTC", at, chance.randint(-(10**9), 10**9), 0) for at in range(T0, T0 + DAYS * DAY, step)]
    tape.commit([rate for rate in rates if chance.random() > 0.1], assumed=assumed_known_at)


@pytest.mark.parametrize(("minutes", "seed"), [(1, 1), (5, 2), (5, 3), (15, 4), (60, 5), (240, 6)])
def test_from_memory_they_are_those_from_scratch(minutes: int, seed: int) -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        tape = Tape(db, clock=VirtualClock(T0 + 9 * DAY))
        fill(tape, minutes=minutes, seed=seed)
        reel = ForwardTape(db, clock=VirtualClock(T0 + 9 * DAY))
        chance, kinds = Random(seed), set()
        at = T0
        while at < T0 + (DAYS + 2) * DAY:
            found = reel.history_features("BTC", view=View(at))
            assert found == tape.history_features("BTC", view=View(at))
            kinds |= {name for name in HistoryFeatures.__struct_fields__ if getattr(found, name) is not None}
            # Mostly a step ahead; at times far ahead, or back.
            at += chance.choice((MINUTE, CADENCE, CADENCE, CADENCE, 15 * MINUTE, HOUR, 9 * HOUR, -2 * HOUR))
        assert kinds == set(HistoryFeatures.__struct_fields__)


@pytest.mark.parametrize(("minutes", "missing"), [(1, 0.05), (5, 0.05), (60, 0.05), (5, 0), (15, 0), (60, 0)])
def test_bars_that_all_came_in_time_are_read_once_for_hours_ahead(minutes: int, missing: float) -> None:
    chance = Random(minutes)
    # Of two days and a half there are no bars at all, and of the others one in twenty is missing, or none.
    times = (at for at in range(T0, T0 + 6 * DAY, minutes * MINUTE) if not 2 * DAY <= at - T0 < 4.5 * DAY)
    bars = [candle(chance, at, minutes) for at in times if chance.random() >= missing]
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        tape = Tape(db, clock=VirtualClock(T0 + 9 * DAY))
        tape.commit(bars, assumed=assumed_known_at)
        reel = ForwardTape(db, clock=VirtualClock(T0 + 9 * DAY))
        whole = reel.timely_bars("BTC", T0, T0 + 6 * DAY, granularity_sec=minutes * 60)
        assert whole == bars and reel.timely_bars("BTC", T0, T0 + DAY, granularity_sec=14_400) is None
        # From a fresh one every few boundaries, for that from scratch takes long.
        for number, at in enumerate(range(T0 + GRACE_MS, T0 + 6 * DAY, CADENCE)):
            found = reel.history_features("BTC", view=View(at))
            if number % 7 == 0:
                assert found == tape.history_features("BTC", view=View(at))


@pytest.mark.parametrize(("late", "again"), [(MINUTE, False), (0, True)])
def test_bars_that_came_late_or_were_revised_are_not_read_ahead(late: int, again: bool) -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        tape = Tape(db, clock=VirtualClock(T0 + 9 * DAY))
        bars = [candle(Random(at), at, 5) for at in range(T0, T0 + DAY, 5 * MINUTE)]
        delay = {bars[100].bucket_ts: late}
        tape.commit(bars, assumed=lambda fact: assumed_known_at(fact) + delay.get(fact.bucket_ts, 0))
        if again:
            tape.commit([candle(Random(1), bars[100].bucket_ts, 5)], assumed=assumed_known_at)
        reel = ForwardTape(db, clock=VirtualClock(T0 + 9 * DAY))
        assert reel.timely_bars("BTC", T0, T0 + DAY, granularity_sec=300) is None


def test_nothing_counts_before_it_was_known() -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        tape = Tape(db, clock=VirtualClock(T0 + 9 * DAY))
        fill(tape, minutes=5, seed=7)
        moments = range(T0 + 2 * DAY, T0 + 2 * DAY + 2 * HOUR, 7 * MINUTE)
        before = [tape.history_features("BTC", view=View(at)) for at in moments]
        # Other bars and rates after the moments, and an import later than the watermark, change nothing.
        seq = tape.head()[0]
        beyond = T0 + 2 * DAY + 3 * HOUR
        tape.commit([FundingRate("BTC", beyond, 1, 0), candle(Random(1), beyond, 5)], assumed=assumed_known_at)
        tape.commit([candle(Random(2), T0 + 2 * DAY, 5)], assumed=lambda fact: fact.bucket_ts)
        assert [tape.history_features("BTC", view=View(at, seq)) for at in moments] == before
        assert [tape.history_features("BTC", view=View(at)) for at in moments] != before


def test_a_symbol_without_rows_has_no_features() -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        for tape in (Tape(db, clock=VirtualClock(T0)), ForwardTape(db, clock=VirtualClock(T0))):
            assert tape.history_features("BTC", view=View(T0 + GRACE_MS)) == HistoryFeatures(T0)
