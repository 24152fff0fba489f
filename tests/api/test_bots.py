"""Bots that live elsewhere: remembered as an agent that lives here, told twice without doing anything twice."""

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.desk.agents import DeploymentDirectory
from tapebook.domain.instants import MINUTE, iso_text, parse_instant
from tapebook.errors import BadInput, StaleWriter, UnknownName
from tapebook.home import make_home
from tapebook.settings.config import FILE
from tests.db.places import module_postgres as module_postgres
from tests.db.places import shared_postgres as shared_postgres

START = parse_instant("2026-01-05T00:00:00Z")
FIRST, LAST = 60, 260
PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def price(minute: int) -> float:
    """A market that swings."""
    return round(65_000 * (1 + 0.01 * math.sin(minute / 13)), 2)


def observe(tb: app.Tapebook, clock: VirtualClock, minute: int) -> float:
    """The bar of a minute that has just ended, and the price now."""
    clock.advance(max(clock.now(), START + minute * MINUTE + 700))
    before, after = price(minute - 1), price(minute)
    bar: dict[str, Any] = {"time": START + (minute - 1) * MINUTE, "open": before, "close": after, "volume": 2.0}
    bar |= {"high": max(before, after) + 1, "low": min(before, after) - 1}
    tb.observe("BTC", candles=[bar], prices=[(START + minute * MINUTE, after)])
    return after


def take_turn(tb: app.Tapebook, minute: int, now: float) -> None:
    """One turn of a bot that follows the last minute; told again, it tells the same."""
    rises, at = now > price(minute - 1), START + minute * MINUTE
    with tb.decision("bot", "BTC", at=at) as decision:
        run = decision.run
        if run is None:
            holds = "position_side: long" in decision.text
            if not holds and rises:
                run = decision.record(
                    "open", side="long", notional_usd=200, reason="it rises", confidence=0.7, provider="model-a"
                )
            elif holds and not rises:
                run = decision.record("close", reason="it falls", confidence=0.6, provider="model-b")
            else:
                run = decision.record("hold", reason="nothing new", provider="model-a")
    action = run["actions"][0]["action"]
    if action != "hold":
        side: Any = "buy" if action == "open" else "sell"
        tb.record_fill(
            "bot", "BTC", id=f"f{minute}", side=side, size=0.003, price=now, fee_usd=0.1, run=run["run_id"], last=True
        )


def live(folder: Path) -> None:
    """The bot's loop: it goes on with the turn that it was in."""
    clock = VirtualClock(START)
    with app.open(folder, clock=clock) as tb:
        made = tb.runs("bot", most=1)
        done = (parse_instant(made[0]["scheduled_for"]) - START) // MINUTE if made else 1
        for minute in range(max(1, done), LAST):
            now = observe(tb, clock, minute)
            if minute >= FIRST and minute % 4 == 0:
                take_turn(tb, minute, now)
                print(minute, flush=True)
        tb.learn()


def make(folder: Path, url: str | None = None) -> Path:
    make_home(folder)
    if url:
        (folder / FILE).write_text(f'[store]\nbook = "{url}"\ntape = "{url}"\n', "utf-8")
    with app.open(folder, clock=VirtualClock(START)) as tb:
        tb.add_agent("bot", {"watch": "BTC", "broker": "external", "reflection_trades": 5})
    return folder


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which a bot has lived for some hours."""
    url = request.getfixturevalue("module_postgres") if request.param == "postgres" else None
    home = make(tmp_path_factory.mktemp("bot") / "home", url)
    live(home)
    return home


@pytest.fixture
def book(folder: Path) -> Iterator[app.Tapebook]:
    """That home, opened at its end."""
    with app.open(folder, clock=VirtualClock(START + LAST * MINUTE)) as tb:
        yield tb


def test_a_bot_is_remembered_as_an_agent_that_lives_here(book: app.Tapebook) -> None:
    trades = book.trades("bot", status="closed")
    assert len(trades) > 1 and {each["entry_reason"] for each in trades} == {"it rises"}
    assert {each["exit_reason"] for each in trades} == {"it falls"}
    assert all(each["entry_snapshot_id"] and each["entry_regime_tag"] for each in trades)
    learned = book.experience.show("bot")
    assert learned["outcomes"] == len(trades)
    assert [each["name"] for each in learned["providers"]] == ["model-a"] and learned["calibration"]
    runs = book.runs("bot", most=1_000)
    assert {each["status"] for each in runs} == {"held", "done"}
    report = book.replay()
    assert report.checked == len(runs) == report.equal and book.verify() == []


def test_the_packet_of_a_bot_has_no_identity_of_ours(book: app.Tapebook) -> None:
    with book.decision("bot", "BTC") as decision:
        packet = decision.packet
        assert decision.text.endswith(packet.text) and "Hard limits" in decision.text
        own = [each.text for each in packet.segments if each.name in ("header", "footer")]
        assert len(own) == 2 and not any(text in decision.text for text in own)
        assert decision.sections == packet.sections and decision.run is None
    assert book.runs("bot", most=1)[0]["as_of"] != iso_text(packet.as_of), "a decision that is not recorded leaves none"


def test_what_is_told_again_changes_nothing(book: app.Tapebook) -> None:
    heads, last = book.heads(), book.runs("bot", most=1)[0]
    with book.decision("bot", "BTC", at=last["scheduled_for"]) as decision:
        assert decision.run == last == decision.record("open", side="long", notional_usd=900)
        with pytest.raises(BadInput, match="was made before"):
            assert decision.packet
    (fill,) = book.run(book.trades("bot", status="closed")[0]["entry_snapshot_id"] or "")["fills"]
    told: dict[str, Any] = {"side": fill["side"], "size": fill["size"], "price": fill["price"]}
    assert book.record_fill("bot", "BTC", id=fill["fill_id"], **told) == fill
    assert book.heads() == heads
    with pytest.raises(BadInput, match="another symbol, size or price"):
        book.record_fill("bot", "BTC", id=fill["fill_id"], **told | {"size": 1.0})


def test_a_desk_leaves_bots_alone(book: app.Tapebook) -> None:
    with book._home.read() as rooms:
        assert DeploymentDirectory(rooms).enabled_deployments() == []


def test_positions_and_fills_of_no_decision(tmp_path: Path) -> None:
    """Late, out of order, against the guard's advice: everything is booked, and the cash is what it should be."""
    clock = VirtualClock(START)
    with app.open(make(tmp_path / "home"), clock=clock) as tb:
        for minute in range(1, 90):
            now = observe(tb, clock, minute)
        assert tb.record_position("bot", "BTC", id="p1", size=0.01, price=now) is not None
        assert tb.record_position("bot", "BTC", id="p1", size=0.01, price=now) is not None
        assert tb.record_position("bot", "BTC", id="p2", size=0.01, price=now) is None
        late = iso_text(START + 30 * MINUTE)
        tb.record_fill("bot", "BTC", id="late", side="sell", size=0.004, price=now + 10, at=late)
        (held,) = tb.trades("bot")
        assert held["status"] == "open" and held["realized_pnl_usd"] == pytest.approx(0.04)
        # A position of more than the caps allow: advice, which a bot may leave aside.
        with tb.decision("bot", "BTC") as decision:
            run = decision.record("open", side="long", notional_usd=5_000, reason="sure", provider="model-a")
        assert run["actions"][0]["rule"] == "R3_POSITION_CAP" and run["status"] == "rejected"
        tb.record_fill("bot", "BTC", id="anyway", side="buy", size=0.07, price=now, run=run["run_id"])
        tb.record_position("bot", "BTC", id="p3", size=-0.001, price=now)
        assert [each["side"] for each in tb.trades("bot")] == ["short", "long"] and tb.verify() == []
        assert tb.replay().different == []


def test_wrong_words_are_refused(book: app.Tapebook) -> None:
    heads = book.heads()
    with pytest.raises(UnknownName, match="does not watch 'ETH'"), book.decision("bot", "ETH"):
        pass
    with book.decision("bot", "BTC") as decision:
        for wrong in ({"confidence": 7.0}, {"notional_usd": -1.0}, {"leverage": 900}):
            with pytest.raises(BadInput, match="nothing was recorded"):
                decision.record("open", **{"side": "long", "notional_usd": 10.0, **wrong})  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="must be positive"):
        book.record_fill("bot", "BTC", id="x", side="buy", size=-1, price=1)
    with pytest.raises(BadInput, match="nothing to observe"):
        book.observe("BTC")
    bar = {"time": START, "open": 2, "high": 1, "low": 1, "close": 1}
    with pytest.raises(BadInput, match="between low and high"):
        book.observe("BTC", candles=[bar])
    with pytest.raises(BadInput, match="has no 'close'"):
        book.observe("BTC", candles=[{"time": START, "open": 2, "high": 2, "low": 1}])
    book.add_agent("here", {"watch": "BTC"})
    with pytest.raises(BadInput, match="traded here, at paper"):
        book.record_position("here", "BTC", id="p", size=1, price=1)
    assert {name: seq for name, seq in book.heads().items() if name != "owner"} == {
        name: seq for name, seq in heads.items() if name != "owner"
    }


def _history(folder: Path) -> list[Any]:
    with app.open(folder, clock=VirtualClock(START + LAST * MINUTE)) as tb:
        runs = [(run["run_id"], run["scheduled_for"], run["status"]) for run in tb.runs(most=1_000)]
        kept = ("id", "entry_price", "exit_price", "net_pnl_usd", "entry_snapshot_id", "exit_snapshot_id")
        trades = [[trade[key] for key in kept] for trade in map(dict, tb.trades("bot", most=1_000))]
        assert tb.verify() == [] and tb.replay().different == []
        return [runs, trades, tb.experience.show("bot")["outcomes"]]


def test_a_bot_that_is_killed_records_nothing_twice(tmp_path: Path) -> None:
    """Killed in several turns and started again, it has the history of one that was never killed."""
    whole, killed = make(tmp_path / "whole"), make(tmp_path / "killed")
    live(whole)
    script = "import sys; from pathlib import Path; from tests.api.test_bots import live; live(Path(sys.argv[1]))"
    for minute in ("72", "116", "188"):
        words = [sys.executable, "-c", script, str(killed)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=PAGE.parents[1]) as bot:
            assert bot.stdout is not None
            for line in bot.stdout:
                if int(line) >= int(minute):
                    bot.kill()
    live(killed)
    assert _history(killed) == _history(whole)


def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "{'bot': []}" and said[1].startswith("bars close above their open external_flatten 0.")
    assert said[-1] == "owner {'desk.halted': 1}"


def test_a_ticket_is_of_one_decision(tmp_path: Path) -> None:
    """It records what was known when it was given, whatever came since; altered, or outdated, it is refused."""
    clock = VirtualClock(START)
    with app.open(make(tmp_path / "home"), clock=clock) as tb:
        for minute in range(1, 90):
            now = observe(tb, clock, minute)
        heads = tb.heads()
        offer = tb.offer_decision("bot", "BTC")
        assert tb.heads() == heads and offer.text.endswith(offer.packet.text)
        observe(tb, clock, 90)
        tb.record_fill("bot", "BTC", id="meanwhile", side="buy", size=0.001, price=now)
        run = tb.record_decision(offer.ticket, "open", side="long", notional_usd=100.0, provider="m", reason="r")
        assert (run["packet_sha256"], run["as_of"]) == (offer.packet.sha256, iso_text(offer.packet.as_of))
        assert tb.record_decision(offer.ticket, "close") == run and len(tb.runs("bot")) == 1
        later = tb.offer_decision("bot", "BTC")
        tb.edit_agent("bot", {"strategy": "another"})
        with pytest.raises(StaleWriter, match="ask for the packet again"):
            tb.record_decision(later.ticket, "hold")
        for odd in ("", "x", later.ticket[:-8], later.ticket.swapcase(), "W10="):
            with pytest.raises(BadInput, match="no ticket"):
                tb.record_decision(odd, "hold")
        assert len(tb.runs("bot")) == 1 and tb.replay().different == [] and tb.verify() == []
