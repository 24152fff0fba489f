"""Commands on experience: tables with intervals, files there and back, and one line where a file is wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.api.experience import ExperienceFiles, ForgottenExperience, RebuiltExperience

Run = Callable[..., tuple[int, str, str]]

RESULT = {
    "n": 34,
    "won": 20,
    "net_usd": 12.5,
    "win_rate": {"value": 0.588, "low": 0.422, "high": 0.736},
    "mean_bps": {"value": 12.1, "low": 3.0, "high": 21.2},
}
TREND = {"direction": "improving", "chunks": 4, "change_bps": {"value": 9.0, "low": 1.0, "high": 17.0}}
FOUND = {
    "outcomes": 1_034,
    "situations": 1_030,
    "fit": {"first_situation": 1, "last_situation": 976},
    "members": [
        {"name": "cash", "weight": 0.25, "gain_bps": 0.0, "changes": 0},
        {"name": "trend", "weight": 0.62, "gain_bps": 1_204.5, "changes": 31},
    ],
    "providers": [
        {
            **{"name": "trend", "weight": 0.62, "trend": TREND, **RESULT},
            "regimes": [{"regime": "chop_lowvol", "weight": None, **RESULT}],
        }
    ],
    "regimes": [],
    "assets": [{"name": "BTC", "trend": None, **RESULT, "n": 1, "mean_bps": None}],
    "calibration": [{"confidence": "0.6-0.7", "n": 34, "win_rate": RESULT["win_rate"], "believed": 0.55}],
    "snapshots": [{"chunk": "2026-Q1", "ended_at": "2026-04-01T00:00:00.000Z", "sharpe": 0.2, **RESULT}],
    "forgotten": [],
}


def room(facade: SimpleNamespace, **methods: Callable[..., Any]) -> None:
    facade.experience = SimpleNamespace(**methods)


def test_show_prints_a_table_for_each_thing_that_is_known(
    run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    room(facade, show=lambda agent, *, as_of: FOUND)
    assert run("experience", "show", "a")[1].splitlines() == [
        "1,034 outcomes, 1,030 situations (fitted on 1 to 976)",
        "",
        "member  weight  twin gained, bps  changes of mind",
        "cash      0.25              +0.0                0",
        "trend     0.62          +1,204.5               31",
        "",
        "provider  weight   n  bps a trade (95%)      won (95%)         trend",
        "trend       0.62  34  +12.1 (+3.0 to +21.2)  59% (42% to 74%)  improving +9.0 (+1.0 to +17.0)",
        "",
        "provider  regime       weight   n  bps a trade (95%)      won (95%)",
        "trend     chop_lowvol  -       34  +12.1 (+3.0 to +21.2)  59% (42% to 74%)",
        "",
        "asset  n  bps a trade (95%)  won (95%)         trend",
        "BTC    1  -                  59% (42% to 74%)  -",
        "",
        "confidence   n  won (95%)",
        "0.6-0.7     34  59% (42% to 74%)",
        "",
        "chunk     n  bps a trade (95%)      won (95%)         net usd  sharpe",
        "2026-Q1  34  +12.1 (+3.0 to +21.2)  59% (42% to 74%)    12.50    0.20",
    ]


@pytest.mark.usefixtures("screen")
def test_show_fits_80_columns(run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = {"regime": "trend_down_lowvol", "weight": 0.8, **RESULT}
    wide = FOUND["providers"][0] | {"name": "openai:gpt-6-luna", "regimes": [long]}  # type: ignore[index]
    room(facade, show=lambda agent, *, as_of: FOUND | {"providers": [wide]})
    assert max(map(len, run("experience", "show", "a")[1].splitlines())) <= 80


def test_show_passes_on_the_moment_and_says_when_there_is_nothing(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def show(agent: str, *, as_of: str | None) -> dict[str, Any]:
        asked.append((agent, as_of))
        return FOUND | {"outcomes": 0, "snapshots": [], "members": []}

    room(facade, show=show)
    assert run("experience", "show", "a")[1] == "no outcomes yet: they are learned from when a trade has ended\n"
    assert json.loads(run("experience", "show", "a", "--as-of", "2026-01-05", "--json")[1])["situations"] == 1_030
    assert asked == [("a", None), ("a", "2026-01-05")]


def test_files_and_rebuild_say_what_was_done(run: Run, facade: SimpleNamespace, tmp_path: Path) -> None:
    done = ExperienceFiles("out", 1_200, 4, 30, 1)
    room(
        facade,
        export=lambda agent, folder: done,
        import_files=lambda agent, folder, *, source: done,
        rebuild=lambda agent: RebuiltExperience(1_200, 1_100, 28, 9, ("record all is 1, computed 2",)),
    )
    assert run("experience", "export", "a", "out")[1] == "1,200 outcomes and 4 snapshots written to out\n"
    assert run("experience", "import", "a", "out")[1] == (
        "30 of 1,200 outcomes and 1 of 4 snapshots were new, and are learned\n"
    )
    assert run("experience", "rebuild", "a")[1].splitlines() == [
        "28 records, 1,100 situations and 9 fits computed again from 1,200 outcomes",
        "record all is 1, computed 2",
        "1 differed and are put right",
    ]
    assert json.loads(run("experience", "rebuild", "a", "--json")[1])["fits"] == 9


def test_snapshots_are_told_with_their_parts(
    run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    part = {"name": "trend", **RESULT}
    found = [{"chunk": "2026-01", "sharpe": 0.2, **RESULT, "providers": [part], "regimes": [], "assets": []}]
    room(facade, snapshots=lambda agent, *, as_of: found if as_of is None else [])
    assert run("experience", "snapshots", "a")[1].splitlines() == [
        "chunk     n  bps a trade (95%)      won (95%)         net usd  sharpe",
        "2026-01  34  +12.1 (+3.0 to +21.2)  59% (42% to 74%)    12.50    0.20",
        "",
        "chunk    provider   n  bps a trade (95%)      won (95%)         net usd",
        "2026-01  trend     34  +12.1 (+3.0 to +21.2)  59% (42% to 74%)    12.50",
    ]
    assert json.loads(run("experience", "snapshots", "a", "--json")[1]) == found
    assert run("experience", "snapshots", "a", "--as-of", "2026-01-05")[1].startswith("no snapshots yet")


def test_forget_says_how_it_is_taken_back(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def forget(agent: str, **terms: Any) -> ForgottenExperience:
        asked.append(terms)
        return ForgottenExperience(None if terms["dry_run"] or not terms["provider"] else "ab12cd34", 3)

    room(facade, forget=forget, remember=lambda agent, forget_id: ForgottenExperience(forget_id, 3))
    assert run("experience", "forget", "a", "--provider", "trend", "--since", "2026-01-05", "--reason", "bug")[1] == (
        "3 outcomes forgotten from now on; `tapebook experience remember a ab12cd34` takes it back\n"
    )
    assert asked[0] == {
        **{"source": "", "provider": "trend", "since": "2026-01-05", "until": None, "reason": "bug", "dry_run": False}
    }
    assert run("experience", "forget", "a", "--source", "own", "--dry-run")[1] == "3 outcomes would be forgotten\n"
    assert run("experience", "forget", "a", "--source", "x")[1] == "no outcome meets that\n"
    assert run("experience", "remember", "a", "ab12cd34")[1] == "3 outcomes count again\n"
    assert json.loads(run("experience", "remember", "a", "x", "--json")[1]) == {"id": "x", "outcomes": 3}


def test_forgetting_in_a_real_home_and_back(run: Run, home: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "home")
    shutil.copytree(home, copy)
    agents = json.loads(run("agents", "--home", copy, "--json")[1])
    shown = {each["name"]: shown_of(run, each["name"], copy) for each in agents}
    agent = max(shown, key=lambda name: int(shown[name]["outcomes"]))
    assert shown[agent]["outcomes"] > 0
    code, out, err = run("experience", "forget", agent, "--source", "own", "--home", copy, "--json")
    assert (code, err) == (0, "") and json.loads(out)["outcomes"] == shown[agent]["outcomes"]
    assert shown_of(run, agent, copy)["outcomes"] == 0
    assert "forgotten" in run("experience", "show", agent, "--home", copy)[1]
    assert run("experience", "remember", agent, json.loads(out)["id"], "--home", copy)[0] == 0
    assert shown_of(run, agent, copy) | {"forgotten": [], "as_of": ""} == shown[agent] | {"as_of": ""}
    assert run("replay", "--all", "--home", copy)[0] == run("verify", "--home", copy)[0] == 0
    assert run("experience", "remember", agent, "x", "--home", copy)[0] == 2
    assert run("experience", "forget", agent, "--home", copy)[2].startswith("error: say what to forget")


def shown_of(run: Run, agent: str, home: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("experience", "show", agent, "--home", home, "--json")[1])
    return found


def test_a_real_home_there_and_back(run: Run, home: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "home")
    shutil.copytree(home, copy)
    agent = max(json.loads(run("agents", "--home", copy, "--json")[1]), key=lambda each: len(each["watch"]))["name"]
    before = json.loads(run("experience", "show", agent, "--home", copy, "--json")[1])
    assert run("experience", "export", agent, str(tmp_path / "out"), "--home", copy)[0] == 0
    assert "provider_performance.json" in {path.name for path in (tmp_path / "out").iterdir()}
    code, out, err = run("experience", "rebuild", agent, "--home", copy)
    assert (code, err) == (0, "") and out.endswith("nothing differed\n")
    if before["outcomes"]:
        assert run("experience", "import", agent, str(tmp_path / "out"), "--home", copy)[1].startswith("0 of ")
    (tmp_path / "out" / "outcome_x.json").write_text("{")
    code, _, err = run("experience", "import", agent, str(tmp_path / "out"), "--home", copy)
    assert code == 2 and err.count("\n") == 1
    assert "outcome_x.json: " in err and err.endswith("nothing was imported\n")
    assert json.loads(run("experience", "show", agent, "--home", copy, "--json")[1]) == before
