"""Orders on bars that are longer than a minute: how long they wait, and when a limit was traded through."""

import pytest

from tapebook.broker.matching import Match, match
from tapebook.domain.instants import MINUTE
from tapebook.domain.market import Candle, Mid
from tapebook.domain.money import E8
from tapebook.domain.order import Order
from tests.broker.market import NOON, TERMS, Market, WrittenQuotes, bar, limit, mid, order


def matched(what: Order, market: Market, *, minutes: float) -> tuple[str, float, float] | None:
    """How an order's waiting has ended by so many minutes after noon: how, when, and at which midpoint."""
    found: Match | None = match(what, WrittenQuotes(market), TERMS, until=NOON + round(minutes * MINUTE))
    return None if found is None else (found.how, (found.at - NOON) / MINUTE, found.mid_e8 / E8)


@pytest.mark.parametrize(("length", "patience"), [(1, 5), (5, 7), (15, 17), (60, 62)])
def test_market_order_waits_for_the_end_of_a_bar(length: int, patience: int) -> None:
    before = bar(-length, 100, 100, 100, 100, minutes=length)
    assert matched(order(0.04), Market((), (before,)), minutes=patience + 0.04) is None
    given_up = matched(order(0.04), Market((), (before,)), minutes=patience + 0.05)
    assert given_up is not None and given_up[0] == "given up"
    assert given_up[1] == pytest.approx(patience + 0.04 + TERMS.latency_ms / MINUTE)
    assert matched(order(0.04), Market((mid(length, 101),), (before,)), minutes=length + 0.1) == ("taker", length, 101)


def through(*lows: float) -> tuple[Candle, ...]:
    """Bars of five minutes from noon on that open and close at 100."""
    return tuple(bar(5 * number, 100, 103, low, 100, minutes=5) for number, low in enumerate(lows))


def ends(count: int) -> tuple[Mid, ...]:
    """The closes of that many such bars."""
    return tuple(mid(5 * number, 100) for number in range(1, count + 1))


@pytest.mark.parametrize(
    ("lows", "expected"),
    [
        # It rests from the first observation on, at 5: the bar before that began without it.
        ((90, 99, 99), None),
        ((99, 97.9, 99), ("maker", 10, 100)),
        ((99, 98, 97), ("maker", 15, 100)),
    ],
)
def test_limit_is_filled_at_the_end_of_a_bar_that_went_beyond_it(
    lows: tuple[float, ...], expected: tuple[str, float, float] | None
) -> None:
    market = Market(ends(3), through(*lows))
    assert matched(limit(98, 0.04), market, minutes=15) == expected
    if expected:
        # Not before that bar has ended.
        assert matched(limit(98, 0.04), market, minutes=expected[1] - 0.01) is None


def test_selling_looks_at_the_high_and_minutes_at_nothing_but_midpoints() -> None:
    market = Market(ends(3), through(99, 99, 99))
    assert matched(limit(102.9, 0.04, "sell"), market, minutes=15) == ("maker", 10, 100)
    assert matched(limit(103, 0.04, "sell"), market, minutes=15) is None
    minutes = tuple(bar(minute, 100, 103, 90, 100) for minute in range(15))
    assert matched(limit(98, 0.04), Market(ends(3), minutes), minutes=15) is None


def test_observation_before_the_end_of_the_bar_comes_first() -> None:
    market = Market((mid(5, 100), mid(7, 97), mid(10, 100)), through(99, 96, 99))
    assert matched(limit(98, 0.04), market, minutes=15) == ("maker", 7, 97)
