"""The command `context`: the packet as it is sent, and what each part of it takes."""

import json
from collections.abc import Callable
from pathlib import Path

from tapebook import app
from tapebook.domain.instants import parse_instant

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
