"""Tiers: how much leverage a size allows, and how much it must at least be backed by."""

from fractions import Fraction

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tapebook.broker.margin import MarginTiers, covers_initial_margin, listed_increments, listed_symbols
from tapebook.domain.order import Increments
from tapebook.domain.position import Position
from tapebook.domain.units import E6, E8

MARGINS = MarginTiers(default_max_leverage=7)
MILLION = 10**6


def long(usd: int, symbol: str = "BTC", leverage: int = 1) -> Position:
    """A long of so many USD, bought at 100."""
    return Position(symbol, usd * E8 // 100, usd * E6, leverage)


def needed(usd: int, symbol: str) -> Fraction:
    """The least cash, in millionths of a USD, with which a position at its cost does not fall short."""
    held, prices = {symbol: long(usd, symbol)}, {symbol: 100 * E8}
    low, high = -1, usd * E6
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if MARGINS.falls_short(middle, held, prices) else (low, middle)
    return Fraction(high, E6)


@pytest.mark.parametrize(
    ("symbol", "usd", "most", "backing"),
    [
        ("BTC", 1_000, 40, 12.5),
        ("BTC", 150 * MILLION - 1, 40, (150 * MILLION - 1) / 80),
        ("BTC", 150 * MILLION, 20, 1.875 * MILLION),
        # A rate of 2.5 % with the 1.875 million deducted that the first tier asks less for.
        ("BTC", 200 * MILLION, 20, 0.025 * 200 * MILLION - 1.875 * MILLION),
        ("ETH", 1_000, 25, 20),
        ("kPEPE", 1_000, 10, 50),
        ("ARB", 4 * MILLION, 5, 0.1 * 4 * MILLION - 0.15 * MILLION),
        ("0G", 900, 3, 150),
        # No table knows it.
        ("NEW", 1_400, 7, 100),
        ("btc", 1_400, 7, 100),
    ],
)
def test_tiers(symbol: str, usd: int, most: int, backing: float) -> None:
    assert MARGINS.max_leverage(symbol, usd * 10**16) == most
    assert float(needed(usd, symbol)) == pytest.approx(backing, abs=1e-6)


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=6))
def test_maintenance_grows_with_the_value_and_never_jumps(values: list[int]) -> None:
    backings = [needed(usd, "BTC") for usd in sorted(values)]
    for (less, smaller), (more, larger) in zip(
        zip(sorted(values), backings, strict=True), zip(sorted(values)[1:], backings[1:], strict=True), strict=False
    ):
        assert 0 <= larger - smaller <= Fraction(more - less, 40) + Fraction(2, E6)


def test_exactly_enough_is_enough() -> None:
    held, prices = {"BTC": long(1_000)}, {"BTC": 100 * E8}
    assert not MARGINS.falls_short(12_500_000, held, prices)
    assert MARGINS.falls_short(12_499_999, held, prices)


@given(
    st.integers(-(10**9), 10**12),
    st.dictionaries(
        st.sampled_from(["ARB", "BTC", "NEW"]),
        st.tuples(st.integers(-(10**14), 10**14), st.integers(-(10**13), 10**13), st.integers(1, 10**11)),
    ),
    st.integers(1, 50),
)
def test_falls_short_is_what_the_tiers_say(cash: int, lots: dict[str, tuple[int, int, int]], most: int) -> None:
    """Tier by tier, whatever can be said without them."""
    margins = MarginTiers(default_max_leverage=most)
    tiers = {"ARB": [(0, 10), (3 * MILLION, 5)], "BTC": [(0, 40), (150 * MILLION, 20)], "NEW": [(0, most)]}
    worth, backing = Fraction(cash, E6), Fraction(0)
    for symbol, (size, cost, price) in lots.items():
        value = Fraction(size * price, 10**16)
        worth += value - Fraction(cost, E6)
        ends = [begins for begins, _ in tiers[symbol][1:]] + [abs(value)]
        for (begins, leverage), end in zip(tiers[symbol], ends, strict=True):
            backing += max(Fraction(0), min(abs(value), Fraction(end)) - begins) / (2 * leverage)
    held = {symbol: Position(symbol, size, cost) for symbol, (size, cost, _) in lots.items()}
    prices = {symbol: price for symbol, (_, _, price) in lots.items()}
    event("short" if worth < backing else "enough")
    assert margins.falls_short(cash, held, prices) is (worth < backing)


def test_positions_stand_in_for_each_other() -> None:
    held = {"BTC": long(1_000), "ETH": Position("ETH", -10 * E8, -1_000 * E6)}
    even = {"BTC": 100 * E8, "ETH": 100 * E8}
    both = {"BTC": 60 * E8, "ETH": 60 * E8}
    apart = {"BTC": 60 * E8, "ETH": 101 * E8}
    assert [MARGINS.falls_short(33 * E6, held, prices) for prices in (even, both, apart)] == [False, False, True]


@pytest.mark.parametrize(("cash", "enough"), [(499_999_999, False), (500_000_000, True)])
def test_initial_margin_of_all_that_is_held(cash: int, enough: bool) -> None:
    held = {"BTC": long(1_000, leverage=4), "ETH": long(500, "ETH", leverage=2)}
    assert covers_initial_margin(cash, held, {"BTC": 100 * E8, "ETH": 100 * E8}) is enough


def test_what_was_won_counts() -> None:
    held = {"BTC": long(1_000, leverage=4)}
    # Ten percent up: 1,100 USD need 275, of which 100 were won.
    assert covers_initial_margin(175 * E6, held, {"BTC": 110 * E8})
    assert not covers_initial_margin(175 * E6 - 1, held, {"BTC": 110 * E8})


def test_every_listed_coin_has_its_steps() -> None:
    known = {symbol: listed_increments(symbol) for symbol in listed_symbols()[1]}
    assert known["BTC"] == Increments(10**3, 10**7, 5) and known["kPEPE"] == Increments(10**8, 10**2, 5)
    assert all(known.values()) and listed_increments("no such coin") is None


def test_the_leverage_of_the_exchanges_list_counts_before_that_of_the_tables() -> None:
    held, prices = {"BTC": long(1_000)}, {"BTC": 100 * E8}
    assert MARGINS.max_leverage("BTC", 0) == MARGINS.max_leverage("BTC", 0, listed=40) == 40
    assert MARGINS.max_leverage("BTC", 0, listed=25) == 25
    assert MARGINS.max_leverage("BTC", 151 * MILLION * 10**16, listed=50) == 20, "the table's higher tier stays"
    assert MARGINS.max_leverage("BTC", 151 * MILLION * 10**16, listed=10) == 10, "and never allows more"
    assert MARGINS.max_leverage("xyz:NEW", 0) == 7 and MARGINS.max_leverage("xyz:NEW", 0, listed=3) == 3
    assert MARGINS.max_leverage("xyz:NEW", 0, listed=10**6) == 7, "what no exchange allows is an odd answer"
    assert not MARGINS.falls_short(15 * E6, held, prices)
    assert MARGINS.falls_short(15 * E6, held, prices, listed=lambda symbol: 25)


def test_steps_are_those_of_the_exchanges_list() -> None:
    assert listed_increments("BTC", 3) == Increments(10**5, 10**5, 5)
    assert listed_increments("xyz:NEW", 2) == Increments(10**6, 10**4, 5) and listed_increments("BTC", 7) is None
