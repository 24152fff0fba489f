"""What the market did in a span of days: words by fixed rules, spans that merge, days that are read once."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.agent import LayerRow
from tapebook.domain.market import Candle
from tapebook.domain.position import Position
from tapebook.domain.units import DAY, HOUR, parse_instant
from tapebook.horizons.aggregate import Aggregate, fold_spans, fold_two_spans
from tapebook.horizons.contexts import ContextAggregator, ContextStore
from tapebook.horizons.layers import ContextLayer, Period
from tapebook.horizons.markets import (
    FIRST_DAYS,
    MAX_COMPARED,
    MAX_DAYS,
    PriceSpan,
    correlations,
    market_days_due,
    phase_of,
    prices_of_day,
    sector_of,
    volatility_of,
    word_of_most,
)
from tapebook.horizons.rollup import MARKET_MARK, catch_up
from tapebook.horizons.rows import held_rows, layer_rows
from tests.horizons.makers import SCOPE, Ledger, exit_at, in_memory

MONDAY = parse_instant("2026-02-02")


def hours(prices: Sequence[float], day: int = MONDAY) -> list[Candle]:
    """Bars of an hour from one price to the next."""
    units = [round(price * 1e8) for price in prices]
    return [
        Candle("BTC", 3600, day + at * HOUR, first, max(first, last), min(first, last), last, 0.0, 0.0, 1)
        for at, (first, last) in enumerate(itertools.pairwise(units))
    ]


def span(*prices: float) -> PriceSpan:
    """Days of one hour each, from one price to the next."""
    days = [prices_of_day(hours(pair)) for pair in itertools.pairwise(prices)]
    whole = fold_spans(Aggregate().with_market({"X": day}) for day in days if day)
    return whole.prices["X"]


@pytest.mark.parametrize(
    ("prices", "phase"),
    [
        ((100, 101, 102, 103, 104, 106), "Bull"),
        ((100, 99, 98, 97, 96, 94), "Bear"),
        ((100, 104, 100, 104, 100, 104), "Sideways"),
        # It has moved far, however wildly.
        ((100, 150, 90, 150, 90, 121), "Bull"),
        ((100, 60, 110, 60, 110, 79), "Bear"),
        # As straight as can be, and nowhere.
        ((100, 100.5, 101, 101.5, 102, 102.5), "Sideways"),
        ((100, 110, 121, 133), None),
    ],
)
def test_a_phase_is_a_move_that_is_large_or_no_accident(prices: tuple[float, ...], phase: str | None) -> None:
    assert phase_of(span(*prices)) == phase


@pytest.mark.parametrize(("step", "word"), [(0.005, "low"), (0.013, "low"), (0.015, "high"), (0.05, "high")])
def test_volatility_is_judged_as_regimes_are_for_the_length_of_an_hour(step: float, word: str) -> None:
    prices = [100 * math.exp(step * (at % 2)) for at in range(25)]
    found = prices_of_day(hours(prices))
    assert found is not None and volatility_of(found) == word
    few = prices_of_day(hours(prices[:8]))
    assert few is not None and volatility_of(few) is None


def test_most_symbols_decide_and_ties_are_cautious() -> None:
    assert word_of_most(["Bull", "Bull", "Bear", None], tie="Sideways") == "Bull"
    assert word_of_most(["Bull", "Bear"], tie="Sideways") == "Sideways"
    assert word_of_most([None], tie="high") is None


def test_a_day_without_a_price_has_no_span() -> None:
    assert prices_of_day([]) is None and prices_of_day(hours([0.0, 1.0])) is None


days_of_two = st.lists(
    st.dictionaries(
        st.sampled_from(["BTC", "ETH", "SOL"]),
        st.tuples(st.floats(1, 1e5), st.floats(1, 1e5)).map(lambda pair: prices_of_day(hours(pair))),
    ),
    min_size=1,
    max_size=12,
)


@given(days_of_two, st.data())
def test_spans_merge_in_any_grouping(days: list[dict[str, PriceSpan]], data: st.DataObject) -> None:
    leaves = [Aggregate().with_market(day) for day in days]
    cut = data.draw(st.integers(0, len(leaves)))
    whole = fold_spans(leaves)
    if 0 < cut < len(leaves):
        assert fold_two_spans(fold_spans(leaves[:cut]), fold_spans(leaves[cut:])) == whole
    for symbol, found in whole.prices.items():
        own = [day[symbol] for day in days if symbol in day]
        assert (found.days, found.open_e8, found.close_e8) == (len(own), own[0].open_e8, own[-1].close_e8)
    assert all(-1 <= value <= 1 for value in correlations(whole.prices, whole.together).values())


def test_what_moves_alike_is_told_from_what_does_not() -> None:
    def leaf(*moves: float) -> Aggregate:
        spans = [prices_of_day(hours((100, 100 * math.exp(move)))) for move in moves]
        return Aggregate().with_market(dict(zip(("A", "B", "C"), filter(None, spans), strict=True)))

    whole = fold_spans(leaf(x, 2 * x, -x) for x in (0.01, -0.02, 0.03, -0.01, 0.005, 0.02))
    assert {pair: round(value, 2) for pair, value in correlations(whole.prices, whole.together).items()} == {
        "A B": 1.0,
        "A C": -1.0,
        "B C": -1.0,
    }
    many = Aggregate().with_market({f"S{at:02d}": span(1, 2) for at in range(20)})
    assert len(many.together) == MAX_COMPARED * (MAX_COMPARED - 1) // 2


def test_which_days_are_looked_at() -> None:
    today = MONDAY + DAY // 2
    number = MONDAY // DAY
    assert market_days_due(None, today=today) == list(range(number - FIRST_DAYS, number))
    assert market_days_due(number - 2, today=today) == [number - 1]
    assert market_days_due(number - 1, today=today) == []
    assert len(market_days_due(0, today=today)) == MAX_DAYS


def test_sectors_are_found_by_what_venues_call_a_coin() -> None:
    found = [sector_of(name) for name in ("BTC", "kPEPE", "PEPE", "ETH/USDC", "xyz:GOLD", "NOBODY")]
    assert found == ["Bitcoin", "Meme", "Meme", "Layer 1", "Metals", "Other"]
    own = {"BTC": "Store of value", "NOBODY": "Mine"}
    assert [sector_of(name, own) for name in ("BTC", "NOBODY", "SOL")] == ["Store of value", "Mine", "Layer 1"]


class Prices:
    """Days of a market that rises by a percent a day; which were asked for is noted."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def prices(self, day: Period) -> dict[str, PriceSpan]:
        """One symbol, twelve bars of an hour."""
        self.asked.append(day.key)
        first = 100 * 1.01 ** ((day.start - MONDAY) // DAY)
        found = prices_of_day(hours([first * 1.01 ** (at / 12) for at in range(13)], day.start))
        assert found is not None
        return {"BTC": found}


def test_days_are_read_once_whether_anything_was_traded_or_not() -> None:
    ledger, market = Ledger(), Prices()
    with in_memory(ledger, now=MONDAY) as conn:

        def step(now: int) -> int:
            seq = conn.head(SCOPE)
            drafts = catch_up(conn.store, ledger, SCOPE, seq=seq, at=now, before=now, market=market)
            conn.append(SCOPE, drafts, expected_seq=seq)
            return len(drafts)

        assert step(MONDAY) == 1 and len(market.asked) == FIRST_DAYS and step(MONDAY + HOUR) == 0
        assert conn.store.rollup_marks(SCOPE)[MARKET_MARK] == MONDAY // DAY - 1
        assert step(MONDAY + 2 * DAY) == 1 and market.asked[FIRST_DAYS:] == ["2026-02-02", "2026-02-03"]
        # A trade that comes late changes its day, and leaves its prices as they are.
        ledger.learn([exit_at("2026-02-02T10:00", 5.0)])
        assert step(MONDAY + 2 * DAY) == 1 and len(market.asked) == FIRST_DAYS + 2
        ContextAggregator(conn, scope=SCOPE).aggregate_daily_from_trades("2026-02-02")
        store = ContextStore(conn, scope=SCOPE)
        assert store.get_context(ContextLayer.L6_DAILY, "2026-02-02", "market_summary")["BTC"]["return"] == 0.01
        quarter = store.get_all_contexts(ContextLayer.L3_QUARTERLY, "2026-Q1")
        assert quarter["market_phase"] == "Bull" and quarter["market_phase_days"] == FIRST_DAYS + 2
        assert quarter["market_return"] == {"BTC": pytest.approx(0.0937, abs=1e-3)} and quarter["trade_count"] == 1
        seq, as_of = conn.head(SCOPE), MONDAY + 2 * DAY
        rows = layer_rows(conn.store, SCOPE, seq=seq, as_of=as_of)
        assert LayerRow("L3", "2026-Q1", "market_phase", "Bull (n=9 days): BTC +9.4%") in rows
        # Of a day without a trade nothing is said but what the market did.
        assert not [row for row in rows if row.layer == "L6"]
        before = layer_rows(conn.store, SCOPE, seq=1, as_of=as_of)
        assert {row.key for row in before} <= {"market_phase", "volatility_regime"}


def test_what_is_held_together_is_told_by_side_sector_and_correlation() -> None:
    def held(**usd: int) -> dict[str, Position]:
        return {symbol: Position(symbol, 10**8 if cost > 0 else -(10**8), cost * 10**6) for symbol, cost in usd.items()}

    values: dict[str, Any] = {
        "sectors": {"BTC": "Bitcoin", "ETH": "Layer 1", "DOGE": "Meme"},
        "market_correlation": {"BTC ETH": 0.8412, "BTC DOGE": 0.5, "DOGE ETH": 0.1, "BTC SOL": 0.9},
        "market_correlation_days": 28,
    }
    assert held_rows(held(BTC=500), values, as_of=MONDAY) == ()
    rows = held_rows(held(BTC=600, ETH=-300, DOGE=100), values, as_of=MONDAY)
    assert rows[0] == LayerRow(
        "L7", "2026-02-02", "exposure_usd", "long 700.00, short 300.00; Bitcoin 60%, Layer 1 30%, Meme 10%"
    )
    assert rows[1].value == "BTC long and ETH short: 0.84 (n=28, 95% 0.68 to 0.92)"
    assert [row.value[:17] for row in rows[1:]] == ["BTC long and ETH ", "BTC long and DOGE", "DOGE long and ETH"]
    assert len(held_rows(held(BTC=600, ETH=300), {}, as_of=MONDAY)) == 1
