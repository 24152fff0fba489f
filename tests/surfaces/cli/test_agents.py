"""Commands on agents: who there is, and making, changing and showing one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.decision import EngineAnswer
from tapebook.tick.decide import Slot
from tapebook.tick.story import deploy_agent, tick
from tests.desk.desks import desk, reply

Run = Callable[..., tuple[int, str, str]]


def test_agents_are_listed(run: Run, home: str) -> None:
    for words in (["agents", "--home", home], ["agents", "list", "--home", home], ["agents", "--home", home, "list"]):
        assert run(*words)[1].splitlines() == [
            "agent     version  on   engine  broker  every min  watches",
            "alts-15m        1  yes  trend   paper          15  SOL, HYPE, DOGE, kPEPE",
            "btc-5m          1  yes  trend   paper           5  BTC, ETH",
            "hold-5m         1  yes  hold    paper           5  BTC",
        ]


def test_agents_as_json_are_what_the_facade_gives(run: Run, home: str) -> None:
    code, out, err = run("agents", "--home", home, "--json")
    with app.open(home) as book:
        assert (code, json.loads(out), err) == (0, book.agents(), "")


def test_a_new_home_has_two_agents(run: Run, own: str) -> None:
    assert run("agents", "--home", own)[1].splitlines()[1:] == [
        "btc-5m               1  yes  -         paper           5  BTC",
        "demo-ensemble        1  yes  ensemble  paper           5  BTC, ETH",
    ]


@pytest.mark.usefixtures("screen")
def test_add_edit_and_show(run: Run, own: str) -> None:
    flags = "--watch BTC,ETH --engine trend --every 15m --horizon swing --max-position-usd 500.5 --cash 2500"
    flags += " --margin isolated --avoid a --avoid b --strategy go --set trades=20"
    code, out, err = run("agents", "add", "mine", *flags.split(), "--home", own)
    assert (code, out.splitlines()[0], err) == (0, "mine is now version 1", "")
    assert "  bar_minutes: 30 -> 180" in out.splitlines()
    assert run("agents", "edit", "mine", "--max-leverage", "3", "--shadow", "memory=off", "--home", own)[1] == (
        "mine is now version 2\n"
        "  max_leverage: 5 -> 3\n"
        "  shadow: - -> horizon=swing, bar_minutes=180, bar_count=56, recent_trades…\n"
    )
    assert run("agents", "edit", "mine", "--max-leverage", "3", "--home", own)[1] == "mine is unchanged at version 2\n"
    shown = json.loads(run("agents", "show", "mine", "--home", own, "--json")[1])
    assert (shown["version"], shown["watch"], shown["every_minutes"]) == (2, ["BTC", "ETH"], 15)
    assert (shown["horizon"], shown["bar_minutes"], shown["bar_count"]) == ("swing", 180, 56)
    assert (shown["max_position_usd"], shown["cash_usd"], shown["margin"]) == (500.5, 2500, "isolated")
    assert (shown["avoid"], shown["strategy"], shown["recent_trades_k"]) == (["a", "b"], "go", 20)
    assert (shown["shadow"]["memory"], shown["memory"], shown["deployment"]) == ("off", "on", None)
    older = json.loads(run("agents", "show", "mine", "--version", "1", "--home", own, "--json")[1])
    assert (older["version"], older["max_leverage"], older["shadow"]) == (1, 5, None)


def test_show_for_people(run: Run, own: str) -> None:
    run("agents", "edit", "btc-5m", "--strategy", "one\ntwo", "--home", own)
    run("tick", "btc-5m", "BTC", "--home", own)
    out = run("agents", "show", "btc-5m", "--home", own)[1]
    assert "strategy                 one\n                         two\n" in out
    assert "every_minutes            5\n" in out and "shadow                   -\n" in out
    assert out.endswith(
        "deployment               btc-5m.paper\nresult                   0 closed trades, net 0.00 USD\n"
    )


def test_a_file(run: Run, own: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('watch = ["SOL"]\nevery = "1h"\nmanual = "@m.md"\n')
    (tmp_path / "m.md").write_text("Never chase.")
    code, out, _ = run("agents", "add", "mine", "--file", str(tmp_path / "a.toml"), "--json", "--home", own)
    saved = json.loads(out)
    assert (code, saved["name"], saved["version"], saved["new"]) == (0, "mine", 1, True)
    assert {"key": "manual", "before": "", "after": "Never chase."} in saved["changes"]
    (tmp_path / "a.toml").write_text("watch = [\n'SOL']\nmax_postion_usd = 3\n")
    said = f"error: {tmp_path}/a.toml line 3: unknown key `max_postion_usd`; did you mean `max_position_usd`?\n"
    assert run("agents", "edit", "mine", "--file", str(tmp_path / "a.toml"), "--home", own) == (2, "", said)


def test_enable_and_disable(run: Run, own: str) -> None:
    off = "btc-5m is now version 2\n  enabled: yes -> no\n"
    assert run("agents", "disable", "btc-5m", "--home", own) == (0, off, "")
    assert run("agents", "disable", "btc-5m", "--home", own)[1] == "btc-5m is unchanged at version 2\n"
    said = "error: btc-5m is disabled: enable it with `tapebook agents enable btc-5m` first\n"
    assert run("tick", "btc-5m", "BTC", "--home", own) == (2, "", said)
    assert json.loads(run("agents", "enable", "btc-5m", "--home", own, "--json")[1])["version"] == 3
    assert run("tick", "btc-5m", "BTC", "--home", own)[0] == 0


def test_change_that_leaves_a_position_alone_is_warned_about(run: Run, tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        floor.say(agent, reply("open", "long", 200))
        floor.later(10_000, BTC=100)
        floor.work(agent)
    home = str(tmp_path / "home")
    words = "; margin and funding go on; `tapebook flatten a --symbol BTC` closes it"
    code, out, err = run("agents", "edit", "a", "--watch", "ETH", "--home", home)
    assert (code, out.splitlines()[0]) == (0, "a is now version 2")
    assert err == f"warning: a holds BTC long 200.00 USD: nobody decides on it any more{words}\n"
    code, out, err = run("agents", "disable", "a", "--home", home, "--json")
    held = f"a holds BTC long 200.00 USD: nobody decides on it while it is disabled{words}"
    assert (code, err, json.loads(out)["warnings"]) == (0, "", [held])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("add a", "a would watch nothing: name symbols with --watch, or `watch` in the file"),
        ("add a/b --watch BTC", '"a/b" cannot be the name of an agent: use up to 40 letters, digits, . _ or -'),
        (
            "add btc-5m --watch BTC",
            "there is an agent called 'btc-5m' already: change it with `tapebook agents edit bt",
        ),
        ("edit nobody --watch BTC", "there is no agent called 'nobody'; agents: btc-5m, demo-ensemble"),
        ("edit btc-5m --watch B/C", '`watch` is "B/C" but must be symbols such as BTC, ETH: each once, of up to 40 '),
        ("edit btc-5m --every 5s", '`every_minutes` is "5s" but must be whole minutes from 1 to 1440, such as 5 (or '),
        ("edit btc-5m --cash x", '`cash_usd` is "x" but must be a number of USD from 1 to 1,000,000,000'),
        ("edit btc-5m --engine nope", "there is no 'nope' among the engines; choose one of: "),
        ("edit btc-5m --strategy @none.md", "none.md cannot be read (No such file or directory): name a file you may "),
        ("edit btc-5m --set nope=3", "unknown key `nope`; choose one of: watch, "),
        ("edit btc-5m --set nope", "invalid value for --set: 'nope' has no value: write it like trades=20 (see: "),
        ("edit btc-5m --shadow memory=on", "`shadow` is the same as the agent's own context: "),
        ("show btc-5m --version 2", "btc-5m has no version 2; its newest is 1"),
        ("enable nobody", "there is no agent called 'nobody'; agents: btc-5m, demo-ensemble"),
    ],
)
def test_what_cannot_be_is_one_line(run: Run, own: str, words: str, says: str) -> None:
    code, out, err = run("agents", *words.split(), "--home", own)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {says}")
    assert json.loads(run("agents", "show", "btc-5m", "--home", own, "--json")[1])["version"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("context nobody BTC", "there is no agent called 'nobody'; agents: alts-15m, btc-5m, hold-5m"),
        ("context btc-5m XYZ", "btc-5m does not watch 'XYZ'; it watches: BTC, ETH"),
        ("tick btc-5m XYZ", "btc-5m does not watch 'XYZ'; it watches: BTC, ETH"),
        ("trades nobody", "there is no agent called 'nobody'; agents: alts-15m, btc-5m, hold-5m"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(run: Run, home: str, words: str, says: str) -> None:
    assert run(*words.split(), "--home", home) == (2, "", f"error: {says}\n")


def test_dry_run_is_said_wherever_it_shows(run: Run, home: str, tmp_path: Path) -> None:
    """An agent in dry run decides on a demo's market: list, profile, run and order say that nothing was sent."""
    copy = str(shutil.copytree(home, tmp_path / "copy"))
    run("agents", "edit", "btc-5m", "--mode", "dry_run", "--engine", "trend", "--home", copy)
    assert "paper (dry run)" in run("agents", "--home", copy)[1]
    with app.open(copy) as book:
        clock = book._rooms.clock
        slot = Slot(deploy_agent(book._rooms.book, clock, "btc-5m"), "BTC", clock.now(), trigger="manual")
        said = reply("open", "long", 500)
        made = tick(book._rooms, slot, ask=lambda _rooms, _opened: EngineAnswer(said))
        assert made.status == "done"
        assert book.verify() == []
    shown = run("agents", "show", "btc-5m", "--home", copy)[1]
    assert "dry run" in shown and "1 order noted, never sent" in shown
    told = run("runs", "show", made.run_id, "--home", copy)[1]
    assert "dry run: nothing is sent" in told and "dry (dry run, never sent: " in told
    (order,) = json.loads(run("orders", "btc-5m", "--home", copy, "--json")[1])["rows"]
    assert (order["status"], order["dry"]) == ("dry", True)
    assert "done (dry)" in run("runs", "--agent", "btc-5m", "--home", copy)[1]


def test_an_agent_is_removed_and_what_it_did_stays(run: Run, demo: str) -> None:
    place = ("--home", demo)
    run("agents", "add", "mine", "--watch", "BTC", "--engine", "hold", "--cash", "750", *place)
    made = json.loads(run("tick", "mine", "BTC", "--json", *place)[1])["run_id"]
    before = json.loads(run("runs", "show", made, "--json", *place)[1])["as_of"]
    code, out, err = run("agents", "remove", "mine", "--reason", "enough", *place)
    assert (code, err) == (0, "")
    assert out == "mine is removed; `tapebook runs --agent mine` and `tapebook trades mine` still show what it did\n"
    assert "mine" not in run("agents", *place)[1]
    assert "mine            2  removed  hold" in run("agents", "--removed", *place)[1]
    shown = json.loads(run("agents", "show", "mine", "--json", *place)[1])
    assert (shown["removed"][:19], shown["version"]) == ("2026-01-05T01:00:00", 2)
    # What it did can be read, and told as it was then.
    assert made in run("runs", "--agent", "mine", *place)[1]
    assert run("trades", "mine", *place) == (0, "no trades yet\n", "")
    assert run("context", "mine", "BTC", "--as-of", before, *place)[0] == 0
    # Nothing lets it decide.
    says = f"error: mine was removed at {shown['removed']}: `tapebook agents add mine` brings it back\n"
    for words in ("tick mine BTC", "context mine BTC", "agents edit mine --cash 5", "agents enable mine"):
        assert run(*words.split(), *place) == (2, "", says), words
    assert run("backtest", "mine", *place)[2].endswith(says)
    assert run("agents", "remove", "mine", *place) == (2, "", says)
    code, out, _ = run("demo", "--seconds", "3.2", "--fast", *place)
    assert code == 0 and len(json.loads(run("runs", "--agent", "mine", "--json", *place)[1])["rows"]) == 1
    assert run("verify", *place)[0] == 0 and run("replay", "--all", *place)[0] == 0


def test_a_removed_name_that_is_added_again_goes_on(run: Run, demo: str) -> None:
    place = ("--home", demo)
    run("agents", "add", "mine", "--watch", "BTC", "--engine", "hold", "--cash", "750", *place)
    run("tick", "mine", "BTC", *place)
    run("agents", "remove", "mine", *place)
    err = run("agents", "add", "mine", "--watch", "ETH", "--cash", "9", *place)[2]
    assert err.startswith("error: mine has begun with its cash already")
    code, out, err = run("agents", "add", "mine", "--watch", "ETH", *place)
    assert (code, err) == (0, "") and out.startswith("mine is now version 3\n")
    assert "note: mine was removed at 2026-01-05T01:00:00" in out
    assert "goes on with its account, its trades and what it learned; another name begins anew\n" in out
    assert "- cash_usd: 750.00\n" in run("context", "mine", "ETH", *place)[1]
    # Between the two there was no such agent.
    gone = json.loads(run("agents", "show", "mine", "--json", *place)[1])
    assert gone["removed"] is None
    assert run("verify", *place)[0] == 0


def test_an_agent_that_holds_something_is_not_removed(run: Run, demo: str) -> None:
    code, out, err = run("agents", "remove", "btc-5m", "--home", demo)
    assert (code, out) == (2, "")
    assert err == "error: btc-5m holds ETH: close it with `tapebook flatten btc-5m`, then remove the agent\n"
    run("halt", "btc-5m", "--home", demo)
    assert run("flatten", "btc-5m", "--home", demo)[0] == 0
    assert run("agents", "remove", "btc-5m", "--home", demo)[0] == 0
    # The demo does not bring it back.
    assert run("demo", "--seconds", "3.2", "--fast", "--home", demo)[0] == 0
    assert "btc-5m" not in run("agents", "--home", demo)[1]


def test_symbols_and_leverage_the_venue_does_not_have_are_warned_about(run: Run, own: str) -> None:
    code, out, err = run("agents", "add", "mine", "--watch", "BTC,SOL,FOO,btc", "--max-leverage", "30", "--home", own)
    assert code == 0
    assert err.splitlines() == [
        "warning: FOO is neither in the registry of markets nor in the tape: did you mean FOGO?",
        "warning: btc is neither in the registry of markets nor in the tape: did you mean BTC?",
        "warning: max_leverage 30 is more than the exchange allows for SOL (20): what asks for more is refused",
    ]
    assert run("agents", "edit", "mine", "--watch", "BTC", "--home", own)[2] == ""
    assert "SOL (20)" not in run("agents", "edit", "mine", "--max-leverage", "45", "--home", own)[2]
    code, out, _ = run("agents", "edit", "mine", "--watch", "BTC,FOO", "--json", "--home", own)
    assert len(json.loads(out)["warnings"]) == 2
    code, out, _ = run("doctor", "--home", own)
    lines = [line for line in out.splitlines() if line.startswith("watchlists") or line.startswith("leverage")]
    assert lines == [
        "watchlists        no   mine watches FOO, which is neither in the registry of markets nor in the tape: "
        "did you mean FOGO?; correct its watchlist, or let it be ingested or imported",
        "leverage          no   mine: max_leverage 45 is more than the exchange allows for BTC (40): "
        "what asks for more is refused; lower it with `tapebook agents edit mine`",
    ]
