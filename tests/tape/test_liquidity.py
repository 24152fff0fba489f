"""Liquidity: the newest book against the median of its day."""

import pytest
from msgspec.structs import replace

from tapebook.domain.market import Liquidity
from tapebook.domain.units import DAY, E8, MINUTE
from tapebook.tape.features import LiquidityProfile, liquidity_profile, liquidity_regime

AS_OF = 1_760_000_400_000
STEP = 5 * MINUTE


def book(age: int, *, depth: float = 1000.0, spread: float = 2.0, imbalance: float = 0.1) -> Liquidity:
    """The book `age` before now."""
    return Liquidity("BTC", AS_OF - age, 70_000 * E8, spread, depth / 5, depth / 2, depth, imbalance)


def earlier(count: int) -> list[Liquidity]:
    """Books every five minutes before now, oldest first."""
    return [book(number * STEP) for number in range(count, 0, -1)]


def profile(books: list[Liquidity]) -> LiquidityProfile:
    """The profile now, which must exist."""
    found = liquidity_profile(books, as_of=AS_OF)
    assert found is not None
    return found


def test_the_newest_book_beside_its_median() -> None:
    found = profile([*earlier(288), book(0, depth=1500.0, spread=1.0, imbalance=-0.25)])
    assert found == LiquidityProfile(
        symbol="BTC",
        as_of=AS_OF,
        spread_bps=1.0,
        depth_usd_10bps=300.0,
        depth_usd_50bps=750.0,
        depth_usd_100bps=1500.0,
        imbalance=-0.25,
        spread_change_24h_pct=-50.0,
        depth_change_24h_pct=50.0,
        books_used=288,
        regime="normal",
    )


def test_the_median_is_not_moved_by_a_few_wild_books() -> None:
    books = [*earlier(100), *(book(age * STEP + 1, depth=10.0**9) for age in range(1, 40)), book(0)]
    assert profile(books).depth_change_24h_pct == 0


def test_books_kept_between_two_rounds_do_not_outweigh_the_rounds() -> None:
    rounds = earlier(100)
    between = [book(age * STEP - minute * MINUTE, depth=10.0) for age in range(1, 60) for minute in (1, 2, 3, 4)]
    found = profile(sorted([*rounds, *between, book(0)], key=lambda each: each.bucket_ts))
    assert (found.depth_change_24h_pct, found.books_used) == (0, 100)


def test_an_even_count_takes_the_middle_of_the_two() -> None:
    books = [book(age * STEP, depth=1000.0 if age % 2 else 3000.0) for age in range(1, 73)]
    assert profile([*books, book(0, depth=2000.0)]).depth_change_24h_pct == 0


@pytest.mark.parametrize(
    ("depth", "regime"),
    [(0.0, "thin"), (499.0, "thin"), (500.0, "normal"), (2000.0, "normal"), (2001.0, "deep")],
)
def test_regime_by_depth(depth: float, regime: str) -> None:
    assert profile([*earlier(288), book(0, depth=depth)]).regime == regime
    assert liquidity_regime(depth / 1000) == regime


def test_too_few_books_give_figures_but_no_comparison() -> None:
    found = profile([*earlier(71), book(0)])
    assert (found.spread_bps, found.depth_usd_100bps, found.books_used) == (2.0, 1000.0, 71)
    assert (found.spread_change_24h_pct, found.depth_change_24h_pct, found.regime) == (None, None, None)
    assert profile([*earlier(72), book(0)]).regime == "normal"


def test_a_median_of_zero_compares_with_nothing() -> None:
    empty = [book(age * STEP, depth=0.0) for age in range(1, 100)]
    found = profile([*empty, book(0)])
    assert (found.depth_change_24h_pct, found.regime, found.spread_change_24h_pct) == (None, None, 0.0)


def test_a_day_is_a_day() -> None:
    old = [book(DAY + age * STEP, depth=1.0) for age in range(1, 300)]
    assert profile([*old, *earlier(288), book(0)]) == profile([*earlier(288), book(0)])
    assert profile([book(DAY + 1), *earlier(80), book(0)]).books_used == 80
    assert profile([book(DAY), *earlier(80), book(0)]).books_used == 81


@pytest.mark.parametrize("ages", [[], [-1], [15 * MINUTE + 1], [15 * MINUTE + 1, -MINUTE]])
def test_without_a_fresh_book_there_is_no_profile(ages: list[int]) -> None:
    assert liquidity_profile([book(age) for age in ages], as_of=AS_OF) is None


def test_what_comes_later_and_the_order_change_nothing() -> None:
    books = [*earlier(100), book(0)]
    later = [book(-age * STEP, depth=1.0) for age in range(1, 200)]
    assert profile([*books, *later]) == profile(books) == profile(books[::-1])


def test_the_unit_of_depth_does_not_matter_to_the_comparison() -> None:
    books = [*(book(age * STEP, depth=900.0 + age) for age in range(1, 200)), book(0)]
    tenfold = [replace(book, depth_usd_100bps=book.depth_usd_100bps * 10) for book in books]
    assert profile(tenfold).depth_change_24h_pct == pytest.approx(profile(books).depth_change_24h_pct)
