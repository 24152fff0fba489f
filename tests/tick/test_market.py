"""What a packet shows of a symbol: its bars, its price, its book, its features."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.clock import VirtualClock
from tapebook.context import PACKET_VERSIONS, Market
from tapebook.db import connect, migrate
from tapebook.domain.market import AssetContext, Candle, FeatureRow, FundingRate, Liquidity, Mid, SettledFunding
from tapebook.domain.units import DAY, E8, HOUR, MINUTE
from tapebook.errors import Damaged
from tapebook.history.importer import assumed_known_at
from tapebook.tape.bars import regime_of
from tapebook.tape.forward_tape import ForwardTape
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import GRACE_MS, View
from tapebook.tick.prepare import read_market, with_features

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


def test_of_a_reel_with_prices_alone_no_books_are_asked_for(tape: Tape) -> None:
    tape.commit([*all_minutes(), Mid("BTC", END, 7)])
    reel = ForwardTape(tape._db, clock=VirtualClock(END))
    assert reel.has_prices_alone and not tape.has_prices_alone
    found = [read_market(each, "BTC", minutes=5, count=3, view=View(END)) for each in (tape, reel)]
    assert with_features(tape, found[0], view=View(END)) == with_features(reel, found[1], view=View(END)) == found[0]
    tape.commit([AssetContext("BTC", END, 1, 2, 3.0, 4, 5)])
    assert not ForwardTape(tape._db, clock=VirtualClock(END)).has_prices_alone


def test_feature_that_is_no_json_is_damage(tape: Tape) -> None:
    tape.commit([FeatureRow("BTC", END, "{", "pressure")])
    with pytest.raises(Damaged, match="a feature of BTC is not readable"):
        with_features(tape, read_market(tape, "BTC", minutes=5, count=3, view=View(END)), view=View(END))


def history(tape: Tape, *, rate_e12: int = 800_000_000) -> None:
    """Thirty hours of imported minutes, and funding every eight hours."""
    rates = [FundingRate("BTC", at, rate_e12, 0) for at in range(T0, END, 8 * HOUR)]
    tape.commit([*all_minutes(), *rates], assumed=assumed_known_at)


def seen(tape: Tape, as_of: int = END + GRACE_MS, *, renderer: int = 3) -> Market:
    """What a packet of a renderer shows."""
    view, version = View(as_of), PACKET_VERSIONS[renderer]
    market = read_market(tape, "BTC", minutes=5, count=100, view=view, version=version)
    return with_features(tape, market, view=view, version=version)


HISTORY = ["fundingPressure", "volatilityProfile", "positioningPressure"]


def test_imported_history_has_features_and_funding_by_the_hour(tape: Tape) -> None:
    history(tape)
    reel = ForwardTape(tape._db, clock=VirtualClock(END))
    found = seen(tape)
    assert found == seen(reel) and reel.has_prices_alone
    assert [(feature.name, feature.bucket_ts) for feature in found.features] == [(name, END) for name in HISTORY]
    assert found.settled_funding == SettledFunding("BTC", T0 + 24 * HOUR, 800_000_000, 8) and found.context is None
    assert found.features[0].line == "fundingRate8h=0.0008000000 fundingRateAnnual=0.876000 regime=crowded_long"


def test_features_of_history_are_those_of_the_boundary_before(tape: Tape) -> None:
    """Five minutes apart, from what was known when the grace of their last bar was over."""
    history(tape)
    for read in (tape, ForwardTape(tape._db, clock=VirtualClock(END))):
        at = [(moment, seen(read, END - HOUR + moment)) for moment in (GRACE_MS - 1, GRACE_MS, MINUTE, 5 * MINUTE)]
        boundaries = [market.features[1].bucket_ts - (END - HOUR) for _, market in at]
        assert boundaries == [-5 * MINUTE, 0, 0, 0]
        assert at[1][1].features == at[2][1].features == at[3][1].features != at[0][1].features


def test_renderer_2_sees_neither_regime_nor_derived_features(tape: Tape) -> None:
    history(tape)
    old, new = seen(tape, renderer=2), seen(tape)
    assert (old.regime, old.features, old.settled_funding, old.context) == (None, (), None, None)
    assert new.regime == regime_of(new.bars) is not None


def test_what_was_stored_is_used_as_it_is(tape: Tape) -> None:
    """One stored feature of the last day is enough: a tape that was observed is never mixed with derived figures."""
    history(tape)
    tape.commit([FeatureRow("BTC", END - DAY, '{"regime":"r"}', "pressure")], assumed=lambda fact: fact.bucket_ts)
    found = seen(tape, END)
    assert [(feature.name, feature.metrics) for feature in found.features] == [("fundingPressure", (("regime", "r"),))]
    assert found.settled_funding is None
    # Older than that, it tells of another market.
    assert [feature.name for feature in seen(tape).features] == HISTORY


def test_a_context_of_the_last_day_speaks_for_funding(tape: Tape) -> None:
    history(tape)
    tape.commit([AssetContext("BTC", END, 1, 2, 3.0, 4, 5)])
    found = seen(tape)
    assert found.context is not None and found.settled_funding is None and found.features == ()


def test_without_funding_and_with_too_few_bars_there_is_nothing(tape: Tape) -> None:
    tape.commit([minute(END - back * MINUTE) for back in range(1, 10)], assumed=assumed_known_at)
    found = seen(tape)
    assert (found.features, found.settled_funding, found.regime) == ((), None, "unknown")


def test_funding_that_ended_long_ago_is_not_shown(tape: Tape) -> None:
    rates = [FundingRate("BTC", at, 1, 0) for at in (T0, T0 + 8 * HOUR)]
    tape.commit([*all_minutes(), *rates], assumed=assumed_known_at)
    assert seen(tape, T0 + 24 * HOUR).settled_funding is not None
    assert seen(tape, T0 + 24 * HOUR + 5 * MINUTE + GRACE_MS).settled_funding is None
