"""The command `compare`: every figure with how many pairs it is of, and the lines in which two packets differ."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.desk.pairs import SHADOWED, play

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A desk with shadows."""
    home = tmp_path_factory.mktemp("compare") / "home"
    play(home, SHADOWED)
    return str(home)


def test_an_agent_and_its_shadow(run: Run, beside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    # On a slow machine, progress appears on stderr.
    found = json.loads(run("compare", "quick-2m", "--shadow", "--json", "--home", beside)[1])
    out = run("compare", "quick-2m", "--shadow", "--home", beside)[1]
    assert out.startswith("main ")
    n = found["pairs"]
    assert f"{found['differing']} of {n} decisions differ\n" in out
    saved = found["main_tokens"] - found["shadow_tokens"]
    tokens = f"main {found['main_tokens']:,}, shadow {found['shadow_tokens']:,}, {saved:,} fewer"
    assert f"tokens over {n} pairs: {tokens}\n" in out
    assert f"the shadow's model calls over {n} pairs cost 0.000000 USD\n" in out
    assert "%" not in out and "recent_trades" in json.dumps(found["ticks"])
    few = json.loads(run("compare", "quick-2m", "--shadow", "--most", "3", "--json", "--home", beside)[1])
    assert few["pairs"] == 3


def test_two_runs(run: Run, beside: str) -> None:
    pair = json.loads(run("compare", "quick-2m", "--shadow", "--most", "1", "--json", "--home", beside)[1])["ticks"][0]
    code, out, _ = run("compare", pair["main_run"], pair["shadow_run"], "--home", beside)
    assert code == 0
    assert re.match(rf"{pair['main_run']} quick-2m \S+ as of ", out) and f"\n{pair['shadow_run']} quick-2m " in out
    assert f"--- {pair['main_run']}\n+++ {pair['shadow_run']}\n@@ " in out
    same = run("compare", pair["main_run"], pair["main_run"], "--home", beside)[1]
    assert same.endswith("both were told the same, byte for byte\n")


def test_no_pairs_yet(run: Run, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    run("init", "--home", home)
    said = "no pairs yet: give btc-5m a shadow with `tapebook agents edit btc-5m --shadow …`\n"
    assert run("compare", "btc-5m", "--shadow", "--home", home) == (0, said, "")


@pytest.mark.parametrize("words", ["x", "x y --shadow"])
def test_what_is_to_be_compared_must_be_clear(run: Run, words: str) -> None:
    said = "error: invalid value for RUN: name two runs, or one agent and --shadow (see: tapebook compare --help)\n"
    assert run("compare", *words.split()) == (2, "", said)


def test_unknown_names(run: Run, beside: str) -> None:
    assert run("compare", "x", "y", "--home", beside)[2] == "error: there is no run 'x'; `tapebook runs` lists them\n"
    assert run("compare", "x", "--shadow", "--home", beside)[2].startswith("error: there is no agent called 'x'; ")
