"""What is known of a symbol: nulls where nothing is, ages and staleness where something is, gaps of the last hour."""

from collections.abc import Sequence

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import AssetContext, FeatureRow, Gap, Liquidity, Mid, Observation
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND, iso_text
from tapebook.report.market import market_view
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View

T0 = 1_767_571_200_000
FEATURES = ("liquidityProfile", "fundingPressure", "volatilityProfile", "positioningPressure")


def tape_with(*facts: Observation, gaps: Sequence[Gap] = (), filled: Sequence[Gap] = ()) -> Tape:
    """A tape that learnt everything at T0."""
    db = connect(":memory:")
    migrate(db, (MIGRATIONS,))
    tape = Tape(db, clock=VirtualClock(T0))
    tape.commit(facts, gaps=gaps)
    tape.commit([], filled=filled)
    return tape


def gap(channel: str, subject: str, start: int, end: int) -> Gap:
    return Gap("hyperliquid", channel, subject, T0 + start, T0 + end, "no frame")


def test_what_is_not_known_is_null() -> None:
    found = market_view(tape_with(AssetContext("BTC", T0, 1, 2, 3.0, 4, 5)), "BTC", view=View(T0))
    nothing = dict.fromkeys(("midPrice", "regime", *FEATURES))
    assert found == {"symbol": "BTC", "asOf": iso_text(T0), "gaps": [], **nothing}


@pytest.mark.parametrize(("later", "stale"), [(0, False), (60 * SECOND, False), (61 * SECOND, True), (HOUR, True)])
def test_a_price_says_how_old_it_is(later: int, stale: bool) -> None:
    found = market_view(tape_with(Mid("BTC", T0, 123_450_000)), "BTC", view=View(T0 + later))["midPrice"]
    assert found == {"price": 1.2345, "at": iso_text(T0), "ageSeconds": later // SECOND, "stale": stale}


@pytest.mark.parametrize(("later", "stale"), [(0, False), (15 * MINUTE, False), (15 * MINUTE + 1, True)])
@pytest.mark.parametrize("family", ["pressure", "volatility", "positioning"])
def test_a_feature_says_how_old_it_is(family: str, later: int, stale: bool) -> None:
    names = {"pressure": FEATURES[1], "volatility": FEATURES[2], "positioning": FEATURES[3]}
    tape = tape_with(FeatureRow("BTC", T0, '{"figure":0.5,"regime":null}', family))
    found = dict(market_view(tape, "BTC", view=View(T0 + later)))
    assert found[names[family]] == {
        **{"figure": 0.5, "regime": None, "at": iso_text(T0)},
        **{"ageSeconds": later // SECOND, "stale": stale},
    }
    assert [name for name in FEATURES if found[name] is not None] == [names[family]]


def test_the_book_is_profiled_at_the_moment_of_the_question() -> None:
    tape = tape_with(Liquidity("BTC", T0, 10**8, 1.5, 10.0, 50.0, 100.0, 0.25))
    found = market_view(tape, "BTC", view=View(T0 + 10 * MINUTE))["liquidityProfile"]
    assert found is not None
    assert float(found["spreadBps"]) == 1.5 and float(found["depthUsd1Pct"]) == 100.0 and found["regime"] is None
    assert (found["at"], found["ageSeconds"], found["stale"]) == (iso_text(T0), 600, False)


def test_a_book_too_old_to_speak_for_now_is_told_to_be_stale_and_after_a_day_is_null() -> None:
    tape = tape_with(Liquidity("BTC", T0, 10**8, 1.5, 10.0, 50.0, 100.0, 0.25))
    found = market_view(tape, "BTC", view=View(T0 + 15 * MINUTE + 1))["liquidityProfile"]
    assert found is not None and found["stale"] and float(found["spreadBps"]) == 1.5
    assert market_view(tape, "BTC", view=View(T0 + DAY + 1))["liquidityProfile"] is None


def test_gaps_of_the_last_hour_that_concern_the_symbol() -> None:
    recent = gap("mids", "*", -30 * MINUTE, -20 * MINUTE)
    own = gap("books", "BTC", -10 * MINUTE, -5 * MINUTE)
    others = [gap("books", "ETH", -10 * MINUTE, -5 * MINUTE), gap("mids", "*", -3 * HOUR, -2 * HOUR)]
    tape = tape_with(Mid("BTC", T0, 1), gaps=[recent, own, *others], filled=[own])
    found = market_view(tape, "BTC", view=View(T0 + MINUTE))["gaps"]
    assert found == [
        {"channel": "mids", "from": iso_text(recent.from_ts), "to": iso_text(recent.to_ts), "filled": False},
        {"channel": "books", "from": iso_text(own.from_ts), "to": iso_text(own.to_ts), "filled": True},
    ]


def test_a_gap_is_not_filled_before_it_was() -> None:
    own = gap("books", "BTC", -10 * MINUTE, -5 * MINUTE)
    tape = tape_with(Mid("BTC", T0, 1), gaps=[own], filled=[own])
    (found,) = market_view(tape, "BTC", view=View(T0))["gaps"]
    assert found["filled"] is False


def test_nothing_of_the_future_is_shown() -> None:
    facts: list[Observation] = [Mid("BTC", T0, 1), FeatureRow("BTC", T0, "{}", "pressure")]
    tape = tape_with(*facts, gaps=[gap("mids", "*", -MINUTE, 0)])
    found = dict(market_view(tape, "BTC", view=View(T0 - 1)))
    assert found["midPrice"] is None and not any(found[name] for name in FEATURES) and found["gaps"] == []
