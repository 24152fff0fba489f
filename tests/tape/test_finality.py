"""When a bar is finished, and the moment a decision waits for: on any tape, and with frames that come late."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import HOUR, MINUTE, SECOND, floor_to_step
from tapebook.history.importer import assumed_known_at
from tapebook.sources.hyperliquid.prices import BarFinalizer
from tapebook.tape.bars import FinishedBars, decision_moment, finished_bars, is_settled
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import GRACE_MS, View
from tests.matrix import examples
from tests.tape.random_tapes import HOURS, SYMBOLS, T0, random_tape

LIMIT = 6 * SECOND
LATE_MS = (0, 0, 200, 1_500, 2_500, 7_000, 70_000)


def minute(at: int, close_e8: int = 5) -> Candle:
    """A minute with trades."""
    return Candle("BTC", 60, at, 5, max(5, close_e8), min(5, close_e8), close_e8, 1.0, 5.0, 1)


@contextmanager
def empty_tape() -> Iterator[tuple[Database, Tape, VirtualClock]]:
    """A tape in memory, and its clock."""
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        clock = VirtualClock(T0)
        yield db, Tape(db, clock=clock), clock


def seen(tape: Tape, as_of: int, *, minutes: int = 5) -> FinishedBars:
    """The bars of two hours as of a moment."""
    return finished_bars(tape, "BTC", minutes=minutes, count=24, view=View(as_of))


def test_bar_that_lacks_its_last_minute_is_left_out_and_the_minute_named() -> None:
    with empty_tape() as (_, tape, clock):
        end = T0 + 10 * MINUTE
        clock.advance(end)
        tape.commit([Mid("BTC", end - 5 * SECOND, 5), *map(minute, range(T0, end - MINUTE, MINUTE))])
        found = seen(tape, end)
        assert [bar.bucket_ts for bar in found.bars] == [T0] and found.unfinished == (end - MINUTE,)
        clock.advance(end + 300)
        tape.commit([minute(end - MINUTE)])
        assert len(seen(tape, end + 300).bars) == 2 and not seen(tape, end + 300).unfinished
        assert seen(tape, end + 299) == found


def test_quiet_minute_within_a_bar_is_not_missing() -> None:
    with empty_tape() as (_, tape, clock):
        clock.advance(T0 + 5 * MINUTE)
        tape.commit([minute(T0), minute(T0 + 4 * MINUTE)])
        assert len(seen(tape, T0 + 5 * MINUTE).bars) == 1 and not seen(tape, T0 + 5 * MINUTE).unfinished


def test_quiet_minute_at_the_end_is_final_when_the_source_was_heard_after_its_grace() -> None:
    with empty_tape() as (_, tape, clock):
        end = T0 + 5 * MINUTE
        for at in (end, end + 5 * SECOND):
            clock.advance(at)
            tape.commit([minute(T0), Mid("BTC", at, 5)])
        # The quiet minutes before the last are settled: the source was heard long after them.
        assert seen(tape, end) == FinishedBars((), (end - MINUTE,))
        assert not seen(tape, end + 4 * SECOND).bars
        assert len(seen(tape, end + 5 * SECOND).bars) == 1


def test_outage_leaves_out_every_bar_it_cut() -> None:
    with empty_tape() as (_, tape, clock):
        cut = T0 + 7 * MINUTE
        clock.advance(cut)
        tape.commit([Mid("BTC", cut, 5), *map(minute, range(T0, cut, MINUTE))])
        for later in (T0 + 10 * MINUTE, T0 + 15 * MINUTE, T0 + 25 * MINUTE):
            found = seen(tape, later + LIMIT)
            assert [bar.bucket_ts for bar in found.bars] == [T0]
            assert found.unfinished == tuple(range(max(cut, later - 5 * MINUTE), later, MINUTE))


def test_imported_history_is_final_when_it_counts_as_known() -> None:
    """Without midpoints a missing row is a minute without trades, a grace after its end."""
    with empty_tape() as (db, tape, _):
        tape.commit([minute(T0), minute(T0 + 3 * MINUTE)], assumed=assumed_known_at)
        end = T0 + 5 * MINUTE
        assert seen(tape, end + GRACE_MS - 1).unfinished == (T0 + 4 * MINUTE,)
        assert len(seen(tape, end + GRACE_MS).bars) == 1
        for reader in (tape, ForwardTape(db, clock=VirtualClock(end))):
            assert decision_moment(reader, "BTC", minutes=5, slot=end, limit=LIMIT) == end + GRACE_MS


@pytest.mark.parametrize(("known", "decided"), [(0, 0), (300, 300), (5_999, 5_999), (6_000, 6_000), (9_000, 6_000)])
def test_decision_waits_for_the_last_minute_but_not_longer_than_the_limit(known: int, decided: int) -> None:
    with empty_tape() as (db, tape, clock):
        slot = T0 + 5 * MINUTE
        clock.advance(slot - SECOND)
        tape.commit([Mid("BTC", slot - SECOND, 5), *map(minute, range(T0, slot - MINUTE, MINUTE))])
        clock.advance(slot + known)
        tape.commit([minute(slot - MINUTE)])
        for reader in (tape, ForwardTape(db, clock=clock)):
            assert decision_moment(reader, "BTC", minutes=5, slot=slot, limit=LIMIT) == slot + decided


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    slots=st.lists(st.integers(0, HOURS * 12), min_size=1, max_size=6),
    minutes=st.sampled_from([1, 5, 15, 60]),
)
def test_moment_is_the_first_at_which_the_bar_is_settled(seed: int, slots: list[int], minutes: int) -> None:
    with random_tape(seed) as made:
        reel = ForwardTape(made.db, clock=made.clock, fetch=made.archive.get)
        for number in sorted(slots):
            slot = T0 + number * 5 * MINUTE
            for symbol in SYMBOLS:
                found = decision_moment(made.tape, symbol, minutes=minutes, slot=slot, limit=LIMIT)
                assert decision_moment(reel, symbol, minutes=minutes, slot=slot, limit=LIMIT) == found
                event(f"waits {(found - slot) // SECOND} s")
                moments = {slot, slot + GRACE_MS, found - 1, found, slot + LIMIT - 1}
                ready = [
                    at
                    for at in sorted(moments)
                    if slot <= at and is_settled(made.tape, symbol, slot, minutes=minutes, view=View(at))
                ]
                assert found == min([*ready, slot + LIMIT])


class _Feed:
    """One symbol over one connection: trades and midpoints are sent in order, some wait for others, some for long."""

    def __init__(self, tape: Tape, clock: VirtualClock, chance: Random) -> None:
        self._tape, self._clock, self._chance = tape, clock, chance
        self._bars = BarFinalizer(grace_ms=GRACE_MS)
        self._given: dict[int, int] = {}
        self._mid = -1
        # Minutes that were handed on again, or after a later one: corrections, which nobody can wait for.
        self.corrected: set[int] = set()

    def play(self, until: int) -> None:
        """Delivers frames and ticks of the clock, and commits what they make final, all at a moment in one batch."""
        arrivals: dict[int, list[Candle | int]] = {at: [] for at in range(T0, until, 250)}
        for arrived, frame in self._arrivals(until):
            arrivals.setdefault(arrived, []).append(frame)
        for at, frames in sorted(arrivals.items()):
            self._clock.advance(at)
            final = [bar for frame in frames if isinstance(frame, Candle) for bar in self._bars.add_frame(frame)]
            final += self._bars.finish_by_clock(at)
            mids = []
            if any(isinstance(frame, int) for frame in frames) and floor_to_step(at, 5 * SECOND) > self._mid:
                self._mid = floor_to_step(at, 5 * SECOND)
                mids = [Mid("BTC", self._mid, 5)]
            for bar in final:
                if bar.bucket_ts <= max(self._given, default=-1):
                    self.corrected.add(bar.bucket_ts)
                self._given[bar.bucket_ts] = at
            if final or mids:
                self._tape.commit([*final, *mids])

    def _arrivals(self, until: int) -> list[tuple[int, Candle | int]]:
        """Every frame with when it arrives; a frame of no candle is one of midpoints."""
        chance, sent = self._chance, list[tuple[int, Candle | int]]()
        pace = chance.choice((3, 20, 60)) * SECOND
        at, bar, frames = T0, minute(T0), 0
        while at < until:
            at += chance.randrange(1, 2 * pace)
            frames += 1
            begins, price = floor_to_step(at, MINUTE), chance.randrange(1, 99)
            if begins != bar.bucket_ts or frames == 1:
                bar = Candle("BTC", 60, begins, price, price, price, price, 0.0, 0.0, 0)
            high, low, count = max(bar.high_e8, price), min(bar.low_e8, price), bar.sample_count + 1
            bar = msgspec.structs.replace(
                bar, high_e8=high, low_e8=low, close_e8=price, volume_base=float(count), sample_count=count
            )
            sent.append((at, bar))
        sent += [(moment, 0) for moment in range(T0, until, SECOND)]
        arrived, found = T0, list[tuple[int, Candle | int]]()
        for moment, frame in sorted(sent, key=lambda each: each[0]):
            late = chance.choice(LATE_MS) if chance.random() < 0.02 else chance.randrange(0, 60)
            arrived = max(arrived, moment + late)
            found.append((arrived, frame))
        return found


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), minutes=st.sampled_from([1, 5, 15]))
def test_no_decision_shows_a_bar_that_later_differs(seed: int, minutes: int) -> None:
    """Whatever the delays of frames, live (asked every quarter second) and in a backtest over the same tape."""
    until, cadence = T0 + HOUR // 2, max(minutes, 5) * MINUTE
    with empty_tape() as (db, tape, clock):
        feed = _Feed(tape, clock, Random(seed))
        feed.play(until + 2 * MINUTE)
        reel = ForwardTape(db, clock=clock)
        everything = View(until + HOUR)
        final = {bar.bucket_ts: bar for bar in tape.bars("BTC", minutes=minutes, count=120, view=everything)}
        for slot in range(T0 + cadence, until, cadence):
            backtested = decision_moment(reel, "BTC", minutes=minutes, slot=slot, limit=LIMIT)
            turns = (at for at in range(slot, slot + LIMIT, 250) if _is_ready(tape, slot, at, minutes=minutes))
            for moment in (backtested, next(turns, slot + LIMIT)):
                shown = seen(tape, moment, minutes=minutes)
                event("unfinished" if shown.unfinished else "finished")
                assert moment <= slot + LIMIT and not (shown.unfinished and moment < slot + LIMIT)
                for bar in shown.bars:
                    if feed.corrected.isdisjoint(range(bar.bucket_ts, bar.end, MINUTE)):
                        assert bar == final[bar.bucket_ts]


def _is_ready(tape: Tape, slot: int, at: int, *, minutes: int) -> bool:
    return is_settled(tape, "BTC", slot, minutes=minutes, view=View(at))
