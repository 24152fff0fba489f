"""Orders on bars that are longer than a minute: how long they wait, and when a limit was traded through."""

import pytest
from msgspec.structs import replace

from tapebook.broker.matching import Match, match_order
from tapebook.domain.market import Candle, Mid
from tapebook.domain.order import FillRule, Order
from tapebook.domain.units import E8, MINUTE
from tests.broker.market import NOON, TERMS, Market, WrittenQuotes, bar, limit, mid, order


def matched(
    what: Order, market: Market, *, minutes: float, fill: FillRule = "bar_close"
) -> tuple[str, float, float] | None:
    """How an order's waiting has ended by so many minutes after noon: how, when, and at which midpoint."""
    terms = replace(TERMS, fill=fill)
    found: Match | None = match_order(what, WrittenQuotes(market), terms, until=NOON + round(minutes * MINUTE))
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


EVERY_RULE: tuple[FillRule, ...] = ("next_open", "worst", "bar_close")
ALONE = tuple(bar(5 * number, 100 + number, 110, 90, 105, minutes=5) for number in range(-2, 3))
"""Bars of five minutes and nothing else; the one at noon opens at 100."""


def arrival(decided_ms: int) -> float:
    """When an order arrives that is decided so many milliseconds after noon, in minutes."""
    return (decided_ms + TERMS.latency_ms) / MINUTE


@pytest.mark.parametrize("length", [1, 5, 60])
@pytest.mark.parametrize(("side", "worst"), [("buy", 110), ("sell", 90)])
def test_order_on_bars_alone_fills_where_its_rule_says(length: int, side: str, worst: float) -> None:
    """Decided two seconds after the slot; the fill is known when the bar is, and happened at the order's arrival."""
    market = Market((), (bar(-length, 99, 99, 99, 99, minutes=length), bar(0, 100, 110, 90, 105, minutes=length)))
    sent, prices = order(2 / 60, side), {"next_open": 100, "worst": worst}
    for fill in EVERY_RULE[:2]:
        assert matched(sent, market, minutes=length - 0.01, fill=fill) is None
        assert matched(sent, market, minutes=length, fill=fill) == ("taker", arrival(2_000), prices[fill])


def test_reduce_only_order_has_the_same_price() -> None:
    found = matched(order(2 / 60, "sell", reduce_only=True), Market((), ALONE), minutes=5, fill="next_open")
    assert found is not None and found[2] == 100


def test_midpoint_in_the_time_of_a_bar_is_what_an_order_meets() -> None:
    """Nothing changes where there are midpoints, under any rule."""
    for fill in EVERY_RULE:
        assert matched(order(2 / 60), Market((mid(1, 77),), ALONE), minutes=5, fill=fill) == ("taker", 1, 77)
        # One from before the order says that midpoints were recorded then: the rules for bars alone do not hold.
        found = matched(order(2 / 60), Market((mid(0, 77), mid(4.9, 78)), ALONE), minutes=5, fill=fill)
        assert found == ("taker", 4.9, 78)


def test_order_that_comes_late_in_a_bar_does_not_get_its_open() -> None:
    """The open of two minutes ago still counts; later it is the past, and the close is the next thing observed."""
    market = Market((mid(5, 105),), ALONE)
    in_time, late = order(2), order(2.001)
    assert matched(in_time, market, minutes=5, fill="next_open") == ("taker", arrival(120_000), 100)
    assert matched(late, market, minutes=5, fill="next_open") == ("taker", 5, 105)
    # The worst of a bar is no better for having passed.
    assert matched(late, market, minutes=5, fill="worst") == ("taker", arrival(120_060), 110)


def test_order_whose_bar_is_missing_is_cancelled() -> None:
    missing = Market((), tuple(each for each in ALONE if each.bucket_ts != NOON))
    for fill in EVERY_RULE[:2]:
        assert matched(order(2 / 60), missing, minutes=7, fill=fill) is None
        found = matched(order(2 / 60), missing, minutes=7.1, fill=fill)
        assert found is not None and found[0] == "given up"


def test_order_whose_latency_outlasts_a_bar_meets_the_bar_it_arrives_in() -> None:
    late, market = order(299_994 / MINUTE), Market((), ALONE)
    assert matched(late, market, minutes=10, fill="worst") == ("taker", arrival(299_994), 110)
    assert matched(late, market, minutes=10, fill="next_open") == ("taker", arrival(299_994), 101)


def test_limit_order_is_a_taker_at_the_open_or_rests_from_there_on() -> None:
    market = Market((), ALONE)
    assert matched(limit(101, 2 / 60), market, minutes=5, fill="next_open") == ("taker", arrival(2_000), 100)
    # It rests since it arrived: of the bar under way only what is observed after that counts, then whole bars.
    assert matched(limit(99, 2 / 60), market, minutes=5, fill="next_open") is None
    assert matched(limit(99, 2 / 60), market, minutes=10, fill="next_open") == ("maker", 10, 105)
    assert matched(limit(101, 2 / 60), market, minutes=5, fill="worst") is None
