"""The guard: each rule at its bounds, the order of the rules, and what no reply can get past them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.book.orders import orders_for
from tapebook.decision.guard import RULES, Limits, judge, too_old
from tapebook.domain.agent import RiskCaps
from tapebook.domain.money import E6, E8, notional_usd_e6
from tapebook.domain.order import Order
from tapebook.domain.position import Position
from tapebook.domain.run import Action, ActionKind, Verdict

CAPS = RiskCaps(max_position_usd_e6=2_000 * E6, max_leverage=5, min_notional_usd_e6=10 * E6, max_data_age_ms=120_000)
ALLOWED = Verdict(True)


def limits(**changes: Any) -> Limits:
    """A flat account that may trade BTC, on a price three seconds old."""
    plain = Limits(CAPS, "BTC", ("BTC", "ETH"), held_usd_e6=0, data_age_ms=3_000)
    return msgspec.structs.replace(plain, **changes)


def action(kind: ActionKind, side: Any = None, usd: float = 0, **changes: Any) -> Action:
    """A proposal on BTC."""
    plain = Action(kind, "BTC", side, round(usd * E6), 1, "market", None, 5_000, "why")
    return msgspec.structs.replace(plain, **changes)


def verdict(proposed: Action, **known: Any) -> Verdict:
    """What the guard says of one action."""
    (found,) = judge([proposed], limits(**known))
    return found


OPEN = action("open", "long", 100)
ADJUST = action("adjust", "long", 100)
CLOSE = action("close")
HOLD = action("hold")
UNIT = 1e-6


@pytest.mark.parametrize(
    ("proposed", "known", "rule"),
    [
        pytest.param(HOLD, {}, None, id="a hold"),
        pytest.param(OPEN, {}, None, id="an open"),
        # R2
        pytest.param(action("hold", symbol="ETH"), {}, "R2_SYMBOL_NOT_ENABLED", id="a hold on another symbol"),
        pytest.param(action("open", "long", 100, symbol="ETH"), {}, "R2_SYMBOL_NOT_ENABLED", id="another symbol"),
        pytest.param(action("close", symbol=""), {}, "R2_SYMBOL_NOT_ENABLED", id="no symbol"),
        pytest.param(action("open", "long", 100, symbol="btc"), {}, "R2_SYMBOL_NOT_ENABLED", id="lower case"),
        pytest.param(OPEN, {"watchlist": ("ETH",)}, "R2_SYMBOL_NOT_ENABLED", id="not on the watchlist"),
        pytest.param(OPEN, {"watchlist": ()}, "R2_SYMBOL_NOT_ENABLED", id="an empty watchlist"),
        # R7
        pytest.param(OPEN, {"data_age_ms": None}, "R7_STALE_DATA", id="no price"),
        pytest.param(OPEN, {"data_age_ms": 0}, None, id="a price of this moment"),
        pytest.param(OPEN, {"data_age_ms": 120_000}, None, id="a price as old as allowed"),
        pytest.param(OPEN, {"data_age_ms": 120_001}, "R7_STALE_DATA", id="a price a millisecond older"),
        pytest.param(CLOSE, {"data_age_ms": 120_001, "held_usd_e6": 1}, "R7_STALE_DATA", id="a close on an old price"),
        pytest.param(HOLD, {"data_age_ms": None}, None, id="a hold needs no price"),
        # R4
        pytest.param(action("open", "long", 100, leverage=5), {}, None, id="the highest leverage"),
        pytest.param(action("open", "long", 100, leverage=6), {}, "R4_LEVERAGE", id="one more"),
        pytest.param(action("adjust", "long", 100, leverage=6), {"held_usd_e6": 1}, "R4_LEVERAGE", id="adjust, too"),
        pytest.param(action("close", leverage=100), {"held_usd_e6": 1}, None, id="the leverage of a close is idle"),
        # R8
        pytest.param(action("open", "long", 10), {}, None, id="the smallest open"),
        pytest.param(action("open", "long", 10 - UNIT), {}, "R8_MIN_NOTIONAL", id="a unit smaller"),
        pytest.param(action("adjust", "long", 1), {"held_usd_e6": E6}, None, id="an adjust may go below"),
        # R3
        pytest.param(action("open", "long", 2_000), {}, None, id="the largest long"),
        pytest.param(action("open", "short", 2_000), {}, None, id="the largest short"),
        pytest.param(action("open", "long", 2_000 + UNIT), {}, "R3_POSITION_CAP", id="a unit larger"),
        pytest.param(action("open", "short", 2_000 + UNIT), {}, "R3_POSITION_CAP", id="a unit larger, short"),
        pytest.param(action("open", "long", 500), {"held_usd_e6": 1_500 * E6}, None, id="an add up to the cap"),
        pytest.param(action("open", "long", 500 + UNIT), {"held_usd_e6": 1_500 * E6}, "R3_POSITION_CAP", id="beyond"),
        pytest.param(action("open", "short", 500), {"held_usd_e6": -1_500 * E6}, None, id="a short add to the cap"),
        pytest.param(
            action("open", "short", 500 + UNIT), {"held_usd_e6": -1_500 * E6}, "R3_POSITION_CAP", id="short, beyond"
        ),
        pytest.param(action("open", "short", 2_000), {"held_usd_e6": 2_000 * E6}, None, id="a turn of all of it"),
        pytest.param(action("open", "short", 2_001), {"held_usd_e6": E6}, "R3_POSITION_CAP", id="turned, beyond"),
        pytest.param(action("adjust", "long", 2_000), {"held_usd_e6": 1_999 * E6}, None, id="adjusted to the cap"),
        pytest.param(action("adjust", "long", 2_001), {"held_usd_e6": E6}, "R3_POSITION_CAP", id="adjusted beyond"),
        pytest.param(OPEN, {"held_usd_e6": 3_000 * E6}, "R3_POSITION_CAP", id="an add to what grew beyond the cap"),
        pytest.param(action("adjust", "long", 1_000), {"held_usd_e6": 3_000 * E6}, None, id="cut back below the cap"),
        # R12
        pytest.param(CLOSE, {}, "R12_NO_POSITION", id="nothing to close"),
        pytest.param(CLOSE, {"held_usd_e6": 1}, None, id="the smallest long is closed"),
        pytest.param(CLOSE, {"held_usd_e6": -1}, None, id="the smallest short is closed"),
        pytest.param(ADJUST, {}, "R12_NO_POSITION", id="nothing to adjust"),
        pytest.param(ADJUST, {"held_usd_e6": 1}, None, id="a long is adjusted"),
        pytest.param(ADJUST, {"held_usd_e6": -1}, "R12_NO_POSITION", id="a short is not a long"),
        pytest.param(action("adjust", "short", 100), {"held_usd_e6": -1}, None, id="a short is adjusted"),
        pytest.param(action("adjust", "short", 100), {"held_usd_e6": 1}, "R12_NO_POSITION", id="a long is not a short"),
    ],
)
def test_rule(proposed: Action, known: dict[str, Any], rule: str | None) -> None:
    found = verdict(proposed, **known)
    assert (found.allowed, found.rule) == (rule is None, rule)
    assert bool(found.detail) == (rule is not None)


def test_first_rule_that_objects_is_named() -> None:
    wrong = action("adjust", "long", 5_000, symbol="ETH", leverage=50)
    known: dict[str, Any] = {"data_age_ms": None}
    named = []
    for repair in ({"symbol": "BTC"}, {"age": 0}, {"leverage": 1}, {"notional_usd_e6": 100 * E6}, {}):
        named.append(verdict(wrong, **known).rule)
        if "age" in repair:
            known["data_age_ms"] = 0
        else:
            wrong = msgspec.structs.replace(wrong, **repair)
    assert named == ["R2_SYMBOL_NOT_ENABLED", "R7_STALE_DATA", "R4_LEVERAGE", "R3_POSITION_CAP", "R12_NO_POSITION"]
    assert verdict(action("open", "long", 1, leverage=50)).rule == "R4_LEVERAGE"
    assert verdict(action("open", "long", 5), held_usd_e6=2_000 * E6).rule == "R8_MIN_NOTIONAL"
    assert [code for code in RULES if code in named] == named


@pytest.mark.parametrize(
    ("proposed", "known", "detail"),
    [
        (action("open", "long", 100, symbol="ETH"), {}, "ETH is not what this run may trade"),
        (action("open", "long", 100, symbol=""), {}, "an empty symbol is not what this run may trade"),
        (OPEN, {"data_age_ms": None}, "no price is known"),
        (OPEN, {"data_age_ms": 300_999}, "the newest price is 300 s old"),
        (action("open", "long", 100, leverage=6), {}, "leverage 6 exceeds 5"),
        (action("open", "long", 9.99), {}, "$9.99 is below the minimum of $10.00"),
        (action("open", "long", 600), {"held_usd_e6": 1_500 * E6}, "position of $2100.00 exceeds $2000.00"),
        (CLOSE, {}, "there is no position to close"),
        (ADJUST, {}, "there is no long position to adjust"),
    ],
)
def test_refusal_says_why(proposed: Action, known: dict[str, Any], detail: str) -> None:
    assert verdict(proposed, **known).detail == detail


@pytest.mark.parametrize(
    ("proposed", "rules"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([HOLD, HOLD], [None, None], id="two holds"),
        pytest.param([HOLD, OPEN], [None, None], id="a hold does not trade"),
        pytest.param([OPEN, HOLD], [None, None], id="a hold after a trade"),
        pytest.param([OPEN, OPEN], [None, "R13_ONE_ORDER"], id="two opens"),
        pytest.param([CLOSE, OPEN], [None, "R13_ONE_ORDER"], id="a close and an open"),
        pytest.param([OPEN, CLOSE], [None, "R13_ONE_ORDER"], id="an open and a close"),
        pytest.param(
            [action("open", "long", 5_000), OPEN, CLOSE],
            ["R3_POSITION_CAP", None, "R13_ONE_ORDER"],
            id="what was refused does not trade",
        ),
        pytest.param(
            [OPEN, action("open", "long", 100, leverage=6)], [None, "R4_LEVERAGE"], id="an older rule is named first"
        ),
    ],
)
def test_one_action_of_a_reply_trades(proposed: list[Action], rules: list[str | None]) -> None:
    assert [found.rule for found in judge(proposed, limits(held_usd_e6=100 * E6))] == rules


@pytest.mark.parametrize(("age", "old"), [(None, True), (0, False), (120_000, False), (120_001, True), (10**15, True)])
def test_second_gate_asks_the_same(age: int | None, old: bool) -> None:
    assert (too_old(age, CAPS) is not None) == old


KINDS: st.SearchStrategy[ActionKind] = st.sampled_from(["open", "adjust", "close", "hold"])
MONEY = st.integers(0, 10**11) | st.integers(0, 3_000 * E6) | st.sampled_from([0, 1, 10 * E6, 2_000 * E6, 10**15])
PRICES = st.integers(1, 10**13) | st.sampled_from([1, 12_345, E8, 65_200 * E8, 10**14])


@st.composite
def actions(draw: st.DrawFn) -> Action:
    """Any action on BTC that the parser could give."""
    kind = draw(KINDS)
    needs = kind in ("open", "adjust")
    side: Any = draw(st.sampled_from(["long", "short"] if needs else ["long", "short", None]))
    limit = draw(st.none() | PRICES)
    order_type: Any = "market" if limit is None else "limit"
    usd = draw(MONEY.filter(bool) if needs else MONEY)
    return Action(kind, "BTC", side, usd, draw(st.integers(1, 100)), order_type, limit, 5_000, "why")


@settings(max_examples=50)
@given(st.integers(-(10**16), 10**16).filter(bool), st.integers(0, 120_000), st.lists(actions(), max_size=3))
def test_closing_is_possible_whenever_there_is_a_fresh_price(held: int, age: int, others: list[Action]) -> None:
    refused = [msgspec.structs.replace(each, symbol="ETH") for each in others]
    assert judge([*refused, CLOSE], limits(held_usd_e6=held, data_age_ms=age))[-1] == ALLOWED


def after(held_e8: int, order: Order) -> int:
    """What is held once an order is filled; one that may only reduce is cut down first."""
    size = order.signed_size_e8
    if order.reduce_only:
        size = max(-held_e8, size) if held_e8 > 0 else min(-held_e8, size)
    return held_e8 + size


@settings(max_examples=200)
@given(st.lists(actions(), max_size=4), st.integers(-(10**13), 10**13), PRICES)
def test_no_combination_of_allowed_actions_exceeds_the_cap(proposed: list[Action], held_e8: int, mark: int) -> None:
    worth = notional_usd_e6(held_e8, mark)
    verdicts = judge(proposed, limits(held_usd_e6=worth))
    held = Position("BTC", held_e8, worth) if held_e8 else None
    judged = list(zip(proposed, verdicts, strict=True))
    orders = orders_for("run", judged, held=held, mark_e8=mark, at=0)
    # Each order may be filled or not, in any order: with one at most, there is nothing to combine.
    assert len(orders) <= 1
    for order in orders:
        size = after(held_e8, order)
        # A unit for the rounding of what is held, one for that of what is added.
        assert abs(notional_usd_e6(size, mark)) <= CAPS.max_position_usd_e6 + 2
        assert order.leverage <= CAPS.max_leverage or size == 0


@given(st.lists(actions(), max_size=4), st.integers(-(10**13), 10**13))
def test_every_action_gets_a_verdict(proposed: list[Action], held: int) -> None:
    verdicts = judge(proposed, limits(held_usd_e6=held))
    assert len(verdicts) == len(proposed)
    assert judge(proposed, limits(held_usd_e6=held)) == verdicts
    assert all(found.allowed == (found.rule is None) for found in verdicts)
