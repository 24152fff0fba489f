"""Any sequence of fills, marks and funding keeps the books: proved in integers after every step.

Each invariant is one `check_` function, named by what it says.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.book.materializer import Op, UpdateMfeMae
from tapebook.domain.order import Fill, FundingPayment
from tapebook.domain.position import Portfolio, TradeState
from tapebook.domain.units import E6, E8, MINUTE
from tests.book.account_oracle import Desk, SlowAccount
from tests.matrix import examples

DEPOSIT = 10_000 * E6
# (lowest price, highest price, largest size). EDGE has every price and size that still fits 64 bits after 30 fills.
PERPS = {
    "BTC": (10_000 * E8, 150_000 * E8, 10 * E8),
    "EDGE": (1, 10**14, 10**13),
    "kPEPE": (1, 3_000_000, 10**17),
}
ENTRY_FIELDS = [name for name in TradeState.__struct_fields__ if name.startswith("entry_")] + ["side", "symbol"]


class Deal(msgspec.Struct, frozen=True):
    """A fill, in terms of what is held when it comes."""

    symbol: str
    move: Literal["buy", "sell", "trim", "close", "flip", "liquidate"]
    size_e8: int
    price_e8: int
    fee_usd_e6: int


class Mark(msgspec.Struct, frozen=True):
    """A new mark."""

    symbol: str
    price_e8: int


class Funding(msgspec.Struct, frozen=True):
    """An hour's funding; nothing is paid where nothing is held."""

    symbol: str
    amount_usd_e6: int


Step = Deal | Mark | Funding


def steps_of(symbol: str) -> st.SearchStrategy[Step]:
    """Everything that can happen to one perp."""
    lowest, highest, largest = PERPS[symbol]
    prices = st.integers(lowest, highest) | st.sampled_from([lowest, highest])
    sizes = st.integers(1, largest) | st.sampled_from([1, 2, 3, largest])
    moves = st.sampled_from(["buy", "sell", "trim", "close", "flip", "liquidate"])
    fees = st.integers(-1_000, 10**9) | st.just(0)
    deals: st.SearchStrategy[Step] = st.builds(
        Deal, st.just(symbol), move=moves, size_e8=sizes, price_e8=prices, fee_usd_e6=fees
    )
    marks = st.builds(Mark, st.just(symbol), prices)
    return deals | deals | marks | st.builds(Funding, st.just(symbol), st.integers(-(10**9), 10**9))


STEPS = st.lists(st.sampled_from(sorted(PERPS)).flatmap(steps_of), min_size=8, max_size=30)


def signed_size(deal: Deal, held_e8: int) -> int:
    """What the deal buys (positive) or sells; never nothing."""
    if deal.move == "buy" or (not held_e8 and deal.move != "sell"):
        return deal.size_e8
    against = -1 if held_e8 > 0 else 1
    match deal.move:
        case "trim":
            return against * (1 + deal.size_e8 % abs(held_e8))
        case "close" | "liquidate":
            return -held_e8
        case "flip":
            return -held_e8 + against * deal.size_e8
    return -deal.size_e8


def held_e8(portfolio: Portfolio, symbol: str) -> int:
    """The signed size held."""
    return portfolio.positions[symbol].size_e8 if symbol in portfolio.positions else 0


def fill_of(deal: Deal, desk: Desk, number: int) -> Fill:
    """The deal as the fill a broker would report."""
    return Fill(
        fill_id=f"f{number}",
        symbol=deal.symbol,
        happened_at=number * MINUTE,
        signed_size_e8=signed_size(deal, held_e8(desk.portfolio, deal.symbol)),
        price_e8=deal.price_e8,
        fee_usd_e6=deal.fee_usd_e6,
        maker=False,
        liquidation=deal.move == "liquidate",
    )


def do(desk: Desk, step: Step, number: int) -> list[Op]:
    """The ops of one step."""
    at = number * MINUTE
    match step:
        case Deal():
            return desk.fill(fill_of(step, desk, number), reason=f"reason {number}")
        case Mark(symbol, price_e8):
            return desk.mark(at, {symbol: price_e8})
        case Funding(symbol, amount) if symbol in desk.portfolio.positions:
            return desk.fund(FundingPayment(symbol, at, amount, rate_e12=0))
    return []


def do_slowly(slow: SlowAccount, desk: Desk, step: Step, number: int) -> None:
    """The same step, before the desk has done it, in the slow account."""
    if isinstance(step, Deal):
        fill = fill_of(step, desk, number)
        slow.fill(fill.symbol, fill.signed_size_e8, fill.price_e8)
    elif isinstance(step, Mark):
        slow.mark(step.symbol, step.price_e8)


def check_cash_is_the_sum_of_postings(desk: Desk) -> None:
    assert desk.portfolio.cash_usd_e6 == sum(each.amount_usd_e6 for each in desk.postings)


def check_trades_sum_to_the_postings(desk: Desk) -> None:
    for symbol in PERPS:
        states = desk.states(symbol)
        assert sum(each.realised_usd_e6 for each in states) == desk.posted("realised_pnl", symbol)
        assert sum(each.fees_usd_e6 for each in states) == -desk.posted("fee", symbol)
        assert sum(each.funding_usd_e6 for each in states) == desk.posted("funding", symbol)
    nets = [each.net_usd_e6 for symbol in PERPS for each in desk.states(symbol)]
    assert desk.portfolio.cash_usd_e6 == DEPOSIT + sum(nets)


def check_equity_is_what_flowed_and_what_is_held(desk: Desk, slow: SlowAccount, last_prices: dict[str, int]) -> None:
    """Exact: see `account_oracle` for the one rounding rule. Averages and cost do not come into it."""
    fees_and_funding = sum(each.amount_usd_e6 for each in desk.postings if each.kind in ("fee", "funding"))
    worth = sum(
        round(Fraction(each.size_e8 * last_prices[each.symbol], 10**10)) for each in desk.portfolio.positions.values()
    )
    assert desk.portfolio.equity_usd_e6(last_prices) == DEPOSIT + slow.flow_usd_e6 + fees_and_funding + worth


def check_one_open_trade_per_position(desk: Desk) -> None:
    assert desk.trades.keys() == desk.portfolio.positions.keys()
    for symbol, trade in desk.trades.items():
        assert (trade.side == "long") == (held_e8(desk.portfolio, symbol) > 0)
    ids = [each.trade_id for symbol in PERPS for each in desk.states(symbol)]
    assert len(set(ids)) == len(ids)


def check_entered_and_exited_explain_what_is_held(desk: Desk) -> None:
    """Also in money, exactly: what went in less what came out is the cost still held plus what was realised."""
    for symbol in PERPS:
        for trade in desk.states(symbol):
            held = desk.portfolio.positions.get(symbol) if trade is desk.trades.get(symbol) else None
            side = 1 if trade.side == "long" else -1
            assert trade.entered_e8 - trade.exited_e8 == (abs(held.size_e8) if held else 0)
            cost = abs(held.cost_usd_e6) if held else 0
            assert trade.realised_usd_e6 == side * (trade.exited_usd_e6 - trade.entered_usd_e6 + cost)


def check_extremes_hold_every_result(desk: Desk) -> None:
    for closed in desk.closed:
        assert closed.state.mae_usd_e6 <= min(0, closed.state.realised_usd_e6)
        assert closed.state.mfe_usd_e6 >= max(0, closed.state.realised_usd_e6)
    for symbol, mark in desk.marks.items():
        if symbol in desk.trades:
            trade = desk.trades[symbol]
            stands = trade.realised_usd_e6 + desk.portfolio.positions[symbol].unrealised_usd_e6(mark)
            assert trade.mae_usd_e6 <= stands <= trade.mfe_usd_e6


def check_fractions_agree(desk: Desk, slow: SlowAccount) -> None:
    """Realised, MFE and MAE of every trade differ from exact average cost by at most 1 µUSD per fill."""
    for symbol, book in slow.symbols.items():
        for trade, exact in zip(desk.states(symbol), book.trades, strict=True):
            assert abs(trade.realised_usd_e6 - exact.realised) <= exact.fills
            assert abs(trade.mfe_usd_e6 - exact.best) <= exact.fills
            assert abs(trade.mae_usd_e6 - exact.worst) <= exact.fills


def check_replay_changes_nothing(desk: Desk, at: int) -> None:
    assert desk.replay(at) == [UpdateMfeMae(desk.trades[symbol]) for symbol in sorted(desk.trades)]


def entries(desk: Desk) -> dict[str, list[object]]:
    """What must never change in the life of a trade, by its id."""
    states = [each for symbol in PERPS for each in desk.states(symbol)]
    return {each.trade_id: [getattr(each, name) for name in ENTRY_FIELDS] for each in states}


@settings(max_examples=examples(50))
@given(steps=STEPS)
def test_the_books_are_right_after_every_step(steps: list[Step]) -> None:
    desk, slow = Desk(deposit_usd_e6=DEPOSIT), SlowAccount()
    last_prices: dict[str, int] = {}
    known: dict[str, list[object]] = {}
    for number, step in enumerate(steps):
        do_slowly(slow, desk, step, number)
        do(desk, step, number)
        if not isinstance(step, Funding):
            last_prices[step.symbol] = step.price_e8
        check_cash_is_the_sum_of_postings(desk)
        check_trades_sum_to_the_postings(desk)
        check_equity_is_what_flowed_and_what_is_held(desk, slow, last_prices)
        check_one_open_trade_per_position(desk)
        check_entered_and_exited_explain_what_is_held(desk)
        check_extremes_hold_every_result(desk)
        check_fractions_agree(desk, slow)
        check_replay_changes_nothing(desk, number * MINUTE)
        assert known.items() <= entries(desk).items()
        known = entries(desk)


def play(desk: Desk, steps: Sequence[Step], *, start: int = 0) -> list[Op]:
    """The ops of a sequence."""
    return [op for number, step in enumerate(steps, start) for op in do(desk, step, number)]


@settings(max_examples=examples(25))
@given(steps=STEPS, data=st.data())
def test_a_sequence_cut_anywhere_gives_the_ops_of_the_whole(steps: list[Step], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(steps)), label="cut")
    whole = play(Desk(deposit_usd_e6=DEPOSIT), steps)
    first = Desk(deposit_usd_e6=DEPOSIT)
    before = play(first, steps[:cut])
    content = first.save()
    second = Desk.load(content)
    assert second.save() == content
    assert before + play(second, steps[cut:], start=cut) == whole


@settings(max_examples=examples(25))
@given(steps=STEPS)
def test_what_happens_to_one_symbol_does_not_touch_another(steps: list[Step]) -> None:
    together = Desk()
    play(together, steps)
    for symbol in PERPS:
        alone = Desk()
        for number, step in enumerate(steps):
            if step.symbol == symbol:
                do(alone, step, number)
        assert alone.states(symbol) == together.states(symbol)
        assert alone.posted("realised_pnl", symbol) == together.posted("realised_pnl", symbol)


def mirrored(desk: Desk, steps: list[Step]) -> Desk:
    """A desk that sells what the other buys, at the same prices."""
    other = Desk()
    for number, step in enumerate(steps):
        if isinstance(step, Deal):
            fill = fill_of(step, desk, number)
            other.fill(msgspec.structs.replace(fill, signed_size_e8=-fill.signed_size_e8), reason=f"reason {number}")
        else:
            do(other, step, number)
        do(desk, step, number)
    return other


@settings(max_examples=examples(25))
@given(steps=STEPS)
def test_the_other_side_of_every_trade_has_the_opposite_result(steps: list[Step]) -> None:
    """Half to even does not know which side it is on, so gains and losses are the same to the last unit."""
    desk = Desk()
    other = mirrored(desk, steps)
    for symbol in PERPS:
        for mine, theirs in zip(desk.states(symbol), other.states(symbol), strict=True):
            assert {mine.side, theirs.side} == {"long", "short"}
            assert theirs.realised_usd_e6 == -mine.realised_usd_e6
            assert (theirs.mfe_usd_e6, theirs.mae_usd_e6) == (-mine.mae_usd_e6, -mine.mfe_usd_e6)
            assert (theirs.fees_usd_e6, theirs.funding_usd_e6) == (mine.fees_usd_e6, mine.funding_usd_e6)
            assert (theirs.entry_price_e8, theirs.exited_usd_e6) == (mine.entry_price_e8, mine.exited_usd_e6)
