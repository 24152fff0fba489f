"""What Polymarket's servers do that one would not expect: each oddity has a test that fails without its handling."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.units import DAY, HOUR, MINUTE, parse_instant
from tapebook.sources.polymarket.markets import (
    AssetMatcher,
    LinkedMarket,
    direction,
    is_in_summary,
    is_short_lived,
    market_state,
    summary_metrics,
    winning_outcome,
)
from tapebook.sources.polymarket.wire import (
    PredictionEvent,
    PredictionMarket,
    affirmative_place,
    json_list,
    probability,
    read_books,
    read_market,
    read_page,
    read_shifts,
)

NOW = parse_instant("2026-03-20T00:00:00Z")
ROW = {
    "id": "1557558",
    "question": "Will Bitcoin be above $64,000 on March 21?",
    "outcomes": '["Yes", "No"]',
    "outcomePrices": '["0.505", "0.495"]',
    "clobTokenIds": '["11", "22"]',
    "endDate": "2026-03-21T16:00:00Z",
    "volume": "9.999997",
    "volume24hr": 1200.5,
    "orderPriceMinTickSize": 0.0025,
    "oneHourPriceChange": 0.06,
    "active": True,
    "closed": False,
}


def market(**changes: Any) -> PredictionMarket:
    found = read_market({name: value for name, value in (ROW | changes).items() if value is not ...})
    assert found is not None
    return found


def page(**event: Any) -> bytes:
    return json.dumps({"events": [{"id": "7", "title": "T", "markets": [ROW], **event}]}).encode()


@pytest.mark.parametrize(
    ("value", "found"),
    [('["Up", "Down"]', ("Up", "Down")), (["Up"], ("Up",)), ("", ()), (None, ()), ("[1", ()), (7, ()), ("{}", ())],
)
def test_1_lists_are_texts_that_hold_json_and_may_be_missing(value: Any, found: tuple[str, ...]) -> None:
    assert json_list(value) == found


def test_1_a_market_of_the_last_minutes_has_no_prices() -> None:
    assert market(outcomePrices=...).prices == () and probability(market(outcomePrices=...), 0) is None
    assert probability(market(outcomePrices=""), 0) is None


def test_2_the_time_of_a_close_has_a_form_of_its_own() -> None:
    closed = market(closedTime="2026-03-19 23:20:15+00", closed=True)
    assert closed.closed_at == parse_instant("2026-03-19T23:20:15Z")
    assert market(closedTime="2026-03-19 23:20:15.123+00").closed_at == parse_instant("2026-03-19T23:20:15.123Z")
    assert market(endDate="2026-01-04T19:21:46.793663Z").ends_at == parse_instant("2026-01-04T19:21:46.793Z")
    assert market(endDate="soon").ends_at is None


def test_3_closed_is_the_settlement_whatever_active_says() -> None:
    settled = market(closed=True, active=True, acceptingOrders=True, outcomePrices='["1", "0"]')
    assert market_state(settled) == "final" and winning_outcome(settled) == "Yes"


def test_5_the_last_page_names_no_cursor() -> None:
    assert read_page(page()).cursor is None
    assert read_page(b'{"events":[],"next_cursor":"abc"}').cursor == "abc"
    assert read_page(b'{"events":[],"next_cursor":""}').cursor is None


@pytest.mark.parametrize("flipped", [False, True])
def test_8_the_best_price_of_a_book_is_found_at_either_end(flipped: bool) -> None:
    bids = [{"price": "0.01", "size": "1000"}, {"price": "0.1", "size": "125"}]
    asks = [{"price": "0.98", "size": "5000"}, {"price": "0.14", "size": "705"}]
    if flipped:
        bids, asks = bids[::-1], asks[::-1]
    book = read_books(json.dumps([{"asset_id": "11", "bids": bids, "asks": asks, "tick_size": "0.01"}]).encode())["11"]
    assert (book.bid, book.ask, book.tick) == ("0.1", "0.14", "0.01")


def test_10_the_point_of_now_at_the_end_of_a_history_is_left_out() -> None:
    """It comes with every span, of whatever time."""
    hours = [(NOW - 26 * HOUR, 0.2), (NOW - 24 * HOUR, 0.3), (NOW - HOUR, 0.4), (NOW - MINUTE, 0.45)]
    rows = [{"t": at // 1000, "p": price} for at, price in [*hours, (NOW + 5 * HOUR, 0.9)]]
    hour, day = read_shifts(json.dumps({"history": rows}).encode(), until=NOW)
    assert (round(hour or 0, 6), round(day or 0, 6)) == (0.05, 0.15)
    assert read_shifts(b'{"history":[]}', until=NOW) == (None, None)
    assert read_shifts(json.dumps({"history": rows[:1]}).encode(), until=NOW) == (None, None), "too old to say anything"
    for body in (b"[]", b"<html>", b'{"error":"x"}', b'{"history":7}'):
        with pytest.raises(ValueError):
            read_shifts(body, until=NOW)


def test_11_amounts_are_text_or_numbers() -> None:
    assert market(volume24hr="1200.5").volume_24h == market().volume_24h == 1200.5
    assert market(volume24hr=None).volume_24h == 0.0 == market(volume24hr="NaN").volume_24h


@pytest.mark.parametrize(
    ("outcomes", "place"),
    [('["Yes", "No"]', 0), ('["No", "Yes"]', 1), ('["Up", "Down"]', 0), ('["Down", "Up"]', 1), ('["A", "B"]', None)],
)
def test_12_outcomes_are_not_always_yes_and_no_nor_in_that_order(outcomes: str, place: int | None) -> None:
    assert affirmative_place(market(outcomes=outcomes)) == place


def test_14_ids_are_texts() -> None:
    (event,) = read_page(page(id=7)).events
    assert (
        event.id == "7"
        and type(event.id) is str
        and read_page(page(id=True)).odd == 1
        and read_page(page(id="x1")).odd == 1
    )


@pytest.mark.parametrize("body", [b"<html>502</html>", b"", b"[", b'{"error":"x"}', b"null", b'"x"', b'{"events":7}'])
def test_what_is_no_page_is_said(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_page(body)


def test_a_search_without_hits_is_a_page_without_events() -> None:
    assert read_page(b'{"pagination":{"hasMore":false,"totalResults":0}}').events == ()
    assert read_page(b'{"events":null,"tags":null,"pagination":{}}').events == ()


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*ROW, "series", "tags"]), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*ROW, "closedTime", "umaResolutionStatuses", "umaResolutionStatus"]), Json))
def test_no_odd_field_costs_more_than_itself(odd: dict[str, Any]) -> None:
    row = {**ROW, **odd, "id": "1"}
    (event,) = read_page(json.dumps({"events": [{"id": "7", **odd, "markets": [row]}]}).encode()).events or [None]
    if event is not None:
        assert all(found.id == "1" and market_state(found) for found in event.markets)
    summary_metrics("immediate", [LinkedMarket(market(), PredictionEvent("7"), ("BTC",), "tag")], books={}, most=3)


@pytest.mark.parametrize(
    ("changes", "state", "won"),
    [
        ({}, "open", None),
        ({"outcomePrices": '["0.9995", "0.0005"]'}, "open", None),
        ({"umaResolutionStatus": "proposed", "outcomePrices": '["1", "0"]'}, "pending", None),
        ({"umaResolutionStatuses": '["proposed", "disputed"]'}, "disputed", None),
        ({"umaResolutionStatuses": '["proposed", "disputed", "proposed"]'}, "pending", None),
        ({"umaResolutionStatuses": '["proposed", "disputed", "proposed", "disputed"]'}, "disputed", None),
        ({"closed": True, "umaResolutionStatus": "resolved", "outcomePrices": '["0", "1"]'}, "final", "No"),
        ({"closed": True, "outcomePrices": '["0", "0"]'}, "final", None),
        ({"closed": True, "outcomePrices": '["0.98", "0.02"]'}, "final", None),
    ],
)
def test_a_price_near_one_is_no_outcome(changes: dict[str, Any], state: str, won: str | None) -> None:
    assert (market_state(market(**changes)), winning_outcome(market(**changes))) == (state, won)


@pytest.mark.parametrize("tick", [0.01, 0.001, 0.0025])
def test_ticks_come_from_the_market(tick: float) -> None:
    linked = LinkedMarket(market(orderPriceMinTickSize=tick), PredictionEvent("7"), ("BTC",), "tag")
    assert summary_metrics("later", [linked], books={}, most=1)["top"][0]["tick"] == f"{tick:g}"


TERMS = {"BTC": ("bitcoin", "btc"), "BCH": ("bitcoin cash",), "SUI": ("sui network",), "TRUMP": ("trump memecoin",)}


@pytest.mark.parametrize(
    ("title", "slug", "tags", "assets"),
    [
        ("Will Bitcoin fall?", "", (), ("BTC",)),
        ("Bitcoin Cash above $500?", "", (), ("BCH",)),
        ("Bitcoinish things", "", (), None),
        ("5m game", "btc-updown-5m-1", (), ("BTC",)),
        ("Will Trump visit?", "", (), None),
        ("Trump memecoin at $9?", "", (), ("TRUMP",)),
        ("Sui generis network", "", (), None),
        ("Anything", "", ("solana",), ("SOL",)),
        ("Bitcoin.", "", (), ("BTC",)),
    ],
)
def test_a_hit_of_a_search_is_linked_only_by_whole_words(
    title: str, slug: str, tags: tuple[str, ...], assets: tuple[str, ...] | None
) -> None:
    event = PredictionEvent("7", title=title, slug=slug, tags=tags)
    found = AssetMatcher(TERMS).link(event, PredictionMarket("1"))
    assert (found and found.assets) == assets


@pytest.mark.parametrize(
    ("question", "sign"),
    [
        ("Will Bitcoin reach $100,000 in January?", 1),
        ("Will Bitcoin dip to $60,000 in January?", -1),
        ("Will the price of Ethereum be less than $2,000?", -1),
        ("Will MicroStrategy sell any Bitcoin?", 0),
    ],
)
def test_what_a_yes_means(question: str, sign: int) -> None:
    assert direction(market(question=question)) == sign


def lean(*markets: PredictionMarket) -> tuple[str | None, str | None]:
    linked = [LinkedMarket(each, PredictionEvent("7"), ("BTC",), "tag") for each in markets]
    found = summary_metrics("immediate", linked, books={}, most=3)
    return found["bias"], found["probabilityShift1h"]


def test_a_bias_has_the_sign_of_what_is_expected_whichever_outcome_comes_first() -> None:
    rises = market(outcomePrices='["0.7", "0.3"]')
    turned = market(outcomes='["No", "Yes"]', outcomePrices='["0.3", "0.7"]', oneHourPriceChange=-0.06)
    assert lean(rises) == lean(turned) == ("risk_on", "0.0600")
    falls = market(question="Will Bitcoin dip to $9?", outcomePrices='["0.7", "0.3"]')
    assert lean(falls) == ("risk_off", "-0.0600") and lean(rises, falls) == ("neutral", "0.0000")
    assert lean(market(question="Will it rain?")) == (None, None)


@given(st.lists(st.tuples(st.decimals("0", "1", places=3), st.integers(0, 10**6)), min_size=1, max_size=6))
def test_a_bias_lies_between_its_markets(priced: list[tuple[Decimal, int]]) -> None:
    markets = [market(outcomePrices=json.dumps([str(p), str(1 - p)]), volume24hr=volume) for p, volume in priced]
    linked = [LinkedMarket(each, PredictionEvent("7"), ("BTC",), "tag") for each in markets]
    score = Decimal(summary_metrics("later", linked, books={}, most=1)["biasScore"])
    expected = [2 * p - 1 for p, _ in priced]
    assert min(expected) - Decimal("0.0001") <= score <= max(expected) + Decimal("0.0001")


def test_summaries_go_by_the_deadline_and_by_the_close() -> None:
    def kinds(**changes: Any) -> list[str]:
        linked = LinkedMarket(market(**changes), PredictionEvent("7"), ("BTC",), "tag")
        spans = {"now": NOW, "soon_ms": 48 * HOUR, "closed_ms": 7 * DAY}
        return [kind for kind in ("immediate", "later", "closed") if is_in_summary(kind, linked, **spans)]

    assert kinds() == ["immediate"] and kinds(endDate="2026-05-01T00:00:00Z") == ["later"] == kinds(endDate=...)
    # Closed weeks before its deadline: the close counts.
    assert kinds(closed=True, endDate="2026-05-01T00:00:00Z", closedTime="2026-03-18 10:00:00+00") == ["closed"]
    assert kinds(closed=True, closedTime="2026-03-01 10:00:00+00") == []


def test_series_of_minutes_are_left_out() -> None:
    assert is_short_lived(PredictionEvent("1", series="btc-up-or-down-5m"))
    assert is_short_lived(PredictionEvent("1", tags=("crypto", "15M")))
    assert not is_short_lived(PredictionEvent("1", series="btc-multi-strikes-weekly", tags=("crypto",)))
