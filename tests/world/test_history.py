"""History is what the steps tell of a symbol, without the steps."""

import pytest

from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.world.market import World, symbol_candles, symbol_history
from tests.world.exchange_client import START


def told(world: World, symbol: str, *, after: int, until: int) -> list[Candle | FundingRate]:
    found: list[Candle | FundingRate] = []
    for step in world.steps(after=after):
        if step.at > until:
            break
        found += [
            each for each in step.observations if isinstance(each, Candle | FundingRate) and each.symbol == symbol
        ]
    return found


def known_at(fact: Candle | FundingRate) -> int:
    return fact.end if isinstance(fact, Candle) else fact.bucket_ts


@pytest.mark.parametrize("symbol", ["BTC", "kPEPE"])
@pytest.mark.parametrize(
    ("after", "until"),
    [(0, 3 * HOUR), (HOUR, 2 * HOUR), (HOUR + 1, 2 * HOUR - 1), (DAY, DAY + 61 * MINUTE), (5_000, 5_000), (HOUR, 0)],
)
def test_history_is_what_the_steps_tell(symbol: str, after: int, until: int) -> None:
    world = World(7, start=START)
    found = list(symbol_history(world, symbol, after=START + after, until=START + until))
    assert sorted(found, key=known_at) == found, "in the order they became known"
    assert {*found} == {*told(world, symbol, after=START + after, until=START + until)}
    assert len(found) == len({*found})


def test_candles_alone_begin_with_the_world() -> None:
    bars = list(symbol_candles(World(7, start=START), "ETH", until=START + HOUR))
    assert [bar.bucket_ts for bar in bars] == list(range(START, START + HOUR, MINUTE))
