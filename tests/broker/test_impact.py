"""The price of size: worked books, and that more is never cheaper."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.broker import OrderBook
from tapebook.broker.matching import market_price_e8, touch_price_e8
from tapebook.domain.units import E6, E8
from tests.broker.market import TERMS

MID = 100 * E8
# 1,000 within 0.1 %, 5,000 within 0.5 %, 10,000 within 1 % to buy; a thousandth of that to sell to.
BOOK = OrderBook(200, (1 * E6, 5 * E6, 10 * E6), (1_000 * E6, 5_000 * E6, 10_000 * E6))


def paid(usd: float, book: OrderBook | None = BOOK, **terms: int) -> float:
    """The average price of so many USD at a mid of 100; negative sells."""
    size = round(usd * E8 / 100)
    return market_price_e8(size, MID, book, msgspec.structs.replace(TERMS, **terms)) / E8


@pytest.mark.parametrize(
    ("usd", "price"),
    [
        # The best price is 0.01 % away. Within a band what is offered lies evenly, so the average is in its middle.
        (1_000, 100.055),
        (500, 100.0325),
        # 1,000 at 0.055 % on average, then 4,000 at 0.3 %.
        (5_000, 100 + (1_000 * 0.055 + 4_000 * 0.3) / 5_000),
        (3_000, 100 + (1_000 * 0.055 + 2_000 * 0.2) / 3_000),
        (10_000, 100 + (1_000 * 0.055 + 4_000 * 0.3 + 5_000 * 0.75) / 10_000),
        # Beyond 1 % the book goes on as in its last band: 5,000 for every half percent.
        (20_000, 100 + (1_000 * 0.055 + 4_000 * 0.3 + 5_000 * 0.75 + 10_000 * 1.5) / 20_000),
        # It ends at 5 %, with 50,000 in all, and there is the rest.
        (50_000, 100 + (1_000 * 0.055 + 4_000 * 0.3 + 5_000 * 0.75 + 40_000 * 3) / 50_000),
        (100_000, 100 + (1_000 * 0.055 + 4_000 * 0.3 + 5_000 * 0.75 + 40_000 * 3 + 50_000 * 5) / 100_000),
        (-1, 99.945),
        (-5, 100 - (1 * 0.055 + 4 * 0.3) / 5),
    ],
)
def test_average_of_what_is_taken(usd: float, price: float) -> None:
    assert paid(usd) == pytest.approx(price, abs=2e-8)


@pytest.mark.parametrize(
    ("asks", "spread_ppm", "usd", "price"),
    [
        pytest.param((0, 0, 0), 200, 10, 105.0, id="an empty side has the farthest price"),
        pytest.param((10, 10, 10), 200, 20, 100 + (10 * 0.055 + 10 * 5) / 20, id="nothing beyond an empty band"),
        pytest.param((0, 100, 100), 200, 50, 100.2, id="an empty band is stepped over"),
        pytest.param((0, 0, 100), 200, 50, 100.625, id="two of them"),
        pytest.param((5, 100, 200), 4_000, 5, 100.2, id="what is said to lie within the spread is had at its edge"),
        pytest.param((9, 5, 20), 200, 9, 100.055, id="a band with less than the one within it adds nothing"),
        pytest.param((10, 20, 30), 160_000, 1_000, 108.0, id="a spread beyond the farthest price is the price"),
    ],
)
def test_odd_books(asks: tuple[int, int, int], spread_ppm: int, usd: float, price: float) -> None:
    near, middle, far = (each * E6 for each in asks)
    book = OrderBook(spread_ppm, (0, 0, 0), (near, middle, far))
    assert paid(usd, book) == pytest.approx(price, abs=2e-8)


@pytest.mark.parametrize(
    ("usd", "price"),
    [(1, 100.01), (100_000, 100.05), (-100_000, 99.95), (50_000, 100.03), (1e9, 105.0), (-1e9, 95.0)],
)
def test_without_a_book_the_price_goes_with_the_size(usd: float, price: float) -> None:
    assert paid(usd, None, impact_ppm_per_100k=400) == pytest.approx(price, abs=1e-6)


def test_price_is_rounded_to_the_worse_side() -> None:
    assert (market_price_e8(1, 3, None, TERMS), market_price_e8(-1, 3, None, TERMS)) == (4, 2)
    assert market_price_e8(-1, 1, None, TERMS) == 1


DEPTHS = st.lists(st.integers(0, 10**12), min_size=3, max_size=3).map(lambda each: (each[0], each[1], each[2]))
BOOKS = st.none() | st.builds(OrderBook, st.integers(0, 300_000), DEPTHS, DEPTHS)


@given(
    BOOKS,
    st.integers(1, 10**14),
    st.lists(st.integers(1, 10**15), min_size=2, max_size=6),
    st.integers(0, 10**6),
    st.sampled_from([1, -1]),
)
def test_more_is_never_cheaper_and_nothing_better_than_the_best(
    book: OrderBook | None, mid_e8: int, sizes: list[int], per_100k: int, side: int
) -> None:
    terms = msgspec.structs.replace(TERMS, impact_ppm_per_100k=per_100k)
    best = touch_price_e8(mid_e8, book, terms, buying=side > 0)
    prices = [best, *(market_price_e8(side * size, mid_e8, book, terms) for size in sorted(sizes))]
    assert [side * price for price in prices] == sorted(side * price for price in prices)
    assert all(price > 0 for price in prices)
    # Nor is it ever beyond the farthest price, or the spread where that is wider.
    half = (terms.spread_ppm if book is None else book.spread_ppm) / 2
    reach = mid_e8 * max(half, terms.max_impact_ppm) / 10**6 + 1
    assert all(abs(price - mid_e8) <= reach * 1.000001 for price in prices)
