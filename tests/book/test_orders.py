"""From allowed actions to orders: what must be bought or sold to get where an action wants to be."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.book.events import flatten_order, order_client_id, orders_for_actions
from tapebook.domain.order import Increments, Order
from tapebook.domain.position import Position
from tapebook.domain.run import Action, ActionKind, Verdict
from tapebook.domain.units import E6, E8, notional_usd_e6

ALLOWED, REFUSED = Verdict(True), Verdict(False, "R3_POSITION_CAP", "too large")
MARK = 100 * E8


def action(kind: ActionKind, side: Any = None, usd: float = 0, **changes: Any) -> Action:
    """A proposal on BTC."""
    plain = Action(kind, "BTC", side, round(usd * E6), 3, "market", None, 5_000, "why")
    return msgspec.structs.replace(plain, **changes)


def orders(*judged: tuple[Action, Verdict], held: float = 0, mark: int | None = MARK) -> list[Order]:
    """The orders of a run that holds some BTC."""
    position = Position("BTC", round(held * E8), round(held * 100 * E6)) if held else None
    return orders_for_actions("r1", judged, held=position, mark_e8=mark, at=7)


@pytest.mark.parametrize(
    ("proposed", "held", "signed", "reduce_only"),
    [
        pytest.param(action("open", "long", 200), 0, 2, False, id="a long is opened"),
        pytest.param(action("open", "short", 200), 0, -2, False, id="a short is opened"),
        pytest.param(action("open", "long", 200), 3, 2, False, id="a long is added to"),
        pytest.param(action("open", "short", 200), -3, -2, False, id="a short is added to"),
        pytest.param(action("open", "short", 200), 3, -5, False, id="a long is turned"),
        pytest.param(action("open", "long", 200), -3, 5, False, id="a short is turned"),
        pytest.param(action("adjust", "long", 500), 3, 2, False, id="a long is raised"),
        pytest.param(action("adjust", "long", 100), 3, -2, True, id="a long is cut"),
        pytest.param(action("adjust", "short", 500), -3, -2, False, id="a short is raised"),
        pytest.param(action("adjust", "short", 100), -3, 2, True, id="a short is cut"),
        pytest.param(action("adjust", "long", 300), 3, None, None, id="it is that size already"),
        pytest.param(action("close"), 3, -3, True, id="a long is closed"),
        pytest.param(action("close"), -3, 3, True, id="a short is closed"),
        pytest.param(action("close", "long", 100), 3, -3, True, id="a close is of all"),
        pytest.param(action("close"), 0, None, None, id="there is nothing to close"),
        pytest.param(action("hold"), 3, None, None, id="a hold"),
        pytest.param(action("hold", "long", 200), 0, None, None, id="a hold with a size"),
        pytest.param(action("open", "long", 1e-6), 0, 1e-8, False, id="the smallest open"),
    ],
)
def test_order_of_an_action(proposed: Action, held: float, signed: float | None, reduce_only: bool | None) -> None:
    found = orders((proposed, ALLOWED), held=held)
    assert [(each.signed_size_e8, each.reduce_only) for each in found] == (
        [] if signed is None else [(round(signed * E8), reduce_only)]
    )
    assert all(each.size_e8 > 0 for each in found)
    assert orders((proposed, REFUSED), held=held) == []


def test_order_says_what_the_action_said() -> None:
    limited = action("open", "short", 200, order_type="limit", limit_price_e8=101 * E8, leverage=4)
    assert orders((limited, ALLOWED)) == [
        Order(order_client_id("r1", 0), "r1", "BTC", "sell", 2 * E8, "limit", 101 * E8, False, 4, 7)
    ]


@pytest.mark.parametrize("mark", [None, 0])
def test_without_a_price_there_are_no_orders(mark: int | None) -> None:
    both = [(action("open", "long", 200), ALLOWED), (action("close"), ALLOWED)]
    assert orders(*both, held=1, mark=mark) == []


def test_size_of_nothing_asks_for_nothing() -> None:
    assert orders((action("open", "long", 1e-6), ALLOWED), mark=2**63 - 1) == []


def test_id_counts_every_action_of_the_run() -> None:
    judged = [(action("hold"), ALLOWED), (action("open", "long", 9), REFUSED), (action("open", "long", 9), ALLOWED)]
    assert [each.client_id for each in orders(*judged)] == [order_client_id("r1", 2)]


def test_ids_never_change() -> None:
    run = "9d5d0a5d7e3f3a5b8e11"
    assert order_client_id(run, 0) == "e3094822969d99af7b0a"
    assert order_client_id(run, 1) == "3d411142b1451037af31"
    assert len({order_client_id(run, index) for index in range(100)} | {order_client_id("other", 0)}) == 101


@given(st.text(), st.integers(0, 10**6), st.text(), st.integers(0, 10**15))
def test_ids_are_hex_digits_of_at_most_128_bits(run: str, index: int, stream: str, at: int) -> None:
    flattened = flatten_order(stream, Position("BTC", E8, 100 * E6), at=at)
    for client_id in (order_client_id(run, index), flattened.client_id):
        assert client_id == f"{int(client_id, 16):0{len(client_id)}x}" and int(client_id, 16) < 2**128


LOTS = Increments(10**5, 10**6, 5)


@pytest.mark.parametrize(
    ("usd", "held", "limit", "expected"),
    [
        pytest.param(33.3333, 0, None, [(333 * 10**5, None)], id="down to a lot"),
        pytest.param(0.0999, 0, None, [], id="less than a lot"),
        pytest.param(33.3, 0, 99.987, [(333 * 10**5, 99_980_000_00)], id="a limit on the grid"),
        pytest.param(20, 0.100_05, 99.987, [(20_000_000, 99_980_000_00)], id="what is held does not matter"),
    ],
)
def test_orders_are_in_the_steps_of_the_exchange(
    usd: float, held: float, limit: float | None, expected: list[tuple[int, int | None]]
) -> None:
    price = None if limit is None else round(limit * E8)
    proposed = action("open", "long", usd, order_type="limit" if limit else "market", limit_price_e8=price)
    position = Position("BTC", round(held * E8), round(held * 100 * E6)) if held else None
    found = orders_for_actions("r", [(proposed, ALLOWED)], held=position, mark_e8=MARK, at=0, increments=LOTS)
    assert [(each.size_e8, each.limit_price_e8) for each in found] == expected


def test_close_of_what_is_off_the_lot_leaves_no_dust() -> None:
    position = Position("BTC", 12_345, 1_234)
    found = orders_for_actions("r", [(action("close"), ALLOWED)], held=position, mark_e8=MARK, at=0, increments=LOTS)
    assert [each.signed_size_e8 for each in found] == [-12_345]


PRICES = st.integers(1, 10**14)
USD = st.integers(1, 10**12)
HELD = st.integers(-(10**13), 10**13)


@given(st.sampled_from(["open", "adjust"]), st.sampled_from(["long", "short"]), USD, HELD, PRICES)
def test_target_is_reached_and_never_overshot(kind: Any, side: str, usd: int, held_e8: int, mark: int) -> None:
    proposed = action(kind, side, leverage=1, notional_usd_e6=usd)
    position = Position("BTC", held_e8, 0) if held_e8 else None
    found = orders_for_actions("r", [(proposed, ALLOWED)], held=position, mark_e8=mark, at=0)
    after = held_e8 + sum(each.signed_size_e8 for each in found)
    sign = 1 if side == "long" else -1
    adds = kind == "open" and held_e8 * sign > 0
    reached = (after - (held_e8 if adds else 0)) * sign
    # Never more than was asked for, and less by no more than one unit of size is worth.
    assert reached >= 0
    assert reached * mark <= usd * 10**10 < (reached + 1) * mark
    assert notional_usd_e6(reached, mark) <= usd


@given(HELD.filter(bool), PRICES)
def test_close_leaves_nothing(held_e8: int, mark: int) -> None:
    (closing,) = orders_for_actions(
        "r", [(action("close"), ALLOWED)], held=Position("BTC", held_e8, 0), mark_e8=mark, at=0
    )
    assert held_e8 + closing.signed_size_e8 == 0
    assert closing.reduce_only


def test_order_that_flattens_belongs_to_no_run_and_is_the_same_on_every_attempt() -> None:
    long, short = Position("BTC", 3 * E8, 300 * E6, 4), Position("ETH", -2 * E8, -20 * E6)
    sold, bought = flatten_order("local/d", long, at=7), flatten_order("local/d", short, at=7)
    assert (sold.side, sold.signed_size_e8, sold.leverage) == ("sell", -3 * E8, 4)
    assert (sold.run_id, sold.reduce_only) == ("", True)
    assert (bought.side, bought.signed_size_e8, bought.type, bought.limit_price_e8) == ("buy", 2 * E8, "market", None)
    assert flatten_order("local/d", long, at=7) == sold
    ids = {sold.client_id, bought.client_id, flatten_order("local/d", long, at=8).client_id}
    assert len(ids | {flatten_order("local/e", long, at=7).client_id}) == 4
