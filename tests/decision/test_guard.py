"""The guard: one action of a reply trades, the first rule is named, and the gate asks again when an order leaves."""

from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tapebook.book.events import orders_for_actions
from tapebook.decision.guard import (
    RULES,
    Limits,
    ProposedOrder,
    _first_objection,
    gate_order,
    judge_actions,
    move_of_order,
)
from tapebook.domain.order import Order
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.run import Action, ActionKind, Activity, Verdict
from tapebook.domain.units import E6, notional_usd_e6
from tests.decision.accounts import CAPS, MARK, action, limited, limits, order, working
from tests.matrix import examples

OPEN = action("open", "long", 100)
CLOSE = action("close")
HOLD = action("hold")
OPEN_MOST = action("open", "long", 2_000)
TURN_NOW, TURN_LATER = action("open", "short", 1_000), limited("open", "short", 1_000, at=101)


def test_first_rule_that_objects_is_named() -> None:
    wrong = action("adjust", "long", 5_000, symbol="ETH", leverage=50, cites=("c1",))
    known: dict[str, Any] = {"data_age_ms": None, "halted": "x"}
    repairs: list[dict[str, Any]] = [
        {"halted": None},
        {"symbol": "BTC"},
        {"cites": ()},
        {"data_age_ms": 0},
        {"held": 1},
        {"leverage": 1},
        {"notional_usd_e6": 100 * E6},
    ]
    named = []
    for repair in repairs:
        (found,) = judge_actions([wrong], limits(**known))
        named.append(found.rule)
        if set(repair) <= {"halted", "data_age_ms", "held"}:
            known |= repair
        else:
            wrong = msgspec.structs.replace(wrong, **repair)
    assert named == [
        "R1_KILL_SWITCH",
        "R2_SYMBOL_NOT_ENABLED",
        "R15_UNKNOWN_CITATION",
        "R7_STALE_DATA",
        "R12_NO_POSITION",
        "R4_LEVERAGE",
        "R3_POSITION_CAP",
    ]
    assert judge_actions([wrong], limits(**known)) == (Verdict(True),)
    assert [code for code in RULES if code in named] == named


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
    assert [found.rule for found in judge_actions(proposed, limits(held=100))] == rules


# The gate


@pytest.mark.parametrize(
    ("sent", "known", "rule"),
    [
        pytest.param(order(100), {}, None, id="nothing has changed"),
        pytest.param(order(100), {"halted": "x"}, "R1_KILL_SWITCH", id="halted since"),
        pytest.param(order(-100, reduce_only=True), {"halted": "x", "held": 100}, "R1_KILL_SWITCH", id="a close, too"),
        pytest.param(order(-100, reduce_only=True, run=""), {"halted": "x", "held": 100}, None, id="but not a flatten"),
        pytest.param(order(-100, reduce_only=True, run=""), {"data_age_ms": None}, None, id="a flatten needs no price"),
        pytest.param(order(100), {"watchlist": ()}, "R2_SYMBOL_NOT_ENABLED", id="not watched any more"),
        pytest.param(order(100), {"data_age_ms": 120_001}, "R7_STALE_DATA", id="the price went old"),
        pytest.param(order(100), {"data_age_ms": None}, "R7_STALE_DATA", id="the price went away"),
        pytest.param(order(100, leverage=6), {}, "R4_LEVERAGE", id="the leverage cap was lowered"),
        pytest.param(order(2_000), {}, None, id="the largest"),
        pytest.param(order(2_000.01), {}, "R3_POSITION_CAP", id="the price rose above the cap"),
        pytest.param(order(500), {"held": 1_600}, "R3_POSITION_CAP", id="the position grew"),
        pytest.param(order(500), {"working": (working("BTC", 1_600),)}, "R3_POSITION_CAP", id="another order came"),
        pytest.param(order(500), {"others": {"ETH": 2_600}}, "R14_ACCOUNT_CAP", id="the account grew"),
        pytest.param(order(500), {"cash": 499}, "R16_MARGIN", id="the margin shrank"),
        pytest.param(order(-3_000, reduce_only=True), {"held": 3_000}, None, id="what only reduces meets no cap"),
        pytest.param(order(100, at=-300_000), {"at": 0}, None, id="as old as allowed"),
        pytest.param(order(100, at=-300_001), {"at": 0}, "R17_EXPIRED", id="a millisecond older"),
        pytest.param(order(-100, reduce_only=True, at=-300_001), {"held": 100}, "R17_EXPIRED", id="a close expires"),
        pytest.param(order(-100, reduce_only=True, at=-(10**9), run=""), {"held": 100}, None, id="a flatten does not"),
    ],
)
def test_gate(sent: Order, known: dict[str, Any], rule: str | None) -> None:
    found = gate_order(sent, limits(**known), decided_mark_e8=MARK, most_ms=300_000)
    assert (found.allowed, found.rule) == (rule is None, rule)


@pytest.mark.parametrize(
    ("decided", "rule"),
    [
        (MARK, None),
        (MARK * 100 // 102 + 1, None),
        (MARK * 100 // 102 - 100, "R9_PRICE_DEVIATION"),
        (MARK * 100 // 98 + 100, "R9_PRICE_DEVIATION"),
        (None, "R9_PRICE_DEVIATION"),
    ],
)
def test_gate_sees_that_the_price_has_left(decided: int | None, rule: str | None) -> None:
    assert gate_order(order(100), limits(), decided_mark_e8=decided, most_ms=1).rule == rule
    closing = order(-100, reduce_only=True)
    assert gate_order(closing, limits(held=100), decided_mark_e8=decided, most_ms=1).allowed
    far = order(100, type="limit", limit_price_e8=MARK * 97 // 100)
    assert gate_order(far, limits(), decided_mark_e8=MARK, most_ms=1).rule == "R9_PRICE_DEVIATION"


# Whatever is proposed, in whatever order it fills

KINDS: st.SearchStrategy[ActionKind] = st.sampled_from(["open", "adjust", "close", "hold"])
DOLLARS = st.integers(0, 2_500) | st.sampled_from([10, 1_000, 2_000, 10**9])


@st.composite
def actions(draw: st.DrawFn) -> Action:
    """Any action on BTC that the parser could give."""
    kind = draw(KINDS)
    needs = kind in ("open", "adjust")
    side: Any = draw(st.sampled_from(["long", "short"] if needs else ["long", "short", None]))
    dollars = draw(DOLLARS.filter(bool) if needs else DOLLARS)
    lever = draw(st.integers(1, 6))
    if draw(st.booleans()):
        return action(kind, side, dollars, leverage=lever)
    return limited(kind, side, dollars, at=draw(st.sampled_from([97.9, 98, 99.5, 100, 101, 102, 103])), leverage=lever)


@settings(max_examples=examples(50))
@given(st.integers(-(10**6), 10**6).filter(bool), st.integers(0, 120_000), st.lists(actions(), max_size=3))
def test_closing_is_possible_whenever_there_is_a_fresh_price(held: int, age: int, others: list[Action]) -> None:
    refused = [msgspec.structs.replace(each, symbol="ETH") for each in others]
    assert judge_actions([*refused, CLOSE], limits(held=held, data_age_ms=age))[-1] == Verdict(True)


@given(st.lists(actions(), max_size=4), st.integers(-2_500, 2_500))
def test_every_action_gets_a_verdict(proposed: list[Action], held: int) -> None:
    verdicts = judge_actions(proposed, limits(held=held))
    assert len(verdicts) == len(proposed)
    assert judge_actions(proposed, limits(held=held)) == verdicts
    assert all(found.allowed == (found.rule is None) for found in verdicts)


@given(
    st.sampled_from(["BTC", "ETH", "", "SOL"]),
    st.lists(st.sampled_from(["c1", "c2", ""]), max_size=2),
    st.fixed_dictionaries(
        {
            "held": st.integers(-2_500, 2_500),
            "halted": st.sampled_from([None, "halted"]),
            "data_age_ms": st.sampled_from([None, 0, 10**9]),
            "working": st.sampled_from([(), (working("BTC", 900), working("BTC", -100, reduces=True))]),
            "activity": st.builds(Activity),
            "citations": st.sampled_from([frozenset(), frozenset({"c1"})]),
        }
    ),
)
def test_a_hold_is_refused_by_two_rules_or_by_none(symbol: str, cites: list[str], known: dict[str, Any]) -> None:
    """Whatever the account, what all rules say of a hold is what the two say that it is asked by."""
    hold, account = action("hold", symbol=symbol, cites=tuple(cites)), limits(**known)
    plain = _first_objection(RULES, ProposedOrder(hold.action, hold.symbol, None, hold.side, hold.cites), account)
    assert judge_actions([hold], account) == (plain,)


def filled(held_e8: int, sent: Order) -> int:
    """What is held once an order is filled; one that may only reduce is cut down first."""
    size = sent.signed_size_e8
    if sent.reduce_only:
        size = min(0, max(-held_e8, size)) if held_e8 > 0 else max(0, min(-held_e8, size)) if held_e8 < 0 else 0
    return held_e8 + size


def reachable(held_e8: int, orders: list[Order]) -> set[int]:
    """Every size that some of the orders, filled in some order, lead to."""
    found = {held_e8}
    for count in range(1, len(orders) + 1):
        for some in permutations(orders, count):
            size = held_e8
            for each in some:
                size = filled(size, each)
            found.add(size)
    return found


def judged_by(held_e8: int, orders: list[Order], at: int) -> Limits:
    held = {"BTC": Position("BTC", held_e8, notional_usd_e6(held_e8, MARK))} if held_e8 else {}
    moves = tuple(move_of_order(each, MARK) for each in orders)
    return limits(portfolio=Portfolio(held, 10_000 * E6), working=moves, at=at)


@st.composite
def large_actions(draw: st.DrawFn) -> Action:
    """Actions near the cap, where two of them could break it."""
    kind: ActionKind = draw(st.sampled_from(["open", "open", "adjust", "close"]))
    side, dollars = draw(st.sampled_from(["long", "short"])), draw(st.sampled_from([500, 1_000, 1_500, 2_000]))
    market = draw(st.booleans())
    return action(kind, side, dollars) if market else limited(kind, side, dollars, at=100)


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(large_actions(), st.sampled_from([0, 0, 1, 2])), min_size=3, max_size=6))
@example([(OPEN_MOST, 1), (TURN_LATER, 0), (CLOSE, 1)])
@example([(OPEN_MOST, 1), (TURN_NOW, 0), (CLOSE, 1)])
@example([(OPEN_MOST, 1), (CLOSE, 0), (TURN_NOW, 0)])
def test_orders_let_through_one_after_the_other_never_exceed_the_cap(story: list[tuple[Action, int]]) -> None:
    """Ticks with fills in between: after each, no way to fill what is under way leads beyond the cap."""
    held_e8, under_way = 0, list[Order]()
    for at, (proposed, fills) in enumerate(story):
        known = judged_by(held_e8, under_way, at)
        (verdict,) = judge_actions([proposed], known)
        under_way += orders_for_actions(f"r{at}", [(proposed, verdict)], held=known.position, mark_e8=MARK, at=at)
        cap = CAPS.max_position_usd_e6 + 2
        for size in reachable(held_e8, under_way):
            assert abs(notional_usd_e6(size, MARK)) <= cap, (held_e8, under_way)
        # The newest first: the order of intending is not the order of filling.
        for _ in range(min(fills, len(under_way))):
            held_e8 = filled(held_e8, under_way.pop())
