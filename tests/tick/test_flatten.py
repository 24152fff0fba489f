"""Carrying out the wish to be flat: what began before it ends, once, however often it is looked at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tapebook.desk import control
from tapebook.desk.control import FlattenReport
from tapebook.domain.units import MINUTE
from tapebook.log import Draft
from tapebook.tick.execute import execute_orders
from tests.desk.desks import Desk, desk, holding, reply


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "home") as opened:
        yield opened


def test_nothing_is_written_when_nobody_asked(floor: Desk) -> None:
    agent = holding(floor)
    before = floor.rooms.book.head(agent.id)
    execute_orders(floor.rooms, agent)
    assert floor.rooms.book.head(agent.id) == before


def test_flatten_twice_is_flatten_once(floor: Desk) -> None:
    agent = holding(floor)
    floor.later(MINUTE, BTC=101, ETH=10)
    for _ in range(3):
        control.flatten(floor.rooms, [agent.id], reason="enough")
        floor.later(1)
    (order,) = floor.working(agent)
    assert (order.symbol, order.side, order.size_e8, order.reduce_only) == ("BTC", "sell", 500_000_000, True)
    floor.later(10_000, BTC=101, ETH=10)
    floor.work(agent)
    assert floor.held(agent) == {}
    assert control.flatten(floor.rooms, [agent.id], reason="enough") == [FlattenReport(agent.id, [], 0, False)]
    assert floor.is_whole()


def test_what_begins_after_the_wish_is_not_meant_by_it(floor: Desk) -> None:
    agent = holding(floor)
    floor.later(MINUTE, BTC=101, ETH=10)
    control.flatten(floor.rooms, [agent.id], reason="enough")
    floor.later(MINUTE, BTC=101, ETH=10)
    floor.work(agent)
    floor.later(MINUTE, BTC=101, ETH=10)
    floor.say(agent, reply("open", "long", 500))
    for _ in range(2):
        floor.later(MINUTE, BTC=101, ETH=10)
        floor.work(agent)
    assert len(floor.held(agent)) == 1 and floor.rooms.book.flatten_due(agent.id) == {}


def test_what_was_filled_by_then_is_closed_and_not_cancelled(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100)
    floor.say(agent, reply("open", "short", 500))
    floor.later(MINUTE, BTC=100)
    # The fill has happened and was not booked yet.
    assert floor.held(agent) == {}
    control.flatten(floor.rooms, [agent.id], reason="enough")
    (order,) = floor.working(agent)
    assert (order.side, order.size_e8, order.run_id) == ("buy", 500_000_000, "")


def test_close_that_found_no_price_is_tried_again(floor: Desk) -> None:
    agent = holding(floor)
    floor.later(MINUTE, BTC=101, ETH=10)
    control.flatten(floor.rooms, [agent.id], reason="enough")
    # No price for an hour: the paper broker gives up on the order.
    floor.later(60 * MINUTE)
    floor.work(agent)
    assert floor.held(agent) == {"BTC": 500_000_000}
    floor.later(1_000, BTC=102, ETH=10)
    floor.work(agent)
    floor.later(10_000, BTC=102, ETH=10)
    floor.work(agent)
    assert floor.held(agent) == {} and floor.is_whole()


def test_one_symbol_is_flattened_and_the_rest_goes_on(floor: Desk) -> None:
    agent = holding(floor)
    floor.later(MINUTE, BTC=101, ETH=10)
    flattened = control.flatten(floor.rooms, [agent.id], reason="enough", symbol="ETH")
    assert flattened == [FlattenReport(agent.id, [], 1, False)]
    assert floor.held(agent) == {"BTC": 500_000_000} and floor.working(agent) == []
    assert floor.rooms.book.flatten_due(agent.id) == {}
    floor.later(MINUTE, BTC=101, ETH=10)
    floor.say(agent, reply("open", "long", 300, symbol="ETH", order_type="limit", limit_price=9.9), symbol="ETH")
    floor.later(MINUTE, BTC=101, ETH=10)
    assert control.flatten(floor.rooms, [agent.id], reason="enough", symbol="BTC")[0] == FlattenReport(
        agent.id, ["BTC"], 0, False
    )
    floor.later(10_000, BTC=101, ETH=10)
    floor.work(agent)
    assert floor.held(agent) == {} and [order.symbol for order in floor.working(agent)] == ["ETH"]
    (closed,) = floor.rooms.book.closed_trades(agent.id, seq=floor.rooms.book.head(agent.id), most=5)
    assert (closed.state.symbol, closed.exit_reason) == ("BTC", "external_flatten")
    assert floor.is_whole()


def test_wish_of_all_symbols_after_one_of_a_symbol(floor: Desk) -> None:
    agent = holding(floor)
    floor.later(MINUTE, BTC=101, ETH=10)
    control.flatten(floor.rooms, [agent.id], reason="enough", symbol="ETH")
    floor.later(1)
    control.flatten(floor.rooms, [""], reason="all")
    floor.work(agent)
    assert [order.symbol for order in floor.working(agent)] == ["BTC"]


def test_wish_of_before_symbols_means_all_of_them(floor: Desk) -> None:
    """Events of homes that were made before a wish could name a symbol have no such field."""
    agent = holding(floor)
    floor.later(MINUTE, BTC=101, ETH=10)
    old = Draft("desk.flattened", floor.clock.now(), f'{{"reason":"x","subject":"{agent.id}"}}')
    floor.rooms.book.append("", [old], expected_seq=floor.rooms.book.head())
    assert floor.rooms.book.flatten_due(agent.id).keys() == {"BTC", "ETH"}
    assert floor.is_whole()
