"""Clocks: the machine's, and one that is set."""

import time

import pytest

from tapebook.clock import Clock, SystemClock, VirtualClock


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
