"""Clocks: the machine's, and one that is set."""

import asyncio
import time

import pytest

from tapebook.clock import Clock, ScaledClock, SystemClock, VirtualClock


def test_system_clock_gives_utc_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    now = SystemClock().now()
    assert before <= now <= time.time_ns() // 1_000_000
    assert 10**12 < now < 10**13


def test_system_clock_does_not_depend_on_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SystemClock().now()
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert abs(SystemClock().now() - before) < 60_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_system_clock_goes_on_from_what_is_known_to_have_passed() -> None:
    clock = SystemClock()
    clock.catch_up(clock.now() - 1_000_000)
    assert clock.now() - time.time_ns() // 1_000_000 <= 0
    ahead = clock.now() + 1_000_000
    clock.catch_up(ahead)
    assert ahead <= clock.now() < ahead + 60_000


def test_virtual_clock_stands_until_it_is_moved() -> None:
    virtual = VirtualClock(5)
    assert [virtual.now(), virtual.now()] == [5, 5]
    virtual.advance(5)
    virtual.advance(9)
    assert virtual.now() == 9


def test_virtual_clock_never_goes_back() -> None:
    virtual = VirtualClock(5)
    with pytest.raises(ValueError, match="cannot go back from 5 to 4"):
        virtual.advance(4)
    assert virtual.now() == 5


def test_both_are_clocks() -> None:
    clocks: list[Clock] = [SystemClock(), VirtualClock(1)]
    assert all(isinstance(each.now(), int) for each in clocks)


@pytest.mark.parametrize("clock", [SystemClock(), VirtualClock(5), ScaledClock(5, speed=0.0)])
def test_seconds_are_the_machines_where_market_time_is_no_other(clock: Clock) -> None:
    before = time.monotonic()
    assert before <= clock.seconds() <= time.monotonic()
    asyncio.run(clock.sleep(0.02))
    assert time.monotonic() - before >= 0.02


def test_a_hurried_world_has_short_seconds() -> None:
    clock = ScaledClock(1_000, speed=50.0)
    before, took = clock.seconds(), list[float]()
    # A busy machine may wake a sleeper late, but hardly five times in a row.
    while len(took) < 5 and min(took, default=1.0) >= 0.5:
        began = time.monotonic()
        asyncio.run(clock.sleep(1.0))
        took.append(time.monotonic() - began)
    assert 0.02 <= min(took) < 0.5, "a fiftieth of a second of the machine"
    assert clock.seconds() - before >= 1.0 and clock.now() >= 2_000
