"""When to ping, when to give up, how long to wait."""

import pytest

from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.watch import Verdict, Watch, wait_s


def watch(*channels: str) -> Watch:
    opened = Watch(HyperliquidSettings())
    opened.opened(100.0, channels)
    return opened


def test_a_connection_is_pinged_every_thirty_seconds() -> None:
    line = watch()
    assert line.verdict(129.9) == Verdict()
    assert line.verdict(130.0) == Verdict(ping=True)
    line.pinged(130.0)
    line.ponged()
    assert line.verdict(159.9) == Verdict()
    assert line.verdict(160.0) == Verdict(ping=True)


def test_a_connection_that_does_not_answer_within_ten_seconds_is_given_up() -> None:
    line = watch()
    line.pinged(130.0)
    assert line.verdict(140.0) == Verdict()
    line.pinged(139.0)
    assert line.verdict(140.1) == Verdict(give_up="no pong within 10 s")
    line.ponged()
    assert line.verdict(140.1) == Verdict()


@pytest.mark.parametrize(("channel", "patience"), [("mids", 30), ("candles", 300)])
def test_a_channel_that_has_died_silently_is_noticed(channel: str, patience: int) -> None:
    line = watch(channel)
    now = 100.0
    while now < 100 + patience - 25:
        now += 25
        line.pinged(now)
        line.ponged()
    assert not line.verdict(100.0 + patience).give_up
    found = line.verdict(100.1 + patience)
    assert (found.give_up, found.channel) == (f"no {channel} for {patience} s", channel)
    line.heard(channel, 100.1 + patience)
    assert not line.verdict(100.1 + patience).give_up


@pytest.mark.parametrize(("count", "patience"), [(1, 300), (2, 150), (10, 30), (100, 30)])
def test_the_more_symbols_the_sooner_silence_is_suspicious(count: int, patience: int) -> None:
    line = watch(*["candles"] * count)
    line.pinged(99.0 + patience)
    assert not line.verdict(100.0 + patience).give_up
    assert line.verdict(100.1 + patience).channel == "candles"


def test_silence_of_what_was_not_asked_for_is_no_matter() -> None:
    line = watch("mids")
    line.heard("candles", 101.0)
    line.heard("mids", 1_000.0)
    assert line.verdict(1_001.0) == Verdict(ping=True)


def test_waiting_doubles_up_to_thirty_seconds_and_never_in_step_with_others() -> None:
    waits = [wait_s("line 1", attempt) for attempt in range(12)]
    assert all(0.125 * 2**attempt <= wait <= 0.25 * 2**attempt for attempt, wait in enumerate(waits[:7]))
    assert all(15 <= wait <= 30 for wait in waits[7:])
    assert wait_s("line 1", 10_000) <= 30
    assert waits == [wait_s("line 1", attempt) for attempt in range(12)]
    assert waits != [wait_s("line 2", attempt) for attempt in range(12)]
