"""The minute path and the mids that hang in it."""

import itertools
import math
from random import Random

import pytest

from tapebook.world.assets import PriceHabit, asset_of, quote_e8, ranging
from tapebook.world.cadence import MINUTES_PER_DAY
from tapebook.world.drivers import Driver, DriverMove
from tapebook.world.listings import AssetPricePath, PriceMinute, minute_mids_e8
from tapebook.world.random_streams import random_stream

BTC, KPEPE = asset_of("BTC"), asset_of("kPEPE")
STILL = DriverMove(calm=0.0, jump=0.0, jump_step=0, vol=1.0)


def minute(**changes: object) -> PriceMinute:
    """A minute of bitcoin from 70,000 to 70,100 unless told otherwise."""
    usual: dict[str, object] = {
        "opened": math.log(70_000),
        "closed": math.log(70_100),
        "heat": 1.0,
        "jumps": (),
        "quiet": False,
    }
    return PriceMinute(**(usual | changes))  # type: ignore[arg-type]


def test_the_last_mid_is_where_the_minute_closes() -> None:
    mids = minute_mids_e8(BTC, minute(), Random(1))
    assert len(mids) == 12
    assert mids[-1] == quote_e8(70_100, 1)
    assert len(set(mids)) > 6


def test_in_a_quiet_minute_the_mid_stands_still() -> None:
    mids = minute_mids_e8(BTC, minute(closed=math.log(70_000), quiet=True), Random(1))
    assert set(mids) == {quote_e8(70_000, 1)}


def test_a_jump_falls_on_one_step() -> None:
    mids = minute_mids_e8(BTC, minute(closed=math.log(72_000), jumps=((7, math.log(72_000 / 70_000)),)), Random(1))
    changes = [math.log(after / before) for before, after in itertools.pairwise(mids)]
    assert max(changes) == changes[6] > 0.025
    assert mids[-1] == quote_e8(72_000, 1)


def test_the_market_moves_an_asset_by_its_beta() -> None:
    up, still = AssetPricePath(BTC, 5), AssetPricePath(BTC, 5)
    moved = up.next_minute(DriverMove(calm=0.1, jump=0.0, jump_step=0, vol=1.0), 1.0).closed
    assert moved - still.next_minute(STILL, 1.0).closed == pytest.approx(0.1 * BTC.common_vol, rel=1e-4)


def test_a_price_far_from_home_comes_back_over_months() -> None:
    pushed, left = AssetPricePath(BTC, 5), AssetPricePath(BTC, 5)
    push = DriverMove(calm=1.0 / BTC.common_vol, jump=0.0, jump_step=0, vol=1.0)
    away = [pushed.next_minute(push, 1.0).closed - left.next_minute(STILL, 1.0).closed]
    away += [
        pushed.next_minute(STILL, 1.0).closed - left.next_minute(STILL, 1.0).closed for _ in range(15 * MINUTES_PER_DAY)
    ]
    assert away[-1] / away[0] == pytest.approx(0.5 ** (15 / 60))


def test_quiet_minutes_come_now_and_then_and_the_quote_catches_up() -> None:
    path = AssetPricePath(KPEPE, 5)
    minutes = [path.next_minute(STILL, 1.0) for _ in range(10_000)]
    quiet = [each for each in minutes if each.quiet]
    assert 20 < len(quiet) < 400
    assert all(each.change == 0.0 for each in quiet)
    assert all(after.opened == before.closed for before, after in itertools.pairwise(minutes))


def test_liquid_assets_are_never_quiet() -> None:
    path = AssetPricePath(BTC, 5)
    assert not any(path.next_minute(STILL, 1.0).quiet for _ in range(2_000))


def test_a_trend_moves_a_window_of_100_bars_by_more_than_half_a_percent() -> None:
    """Windows of 500 minutes that lie within one trend of the market go its way by 0.5 % on average, and mostly."""
    moves = [move for seed in range(4) for move in _moves_with_the_trend(seed)]
    assert len(moves) > 30
    assert sum(moves) / len(moves) > 0.005
    assert sum(move > 0 for move in moves) / len(moves) > 0.6


def _moves_with_the_trend(seed: int) -> list[float]:
    market, path = Driver(random_stream(seed, "market")), AssetPricePath(BTC, seed)
    moves, opened, age = [], 0.0, 0
    for _ in range(40 * MINUTES_PER_DAY):
        name = market.chain.regime.name
        current = path.next_minute(market.next_minute(1.0), 1.0)
        age = age + 1 if market.chain.regime.name == name else 0
        opened = current.opened if age % 500 == 0 else opened
        if age % 500 == 499 and name.startswith("trend"):
            moves.append((current.closed - opened) * (1 if "up" in name else -1))
    return moves


def range_of_days(habit: PriceHabit, *, days: int) -> list[float]:
    """How far a coin in a habit strayed on each day, in log price."""
    path = AssetPricePath(ranging(KPEPE, habit), seed=7)
    market = Driver(random_stream(7, "market"))
    found = []
    for _ in range(days):
        closes = [path.next_minute(market.next_minute(1.0), 1.0).closed for _ in range(MINUTES_PER_DAY)]
        found.append(max(closes) - min(closes))
    return found


def test_a_range_lasts_as_long_as_it_is_told_to_and_then_swings() -> None:
    lasting, ending = range_of_days(PriceHabit(), days=6), range_of_days(PriceHabit(range_days=3), days=6)
    assert max(lasting) < 0.09
    assert ending[:3] == lasting[:3]
    assert min(ending[3:]) > 0.12
