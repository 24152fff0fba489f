"""The command `context`: the packet as it is sent, and what each part of it takes."""

import json
from collections.abc import Callable
from pathlib import Path

from tapebook.api import app
from tapebook.domain.units import parse_instant

Run = Callable[..., tuple[int, str, str]]
MOMENT = "2026-01-05T00:30"


def test_context_shows_what_the_engine_is_sent(run: Run, home: str) -> None:
    moment = "2026-01-05T00:30:00Z"
    with app.open(home) as book:
        packet = book.context("btc-5m", "BTC", as_of=parse_instant(moment))
    for words in ([moment], [str(packet.as_of)], ["2026-01-05T00:30"], ["2026-01-05T01:30+01:00"]):
        code, out, err = run("context", "btc-5m", "BTC", "--home", home, "--as-of", *words)
        assert (code, out, err) == (0, f"{packet.system}\n\n{packet.text}\n", "")


def test_context_as_json(run: Run, home: str) -> None:
    code, out, err = run("context", "btc-5m", "BTC", "--home", home, "--as-of", "2026-01-05T00:30", "--json")
    view = json.loads(out)
    assert (code, err) == (0, "")
    assert {"text", "system", "sections", "tokens", "sha256", "as_of"} <= view.keys()
    assert view["as_of"] == "2026-01-05T00:30:00.000Z"


def test_a_preview_adds_up(run: Run, home: str) -> None:
    words = ("context", "btc-5m", "BTC", "--home", home, "--as-of", MOMENT, "--preview")
    found = json.loads(run(*words, "--json")[1])
    with app.open(home) as book:
        packet = book.context("btc-5m", "BTC", as_of=parse_instant(MOMENT))
    assert found["tokens"] == packet.tokens
    user = {part["name"]: part["tokens"] for part in found["parts"] if part["place"] == "user"}
    assert user == packet.section_tokens
    code, out, err = run(*words)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["part", "message", "tokens", "cap", "rows", "dropped"]
    assert [line.split()[0] for line in lines[1 : len(found["parts"]) + 1]] == [part["name"] for part in found["parts"]]
    assert lines[len(found["parts"]) + 1].startswith(f"{packet.tokens:,} tokens in all; the memory takes ")


def test_a_preview_warns_at_high_settings(run: Run, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    run("init", "--home", home)
    run("agents", "edit", "btc-5m", "--strategy", "buy low " * 570, "--home", home)
    out = run("context", "btc-5m", "BTC", "--preview", "--home", home)[1]
    assert out.splitlines()[-1].startswith("warning: strategy: ") and "shorten the strategy" in out


def test_context_of_a_past_moment_has_the_profile_of_then(run: Run, demo: str) -> None:
    words = ("context", "btc-5m", "BTC", "--home", demo, "--as-of", MOMENT)
    before = run(*words)
    assert run("agents", "edit", "btc-5m", "--avoid", "chase", "--watch", "ETH", "--home", demo)[0] == 0
    assert run(*words) == before and "chase" not in before[1]
    assert "chase" in run(*words[:2], "ETH", "--home", demo)[1]
    code, out, err = run(*words[:2], "SOL", *words[3:])
    assert (code, out) == (2, "")
    assert err == "error: btc-5m did not watch 'SOL' at 2026-01-05T00:30:00.000Z; it watched: BTC, ETH\n"
    assert "chase" in run("context", "btc-5m", "ETH", *words[3:], "--version", "2")[1]


def test_context_from_before_an_agent_was_there_says_so(run: Run, demo: str) -> None:
    run("agents", "add", "mine", "--watch", "BTC", "--cash", "750", "--home", demo)
    words = ("context", "mine", "BTC", "--home", demo, "--as-of", MOMENT)
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: mine did not exist at 2026-01-05T00:30:00.000Z: it was added at 2026-01-05T01:00:00.")
    assert err.endswith("Z; --version 1 shows what that version would have been told\n")
    code, out, err = run(*words, "--version", "1")
    assert (code, err) == (0, "") and "now 2026-01-05T00:30 UTC" in out
    assert run(*words, "--version", "2")[2] == "error: mine has no version 2; its newest is 1\n"


def test_a_new_agent_is_told_the_cash_it_begins_with(run: Run, demo: str) -> None:
    run("agents", "add", "mine", "--watch", "BTC", "--cash", "750", "--home", demo)
    for words in ([], ["--as-of", MOMENT, "--version", "1"]):
        out = run("context", "mine", "BTC", "--home", demo, *words)[1]
        assert "- cash_usd: 750.00\n- equity_usd: 750.00\n" in out
