"""Bots that live elsewhere: remembered as an agent that lives here, told twice without doing anything twice."""

import math
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.desk.agents import DeploymentDirectory
from tapebook.domain.units import E6, E8, MINUTE, iso_text, parse_instant
from tapebook.errors import BadInput, StaleWriter, UnknownName
from tapebook.home import make_home
from tapebook.settings.config import FILE
from tests.db.places import empty_postgres as empty_postgres
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
        assert DeploymentDirectory(rooms.book, rooms.work, rooms.broker).enabled_deployments() == []


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
    with book.decision("bot", "BTC"):
        # What is held is valued before a decision.
        heads = book.heads()
    with pytest.raises(UnknownName, match="does not watch 'ETH'"), book.decision("bot", "ETH"):
        pass
    with book.decision("bot", "BTC") as decision:
        for wrong in ({"confidence": 7.0}, {"notional_usd": -1.0}, {"leverage": 900}):
            with pytest.raises(BadInput, match="nothing was recorded"):
                decision.record("open", **{"side": "long", "notional_usd": 10.0, **wrong})  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="one of open, adjust, close, hold"):
            decision.record("buy")  # type: ignore[arg-type]
    fill: dict[str, Any] = {"id": "x", "side": "buy", "size": 1, "price": 1}
    odd: list[dict[str, Any]] = [
        {"size": -1},
        {"price": math.nan},
        {"size": math.inf},
        {"side": "hold"},
        {"id": ""},
        {"id": "x" * 999},
    ]
    for each in odd:
        with pytest.raises(BadInput):
            book.record_fill("bot", "BTC", **fill | each)
    for prices in ("12", [("x", 1)], math.nan, [(1, 2, 3)], [1, 2]):
        with pytest.raises(BadInput):
            book.observe("BTC", prices=prices)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="decides elsewhere"):
        book.tick("bot", "BTC")
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


def kill_in_turns(folder: Path, minutes: Iterable[int], dice: random.Random | None = None) -> None:
    """Lets a bot live in processes that are killed: right behind a turn, or anywhere in the next ones."""
    script = "import sys; from pathlib import Path; from tests.api.test_bots import live; live(Path(sys.argv[1]))"
    for minute in minutes:
        words = [sys.executable, "-c", script, str(folder)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=PAGE.parents[1]) as bot:
            assert bot.stdout is not None
            for line in bot.stdout:
                if int(line) >= minute:
                    time.sleep(dice.uniform(0.0, 0.03) if dice else 0.0)
                    bot.kill()
    live(folder)


def test_a_bot_that_is_killed_records_nothing_twice(tmp_path: Path) -> None:
    """Killed in several turns and started again, it has the history of one that was never killed."""
    whole, killed = make(tmp_path / "whole"), make(tmp_path / "killed")
    live(whole)
    kill_in_turns(killed, (72, 116, 188))
    assert _history(killed) == _history(whole)


@pytest.mark.proof
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_bot_that_is_killed_anywhere_records_nothing_twice(
    tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    """A lease that a killed process held is waited for, so this takes its time."""
    url = request.getfixturevalue("empty_postgres") if store == "postgres" else None
    whole, killed = make(tmp_path / "whole"), make(tmp_path / "killed", url)
    live(whole)
    kill_in_turns(killed, (64, 80, 100, 124, 152, 188, 212, 240), random.Random(19))
    assert _history(killed) == _history(whole)


def test_two_processes_of_a_bot_make_one_decision(tmp_path: Path) -> None:
    folder, clock = make(tmp_path / "home"), VirtualClock(START)
    with app.open(folder, clock=clock) as tb:
        for minute in range(1, 70):
            observe(tb, clock, minute)
        with (
            app.open(folder, clock=clock) as beside,
            tb.decision("bot", "BTC") as one,
            beside.decision("bot", "BTC") as two,
        ):
            first = one.record("open", side="long", notional_usd=100, reason="first")
            assert two.record("open", side="long", notional_usd=100, reason="second") == first
        assert len(tb.runs("bot")) == len(tb.orders("bot")) == 1


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app.Tapebook]:
    """A home with an hour and a half of prices, for any number of bots."""
    folder, clock = make(tmp_path_factory.mktemp("market") / "home"), VirtualClock(START)
    with app.open(folder, clock=clock) as tb:
        for minute in range(1, 90):
            observe(tb, clock, minute)
        yield tb


@settings(max_examples=8, deadline=None)
@given(dice=st.randoms(use_true_random=False))
def test_fills_late_and_in_any_order(market: app.Tapebook, dice: random.Random) -> None:
    """However fills are told, beside which decisions and how often: size and cash are their sums."""
    name = f"bot-{len(market.agents())}"
    market.add_agent(name, {"watch": "BTC", "broker": "external"})
    fills: list[dict[str, Any]] = [
        {"id": f"f{number}", "side": dice.choice(["buy", "sell"]), "size": dice.randint(1, 900) / 1e5}
        | {"price": dice.randint(6_400_000, 6_600_000) / 100, "fee_usd": dice.randint(0, 900) / 1_000}
        | {"at": iso_text(START + dice.randint(61, 89) * MINUTE), "last": dice.random() < 0.3}
        for number in range(dice.randint(2, 7))
    ]
    runs: list[str | None] = [None]
    for number, fill in enumerate(fills):
        if dice.random() < 0.5:
            with market.decision(name, "BTC", at=START + (61 + number) * MINUTE) as decision:
                terms: Any = {"side": dice.choice(["long", "short"]), "notional_usd": dice.choice([100, 5_000])}
                runs.append(decision.record("open", reason="r", provider="m", **terms)["run_id"])
        told = market.record_fill(name, "BTC", run=dice.choice(runs), **fill)
        assert market.record_fill(name, "BTC", **fill) == told
        if dice.random() < 0.3:
            market.learn(name)
    held = sum(round(fill["size"] * E8) * (1 if fill["side"] == "buy" else -1) for fill in fills)
    with market._home.read() as rooms:
        deployment = rooms.book.find_agent(name).id
        account = rooms.book.account(deployment, seq=rooms.book.head(deployment)).portfolio
    position = account.positions.get("BTC")
    assert (position.size_e8 if position else 0) == held
    fees = sum(trade["fees_usd"] for trade in market.trades(name))
    assert fees == pytest.approx(sum(fill["fee_usd"] for fill in fills))
    assert market.verify() == [] and market.replay().different == []


def mirror(folder: Path, url: str | None, *, turns: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an agent that lives here comes to, and a bot that tells the same decisions and fills of the same market."""
    make(folder, url)
    clock, told = VirtualClock(START), dict[str, str]()
    with app.open(folder, clock=clock) as tb:
        shared = {"watch": "BTC", "every_minutes": 60, "reflection_trades": 2}
        tb.add_agent("inner", {**shared, "engine": "trend", "broker": "paper"})
        tb.edit_agent("bot", shared)
        for turn in range(4, 4 + turns):
            end = turn * 60
            clock.advance(START + end * MINUTE + 700)
            bars = [_bar(minute) for minute in range(end - 60 if turn > 4 else 0, end)]
            tb.observe("BTC", candles=bars, prices=[(START + end * MINUTE, _slow_price(end))])
            run = tb.tick("inner", "BTC")
            # What was ordered at the turn before was filled since, and is booked by now.
            for each in list(told):
                for fill in tb.run(each)["fills"]:
                    terms: Any = {key: fill[key] for key in ("side", "size", "price", "fee_usd")}
                    at, own = fill["happened_at"], told.pop(each)
                    tb.record_fill("bot", "BTC", id=fill["fill_id"], at=at, run=own, last=True, **terms)
            with tb.decision("bot", "BTC", at=run.scheduled_for) as decision:
                (action,) = run.actions
                asked: Any = {"reason": action.reason, "confidence": action.confidence_e4 / 1e4, "provider": "trend"}
                if action.action in ("open", "adjust"):
                    asked |= {"side": action.side, "notional_usd": action.notional_usd_e6 / E6}
                    asked |= {"leverage": action.leverage}
                made = decision.record(action.action, **asked)
            if run.status == "placed":
                told[run.run_id] = made["run_id"]
        tb.learn()
        report = tb.replay()
        assert report.checked == report.equal == 2 * turns and tb.verify() == []
        inner, bot = (_learned(tb, name) for name in ("inner", "bot"))
        return inner, bot


def _slow_price(minute: int) -> float:
    return round(65_000 * (1 + 0.03 * math.sin(minute / 80) + 0.004 * math.sin(minute / 17)), 2)


def _bar(minute: int) -> dict[str, Any]:
    before, after = _slow_price(minute), _slow_price(minute + 1)
    bar = {"time": START + minute * MINUTE, "open": before, "close": after, "volume": 2.0}
    return bar | {"high": max(before, after) + 1, "low": min(before, after) - 1}


def _learned(tb: app.Tapebook, name: str) -> dict[str, Any]:
    """What an agent has made and learned, without its name."""
    report = dict(tb.experience.show(name))
    kept = ("side", "net_pnl_usd", "mfe_usd", "mae_usd", "entry_regime_tag", "entry_reason", "exit_reason")
    names = ("outcomes", "situations", "fit", "providers", "regimes", "assets", "calibration")
    return {
        **{key: report[key] for key in names},
        "trades": [[trade[key] for key in kept] for trade in map(dict, tb.trades(name, most=1_000))],
        "notes": [(note["status"], note["content_hash"]) for note in tb.lessons(name)],
        "lessons": [each["statement"] for each in tb.hypotheses(name)["lessons"]],
        "runs": [(run["status"], run["symbol"]) for run in tb.runs(name, most=1_000)],
        # An id is of its owner's stream.
        "layers": [
            (
                row["layer"],
                row["key"],
                {**row["value"], "trade": ""} if isinstance(row["value"], dict) else row["value"],
            )
            for row in tb.horizons.show(name)
            if row["origin"] == "rollup"
        ],
    }


def test_a_bot_learns_what_an_agent_that_lives_here_learns(tmp_path: Path) -> None:
    """A situation counts once the day after it is over: in a market of a few hours neither has any."""
    inner, bot = mirror(tmp_path / "home", None, turns=34)
    assert bot == inner
    assert bot["situations"] > 5 and bot["outcomes"] > 2 and bot["calibration"] and bot["notes"]


@pytest.mark.proof
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_after_two_hundred_decisions_a_bot_has_learned_as_much(
    tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    url = request.getfixturevalue("empty_postgres") if store == "postgres" else None
    inner, bot = mirror(tmp_path / "home", url, turns=210)
    assert bot == inner and bot["situations"] > 150 and bot["fit"] and len(bot["calibration"]) > 1
    assert any(each["weight"] for each in bot["providers"]) == any(each["weight"] for each in inner["providers"])


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
