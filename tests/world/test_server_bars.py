"""Bars: the forming minute ends as the final bar, and larger bars are rolled from minutes as the tape rolls them."""

from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace

from tapebook.domain.market import Candle
from tapebook.domain.units import HOUR, MINUTE
from tapebook.world.assets import asset_of
from tapebook.world.cadence import STEPS_PER_MINUTE
from tapebook.world.market import World
from tapebook.world.server.bars import INTERVALS, CoinBars, forming_states, merge_bars
from tests.world.exchange_client import START


def bar(number: int, prices: tuple[int, int, int, int], volume: float = 1.0) -> Candle:
    opened, high, low, close = prices
    trades = 3 if volume else 0
    return Candle("X", 60, START + number * MINUTE, opened, high, low, close, volume, 2 * volume, trades)


def flat(number: int, price: int) -> Candle:
    return bar(number, (price, price, price, price), volume=0.0)


@pytest.mark.parametrize("symbol", ["BTC", "DOGE", "kPEPE"])
def test_a_forming_bar_grows_into_the_final_one(symbol: str) -> None:
    decimals = asset_of(symbol).size_decimals
    moved = 0
    for number, at, ((listing, turn),) in World(5, start=START, symbols=(symbol,)).walk_minutes():
        if number == 300:
            break
        mids, final = listing.minute_bar(turn, number=number, at=at)
        states = forming_states(final, mids, Random(number), size_decimals=decimals)
        assert len(states) == STEPS_PER_MINUTE
        if not final.sample_count:
            assert states == [None] * STEPS_PER_MINUTE
            continue
        assert states[-1] == final
        traded = [state for state in states if state is not None]
        for earlier, later in pairwise(traded):
            assert earlier.high_e8 <= later.high_e8 and earlier.low_e8 >= later.low_e8
            assert earlier.volume_base <= later.volume_base and earlier.sample_count <= later.sample_count
            assert earlier == later or earlier.sample_count < later.sample_count, "nothing changes without a trade"
        for state in traded:
            assert state.low_e8 <= min(state.open_e8, state.close_e8) <= max(state.open_e8, state.close_e8)
            assert max(state.open_e8, state.close_e8) <= state.high_e8
            assert state.open_e8 == final.open_e8 and state.volume_base == round(state.volume_base, decimals) > 0
        moved += len(set(traded)) > 3
    assert moved > 100


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        ([bar(0, (10, 12, 9, 11)), bar(1, (11, 15, 11, 14))], (10, 15, 9, 14)),
        ([flat(0, 50), bar(1, (11, 15, 11, 14))], (11, 15, 11, 14)),
        ([bar(0, (10, 12, 9, 11)), flat(1, 50)], (10, 12, 9, 11)),
        ([flat(0, 50), flat(1, 40)], (40, 40, 40, 40)),
    ],
)
def test_a_minute_without_trades_moves_nothing(minutes: list[Candle], expected: tuple[int, int, int, int]) -> None:
    merged = merge_bars(*minutes)
    assert merged is not None
    assert (merged.open_e8, merged.high_e8, merged.low_e8, merged.close_e8) == expected
    assert merged.bucket_ts == START
    assert merged.sample_count == sum(minute.sample_count for minute in minutes)


def plain(minutes: list[Candle], span: int) -> list[Candle]:
    """The bars of an interval by the plain rule: group, leave out what did not trade, take first, last and extremes."""
    groups: dict[int, list[Candle]] = {}
    for minute in minutes:
        groups.setdefault(minute.bucket_ts // span * span, []).append(minute)
    rolled = []
    for begins, group in groups.items():
        traded = [minute for minute in group if minute.volume_base] or group[-1:]
        rolled.append(
            Candle(
                *("X", span // 1_000, begins, traded[0].open_e8),
                *(max(each.high_e8 for each in traded), min(each.low_e8 for each in traded), traded[-1].close_e8),
                sum(each.volume_base for each in traded),
                sum(each.volume_quote_usd for each in traded),
                sum(each.sample_count for each in traded),
            )
        )
    return rolled


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("count", [1, 7, 59, 61, 180, 1_505])
def test_every_interval_is_rolled_by_the_plain_rule(interval: str, count: int) -> None:
    chance, bars, minutes = Random(3), CoinBars(), []
    for number in range(count):
        low = chance.randrange(100, 200)
        traded = bar(number, (low + 1, low + 5, low, low + 2), volume=float(chance.randrange(1, 9)))
        minutes.append(flat(number, low) if chance.random() < 0.4 else traded)
    for minute in minutes[:-1]:
        bars.close_minute(minute)
    # The last minute is still forming.
    found = bars.rows(interval, minutes[-1], start=0, end=START + 10 * 24 * HOUR)
    units = {"m": MINUTE, "h": HOUR, "d": 24 * HOUR}
    assert found == plain(minutes, int(interval[:-1]) * units[interval[-1]])


def test_a_minute_that_has_not_traded_yet_is_no_bar() -> None:
    bars = CoinBars()
    assert bars.rows("1m", None, start=0, end=START + HOUR) == []
    bars.close_minute(bar(0, (10, 12, 9, 11)))
    assert bars.rows("1m", None, start=0, end=START + HOUR) == [bar(0, (10, 12, 9, 11))]
    five = replace(bar(0, (10, 12, 9, 11)), granularity_sec=300)
    assert bars.rows("5m", None, start=0, end=START + HOUR) == [five]
