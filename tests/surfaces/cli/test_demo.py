"""The demo from the command line: progress on stderr, the report alone on stdout."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.app import DemoProgress
from tapebook.surfaces.cli import progress

Run = Callable[..., tuple[int, str, str]]


def test_report_comes_alone_on_stdout(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    words = ["demo", "--seconds", "1.5", "--fast", "--no-web", "--home", str(tmp_path / "home")]
    code, out, err = run(*words)
    assert code == 0
    assert "market time   2026-01-05T00:00 to 2026-01-05T00:30 UTC" in out
    assert err.splitlines()[-1].startswith("demo 100%  2026-01-05T00:30  rows ")
    code, out, _ = run(*words, "--json")
    report = json.loads(out)
    assert (code, report["seed"], report["market_until"]) == (0, 7, "2026-01-05T00:30:00.000Z")


def test_flags_reach_the_facade(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def demo(home: Path, *, seconds: float, seed: int, paced: bool, progress: Callable[[DemoProgress], None]) -> Any:
        asked.append((str(home), seconds, seed, paced))
        return SimpleNamespace(lines=lambda: ["market  1", "home    2"], to_dict=lambda: {"a": 1})

    facade.module.demo = demo
    assert run("demo", "--home", "x") == (0, "market  1\nhome    2\n", "")
    assert run("demo", "--home", "x", "--seconds", "2.5", "--seed", "9", "--fast", "--json")[1] == '{\n  "a": 1\n}\n'
    assert asked == [("x", 30.0, 7, True), ("x", 2.5, 9, False)]


def test_another_seed_in_the_same_home_is_refused(run: Run, home: str) -> None:
    code, out, err = run("demo", "--seed", "8", "--home", home)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "was made with --seed 7" in err
