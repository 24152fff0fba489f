"""Margin on bars of any length: as long a stretch as the bars are, and nothing of a bar counts twice or not at all."""

from collections.abc import Sequence

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.broker import BookedAccount, BrokerAccount, BrokerActivity, Settlement
from tapebook.broker.brokers import paper
from tapebook.broker.brokers.paper import walked_quietly
from tapebook.broker.margin import MarginTiers
from tapebook.broker.simulation import AccountSimulation, MarginWindow, MarginWindows
from tapebook.domain.agent import MarginMode
from tapebook.domain.market import Candle, Mid
from tapebook.domain.order import Fill, FillRule
from tapebook.domain.units import E8, HOUR, MINUTE
from tests.broker.market import NOON, TERMS, Market, WrittenQuotes, account, activity, bar, held, mid, order
from tests.matrix import examples


def walked(bars: list[Candle], of: BrokerAccount, *, minutes: float, mids: tuple[Mid, ...] = ()) -> BrokerActivity:
    """What a broker says by so many minutes after noon."""
    quotes = WrittenQuotes(Market(mids, tuple(bars)))
    return activity(paper.create(TERMS), of, (), quotes=quotes, until=NOON + round(minutes * MINUTE))


def fallen(said: BrokerActivity) -> list[tuple[str, float, float]]:
    """What was liquidated: whose, when and at which price."""
    fills = [event for event in said.events if isinstance(event, Fill) and event.liquidation]
    return [(fill.symbol, (fill.happened_at - NOON) / MINUTE, fill.price_e8 / E8) for fill in fills]


def five(minute: int, low: float, *, symbol: str = "BTC") -> Candle:
    """Five minutes that open and close at 100 and go down to somewhere."""
    return bar(minute, 100, 101, low, 100, symbol, minutes=5)


def bounds(stretch: MarginWindow) -> tuple[int, int, int]:
    """From when to when it goes, and when it can be judged."""
    return stretch.start, stretch.end, stretch.ready_at


# One BTC at 100, bought with 10: it falls where what is left is less than an eightieth of its worth.
THIN = account(held(1), cash=10)
PRICE = 90 / (1 - 1 / 80)


def test_low_of_a_long_bar_liquidates_at_its_end() -> None:
    said = walked([five(0, 95), five(5, 89)], THIN, minutes=10)
    ((symbol, at, price),) = fallen(said)
    assert (symbol, at) == ("BTC", 10) and abs(price - PRICE) < 0.001
    assert fallen(walked([five(0, 95), five(5, 91.2)], THIN, minutes=10)) == []


def test_bar_is_waited_for_until_it_can_be_known() -> None:
    before = walked([five(0, 89)], THIN, minutes=4.99)
    assert (before.events, before.walked_until) == ((), NOON)
    assert [at for _, at, _ in fallen(walked([five(0, 89)], THIN, minutes=5))] == [5]
    # The second bar is missing: two minutes after its end midpoints stand in for it, if there are any.
    some = [five(0, 95)]
    assert walked(some, THIN, minutes=11.99).walked_until == NOON + 5 * MINUTE
    assert walked(some, THIN, minutes=12).walked_until == NOON + 10 * MINUTE
    observed = (mid(6, 95), mid(9, 89))
    assert [at for _, at, _ in fallen(walked(some, THIN, minutes=12, mids=observed))] == [12]


def test_of_the_bar_a_position_moved_in_only_the_close_counts() -> None:
    def moved(minute: float) -> BrokerAccount:
        return account(held(1, moved_at=NOON + round(minute * MINUTE)), cash=10)

    assert [at for _, at, _ in fallen(walked([five(0, 89)], moved(0), minutes=5))] == [5]
    assert fallen(walked([five(0, 89)], moved(0.1), minutes=5)) == []
    assert [at for _, at, _ in fallen(walked([five(0, 89), five(5, 89)], moved(5), minutes=10))] == [10]


def test_bars_of_two_lengths_are_judged_together() -> None:
    """Minutes of BTC beside five minutes of ETH: the worst of the five minutes, then both fall at once."""
    minutes = [bar(minute, 100, 101, 95 - minute, 100) for minute in range(5)]
    both = account(held(1), held(1, symbol="ETH"), cash=15)
    said = walked([*minutes, five(0, 98, symbol="ETH")], both, minutes=5)
    assert fallen(said) == []
    said = walked([*minutes, five(0, 94, symbol="ETH")], both, minutes=5)
    # 15 lost of both on the way from 100 to 91 and to 94, less what both must be backed by.
    assert [(symbol, at) for symbol, at, _ in fallen(said)] == [("BTC", 5), ("ETH", 5)]
    prices = [price for _, _, price in fallen(said)]
    assert abs((100 - prices[0]) / 9 - (100 - prices[1]) / 6) < 0.0001


def test_stretch_ends_where_the_longest_bar_does() -> None:
    """A position in longer bars comes to one in minutes, in the middle of its bar."""
    minutes = [bar(minute, 100, 100, 100, 100) for minute in range(10)]
    quotes = WrittenQuotes(Market(bars=(*minutes, five(5, 90, symbol="ETH"))))
    old, new = held(1).position, held(1, symbol="ETH", moved_at=NOON + 6 * MINUTE + 1).position
    stretches = MarginWindows(quotes, until=NOON + 10 * MINUTE, fill="bar_close")
    start, end = NOON + 6 * MINUTE, NOON + 10 * MINUTE
    assert bounds(stretches.next_window([old], start)) == (start, start + MINUTE, start + MINUTE)
    stretch = stretches.next_window([old, new], start)
    assert bounds(stretch) == (start, end, end)
    ways = stretches.extremes([old, new], stretch)
    # Of the bar ETH was bought in, the close counts.
    assert ways is not None and (ways["ETH"].first_e8, ways["ETH"].worst_e8) == (100 * E8, 100 * E8)


@pytest.mark.parametrize(("fill", "lasts"), [("next_open", False), ("worst", False), ("bar_close", True)])
def test_what_was_filled_at_the_open_of_a_bar_goes_through_all_of_it(fill: FillRule, lasts: bool) -> None:
    """A bar falls by half and comes back: who had its open was in it, who came within it may not have been."""
    bars = tuple(bar(5 * number, 100, 101, low, 100, minutes=5) for number, low in enumerate((50, 100)))
    terms, sent = replace(TERMS, fill=fill), order(2 / 60, size=30, leverage=5)
    quotes = WrittenQuotes(Market((), bars))
    events = activity(paper.create(terms), account(cash=1_000), [sent], quotes=quotes, until=NOON + 5 * MINUTE).events
    fills = [each for each in events if isinstance(each, Fill)]
    assert [each.liquidation for each in fills] == ([] if lasts else [False, True])
    assert [each.happened_at for each in fills] == ([] if lasts else [NOON + 2_500, NOON + 5 * MINUTE])


class CountingQuotes(WrittenQuotes):
    """Counts how often it is asked for midpoints."""

    asked = 0

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        self.asked += 1
        return super().mids(symbol, since=since, until=until)


def test_a_quiet_stretch_is_asked_about_by_the_hour() -> None:
    """Two days without a bar, some midpoints in them: as if every minute had been asked for, with few questions."""
    quiet, said = 2 * 24 * 60, (mid(700.5, 96), mid(701, 97), mid(1_500, 95))
    quotes = CountingQuotes(Market(said))
    windows, position = MarginWindows(quotes, until=NOON + quiet * MINUTE, fill="next_open"), held(1).position
    seen, walked_to = dict[int, float](), NOON
    while (window := windows.next_window([position], walked_to)).ready_at <= NOON + quiet * MINUTE:
        if ways := windows.extremes([position], window):
            seen[(window.start - NOON) // MINUTE] = ways["BTC"].worst_e8 / E8
        walked_to = window.end
    assert seen == {700: 96, 701: 97, 1_500: 95}
    assert (walked_to - NOON) // MINUTE == quiet - 2 and quotes.asked < 300
    assert quotes.seen <= NOON + quiet * MINUTE


@settings(max_examples=examples(300))
@given(
    lows=st.lists(st.sampled_from((*[99.0] * 12, 95.0, 91.0, 70.0, None)), min_size=1, max_size=16),
    size=st.sampled_from((1.0, -1.0, 0.1)),
    cash=st.sampled_from((10.0, 60.0, 1_000.0)),
    moved=st.integers(-10, 40),
    walked_by=st.integers(-5, 40),
    after=st.integers(0, 90),
    paid=st.booleans(),
    ended=st.sampled_from((False, False, False, True)),
    margin=st.sampled_from(("cross", "isolated")),
)
def test_what_is_seen_without_a_simulation_is_what_one_would_say(
    lows: list[float | None],
    size: float,
    cash: float,
    moved: int,
    walked_by: int,
    after: int,
    paid: bool,
    ended: bool,
    margin: MarginMode,
) -> None:
    bars = [bar(5 * at, 100, 200 - low, low, 100, minutes=5) for at, low in enumerate(lows) if low is not None]
    ends = {"BTC": Settlement(NOON + 30 * MINUTE, 100 * E8)} if ended else {}
    market = Market((), tuple(bars), rates={str(NOON + HOUR): 10_000_000} if paid else {}, settlements=ends)
    holds = held(size, leverage=2, moved_at=NOON + moved * MINUTE)
    of = account(holds, cash=cash, margin=margin, walked=walked_by)
    booked = BookedAccount(of, (), WrittenQuotes(market), NOON + after * MINUTE)
    quiet = walked_quietly(booked)
    event("quiet" if quiet is not None else "simulated")
    said = AccountSimulation(booked, terms=TERMS, margins=MarginTiers(TERMS.default_max_leverage)).simulate()
    if quiet is not None:
        assert (said.events, said.walked_until) == ((), quiet)
