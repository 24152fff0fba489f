"""Runs, orders and trades through the façade: pages, and what was known at a moment."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tapebook.api import app
from tapebook.domain.units import parse_instant
from tapebook.domain.views import Page
from tapebook.errors import BadInput, UnknownName
from tests.db.places import copy_home_to_server
from tests.db.places import module_postgres as module_postgres
from tests.db.places import shared_postgres as shared_postgres

AGENT = "alts-15m"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def book(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, demo_hour: Path
) -> Iterator[app.Tapebook]:
    """A home with an hour of a demo in it, opened, on both databases."""
    folder = tmp_path_factory.mktemp("lists") / "home"
    if request.param == "postgres":
        copy_home_to_server(demo_hour, folder, request.getfixturevalue("module_postgres"))
    else:
        shutil.copytree(demo_hour, folder)
    with app.open(folder) as tb:
        tb.flatten(AGENT, symbol=tb.trades(AGENT, status="open")[0]["symbol"])
        yield tb


def _walk(page: Callable[[str | None], Page[Any]], *, cursor: Callable[[Page[Any]], str | None]) -> list[Any]:
    found, at = list[Any](), None
    while True:
        rows = page(at)
        found += rows
        if rows.next is None:
            return found
        at = cursor(rows)


def test_pages_are_the_list(book: app.Tapebook) -> None:
    """Behind the cursor of a page as behind the id of its last row."""
    runs, orders, trades = book.runs(most=500), book.orders(most=500), book.trades(AGENT, most=500)
    assert len(runs) > 20 and len(orders) > 3 and len(trades) > 3 and runs.next is orders.next is trades.next is None
    assert _walk(lambda at: book.runs(most=7, before=at), cursor=lambda page: page.next) == runs
    assert _walk(lambda at: book.orders(most=2, before=at), cursor=lambda page: page.next) == orders
    assert _walk(lambda at: book.trades(AGENT, most=2, before=at), cursor=lambda page: page.next) == trades
    assert _walk(lambda at: book.runs(AGENT, most=5, before=at), cursor=lambda page: page[-1]["run_id"]) == [
        run for run in runs if run["agent"] == AGENT
    ]
    assert _walk(lambda at: book.trades(AGENT, most=1, before=at), cursor=lambda page: page[-1]["id"]) == trades
    closed = [trade for trade in trades if trade["status"] == "closed"]
    assert _walk(lambda at: book.trades(AGENT, status="closed", most=1, before=at), cursor=lambda p: p.next) == closed


def test_a_past_list_is_what_was_known(book: app.Tapebook) -> None:
    """Just before an order ended it worked and its run was under way; before a trade ended it was open."""
    run = next(each for each in book.runs(AGENT, most=500) if each["status"] == "done")
    (order,) = book.run(run["run_id"])["orders"]
    assert run["completed_at"] is not None
    before = parse_instant(run["completed_at"]) - 1
    (then,) = [each for each in book.runs(AGENT, most=500, as_of=before) if each["run_id"] == run["run_id"]]
    assert (then["status"], then["completed_at"], then["actions"][0]["status"]) == ("placed", None, "placed")
    (worked,) = [each for each in book.orders(AGENT, working=True, as_of=before) if each["run_id"] == run["run_id"]]
    assert (worked["client_id"], worked["status"]) == (order["client_id"], "placed")
    at = book.runs(AGENT, most=500, as_of=run["completed_at"])
    assert next(each for each in at if each["run_id"] == run["run_id"]) == run
    closed = book.trades(AGENT, status="closed")[0]
    held = book.trades(AGENT, as_of=parse_instant(closed["updated_at"]) - 1)
    (was,) = [each for each in held if each["id"] == closed["id"]]
    assert (was["status"], was["exit_tick_at"], was["updated_at"]) == ("open", None, closed["created_at"])


def test_before_an_agent_was_there_nothing_was(book: app.Tapebook) -> None:
    early = "2025-01-01T00:00:00Z"
    assert not book.runs(AGENT, as_of=early) and not book.orders(AGENT, as_of=early)
    assert not book.trades(AGENT, as_of=early)
    assert book.runs(as_of=early) == [] == book.orders(as_of=early)
    with pytest.raises(UnknownName, match="no agent called 'nobody'"):
        book.runs("nobody", as_of=early)
    with pytest.raises(BadInput, match="lies in the future"):
        book.runs(as_of="2999-01-01")
    for wrong in ("x", "x@1", f"{book.trades(AGENT)[0]['id']}@99999999", "@"):
        with pytest.raises(BadInput, match=r"go on behind|no place in the book"):
            book.trades(AGENT, before=wrong)
