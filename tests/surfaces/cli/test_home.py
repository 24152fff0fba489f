"""Commands on the home: made once, verified, examined; what is not well is exit code 3."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from tapebook.app import Check, Finding
from tapebook.config import TEMPLATE

Run = Callable[..., tuple[int, str, str]]


def test_init_makes_a_home_once(run: Run, tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    code, out, err = run("init", "--home", str(home))
    assert (code, err) == (0, "")
    assert str(home / "tapebook.toml") in out
    assert (home / "tapebook.toml").read_text("utf-8") == TEMPLATE
    code, out, err = run("init", "--home", str(home))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {home} is a tapebook home already")


def test_a_whole_home_is_clean(run: Run, home: str) -> None:
    assert run("verify", "--home", home) == (0, "clean\n", "")
    assert run("verify", "--home", home, "--json") == (0, "[]\n", "")


def test_findings_exit_3(run: Run, facade: SimpleNamespace) -> None:
    facade.verify = lambda: [Finding("local/x", "event 7 was changed " + "x" * 100)]
    code, out, err = run("verify")
    assert (code, out.splitlines()) == (3, ["where    problem", "local/x  event 7 was changed " + "x" * 100])
    assert err.startswith("error: ") and err.count("\n") == 1
    code, out, _ = run("verify", "--json")
    assert (code, json.loads(out)[0]["where"]) == (3, "local/x")


def test_doctor_of_a_real_home(run: Run, home: str) -> None:
    code, out, err = run("doctor", "--home", home)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["check", "ok", "detail"]
    assert {line.split()[0] for line in out.splitlines()} >= {"book", "tape", "disk"}
    assert all(check["ok"] for check in json.loads(run("doctor", "--home", home, "--json")[1]))


def test_what_is_not_well_exits_3(run: Run, facade: SimpleNamespace) -> None:
    facade.doctor = lambda: [Check("book", True, "fine"), Check("disk", False, "0.1 GB free: delete something")]
    code, out, err = run("doctor")
    assert (code, err) == (3, "error: not well: disk; the details say what to do\n")
    assert out.splitlines() == ["check  ok   detail", "book   yes  fine", "disk   no   0.1 GB free: delete something"]
