"""What a home is worth: by hand, over time, and as of a moment."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.domain.units import DAY, HOUR, MINUTE, iso_text, parse_instant
from tapebook.errors import BadInput, UnknownName
from tapebook.home import make_home

START = parse_instant("2026-01-05T00:00:00Z")


@pytest.fixture(scope="module")
def tb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app.Tapebook]:
    """Two bots: one bought at 100, sold half at 110 and holds the rest at 90; the other holds at what it paid."""
    folder = tmp_path_factory.mktemp("portfolio") / "home"
    make_home(folder)
    clock = VirtualClock(START)
    with app.open(folder, clock=clock) as book:
        book.add_agent("one", {"watch": "BTC", "broker": "external", "cash_usd": 1000})
        book.add_agent("two", {"watch": "BTC", "broker": "external", "cash_usd": 500})
        book.add_agent("idle", {"watch": "BTC", "broker": "external"})
        for minute, price, fill in ((1, 100.0, ("buy", 2.0)), (2, 110.0, ("sell", 1.0)), (3, 90.0, None)):
            clock.advance(START + minute * MINUTE)
            book.observe("BTC", prices=price)
            if fill is not None:
                side: Any = fill[0]
                book.record_fill("one", "BTC", id=f"f{minute}", side=side, size=fill[1], price=price, fee_usd=0.5)
        clock.advance(START + 4 * MINUTE)
        book.record_fill("two", "ETH", id="e", side="buy", size=1.0, price=50.0)
        yield book


def test_an_account_is_worth_its_cash_and_what_it_holds(tb: app.Tapebook) -> None:
    found = tb.portfolio("one")
    (account,) = found["accounts"]
    (held,) = account["positions"]
    assert (held["side"], held["size"], held["entry_price"], held["mark"]) == ("long", 1.0, 100.0, 90.0)
    assert (held["value_usd"], held["unrealised_usd"]) == (90.0, -10.0)
    # 10 won by the half that was sold, a dollar of fees, 10 lost by the half that is held.
    assert account["cash_usd"] == pytest.approx(1009.0)
    assert account["equity_usd"] == found["equity_usd"] == pytest.approx(999.0)
    assert account["day_usd"] == pytest.approx(-1.0)


def test_as_of_a_moment_an_account_is_what_it_was(tb: app.Tapebook) -> None:
    (account,) = tb.portfolio("one", as_of=START + MINUTE + 30_000)["accounts"]
    assert [each["size"] for each in account["positions"]] == [2.0]
    assert account["equity_usd"] == pytest.approx(999.5)
    assert account["closed_trades"] == 0


def test_the_line_of_all_is_the_sum_of_the_lines(tb: app.Tapebook) -> None:
    both, one, two = tb.equity(), tb.equity("one"), tb.equity("two")
    assert both["end_usd"] == pytest.approx(one["end_usd"] + two["end_usd"])
    assert both["end_usd"] == pytest.approx(tb.portfolio()["equity_usd"]) == pytest.approx(1499.0)
    # The second account began later; what it began with is no gain.
    assert both["start_usd"] == pytest.approx(1500.0)
    assert both["change_usd"] == pytest.approx(-1.0)
    times = [point["at"] for point in both["points"]]
    assert times == sorted(times) and len(times) == len(set(times))


def test_a_line_begins_where_it_is_asked_to(tb: app.Tapebook) -> None:
    since = START + MINUTE + 30_000
    line = tb.equity("one", since=since)
    assert line["points"][0] == {"at": iso_text(since), "equity_usd": 999.5, "drawdown_share": 0.0}
    assert line["change_usd"] == pytest.approx(-0.5)
    highest = max(point["equity_usd"] for point in line["points"])
    assert line["drawdown_usd"] == pytest.approx(highest - 999.0)
    few = tb.equity("one", most=2)
    assert few["drawdown_usd"] == tb.equity("one")["drawdown_usd"]
    with pytest.raises(BadInput, match="is not before"):
        tb.equity(since=START + 3 * MINUTE, until=START + 2 * MINUTE)


def test_status_has_all_of_it(tb: app.Tapebook) -> None:
    found = tb.status()
    assert found["equity_usd"] == pytest.approx(1499.0)
    assert [each["agent"] for each in found["accounts"]] == ["one", "two"]
    assert found["healthy"] == (not found["incidents"])
    assert len(found["health"]) == found["checks"]
    assert [each["name"] for each in found["health"] if not each["ok"]] == [each["name"] for each in found["incidents"]]
    (processes,) = [each["detail"] for each in found["health"] if each["name"] == "processes"]
    assert processes == "none: nothing is decided until `tapebook up`"
    assert (found["orders"], found["halted"], found["model_usd_today"]) == ([], None, 0.0)
    tb.halt(reason="a pause")
    assert tb.status()["halted"] == "a pause"
    tb.resume()


def test_a_document_is_shown_as_it_was_cited(tb: app.Tapebook, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# One\n\nbuy the dip\n")
    tb.recall.add(folder)
    (cited,) = tb.recall.search("dip")
    (folder / "a.md").write_text("# Two\n\nsell the rip\n")
    tb.recall.sync()
    assert tb.recall.document(cited.path).text.startswith("# Two")
    assert tb.recall.document(cited.path, sha256=cited.content_sha256).text.startswith("# One")
    with pytest.raises(UnknownName, match="with hash"):
        tb.recall.document(cited.path, sha256="../../secret")


def test_bars_events_and_settings_are_had_by_the_page_and_by_programs(tb: app.Tapebook) -> None:
    with pytest.raises(BadInput, match="minutes"):
        tb.candles("BTC", minutes=0)
    assert tb.candles("BTC") == []
    assert {event["event"] for event in tb.events(since=START)} >= {"fill"}
    assert tb.settings()["paper"]["taker_fee_bps"] > 0


def test_the_line_of_an_imported_account_begins_with_its_first_fill(tmp_path: Path) -> None:
    """The fills happened long before they were known, and before the account that they were booked in."""
    make_home(tmp_path / "home")
    clock = VirtualClock(START + 30 * DAY)
    with app.open(tmp_path / "home", clock=clock) as book:
        book.add_agent("old", {"watch": "BTC", "cash_usd": 1000})
        sides = ("buy", "sell")
        lines = [f"{iso_text(START + at * DAY)},BTC,{sides[at % 2]},1,{100 + at},0" for at in range(28)]
        (tmp_path / "fills.csv").write_text("\n".join(["time,symbol,side,size,price,fee", *lines]))
        book.import_fills(tmp_path / "fills.csv", agent="old")
        clock.advance(START + 30 * DAY + MINUTE)
        every = book.equity("old")
        assert every["points"][0] == {"at": iso_text(START + DAY), "equity_usd": 1000.0, "drawdown_share": 0.0}
        assert (every["start_usd"], every["end_usd"]) == (1000.0, 1014.0)
        # Fourteen round trips won a dollar each; of the newest week, from day 23 on, there are three.
        week = book.equity("old", since=START + 22 * DAY + HOUR)
        times = [point["at"] for point in week["points"]]
        assert times == sorted(times) and times[0] == iso_text(START + 22 * DAY + HOUR)
        assert (week["start_usd"], week["end_usd"], len(times)) == (1011.0, 1014.0, 5)
        # Before the import nothing of it was known.
        assert book.equity("old", until=START + 29 * DAY)["points"] == []
        both = book.equity_by_agent(since=START + 22 * DAY + HOUR)
        assert both == {"together": week | {"agent": None}, "agents": {"old": week}}
