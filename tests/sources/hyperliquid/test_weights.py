"""Budgets are never exceeded, in any window."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.sources.hyperliquid.rest import (
    MESSAGES_PER_SECOND,
    RateLimit,
    RateLimits,
    connection_budget,
    message_budget,
    rest_budget,
)


@given(st.lists(st.tuples(st.integers(1, 45), st.integers(0, 40)), max_size=80), st.integers(45, 120))
def test_no_window_ever_holds_more_than_the_limit(requests: list[tuple[int, int]], limit: int) -> None:
    window = RateLimit(limit)
    now, spent = 0.0, []
    for weight, pause in requests:
        now += pause
        delay = window.delay_s(weight, now)
        assert 0 <= delay <= 60
        now += delay
        assert window.delay_s(weight, now) == pytest.approx(0, abs=1e-9), "what was promised does not hold"
        window.spend(weight, now)
        spent.append((now, weight))
    for begin, _ in spent:
        assert sum(weight for at, weight in spent if begin <= at < begin + 60) <= limit


@given(st.lists(st.integers(1, 20), min_size=1, max_size=60))
def test_nobody_waits_longer_than_needed(weights: list[int]) -> None:
    window, now = RateLimit(100), 0.0
    for weight in weights:
        delay = window.delay_s(weight, now)
        if delay > 0:
            assert window.spent_in_window(now + delay - 0.001) + weight > 100
        now += delay
        window.spend(weight, now)


def test_what_never_fits_waits_for_ever() -> None:
    assert RateLimit(10).delay_s(11, 0.0) == math.inf


def test_all_of_several_windows_must_allow() -> None:
    both = RateLimits(RateLimit(3, span_s=60), RateLimit(2, span_s=1))
    for _ in range(2):
        assert both.delay_s(1, 0.0) == 0
        both.spend(1, 0.0)
    assert both.delay_s(1, 0.0) == 1.0
    both.spend(1, 1.0)
    assert both.delay_s(1, 2.5) == 57.5


def test_budgets_of_the_exchange() -> None:
    assert rest_budget(0.5).delay_s(600, 0.0) == 0 and rest_budget(0.5).delay_s(601, 0.0) == math.inf
    assert connection_budget().delay_s(30, 0.0) == 0
    assert message_budget().delay_s(MESSAGES_PER_SECOND, 0.0) == 0
    assert message_budget().delay_s(MESSAGES_PER_SECOND + 1, 0.0) == math.inf
    assert message_budget(stepped=True).delay_s(10**6, 0.0) == 0
