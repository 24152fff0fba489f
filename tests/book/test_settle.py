"""What one word of the broker writes: which events, in which order, and the account after them."""

from typing import Any

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tapebook.book import events as ev
from tapebook.book.events import Posting
from tapebook.book.materializer import (
    Account,
    MaterializerContext,
    OpenTrade,
    TradeCause,
    UpdateMfeMae,
    reconcile_portfolio_delta,
    settle_fill,
    settle_funding,
    settle_insurance,
    settle_marks,
)
from tapebook.domain.order import Fill, FundingPayment, InsurancePayment
from tapebook.domain.position import Portfolio, Position, PriceRange
from tapebook.domain.units import E6, E8, HOUR

NOON = 500_000 * HOUR
CASH = 1_000 * E6
EMPTY = Account(5, Portfolio({}, CASH), {})
BOUGHT = Position("BTC", 2 * E8, 200 * E6, 2, margin_usd_e6=100 * E6, moved_at=NOON + 1)
CAUSE = TradeCause("btc-5m", 3, "r1", "breakout", 2, "chop_lowvol", "abc")


def fill(signed: int, price: int, fee: float = 0, *, number: int = 1, **changes: Any) -> Fill:
    """A fill of whole BTC at a whole price."""
    plain = Fill(f"f{number}", "BTC", NOON + number, signed * E8, price * E8, round(fee * E6), False, f"c{number}")
    return msgspec.structs.replace(plain, **changes)


def after(*fills: Fill) -> Account:
    """The account after some fills."""
    account = EMPTY
    for each in fills:
        account, _ = settle_fill(account, each, CAUSE, mark_e8=None)
    return account


def kinds(bodies: list[msgspec.Struct]) -> list[str]:
    """What the bodies are called in the log."""
    return [ev.EVENT_KINDS[type(body)] for body in bodies]


@pytest.mark.parametrize(
    ("before", "next_fill", "written"),
    [
        pytest.param([], fill(2, 100, 0.5), ["fill", "ledger", "trade.opened"], id="open"),
        pytest.param([], fill(2, 100), ["fill", "trade.opened"], id="open without a fee"),
        pytest.param([fill(2, 100)], fill(1, 110, 0.5), ["fill", "ledger", "trade.updated"], id="add"),
        pytest.param([fill(2, 100)], fill(-1, 110), ["fill", "ledger", "trade.updated"], id="partial close"),
        pytest.param([fill(2, 100)], fill(-1, 100), ["fill", "trade.updated"], id="partial close without a result"),
        pytest.param([fill(2, 100)], fill(-2, 110, 0.5), ["fill", "ledger", "trade.closed"], id="close"),
        pytest.param([fill(-2, 100)], fill(2, 110), ["fill", "ledger", "trade.closed"], id="close of a short"),
        pytest.param([fill(2, 100)], fill(-3, 110, 0.5), ["fill", "ledger", "trade.closed", "trade.opened"], id="flip"),
        pytest.param(
            [fill(-2, 100)], fill(3, 110), ["fill", "ledger", "trade.closed", "trade.opened"], id="flip of a short"
        ),
    ],
)
def test_kinds_of_a_fill(before: list[Fill], next_fill: Fill, written: list[str]) -> None:
    full = {"fill": "fill.observed", "ledger": "ledger.posted"}
    second = msgspec.structs.replace(next_fill, fill_id="next", happened_at=NOON + 9)
    account, bodies = settle_fill(after(*before), second, CAUSE, mark_e8=None)
    assert kinds(bodies) == [full.get(kind, kind) for kind in written]
    assert bodies[0] == ev.FillObserved(second)
    # The sequence number is the one the account was read at: the caller appends after it.
    assert account.seq == 5
    assert account.open_trades.keys() == account.portfolio.positions.keys()


def test_opening_fill() -> None:
    account, (_, posted, opened) = settle_fill(EMPTY, fill(2, 100, 0.5), CAUSE, mark_e8=101 * E8)
    assert posted == ev.LedgerPosted("f1", (Posting("fee", "BTC", -500_000),), CASH - 500_000)
    assert isinstance(opened, ev.TradeOpened)
    trade = opened.trade
    assert (opened.agent, opened.agent_version) == ("btc-5m", 3)
    assert opened.position == account.portfolio.positions["BTC"] == BOUGHT
    assert account.open_trades == {"BTC": trade}
    assert account.portfolio.cash_usd_e6 == CASH - 500_000
    assert (trade.side, trade.entry_tick_at, trade.funded_until) == ("long", NOON + 1, NOON + 1)
    assert (trade.entry_reason, trade.entry_run_id, trade.entry_regime_tag) == ("breakout", "r1", "chop_lowvol")
    assert (trade.entry_leverage, trade.entry_lessons_hash, trade.entry_mark_e8) == (2, "abc", 101 * E8)
    # The mark was observed before the fill.
    assert (trade.mfe_usd_e6, trade.mae_usd_e6, trade.fees_usd_e6) == (0, 0, 500_000)
    assert (trade.entry_usd_e6, trade.entry_order_id) == (200 * E6, None)


@pytest.mark.parametrize(
    ("run", "order", "later_ms", "size_usd"),
    [
        pytest.param("r1", "c2", 60_000, 300, id="the run that opened it"),
        pytest.param("r2", "c1", 0, 200, id="another decision"),
        pytest.param(None, "c1", 0, 200, id="somebody else's order"),
    ],
)
def test_entry_size_is_what_the_opening_run_filled(run: str | None, order: str, later_ms: int, size_usd: int) -> None:
    later = fill(1, 100, client_id=order, fill_id="f2", happened_at=NOON + 1 + later_ms)
    account, _ = settle_fill(after(fill(2, 100)), later, msgspec.structs.replace(CAUSE, run_id=run), mark_e8=None)
    trade = account.open_trades["BTC"]
    assert (trade.entry_notional_usd_e6, trade.entered_usd_e6) == (size_usd * E6, 300 * E6)


@pytest.mark.parametrize(
    ("order", "later_ms", "size_usd"),
    [
        pytest.param("c1", 60_000, 300, id="same order"),
        pytest.param("c2", 0, 300, id="same moment"),
        pytest.param("c2", 60_000, 200, id="later order"),
        pytest.param(None, 60_000, 200, id="no order"),
    ],
)
def test_entry_size_of_fills_without_a_run(order: str | None, later_ms: int, size_usd: int) -> None:
    cause = msgspec.structs.replace(CAUSE, run_id=None)
    account, _ = settle_fill(EMPTY, fill(-2, 100), cause, mark_e8=None)
    later = fill(-1, 100, client_id=order, fill_id="f2", happened_at=NOON + 1 + later_ms)
    trade = settle_fill(account, later, cause, mark_e8=None)[0].open_trades["BTC"]
    assert (trade.entry_notional_usd_e6, trade.entry_order_id) == (size_usd * E6, "c1")


def test_turnover_is_of_all_fills_and_entry_size_is_not() -> None:
    other = msgspec.structs.replace(CAUSE, run_id="r2")
    account, bodies = after(fill(2, 100)), list[msgspec.Struct]()
    for number, size in enumerate((3, -2, 4, -7), 2):
        account, bodies = settle_fill(account, fill(size, 100, number=number), other, mark_e8=None)
    closed = bodies[-1]
    assert isinstance(closed, ev.TradeClosed)
    state = closed.trade.state
    assert (state.entry_notional_usd_e6, state.turnover_usd_e6) == (200 * E6, 1_800 * E6)


def test_trade_from_before_sizes_were_recorded_keeps_what_it_entered() -> None:
    before = after(fill(2, 100))
    old = msgspec.structs.replace(before.open_trades["BTC"], entry_usd_e6=None)
    account = msgspec.structs.replace(before, open_trades={"BTC": old})
    account, _ = settle_fill(account, fill(1, 100, number=2), CAUSE, mark_e8=None)
    trade = account.open_trades["BTC"]
    assert (trade.entry_usd_e6, trade.entry_notional_usd_e6) == (None, 300 * E6)


@pytest.mark.parametrize("size", [-2, 1])
def test_path_before_a_fill_is_of_what_was_held_until_then(size: int) -> None:
    seen = PriceRange(90 * E8, 115 * E8)
    _, bodies = settle_fill(after(fill(2, 100)), fill(size, 110, number=2), CAUSE, mark_e8=999 * E8, path=seen)
    last = bodies[-1]
    assert isinstance(last, ev.TradeClosed | ev.TradeUpdated)
    state = last.trade.state if isinstance(last, ev.TradeClosed) else last.trade
    assert (state.mae_usd_e6, state.mfe_usd_e6) == (-20 * E6, 30 * E6)


def test_closing_fill() -> None:
    opened = after(fill(2, 100, 0.5))
    why = msgspec.structs.replace(CAUSE, run_id="r2", reason="target")
    account, (_, posted, closed) = settle_fill(opened, fill(-2, 110, 1, number=2), why, mark_e8=None)
    lines = (Posting("realised_pnl", "BTC", 20 * E6), Posting("fee", "BTC", -E6))
    assert posted == ev.LedgerPosted("f2", lines, CASH + 18_500_000)
    assert isinstance(closed, ev.TradeClosed)
    assert (closed.trade.exit_reason, closed.trade.exit_run_id, closed.trade.exit_tick_at) == ("target", "r2", NOON + 2)
    assert closed.trade.state.net_usd_e6 == 18_500_000
    assert account == Account(5, Portfolio({}, CASH + 18_500_000), {})


def test_flip_ends_one_trade_and_begins_another() -> None:
    account, bodies = settle_fill(after(fill(1, 100)), fill(-3, 90, 3, number=2), CAUSE, mark_e8=None)
    closed, opened = bodies[2:]
    assert isinstance(closed, ev.TradeClosed) and isinstance(opened, ev.TradeOpened)
    assert closed.trade.state.trade_id != opened.trade.trade_id
    assert (closed.trade.state.side, opened.trade.side) == ("long", "short")
    # The fee is shared by size: one of three closed, two opened.
    assert (closed.trade.state.fees_usd_e6, opened.trade.fees_usd_e6) == (E6, 2 * E6)
    assert account.portfolio.positions["BTC"].size_e8 == -2 * E8
    assert account.portfolio.cash_usd_e6 == CASH - 13 * E6


@pytest.mark.parametrize(
    ("changes", "label", "reason"),
    [
        ({}, None, "breakout"),
        ({}, "external_flatten", "external_flatten"),
        ({}, "delisted", "delisted"),
        ({"liquidation": True, "client_id": None}, None, "liquidated"),
        ({"liquidation": True, "client_id": None}, "external_flatten", "liquidated"),
        ({"client_id": None}, None, "external_flatten"),
    ],
)
def test_label_of_an_exit(changes: dict[str, Any], label: str | None, reason: str) -> None:
    leaving = msgspec.structs.replace(fill(-2, 90, number=2), **changes)
    cause = msgspec.structs.replace(CAUSE, exit_label=label)
    _, bodies = settle_fill(after(fill(2, 100)), leaving, cause, mark_e8=None)
    assert isinstance(bodies[-1], ev.TradeClosed)
    assert bodies[-1].trade.exit_reason == reason


@pytest.mark.parametrize("amount", [-250_000, 250_000])
def test_funding(amount: int) -> None:
    payment = FundingPayment("BTC", NOON + HOUR, amount, 10**8)
    account, bodies = settle_funding(after(fill(2, 100)), payment, CAUSE)
    assert kinds(bodies) == ["funding.observed", "ledger.posted", "trade.updated"]
    assert bodies[0] == ev.FundingObserved(payment)
    ref = f"funding {NOON + HOUR}"
    assert bodies[1] == ev.LedgerPosted(ref, (Posting("funding", "BTC", amount),), CASH + amount)
    trade = account.open_trades["BTC"]
    assert (trade.funding_usd_e6, trade.funded_until) == (amount, NOON + HOUR)
    assert account.portfolio.cash_usd_e6 == CASH + amount


def test_funding_touches_its_symbol_alone() -> None:
    both = after(fill(2, 100), fill(1, 50, number=2, symbol="ETH"))
    account, bodies = settle_funding(both, FundingPayment("ETH", NOON + HOUR, -1, 1), CAUSE)
    assert account.open_trades["BTC"] == both.open_trades["BTC"]
    assert [body.trade.symbol for body in bodies if isinstance(body, ev.TradeUpdated)] == ["ETH"]


def test_insurance_is_money_of_the_account_and_of_no_trade() -> None:
    before = after(fill(2, 100))
    account, bodies = settle_insurance(before, InsurancePayment("ETH", NOON + 9, 300))
    assert bodies == [ev.LedgerPosted(f"insurance {NOON + 9}", (Posting("insurance", "ETH", 300),), CASH + 300)]
    assert account == Account(5, Portfolio(before.portfolio.positions, CASH + 300), before.open_trades)


def test_marks() -> None:
    both = after(fill(2, 100), fill(-1, 50, number=2, symbol="ETH"))
    marks = {"BTC": 90 * E8, "ETH": 45 * E8}
    seen = {"BTC": PriceRange(90 * E8, 99 * E8), "ETH": PriceRange(45 * E8, 50 * E8)}
    account, bodies = settle_marks(both, marks, CAUSE, path=seen, at=NOON + 9, walked_until=NOON)
    assert kinds(bodies) == ["marks.observed", "trade.updated", "trade.updated"]
    assert bodies[0] == ev.MarksObserved(marks, CASH, CASH - 20 * E6 + 5 * E6, NOON)
    extremes = {name: (trade.mfe_usd_e6, trade.mae_usd_e6) for name, trade in account.open_trades.items()}
    assert extremes == {"BTC": (0, -20 * E6), "ETH": (5 * E6, 0)}
    assert account.portfolio == both.portfolio


def test_mark_from_before_the_entry_is_a_value_and_no_extreme() -> None:
    before = after(fill(2, 100))
    account, bodies = settle_marks(before, {"BTC": 150 * E8}, CAUSE, path={}, at=NOON + 9)
    assert (account, bodies) == (before, [ev.MarksObserved({"BTC": 150 * E8}, CASH, CASH + 100 * E6)])


def test_marks_that_widen_nothing_write_the_value_alone() -> None:
    marks, seen = {"BTC": 90 * E8}, {"BTC": PriceRange(90 * E8, 90 * E8)}
    once, _ = settle_marks(after(fill(2, 100)), marks, CAUSE, path=seen, at=NOON + 9)
    again, bodies = settle_marks(once, marks, CAUSE, path=seen, at=NOON + 10)
    assert kinds(bodies) == ["marks.observed"]
    assert again == once


PARTS = st.lists(st.tuples(st.sampled_from(["BTC", "ETH"]), st.sampled_from([-3, -1, 1, 2]), st.integers(90, 110)))


@given(PARTS, st.lists(st.tuples(st.integers(80, 120), st.integers(80, 120)), max_size=4), st.booleans())
def test_marks_go_through_the_materializer(parts: list[Any], moments: list[Any], adopted: bool) -> None:
    """Also those of which nothing has to be said, and of positions that have no trade yet."""
    fills = [fill(size, price, number=at, symbol=symbol) for at, (symbol, size, price) in enumerate(parts, 1)]
    account = after(*fills)
    if adopted:
        account = msgspec.structs.replace(account, open_trades={})
    for at, (btc, eth) in enumerate(moments, NOON + 100):
        marks = {symbol: price * E8 for symbol, price in (("BTC", btc), ("ETH", eth))}
        seen = {symbol: PriceRange(price - E8, price + E8) for symbol, price in marks.items() if price % (3 * E8)}
        context = MaterializerContext(at=at, source_id=f"marks {at}", open_trades=account.open_trades, path=seen)
        trades = dict(account.open_trades)
        for op in reconcile_portfolio_delta(account.portfolio, account.portfolio, context):
            assert isinstance(op, OpenTrade | UpdateMfeMae)
            trades[op.trade.symbol] = op.trade
        changed = [symbol for symbol, trade in sorted(trades.items()) if account.open_trades.get(symbol) != trade]
        next_account, (said, *bodies) = settle_marks(account, marks, CAUSE, path=seen, at=at)
        assert said == ev.MarksObserved(marks, account.portfolio.cash_usd_e6, account.portfolio.equity_usd_e6(marks))
        assert [body.trade for body in bodies if isinstance(body, ev.TradeOpened | ev.TradeUpdated)] == [
            trades[symbol] for symbol in changed
        ]
        assert next_account == Account(account.seq, account.portfolio, trades)
        event("says something" if bodies else "says nothing")
        account = next_account


def test_marks_of_an_empty_account() -> None:
    account, bodies = settle_marks(EMPTY, {}, CAUSE, path={}, at=NOON)
    assert (account, bodies) == (EMPTY, [ev.MarksObserved({}, CASH, CASH)])


def test_settling_changes_no_account_it_was_given() -> None:
    before = after(fill(2, 100))
    kept = msgspec.json.encode(before)
    settle_fill(before, fill(-2, 110, number=2), CAUSE, mark_e8=None)
    settle_funding(before, FundingPayment("BTC", NOON, 5, 5), CAUSE)
    settle_marks(before, {"BTC": 1}, CAUSE, path={"BTC": PriceRange(1, 1)}, at=NOON)
    assert msgspec.json.encode(before) == kept
