"""When to ping, when to give up, how long to wait."""

import pytest

from tapebook.sources.hyperliquid.connection import ConnectionVerdict, ConnectionWatch, backoff_s
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings


def watch(*channels: str) -> ConnectionWatch:
    opened = ConnectionWatch(HyperliquidSourceSettings())
    opened.on_open(100.0, channels)
    return opened


def test_a_connection_is_pinged_every_thirty_seconds() -> None:
    line = watch()
    assert line.verdict(129.9) == ConnectionVerdict()
    assert line.verdict(130.0) == ConnectionVerdict(ping=True)
    line.on_ping(130.0)
    line.on_pong()
    assert line.verdict(159.9) == ConnectionVerdict()
    assert line.verdict(160.0) == ConnectionVerdict(ping=True)


def test_a_connection_that_does_not_answer_within_ten_seconds_is_given_up() -> None:
    line = watch()
    line.on_ping(130.0)
    assert line.verdict(140.0) == ConnectionVerdict()
    line.on_ping(139.0)
    assert line.verdict(140.1) == ConnectionVerdict(give_up="no pong within 10 s")
    line.on_pong()
    assert line.verdict(140.1) == ConnectionVerdict()


@pytest.mark.parametrize(("channel", "patience"), [("mids", 30), ("candles", 300)])
def test_a_channel_that_has_died_silently_is_noticed(channel: str, patience: int) -> None:
    line = watch(channel)
    now = 100.0
    while now < 100 + patience - 25:
        now += 25
        line.on_ping(now)
        line.on_pong()
    assert not line.verdict(100.0 + patience).give_up
    found = line.verdict(100.1 + patience)
    assert (found.give_up, found.channel) == (f"no {channel} for {patience} s", channel)
    line.on_message(channel, 100.1 + patience)
    assert not line.verdict(100.1 + patience).give_up


@pytest.mark.parametrize(("count", "patience"), [(1, 300), (2, 150), (10, 30), (100, 30)])
def test_the_more_symbols_the_sooner_silence_is_suspicious(count: int, patience: int) -> None:
    line = watch(*["candles"] * count)
    line.on_ping(99.0 + patience)
    assert not line.verdict(100.0 + patience).give_up
    assert line.verdict(100.1 + patience).channel == "candles"


def test_silence_of_what_was_not_asked_for_is_no_matter() -> None:
    line = watch("mids")
    line.on_message("candles", 101.0)
    line.on_message("mids", 1_000.0)
    assert line.verdict(1_001.0) == ConnectionVerdict(ping=True)


def test_waiting_doubles_up_to_thirty_seconds_and_never_in_step_with_others() -> None:
    waits = [backoff_s("line 1", attempt) for attempt in range(12)]
    assert all(0.125 * 2**attempt <= wait <= 0.25 * 2**attempt for attempt, wait in enumerate(waits[:7]))
    assert all(15 <= wait <= 30 for wait in waits[7:])
    assert backoff_s("line 1", 10_000) <= 30
    assert waits == [backoff_s("line 1", attempt) for attempt in range(12)]
    assert waits != [backoff_s("line 2", attempt) for attempt in range(12)]
