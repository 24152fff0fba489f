"""Commands on lessons: the note and those before it, and promotions by name."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.domain.agent import SkillNote
from tapebook.tick.memory import Promotion

Run = Callable[..., tuple[int, str, str]]

NOTE = {
    "generated_at": "2026-01-05T04:00:00.000Z",
    "status": "active",
    "trades_considered": 20,
    "content_hash": "0123456789abcdef",
    "written_by": "statistics",
    "problem": "",
    "lessons_text": "### Sizing\n- size above $900 does better",
}
LESSON = {
    "lesson_id": "0123456789ab",
    "status": "confirmed",
    "slot": "Sizing",
    "statement": "trades of size $300-1000 do worse",
    "later": {"trades": 34, "capital_for": 21.5, "capital_against": 0.25},
}
CHANGE = {"at": "2026-01-05T04:00:00.000Z", "change": "confirmed", "lesson": LESSON}
NONE: dict[str, list[Any]] = {"lessons": [], "history": []}
DONE = Promotion("sizing", "n1", "teacher", "0123456789abcdef", ("Sizing: x",), ("pupil.paper",))


@pytest.mark.parametrize("words", [("lessons", "a"), ("lessons", "show", "a")])
def test_lessons_of_an_agent_with_or_without_the_word_show(
    run: Run, facade: SimpleNamespace, words: tuple[str, ...]
) -> None:
    facade.lessons, facade.skills = lambda agent, *, most: [NOTE], SimpleNamespace(notes_for=lambda agent: [])
    facade.hypotheses = lambda agent, *, most: NONE
    assert run(*words)[1].splitlines() == [
        "### Sizing",
        "- size above $900 does better",
        "",
        "written           status  trades  hash              by          problem",
        "2026-01-05T04:00  active      20  0123456789abcdef  statistics  -",
    ]
    assert json.loads(run(*words, "--most", "3", "--json")[1]) == {**NONE, "notes": [NOTE]}


def test_lessons_are_shown_with_their_state_and_their_history(run: Run, facade: SimpleNamespace) -> None:
    facade.lessons, facade.skills = lambda agent, *, most: [], SimpleNamespace(notes_for=lambda agent: [])
    facade.hypotheses = lambda agent, *, most: {"lessons": [LESSON], "history": [CHANGE]}
    assert run("lessons", "a")[1].splitlines() == [
        "lesson        status     slot    later    for  against  claim",
        "0123456789ab  confirmed  Sizing     34  21.50     0.25  trades of size $300-1000 do worse",
        "",
        "at                lesson        change     claim",
        "2026-01-05T04:00  0123456789ab  confirmed  trades of size $300-1000 do worse",
        "",
        "no notes yet",
    ]
    assert json.loads(run("lessons", "a", "--json")[1])["history"] == [CHANGE]


def test_what_others_promoted_is_shown_beside_it(run: Run, facade: SimpleNamespace) -> None:
    shared = SkillNote("sizing", "n1", "b.paper", "teacher", 0, "### Sizing\n- 20 trades", "h")
    facade.lessons, facade.skills = lambda agent, *, most: [], SimpleNamespace(notes_for=lambda agent: [shared])
    facade.hypotheses = lambda agent, *, most: NONE
    assert run("lessons", "a")[1].splitlines() == [
        "promoted by teacher to sizing:",
        "### Sizing",
        "- 20 trades",
        "",
        "no notes yet",
    ]


def test_promote_and_demote_pass_on_the_names(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def promote(agent: str, *, to: str | None, skill: str | None) -> Promotion:
        asked.append((agent, to, skill))
        return DONE

    facade.skills = SimpleNamespace(promote=promote, demote=lambda skill: DONE)
    said = "1 lessons of teacher are promoted to sizing; told: pupil.paper\n"
    assert run("lessons", "promote", "teacher", "--skill", "sizing")[:2] == (0, said)
    assert run("lessons", "promote", "teacher", "--to", "pupil")[:2] == (0, said)
    assert json.loads(run("lessons", "promote", "teacher", "--json")[1])["told"] == ["pupil.paper"]
    assert asked == [("teacher", None, "sizing"), ("teacher", "pupil", None), ("teacher", None, None)]
    assert run("lessons", "demote", "sizing")[0] == 0
    code, _, err = run("lessons", "promote", "teacher", "--to", "pupil", "--skill", "sizing")
    assert code == 2 and "not both" in err and len(asked) == 3


def test_a_home_without_lessons_says_so(run: Run, home: str) -> None:
    code, _, err = run("lessons", "promote", "hold-5m", "--home", home)
    assert code == 2 and "hold-5m has no lessons to promote" in err
    code, _, err = run("lessons", "demote", "sizing", "--home", home)
    assert code == 2 and "nothing is promoted to 'sizing'" in err
    assert run("lessons", "hold-5m", "--home", home)[1] == "no notes yet\n"
