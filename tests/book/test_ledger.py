"""What a fill does to a position and to cash, in integers that add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.book.events import Posting
from tapebook.book.materializer import apply_fill, apply_funding, apply_insurance
from tapebook.domain.order import Fill, FundingPayment, InsurancePayment
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.units import E6, E8, notional_usd_e6, to_units

EMPTY = Portfolio({}, 1_000 * E6)
PIECES = st.tuples(st.integers(1, 10**13), st.integers(1, 10**14))


def fill(size: str, price: str, fee: str = "0", symbol: str = "BTC") -> Fill:
    """A fill written as people write it."""
    return Fill("f", symbol, 0, to_units(size, E8), to_units(price, E8), to_units(fee, E6), maker=False)


def after(*fills: Fill, leverage: int = 1) -> tuple[Portfolio, list[Posting]]:
    """An account of 1,000 USD after some fills, and all they posted."""
    portfolio, posted = EMPTY, []
    for each in fills:
        portfolio, postings = apply_fill(portfolio, each, leverage=leverage)
        posted += postings
    return portfolio, posted


def position(size: str, cost: str) -> Position:
    """A position in BTC without leverage: all that was paid for it is its margin."""
    paid = to_units(cost, E6)
    return Position("BTC", to_units(size, E8), paid, 1, abs(paid))


def realised(amount: str) -> Posting:
    """A result in BTC."""
    return Posting("realised_pnl", "BTC", to_units(amount, E6))


@pytest.mark.parametrize(
    ("fills", "held", "posted"),
    [
        pytest.param([("2", "100")], position("2", "200"), [], id="a buy opens a long"),
        pytest.param([("-2", "100")], position("-2", "-200"), [], id="a sell opens a short"),
        pytest.param([("2", "100"), ("1", "130")], position("3", "330"), [], id="an add realises nothing"),
        pytest.param([("2", "100"), ("-1", "130")], position("1", "100"), [realised("30")], id="a part is sold"),
        pytest.param([("-2", "100"), ("1", "130")], position("-1", "-100"), [realised("-30")], id="a part is bought"),
        pytest.param([("2", "100"), ("-2", "90")], None, [realised("-20")], id="all is sold"),
        pytest.param([("2", "100"), ("-2", "100")], None, [], id="a result of nothing is not posted"),
        pytest.param([("2", "100"), ("-5", "110")], position("-3", "-330"), [realised("20")], id="a long turns short"),
        pytest.param([("-2", "100"), ("5", "110")], position("3", "330"), [realised("-20")], id="a short turns long"),
    ],
)
def test_fills(fills: list[tuple[str, str]], held: Position | None, posted: list[Posting]) -> None:
    portfolio, postings = after(*(fill(size, price) for size, price in fills))
    assert portfolio.positions == ({"BTC": held} if held else {})
    assert postings == posted
    assert portfolio.cash_usd_e6 == EMPTY.cash_usd_e6 + sum(each.amount_usd_e6 for each in posted)


def test_a_fee_leaves_cash_and_not_the_cost() -> None:
    portfolio, postings = after(fill("2", "100", fee="0.09"))
    assert postings == [Posting("fee", "BTC", -90_000)]
    assert portfolio == Portfolio({"BTC": position("2", "200")}, EMPTY.cash_usd_e6 - 90_000)


def test_a_maker_rebate_is_a_negative_fee() -> None:
    portfolio, postings = after(fill("2", "100", fee="-0.02"))
    assert postings == [Posting("fee", "BTC", 20_000)]
    assert portfolio.cash_usd_e6 == EMPTY.cash_usd_e6 + 20_000


def test_result_is_posted_before_the_fee() -> None:
    _, postings = after(fill("2", "100"), fill("-2", "110", fee="0.1"))
    assert postings == [realised("20"), Posting("fee", "BTC", -100_000)]


def test_funding_moves_cash_and_the_margin_of_its_position() -> None:
    portfolio, _ = after(fill("2", "100"), fill("-7", "3", symbol="ETH"))
    paid, postings = apply_funding(portfolio, FundingPayment("BTC", 9, -1_500, rate_e12=7_500_000))
    lighter = Position("BTC", 2 * E8, 200 * E6, 1, 200 * E6 - 1_500)
    assert paid == Portfolio(portfolio.positions | {"BTC": lighter}, portfolio.cash_usd_e6 - 1_500)
    assert postings == [Posting("funding", "BTC", -1_500)]


def test_funding_of_what_is_gone_moves_cash_alone() -> None:
    paid, _ = apply_funding(EMPTY, FundingPayment("BTC", 9, 700, rate_e12=1))
    assert paid == Portfolio({}, EMPTY.cash_usd_e6 + 700)


def test_insurance_moves_cash_and_no_position() -> None:
    portfolio, _ = after(fill("2", "100"))
    made_up, postings = apply_insurance(portfolio, InsurancePayment("ETH", 9, 2_500))
    assert made_up == Portfolio(portfolio.positions, portfolio.cash_usd_e6 + 2_500)
    assert postings == [Posting("insurance", "ETH", 2_500)]


def test_other_symbols_and_the_given_portfolio_are_left_alone() -> None:
    before, _ = after(fill("2", "100"), fill("-7", "3", symbol="ETH"))
    copy = Portfolio(dict(before.positions), before.cash_usd_e6)
    portfolio, _ = apply_fill(before, fill("-2", "110"), leverage=1)
    assert before == copy
    assert portfolio.positions == {"ETH": before.positions["ETH"]}


def test_leverage_is_that_of_the_last_fill_that_opened_something() -> None:
    opened, _ = after(fill("2", "100"), leverage=2)
    assert apply_fill(opened, fill("1", "100"), leverage=3)[0].positions["BTC"].leverage == 3
    assert apply_fill(opened, fill("-1", "100"), leverage=5)[0].positions["BTC"].leverage == 2
    assert apply_fill(opened, fill("-3", "100"), leverage=5)[0].positions["BTC"].leverage == 5


def test_cost_is_released_in_proportion_and_the_last_part_takes_the_rest() -> None:
    """100 µUSD for 3 units: thirds of it are 33, then half of 67 (33.5, to even: 34), then the 33 that are left."""
    held, results = Portfolio({"X": Position("X", 3, 100)}), []
    for _ in range(3):
        held, postings = apply_fill(held, Fill("f", "X", 0, -1, 10**12, 0, maker=False), leverage=1)
        results.append(100 - postings[0].amount_usd_e6)
    assert results == [33, 34, 33]
    assert held.positions == {}


def test_a_fill_of_nothing_opens_nothing() -> None:
    portfolio, postings = apply_fill(EMPTY, fill("0", "100", fee="0.01"), leverage=1)
    assert portfolio == Portfolio({}, EMPTY.cash_usd_e6 - 10_000)
    assert postings == [Posting("fee", "BTC", -10_000)]


@pytest.mark.parametrize("size", ["2", "-2"])
def test_a_fill_of_nothing_leaves_a_position_as_it_is(size: str) -> None:
    held, _ = after(fill(size, "100"), leverage=3)
    assert apply_fill(held, fill("0", "120"), leverage=7) == (held, [])


@given(
    entries=st.lists(PIECES, min_size=1, max_size=6),
    cuts=st.lists(PIECES, max_size=6),
    last=st.integers(1, 10**14),
    side=st.sampled_from([1, -1]),
)
def test_a_lifetime_realises_exactly_what_was_sold_less_what_was_bought(
    entries: list[tuple[int, int]], cuts: list[tuple[int, int]], last: int, side: int
) -> None:
    portfolio, flow, held, result = Portfolio({}), 0, 0, 0
    exits = [*cuts, (10**30, last)]
    for size, price in [*entries, *((-size, price) for size, price in exits)]:
        size = max(size, -held)
        if not size:
            break
        held += size
        flow -= notional_usd_e6(side * size, price)
        portfolio, postings = apply_fill(portfolio, Fill("f", "X", 0, side * size, price, 0, maker=False), leverage=1)
        result += sum(each.amount_usd_e6 for each in postings)
        cost = portfolio.positions["X"].cost_usd_e6 if held else 0
        assert result == flow + cost
        assert cost * side >= 0
    assert portfolio == Portfolio({}, flow)
    assert result == flow
