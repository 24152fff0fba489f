"""Which prices are believed: bad ticks are refused, crashes are not, and a restart changes nothing."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.market import (
    AssetContext,
    Candle,
    FundingRate,
    Liquidity,
    Mid,
    MidFrame,
    Observation,
    PredictedFunding,
)
from tapebook.domain.units import DAY, E8, HOUR, MINUTE, SECOND, parse_instant
from tapebook.tape.quarantine import ObservedPrice, PriceRules, PriceState, Quarantine, impossible_reason, judge_price
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres

NOON = parse_instant("2026-01-05T12:00:00Z")
RULES = PriceRules()


def mid(second: int, price: float) -> Mid:
    return Mid("BTC", NOON + second * SECOND, round(price * E8))


def bar(minute: int, *prices: float) -> Candle:
    opened, high, low, close = (round(price * E8) for price in prices)
    return Candle("BTC", 60, NOON + minute * MINUTE, opened, high, low, close, 1.0, 1.0, 3)


def context(second: int, price: float) -> AssetContext:
    return AssetContext("BTC", NOON + second * SECOND, 1, 1, 1.0, round(price * E8), round(price * E8))


@contextmanager
def tape_at(place: str | Path) -> Iterator[tuple[Tape, VirtualClock]]:
    with closing(connect(str(place))) as db:
        migrate(db, (MIGRATIONS,))
        clock = VirtualClock(NOON - DAY)
        yield Tape(db, clock=clock), clock


def believed(facts: Sequence[Observation | MidFrame]) -> list[bool]:
    """Of each fact, taken in one after the other by one process, whether it is believed."""
    with tape_at(":memory:") as (tape, _):
        quarantine = Quarantine(RULES, tape.stored_prices())
        return [_taken(tape, quarantine, fact) for fact in facts]


def _taken(tape: Tape, quarantine: Quarantine, fact: Observation | MidFrame) -> bool:
    passed, refused = quarantine.split_believed([fact])
    tape.commit(passed, refused=refused)
    return not refused


def test_a_bad_tick_of_nine_seconds_is_refused() -> None:
    found = believed([mid(0, 64_000), mid(5, 64_000_000), mid(10, 64_000_000), mid(15, 64_010), mid(20, 64_020)])
    assert found == [True, False, False, True, True]
    assert believed([mid(0, 64_000), mid(5, 64), mid(10, 64), mid(15, 64_010)]) == [True, False, False, True]


def test_a_crash_that_another_channel_shows_is_believed() -> None:
    fall = [mid(second, 40_000) for second in range(5, 60, 5)]
    found = believed([mid(0, 64_000), *fall, context(60, 40_100), mid(60, 40_050), mid(65, 39_000)])
    assert found == [True, *[False] * len(fall), True, True, True]


def test_a_crash_that_lasts_is_believed_without_another_channel() -> None:
    found = believed([mid(0, 64_000), *(mid(second, 40_000) for second in range(5, 125, 5))])
    stood = [second >= 95 for second in range(5, 125, 5)]
    assert found == [True, *stood]


def test_a_channel_that_is_wrong_for_long_is_refused_while_another_contradicts_it() -> None:
    facts: list[Observation] = [mid(0, 64_000)]
    for second in range(5, 600, 5):
        facts += [context(second, 64_000)] if second % 60 == 0 else []
        facts.append(mid(second, 64_000_000))
    found = believed(facts)
    assert [fact for fact, good in zip(facts, found, strict=True) if not good] == [
        fact for fact in facts[1:] if isinstance(fact, Mid)
    ]


def test_two_channels_that_jump_for_seconds_do_not_confirm_each_other() -> None:
    # The bad tick lies on the end of a minute, so that the bar closes with it.
    found = believed(
        [mid(50, 64_000), mid(55, 64e6), mid(60, 64e6), bar(0, 64_000, 64e6, 63_000, 64e6), mid(65, 64_000)]
    )
    assert found == [True, False, False, False, True]


def test_a_price_after_a_day_of_silence_is_believed() -> None:
    later = Mid("BTC", NOON + DAY + MINUTE, 3 * 64_000 * E8)
    assert believed([mid(0, 64_000), later]) == [True, True]


def test_extremes_of_a_bar_need_a_price_near_them() -> None:
    calm = [mid(0, 100), mid(30, 101)]
    assert believed([*calm, bar(0, 100, 101, 99, 100)])[-1]
    assert not believed([*calm, bar(0, 100, 101_000, 99, 100)])[-1]
    assert not believed([*calm, bar(0, 100, 101, 0.1, 100)])[-1]
    # A crash within the minute: the first price is near the high, the last one near the low.
    fall = [mid(second, 40) for second in range(5, 60, 5)]
    assert believed([mid(0, 100), *fall, bar(0, 100, 100, 38, 40)])[-1]


def test_late_bars_are_compared_with_their_neighbours() -> None:
    # The price has tripled within the hours that are fetched.
    history = [bar(-180 + minute, *[30 + minute / 3] * 4) for minute in range(0, 180)]
    with tape_at(":memory:") as (tape, _):
        quarantine = Quarantine(RULES, tape.stored_prices())
        assert _taken(tape, quarantine, mid(0, 90))
        spike = msgspec.structs.replace(history[60], close_e8=10**6 * E8, high_e8=10**6 * E8)
        passed, refused = quarantine.split_believed([*history[:60], spike, *history[61:]])
        assert len(passed) == 179
        assert [each.at for each in refused] == [spike.end]
        tape.commit(passed, refused=refused)
        # Asked for again, each lies beside those that are stored.
        assert quarantine.split_believed(history) == (history, [])


@pytest.mark.parametrize(
    "fact",
    [
        bar(0, 100, 99, 98, 98.5),
        bar(0, 100, 101, 100.5, 101),
        bar(0, 100, 101, 99, 102),
        bar(0, 100, 101, 0, 100),
        msgspec.structs.replace(bar(0, 1, 1, 1, 1), volume_base=float("nan")),
        mid(0, 0),
        Liquidity("BTC", NOON, E8, -1.0, 1.0, 1.0, 1.0, 0.0),
        Liquidity("BTC", NOON, 0, 1.0, 1.0, 1.0, 1.0, 0.0),
        Liquidity("BTC", NOON, E8, 1.0, float("inf"), 1.0, 1.0, 0.0),
        AssetContext("BTC", NOON, 10**12, 1, 1.0, E8, E8),
        AssetContext("BTC", NOON, 1, 1, 1.0, 0, E8),
        FundingRate("BTC", NOON, 10**12, 0),
        PredictedFunding("BTC", NOON, "V", 10**12, 8, NOON + HOUR),
    ],
)
def test_what_can_be_no_fact_is_refused_and_kept(fact: Observation) -> None:
    assert impossible_reason(fact)
    with tape_at(":memory:") as (tape, _):
        assert not _taken(tape, Quarantine(RULES, tape.stored_prices()), fact)
        (kept,) = tape.quarantined_observations(since=0)
        assert (kept.symbol, kept.why) == ("BTC", impossible_reason(fact))
        assert not tape.symbols()


def test_one_bad_price_of_a_frame_hides_no_other(db: Database) -> None:
    frames = [
        MidFrame(NOON + second * SECOND, ("BTC", "ETH"), (64_000 * factor * E8, 3_000 * E8))
        for second, factor in ((0, 1), (5, 1_000), (10, 1))
    ]
    tape = Tape(db, clock=VirtualClock(NOON + HOUR))
    quarantine = Quarantine(RULES, tape.stored_prices())
    assert [_taken(tape, quarantine, frame) for frame in frames] == [True, False, True]
    view = View(NOON + 2 * HOUR)
    assert [mid.bucket_ts - NOON for mid in tape.facts(Mid, "BTC", since=0, until=NOON + HOUR, view=view)] == [
        0,
        10_000,
    ]
    assert len(tape.facts(Mid, "ETH", since=0, until=NOON + HOUR, view=view)) == 3
    (kept,) = tape.quarantined_observations(since=0)
    assert "64000000 is 1e+03 times 64000" in kept.why
    assert tape.price_state("BTC") == quarantine.state("BTC")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("mids", "contexts", "candles")),
        st.sampled_from((1.0, 1.2, 0.9, 2.0, 0.4, 1_000.0)),
        st.booleans(),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_a_restart_at_any_place_changes_nothing(steps: list[tuple[str, float, bool]]) -> None:
    facts = [_fact(place, kind, 100 * factor) for place, (kind, factor, _) in enumerate(steps)]
    expected = believed(facts)
    with tape_at(":memory:") as (tape, clock):
        quarantine, found = Quarantine(RULES, tape.stored_prices()), []
        for fact, (_, _, restarts) in zip(facts, steps, strict=True):
            clock.advance(NOON + HOUR)
            if restarts:
                quarantine.clear_cache()
            found.append(_taken(tape, quarantine, fact))
    assert found == expected


def _fact(place: int, kind: str, price: float) -> Observation:
    if kind == "mids":
        return mid(place * 15, price)
    return context(place * 15, price) if kind == "contexts" else bar(place, price, price, price, price)


@given(prices=st.lists(st.integers(1, 10**18), max_size=30), step=st.sampled_from((5, 60)))
def test_a_believed_price_is_near_one_before_it_or_was_claimed_for_long(prices: list[int], step: int) -> None:
    state, claimed = PriceState(), dict[int, int]()
    for place, price in enumerate(prices):
        at = NOON + place * step * SECOND
        before = state.believed
        found = judge_price(state, ObservedPrice(at, "mids", price), RULES)
        state = found.state
        if not found.is_believed:
            assert state.claim is not None and state.believed == before
            claimed[at] = price
        elif before is not None and not RULES.is_near(price, before.price_e8):
            # Nothing was believed since, so everything of that time was a claim.
            first = max(when for when in claimed if when <= at - RULES.alone_ms)
            assert before.at < first
