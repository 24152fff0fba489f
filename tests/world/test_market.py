"""The world as its users see it: schedule, order, determinism, resuming, and a market traders would recognise."""

import hashlib
import math
import os
import subprocess
import sys
from decimal import Decimal
from itertools import islice, pairwise
from statistics import correlation
from typing import TypeVar

import msgspec
import pytest

from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, Observation
from tapebook.domain.units import DAY, E8, E12, HOUR, MINUTE, parse_instant
from tapebook.world.assets import DEFAULT_SYMBOLS, asset_of
from tapebook.world.cadence import STEP, STEPS_PER_MINUTE
from tapebook.world.listings import hourly_rate
from tapebook.world.market import World, WorldStep

START = parse_instant("2026-01-05T00:00:00Z")
HOUR_OF_STEPS = HOUR // STEP

Kind = TypeVar("Kind", Mid, Candle, Liquidity, AssetContext, FundingRate)

_DIGEST_ELSEWHERE = """
import hashlib, itertools, msgspec
from tapebook.world.market import World
told = hashlib.sha256()
for step in itertools.islice(World(7, start={start}).steps(), {steps}):
    told.update(msgspec.json.encode(step))
print(told.hexdigest())
"""


@pytest.fixture(scope="module")
def days() -> list[WorldStep]:
    """Three days of the whole market."""
    return list(islice(World(42, start=START).steps(), 3 * DAY // STEP + 1))


def seen(steps: list[WorldStep], kind: type[Kind], symbol: str) -> list[Kind]:
    """All observations of one kind and symbol."""
    return [each for step in steps for each in step.observations if isinstance(each, kind) and each.symbol == symbol]


def prices_in(observation: Observation) -> tuple[int, ...]:
    """Every price an observation carries."""
    match observation:
        case Mid(price_e8=price) | Liquidity(mid_e8=price):
            return (price,)
        case Candle():
            return observation.open_e8, observation.high_e8, observation.low_e8, observation.close_e8
        case AssetContext():
            return observation.mark_e8, observation.oracle_e8
    return ()


def test_the_same_seed_tells_the_same_story() -> None:
    one, two = (list(islice(World(7, start=START).steps(), 2 * HOUR_OF_STEPS)) for _ in range(2))
    assert one == two


def test_a_world_can_be_told_twice() -> None:
    world = World(7, start=START)
    assert list(islice(world.steps(), 100)) == list(islice(world.steps(), 100))


def test_another_seed_tells_another_story() -> None:
    one, two = (next(World(seed, start=START).steps()) for seed in (7, 8))
    assert one != two


@pytest.mark.parametrize("hash_seed", ["0", "1234"])
def test_the_story_does_not_depend_on_pythons_hash(hash_seed: str) -> None:
    here = hashlib.sha256()
    for step in islice(World(7, start=START).steps(), HOUR_OF_STEPS + 1):
        here.update(msgspec.json.encode(step))
    code = _DIGEST_ELSEWHERE.format(start=START, steps=HOUR_OF_STEPS + 1)
    env = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    there = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here.hexdigest()


@pytest.mark.parametrize(
    "into",
    [-1, 0, 1, STEP - 1, STEP, MINUTE - STEP, MINUTE, MINUTE + 1, HOUR - STEP, HOUR - 1, HOUR, HOUR + 7 * MINUTE],
)
def test_after_resumes_exactly(days: list[WorldStep], into: int) -> None:
    after = START + 5 * HOUR + into
    resumed = list(islice(World(42, start=START).steps(after=after), HOUR_OF_STEPS))
    first = resumed[0].at
    assert after < first <= after + STEP
    position = (first - START) // STEP
    assert resumed == days[position : position + HOUR_OF_STEPS]


def test_after_a_time_before_the_start_begins_at_the_start() -> None:
    assert next(World(7, start=START).steps(after=START - DAY)).at == START


def test_one_more_symbol_leaves_the_others_alone(days: list[WorldStep]) -> None:
    few = World(42, start=START, symbols=("ETH", "kPEPE"))
    for narrow, wide in zip(few.steps(), days[: HOUR_OF_STEPS + 1], strict=False):
        theirs = tuple(each for each in wide.observations if each.symbol in ("ETH", "kPEPE"))
        assert narrow == WorldStep(wide.at, theirs)


def test_steps_come_every_five_seconds(days: list[WorldStep]) -> None:
    assert [step.at for step in days] == list(range(START, START + 3 * DAY + 1, STEP))


def test_what_is_due_when_and_in_which_order(days: list[WorldStep]) -> None:
    for number, step in enumerate(days[: 2 * HOUR_OF_STEPS + 1]):
        due: list[type] = [Mid]
        due += [Candle] if number and step.at % MINUTE == 0 else []
        due += [Liquidity, AssetContext] if step.at % (5 * MINUTE) == 0 else []
        due += [FundingRate] if number and step.at % HOUR == 0 else []
        expected = [(kind, symbol) for kind in due for symbol in DEFAULT_SYMBOLS]
        assert [(type(each), each.symbol) for each in step.observations] == expected


def test_buckets_say_when_it_happened(days: list[WorldStep]) -> None:
    for step in days[: HOUR_OF_STEPS + 1]:
        for each in step.observations:
            assert each.bucket_ts == step.at - (MINUTE if isinstance(each, Candle) else 0)


@pytest.mark.parametrize("symbol", DEFAULT_SYMBOLS)
def test_candles_hold_the_mids_of_their_minute(days: list[WorldStep], symbol: str) -> None:
    mids = [mid.price_e8 for mid in seen(days, Mid, symbol)]
    for number, candle in enumerate(seen(days, Candle, symbol)):
        minute = mids[number * STEPS_PER_MINUTE : (number + 1) * STEPS_PER_MINUTE]
        assert (candle.bucket_ts, candle.granularity_sec) == (START + number * MINUTE, 60)
        assert (candle.open_e8, candle.close_e8) == (minute[0], minute[-1])
        assert candle.low_e8 <= min(minute) <= max(minute) <= candle.high_e8


def test_minutes_without_trades_are_flat_and_only_on_quiet_assets(days: list[WorldStep]) -> None:
    empty = [each for step in days for each in step.observations if isinstance(each, Candle) and not each.sample_count]
    assert empty
    assert {candle.symbol for candle in empty} <= {"DOGE", "kPEPE"}
    assert all(candle.high_e8 == candle.low_e8 and candle.volume_base == 0 for candle in empty)


def test_prices_are_on_the_grid(days: list[WorldStep]) -> None:
    observations = {each for step in days[::60] for each in step.observations}
    for symbol, price in {(each.symbol, price) for each in observations for price in prices_in(each)}:
        _, digits, exponent = (Decimal(price) / E8).normalize().as_tuple()
        assert isinstance(exponent, int)
        assert exponent >= 0 or len(digits) <= 5
        assert -exponent <= 6 - asset_of(symbol).size_decimals


def test_reports_speak_of_the_mid_of_their_step(days: list[WorldStep]) -> None:
    for step in days[:: 5 * STEPS_PER_MINUTE]:
        mids = {each.symbol: each.price_e8 for each in step.observations if isinstance(each, Mid)}
        for each in step.observations:
            if isinstance(each, Liquidity):
                assert each.mid_e8 == mids[each.symbol]
            if isinstance(each, AssetContext):
                assert each.mark_e8 == mids[each.symbol]
                # Both are rounded to the grid, whose tick is up to 4 bps of the smallest price.
                assert each.mark_e8 / each.oracle_e8 - 1 == pytest.approx(each.premium_e12 / E12, abs=0.0004)


@pytest.mark.parametrize("symbol", DEFAULT_SYMBOLS)
def test_funding_follows_the_premium_of_its_hour(days: list[WorldStep], symbol: str) -> None:
    settled = seen(days, FundingRate, symbol)
    contexts = {context.bucket_ts: context for context in seen(days, AssetContext, symbol)}
    assert [rate.bucket_ts for rate in settled] == list(range(START + HOUR, START + 3 * DAY + 1, HOUR))
    for rate in settled:
        assert rate.rate_e12 == pytest.approx(hourly_rate(rate.premium_e12 / E12) * E12, abs=1)
        assert contexts[rate.bucket_ts].funding_e12 == rate.rate_e12
        sampled = [contexts[rate.bucket_ts - back * 5 * MINUTE].premium_e12 for back in range(12)]
        assert min(sampled) - 5e8 < rate.premium_e12 < max(sampled) + 5e8


def test_funding_has_both_signs_somewhere(days: list[WorldStep]) -> None:
    rates = [rate for symbol in DEFAULT_SYMBOLS for rate in seen(days, FundingRate, symbol)]
    high = [rate.rate_e12 for rate in rates if rate.premium_e12 > 600_001_000]
    low = [rate.rate_e12 for rate in rates if rate.premium_e12 < -500_001_000]
    assert high and min(high) > 12_500_000
    assert low and max(low) < 0


def test_bitcoin_and_ether_move_together(days: list[WorldStep]) -> None:
    btc, eth = (_five_minute_returns(days, symbol) for symbol in ("BTC", "ETH"))
    assert 0.3 < correlation(btc, eth) < 0.95


@pytest.mark.parametrize("symbol", DEFAULT_SYMBOLS)
def test_every_asset_moves_about_as_much_as_it_should(days: list[WorldStep], symbol: str) -> None:
    returns = _five_minute_returns(days, symbol)
    realised = math.sqrt(sum(each**2 for each in returns) / 3)
    assert 0.4 < realised / asset_of(symbol).daily_vol < 2.0


def test_a_world_starts_on_the_hour() -> None:
    with pytest.raises(ValueError, match=f"on the hour.*use {START}"):
        World(7, start=START + 5_000)


@pytest.mark.parametrize(
    ("symbols", "remedy"),
    [(("BTC", "XRP"), "choose from BTC, ETH"), ((), "choose from BTC, ETH"), (("BTC", "BTC"), "name each once")],
)
def test_symbols_are_checked_at_once(symbols: tuple[str, ...], remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        World(7, start=START, symbols=symbols)


def _five_minute_returns(steps: list[WorldStep], symbol: str) -> list[float]:
    closes = [candle.close_e8 for candle in seen(steps, Candle, symbol)][4::5]
    return [math.log(after / before) for before, after in pairwise(closes)]
