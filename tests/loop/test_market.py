"""What a packet shows of a symbol: its bars, its price, its book, its features."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import AssetContext, Candle, FeatureRow, Liquidity, Mid
from tapebook.domain.money import E8
from tapebook.errors import Damaged
from tapebook.loop.market import read_market, with_features
from tapebook.tape.reel import Reel
from tapebook.tape.store import MIGRATIONS, Tape, View

T0 = 500_000 * HOUR
END = T0 + 30 * HOUR


@pytest.fixture
def tape() -> Iterator[Tape]:
    """An empty tape whose clock stands after all that is written to it."""
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        yield Tape(db, clock=VirtualClock(END))


def minute(at: int) -> Candle:
    """A minute with a price and a volume of its own."""
    price = (100 + at // MINUTE % 37) * E8
    return Candle("BTC", 60, at, price, price + E8, price - E8, price + 5, float(at // MINUTE % 5), 0.0, 1)


def all_minutes() -> list[Candle]:
    """Thirty hours of them."""
    return [minute(at) for at in range(T0, END, MINUTE)]


def test_market_with_everything(tape: Tape) -> None:
    book = Liquidity("BTC", END - MINUTE, 100 * E8, 1.5, 10.0, 50.0, 100.0, 0.25)
    context = AssetContext("BTC", END, 1, 2, 3.0, 4, 5)
    families = ("pressure", "volatility")
    rows = [FeatureRow("BTC", END - at, f'{{"regime":"r{at}"}}', name) for at, name in enumerate(families)]
    tape.commit([*all_minutes(), Mid("BTC", END, 7), book, context, *rows])
    plain = read_market(tape, "BTC", minutes=5, count=3, view=View(END))
    assert (len(plain.bars), plain.mid, plain.liquidity, plain.features) == (3, Mid("BTC", END, 7), None, ())
    full = with_features(tape, plain, view=View(END))
    assert (full.bars, full.liquidity, full.context) == (plain.bars, book, context)
    assert [feature.name for feature in full.features] == ["liquidityProfile", "fundingPressure", "volatilityProfile"]
    assert full.features[1:] == tuple(
        type(full.features[0])(name, END - at, (("regime", f"r{at}"),))
        for at, name in enumerate(("fundingPressure", "volatilityProfile"))
    )


def test_book_of_days_ago_is_shown_with_its_age_and_not_profiled(tape: Tape) -> None:
    old = Liquidity("BTC", END - 25 * HOUR, 100 * E8, 1.5, 10.0, 50.0, 100.0, 0.25)
    tape.commit([old])
    found = with_features(tape, read_market(tape, "BTC", minutes=5, count=3, view=View(END)), view=View(END))
    assert (found.liquidity, found.features) == (old, ())


def test_of_a_reel_with_prices_alone_nothing_else_is_asked(tape: Tape) -> None:
    tape.commit([*all_minutes(), Mid("BTC", END, 7)])
    reel = Reel(tape._db, clock=VirtualClock(END))
    assert reel.has_prices_alone("BTC") and not tape.has_prices_alone("BTC")
    found = [read_market(each, "BTC", minutes=5, count=3, view=View(END)) for each in (tape, reel)]
    assert with_features(tape, found[0], view=View(END)) == with_features(reel, found[1], view=View(END)) == found[0]
    tape.commit([AssetContext("BTC", END, 1, 2, 3.0, 4, 5)])
    assert not Reel(tape._db, clock=VirtualClock(END)).has_prices_alone("BTC")


def test_feature_that_is_no_json_is_damage(tape: Tape) -> None:
    tape.commit([FeatureRow("BTC", END, "{", "pressure")])
    with pytest.raises(Damaged, match="a feature of BTC is not readable"):
        with_features(tape, read_market(tape, "BTC", minutes=5, count=3, view=View(END)), view=View(END))
