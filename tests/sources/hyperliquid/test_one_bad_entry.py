"""One row, venue or symbol that is damaged costs itself and nobody else, and is named."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, Observation, PredictedFunding
from tapebook.domain.units import HOUR, MINUTE, floor_to_step
from tapebook.sources.hyperliquid.rest import RestRequest, SourceTime
from tapebook.sources.hyperliquid.session import HyperliquidSession
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.wire import Ack, CandlesFrame, MidsFrame, read_frame
from tests.sources.hyperliquid.candles import START
from tests.sources.hyperliquid.recorder import Recorder

COINS = ("A", "B", "C", "D")
VENUES = ("BinPerp", "HlPerp", "BybitPerp")
NOW = floor_to_step(START, HOUR) + 20_000

# What a field may turn into. None of them is a number in a text, a list of rows or a moment of today.
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "abc", "nan", "NaN", "inf", "-inf", "1e999", True, [], {}, [[]], -1, -1.5, 10**30, {"x": 1}, "\x00"]
)


def universe() -> list[dict[str, Any]]:
    return [{"name": coin, "szDecimals": 2, "maxLeverage": 10} for coin in COINS]


def context(place: int) -> dict[str, Any]:
    amounts = {"openInterest": f"{place + 10}.0", "oraclePx": f"{place + 5}.0", "markPx": f"{place + 5}.25"}
    return {"funding": "0.0000125", "premium": "0.0001", "midPx": None, "impactPxs": None, **amounts}


def bar(coin: str, minute: int) -> dict[str, Any]:
    begins = floor_to_step(NOW, MINUTE) - (10 - minute) * MINUTE
    prices = {"o": "5.0", "h": "7.0", "l": "4.0", "c": "6.5"}
    return {"t": begins, "T": begins + MINUTE - 1, "s": coin, "i": "1m", "v": "12.5", "n": 3, **prices}


def predicted() -> list[Any]:
    slot = {"fundingRate": "0.0001", "nextFundingTime": NOW + HOUR, "fundingIntervalHours": 4}
    return [[coin, [[venue, dict(slot)] for venue in VENUES]] for coin in COINS]


def rate(hours: int) -> dict[str, Any]:
    return {"coin": "A", "fundingRate": "0.0001", "premium": "0.0", "time": floor_to_step(NOW, HOUR) - hours * HOUR + 7}


def damaged(payload: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """A copy of a payload with something else at one place; `...` removes what is there."""
    copy = json.loads(json.dumps(payload))
    at = copy
    for step in path[:-1]:
        at = at[step]
    if junk is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = junk
    return copy


def session() -> HyperliquidSession:
    settings = HyperliquidSourceSettings(spot=False, audit=False)
    made = HyperliquidSession(settings, resume={}, at=NOW)
    made.learn_names(RestRequest("names", "", 0), json.dumps({"universe": universe()}).encode(), at=NOW)
    return made


def answered(errand: RestRequest, payload: Any) -> Recorder:
    made, sink = session(), Recorder()
    made.handle_frame(Ack("subscribe", "candle", "A", ""), NOW)
    made.handle_answer(errand, json.dumps(payload).encode(), asked_at=NOW, now=SourceTime(NOW, NOW / 1_000))
    made.outbox.flush(sink)
    return sink


def check(errand: RestRequest, payload: Any, bad: Any, lost: Callable[[Any], bool]) -> Recorder:
    """All facts but those that depend on the damaged place arrive, unchanged, and something is said of it."""
    whole, part = answered(errand, payload), answered(errand, bad)
    wanted = [fact for fact in whole.facts if not lost(fact)]
    assert [fact for fact in part.facts if not lost(fact)] == wanted and wanted
    assert len(wanted) < len(whole.facts)
    assert len(part.facts) == len(whole.facts) or part.problems, "what is left out is told"
    return part


FIELDS = ("funding", "openInterest", "oraclePx", "markPx", "premium")


@given(st.integers(0, 3), st.sampled_from([*FIELDS, None]), JUNK | st.just(...))
def test_a_context(place: int, field: str | None, junk: Any) -> None:
    payload = [{"universe": universe()}, [context(each) for each in range(4)]]
    if field is None and junk is ...:
        junk = None
    path = (1, place) if field is None else (1, place, field)

    def lost(fact: Observation) -> bool:
        return fact.symbol == COINS[place]

    found = check(RestRequest("contexts", "", NOW), payload, damaged(payload, path, junk), lost)
    assert len(found.of(AssetContext)) >= 3
    assert all(COINS[place] in problem.subject for problem in found.problems)


@given(st.integers(0, 3), JUNK)
def test_a_name_delists_nobody(place: int, junk: Any) -> None:
    payload = [{"universe": universe()}, [context(each) for each in range(4)]]
    made, sink = session(), Recorder()
    for bad in (payload, damaged(payload, (0, "universe", place), junk)):
        made.handle_answer(
            RestRequest("contexts", "", NOW), json.dumps(bad).encode(), asked_at=NOW, now=SourceTime(NOW, 1.0)
        )
    made.outbox.flush(sink)
    assert made.names.watched.perps and set(made.names.watched.perps) == set(COINS)
    assert len(sink.of(AssetContext)) == 7 and sink.problems


@given(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["fundingRate", "nextFundingTime", None]), JUNK)
def test_a_venue(place: int, venue: int, field: str | None, junk: Any) -> None:
    payload = predicted()
    path = (place, 1, venue) if field is None else (place, 1, venue, 1, field)

    def lost(fact: PredictedFunding) -> bool:
        return fact.symbol == COINS[place] and fact.venue == VENUES[venue]

    found = check(RestRequest("predicted", "", NOW), payload, damaged(payload, path, junk), lost)
    assert len(found.of(PredictedFunding)) >= 11
    assert all(COINS[place] in problem.subject for problem in found.problems)


@given(st.integers(0, 3), JUNK)
def test_the_venues_of_a_coin(place: int, junk: Any) -> None:
    payload = predicted()
    # No venue at all is an answer.
    bad = damaged(payload, (place, 1), None if junk == [] else junk)
    found = check(RestRequest("predicted", "", NOW), payload, bad, lambda fact: bool(fact.symbol == COINS[place]))
    assert len(found.of(PredictedFunding)) == 9


@given(st.integers(0, 9), st.sampled_from([*"tsiohlcvn", None]), JUNK | st.just(...) | st.just(NOW + 90 * HOUR))
def test_a_bar_of_an_answer(place: int, field: str | None, junk: Any) -> None:
    payload = [bar("A", minute) for minute in range(10)]
    if field is None and junk is ...:
        junk = None
    path = (place,) if field is None else (place, field)
    begins = payload[place]["t"]
    found = check(
        RestRequest("candles", "A", NOW - HOUR),
        payload,
        damaged(payload, path, junk),
        lambda fact: fact.bucket_ts == begins,
    )
    assert len(found.of(Candle)) >= 9


@given(st.integers(0, 5), st.sampled_from(["coin", "fundingRate", "time", None]), JUNK | st.just(NOW + 90 * HOUR))
def test_a_settled_rate(place: int, field: str | None, junk: Any) -> None:
    payload = [rate(hours) for hours in range(5, -1, -1)]
    path = (place,) if field is None else (place, field)
    hour = floor_to_step(payload[place]["time"], HOUR)
    errand = RestRequest("funding", "A", NOW - 6 * HOUR)
    found = check(errand, payload, damaged(payload, path, junk), lambda fact: fact.bucket_ts == hour)
    assert len(found.of(FundingRate)) >= 5
    assert not [gap for gap in found.gaps if gap.from_ts > NOW], "a damaged time makes no gap in the future"


@given(st.sampled_from(COINS), JUNK)
def test_a_midpoint(coin: str, junk: Any) -> None:
    prices: dict[str, Any] = {each: "64340.5" for each in COINS} | {coin: junk}
    frame = read_frame(json.dumps({"channel": "allMids", "data": {"mids": prices}}))
    assert isinstance(frame, MidsFrame)
    made, sink = session(), Recorder()
    made.handle_frame(frame, NOW)
    made.outbox.flush(sink)
    others = [each for each in COINS if each != coin]
    assert [mid.symbol for mid in sink.of(Mid) if mid.symbol != coin] == others
    assert {mid.price_e8 for mid in sink.of(Mid) if mid.symbol != coin} == {6_434_050_000_000}
    assert [problem.subject for problem in sink.problems] == [coin] or len(sink.of(Mid)) == 4


@given(st.integers(0, 3), st.sampled_from([*"tsiohlcvn", None]), JUNK)
def test_a_bar_of_a_frame(place: int, field: str | None, junk: Any) -> None:
    payload = [bar(coin, 9) for coin in COINS]
    path = (place,) if field is None else (place, field)
    frame = read_frame(json.dumps({"channel": "candle", "data": damaged(payload, path, junk)}))
    assert isinstance(frame, CandlesFrame)
    others = [candle for candle in frame.candles if candle.symbol in COINS and candle.symbol != COINS[place]]
    assert [candle.symbol for candle in others] == [coin for coin in COINS if coin != COINS[place]]
    assert len(frame.candles) + len(frame.bad) == 4
    assert all(bad.subject in (COINS[place], "") or field == "s" for bad in frame.bad)


@pytest.mark.parametrize("bad", [{"coin": "B"}, {"levels": [[{"px": "nan", "sz": "1"}], [{"px": "2", "sz": "1"}]]}])
def test_a_book_that_is_not_what_was_asked_for_is_asked_for_again(bad: dict[str, Any]) -> None:
    made, sink = session(), Recorder()
    made.tick(SourceTime(NOW, NOW / 1_000))
    errand = made.errands.remove("A", "books")
    assert errand is not None
    sides = [[{"px": "99.0", "sz": "1", "n": 1}], [{"px": "101.0", "sz": "1", "n": 1}]]
    book = {"coin": "A", "time": 1, "levels": sides}
    made.handle_answer(errand, json.dumps(book | bad).encode(), asked_at=NOW, now=SourceTime(NOW, NOW / 1_000))
    made.outbox.flush(sink)
    assert not sink.of(Liquidity) and "l2Book A" in {problem.subject for problem in sink.problems}
    again = made.errands.remove("A", "books")
    assert again is not None and again.tries == 1
