"""A decision explained: its orders, fills and trades are those a plain reading of the log gives, and nobody else's."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.book import events as ev
from tapebook.book.store import Book
from tapebook.domain.run import DecisionRun
from tapebook.lab.explain import explain_run, rebuild_if_equal
from tapebook.wiring import Rooms
from tests.desk.pairs import PLAIN, play
from tests.replay import desk

MOST = 2**31 - 1


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A desk that has traded."""
    folder = tmp_path_factory.mktemp("explain") / "home"
    play(folder, PLAIN, until=desk.END)
    return folder


@contextmanager
def rooms_of(home: Path) -> Iterator[Rooms]:
    """The rooms of a home, to read."""
    with desk.opened(home) as (rooms, _):
        yield rooms


def traces(rooms: Rooms) -> dict[str, dict[str, Any]]:
    """By run, what the log says of its orders, fills and trades: events in a row, nothing clever."""
    found: dict[str, dict[str, Any]] = defaultdict(lambda: {"orders": {}, "fills": [], "trades": {}})
    for deployment in ("quick-2m.paper", "votes-10m.paper"):
        owner, run = {}, ""
        for event in rooms.log.events(rooms.book.stream(deployment)):
            if event.kind == "order.intended":
                order = ev.event_body(event, ev.OrderIntended).order
                owner[order.client_id] = order.run_id
                found[order.run_id]["orders"][order.client_id] = "intended"
            elif event.kind == "order.placed":
                client = ev.event_body(event, ev.OrderPlaced).client_id
                found[owner[client]]["orders"][client] = "placed"
            elif event.kind == "order.ended":
                end = ev.event_body(event, ev.OrderEnded).end
                found[owner[end.client_id]]["orders"][end.client_id] = end.status
            elif event.kind == "fill.observed":
                fill = ev.event_body(event, ev.FillObserved).fill
                run = owner[fill.client_id] if fill.client_id else ""
                found[run]["fills"].append(fill.fill_id)
            elif event.kind == "trade.opened":
                found[run]["trades"][ev.event_body(event, ev.TradeOpened).trade.trade_id] = "entry"
            elif event.kind == "trade.closed":
                found[run]["trades"][ev.event_body(event, ev.TradeClosed).trade.state.trade_id] = "exit"
            elif event.kind in ("funding.observed", "marks.observed"):
                run = ""
    return found


def test_orders_fills_and_trades_are_those_of_the_log(home: Path) -> None:
    with rooms_of(home) as rooms:
        expected = traces(rooms)
        traded = turned = 0
        for run_id in rooms.book.run_ids(most=MOST):
            run = rooms.book.run(run_id)
            assert run is not None
            view = explain_run(rooms, run)
            want = expected.get(run_id, {"orders": {}, "fills": [], "trades": {}})
            assert {order["client_id"]: order["status"] for order in view["orders"]} == want["orders"]
            assert [fill["fill_id"] for fill in view["fills"]] == want["fills"]
            assert {trade["id"]: trade["role"] for trade in view["trades"]} == want["trades"]
            traded += bool(want["trades"])
            turned += len(want["trades"]) == 2
    assert traded > 5 and turned > 0


def test_trades_show_what_they_came_to(home: Path) -> None:
    with rooms_of(home) as rooms:
        ended = {
            trade.state.trade_id: trade for trade in rooms.book.closed_trades("quick-2m.paper", seq=MOST, most=MOST)
        }
        seen = 0
        for trade in ended.values():
            for run_id in {trade.state.entry_run_id, trade.exit_run_id} - {None}:
                run = rooms.book.run(str(run_id))
                assert run is not None
                (view,) = [each for each in explain_run(rooms, run)["trades"] if each["id"] == trade.state.trade_id]
                assert (view["status"], view["net_pnl_usd"]) == ("closed", trade.state.net_usd_e6 / 1e6)
                seen += 1
    assert seen > 3


def test_what_was_told_and_said(home: Path) -> None:
    with rooms_of(home) as rooms:
        for run_id in rooms.book.run_ids("votes-10m.paper", most=5):
            run = rooms.book.run(run_id)
            assert run is not None
            view, packet = explain_run(rooms, run), rebuild_if_equal(rooms, run)
            assert packet is not None and view["packet"] == f"{packet.system}\n\n{packet.text}"
            sections = view["sections"] or []
            assert sum(part["tokens"] for part in sections) <= view["tokens"] + len(sections)
            assert [part["name"] for part in sections if part["place"] == "user"] == [
                section.name for section in packet.sections
            ]
            assert (view["reply"] or "").startswith('{"actions"')
            assert [vote["engine"] for vote in view["votes"]] == ["trend", "reversion", "breakout", "carry"]
            assert (view["late_ms"], view["usage"]) == (0, None)


def test_texts_that_are_not_kept(home: Path) -> None:
    with rooms_of(home) as rooms:
        run = rooms.book.run(rooms.book.run_ids(most=1)[0])
        assert run is not None
        lost = msgspec.structs.replace(run, packet_key=None, reply_key=None)
        view = explain_run(rooms, lost)
        assert view["packet"] is not None and view["reply"] is None
        other = msgspec.structs.replace(lost, packet_sha256="0" * 64)
        assert (explain_run(rooms, other)["packet"], explain_run(rooms, other)["sections"]) == (None, None)
        older = msgspec.structs.replace(lost, renderer=0)
        assert rebuild_if_equal(rooms, older) is None


def test_another_owner_sees_nothing_of_it(home: Path) -> None:
    with rooms_of(home) as rooms:
        run_id, stranger = traded_run(rooms), Book(rooms.log, rooms.book_db, owner="stranger")
        assert rooms.book.orders_of_run(run_id) and rooms.book.fills_of_run(run_id) and rooms.book.trades_of_run(run_id)
        assert not stranger.orders_of_run(run_id) and not stranger.fills_of_run(run_id)
        assert not stranger.trades_of_run(run_id)
        assert not stranger.orders(working=False, most=MOST) and rooms.book.orders(working=False, most=MOST)
        assert stranger.newest_fill_at("quick-2m.paper") is None
        assert stranger.fill("quick-2m.paper", rooms.book.fills_of_run(run_id)[0].fill_id) is None


def traded_run(rooms: Rooms) -> str:
    """A run whose order was filled."""
    runs: list[DecisionRun | None] = [rooms.book.run(run_id) for run_id in rooms.book.run_ids(most=MOST)]
    return next(run.run_id for run in runs if run and rooms.book.fills_of_run(run.run_id))


def test_orders_are_listed_newest_first(home: Path) -> None:
    with rooms_of(home) as rooms:
        found = rooms.book.orders(working=False, most=MOST)
        assert [known.order.intended_at for known in found] == sorted(
            (known.order.intended_at for known in found), reverse=True
        )
        assert {known.deployment for known in found} == {"quick-2m.paper", "votes-10m.paper"}
        own = rooms.book.orders("quick-2m.paper", working=False, most=2)
        assert [known.order for known in own] == [
            known.order for known in found if known.deployment == "quick-2m.paper"
        ][:2]
        working = rooms.book.orders(working=True, most=MOST)
        assert {known.order.client_id for known in working} == {
            order.client_id
            for deployment in ("quick-2m.paper", "votes-10m.paper")
            for order, _ in rooms.book.working_orders(deployment)
        }
