"""Reflections one after the other: lessons are registered, judged on later trades alone, stated, and retired."""

import random
from collections.abc import Sequence
from functools import partial
from typing import get_args

import msgspec
import pytest

from tapebook.domain.agent import AgentProfile
from tapebook.lessons import Evidence, Lesson, Proposals, Reflected, ReflectorTerms, rendered_bullets, run_reflection
from tapebook.lessons.hypotheses import Claim, Condition, Direction, Field, Term, TradeCase
from tapebook.lessons.notes import LessonChange
from tapebook.lessons.reflection import MOST_CHARS, MOST_PROPOSED, Proposal, Reflector
from tapebook.lessons.reflectors import statistics
from tapebook.lessons.search import CaseTable
from tests.lessons.trades import PLANTED, T0, later_evidence, random_case, random_cases

AGENT = AgentProfile("a", ("BTC",))
COUNTS = statistics.create(ReflectorTerms())
IN_PLANTED = Condition((Term("regime", PLANTED),))
BETTER = Claim("result", "better", "rest")


class Proposing:
    """A reflector with fixed proposals."""

    def __init__(self, *claims: Proposal, problem: str | None = None) -> None:
        self._proposals = Proposals("somebody", claims, problem=problem)

    def propose(self, agent: AgentProfile, table: CaseTable, *, standing: Sequence[Lesson]) -> Proposals:
        return self._proposals


def first(cases: Sequence[TradeCase], reflector: Reflector = COUNTS) -> tuple[Evidence, Reflected]:
    evidence = Evidence(tuple(cases), (), (), T0, 1)
    return evidence, run_reflection(reflector, AGENT, evidence)


def changes(found: Reflected, *, seq: int, at: int = T0) -> list[LessonChange]:
    """The lessons as the log has them after a reflection."""
    after = [each for _, each in found.judged] + list(found.registered)
    return [LessonChange(seq, "", at, each) for each in after]


def go_on(seed: int, *, edge_bps: float, reflections: int) -> tuple[list[LessonChange], Reflected]:
    """A planted lesson and what comes of it: 200 trades with an edge, then ten trades for each further reflection."""
    evidence, found = first(random_cases(seed, edge_bps=50.0))
    known, rng = changes(found, seq=1), random.Random(10_000 + seed)
    for seq in range(2, reflections + 2):
        new = [random_case(rng, 200 + 10 * seq + at, edge_bps=edge_bps) for at in range(10)]
        evidence = later_evidence(evidence, known, new, seq=seq)
        found = run_reflection(COUNTS, AGENT, evidence)
        over = [each for each in known if each.lesson.trial.is_over]
        known = over + changes(found, seq=seq, at=evidence.at)
    return known, found


def test_a_note_says_first_what_holds_for_everything() -> None:
    _, found = first(random_cases(1))
    assert rendered_bullets(found.text)[0].startswith("All trades: ") and "n=200, 95% " in found.text
    assert found.text.count("(no clear pattern yet)") == 5 and found.registered == ()
    _, one = first(random_cases(1, n=1))
    assert "All trades" not in one.text, "one trade has no interval"


def test_a_lesson_is_stated_at_once_and_confirmed_by_later_trades_alone() -> None:
    evidence, found = first(random_cases(5, edge_bps=50.0))
    (lesson,) = [each for each in found.registered if each.hypothesis.condition == IN_PLANTED]
    assert (lesson.trial.matched, lesson.trial.status, lesson.hypothesis.registered_at) == (0, "registered", T0)
    assert f"Regime fit: {lesson.bullet()}" in rendered_bullets(found.text)
    assert lesson.bullet().endswith("; not yet confirmed")
    # The same trades again are no evidence.
    again = run_reflection(COUNTS, AGENT, later_evidence(evidence, changes(found, seq=1), [], seq=2))
    assert again.registered == () and {after.trial.matched for _, after in again.judged} == {0}
    known, last = go_on(5, edge_bps=50.0, reflections=20)
    (true,) = [each.lesson for each in known if each.lesson.hypothesis.condition == IN_PLANTED]
    assert true.trial.status == "confirmed"
    assert f"confirmed on {true.trial.matched} later trades" in last.text and true.trial.matched < 100


def test_a_lesson_that_does_not_hold_leaves_the_note_and_does_not_come_back() -> None:
    known, last = go_on(5, edge_bps=-50.0, reflections=25)
    retired = [each.lesson for each in known if each.lesson.hypothesis.condition == IN_PLANTED]
    assert retired and all(each.trial.is_over for each in retired if each.hypothesis.claim == BETTER)
    assert "trades in trend_up_lowvol do better" not in last.text


def test_what_is_only_proposed_waits_for_later_trades() -> None:
    cases = random_cases(7)
    claim = Claim("result", "better" if _mean(cases) > 0 else "worse", "rest")
    proposed = Proposing(Proposal(IN_PLANTED, claim))
    evidence, found = first(cases, proposed)
    (lesson,) = found.registered
    assert not lesson.hypothesis.carried and lesson.hypothesis.proposed_by == "somebody"
    assert len(rendered_bullets(found.text)) == 1, "it is not stated yet"
    edge = 60.0 if claim.direction == "better" else -60.0
    rng, known = random.Random(8), changes(found, seq=1)
    for seq in range(2, 22):
        new = [random_case(rng, 200 + 10 * seq + at, edge_bps=edge) for at in range(10)]
        evidence = later_evidence(evidence, known, new, seq=seq)
        found = run_reflection(Proposing(), AGENT, evidence)
        known = changes(found, seq=seq)
    assert "confirmed on" in found.text


def _mean(cases: Sequence[TradeCase]) -> float:
    ours = [each.result_ppm for each in cases if each.facts.regime == PLANTED]
    rest = [each.result_ppm for each in cases if each.facts.regime != PLANTED]
    return sum(ours) / len(ours) - sum(rest) / len(rest)


def test_mirrored_and_repeated_proposals_are_one_and_contradicted_ones_none() -> None:
    cases = random_cases(11)
    sides = [Condition((Term("side", side),)) for side in ("long", "short")]
    every = [Proposal(side, Claim("result", direction, "rest")) for side in sides for direction in get_args(Direction)]
    _, found = first(cases, Proposing(*every, *every))
    assert len(found.registered) == 1
    absent = Condition((Term("symbol", "IGNORE-EVERY-RULE"),))
    assert first(cases, Proposing(Proposal(absent, BETTER)))[1].registered == ()


def test_proposals_that_wait_are_few_and_a_note_is_short() -> None:
    cases = random_cases(13)
    fields: tuple[Field, ...] = ("hour", "regime", "size", "volatility", "funding", "confidence")
    values = {field: sorted({each for case in cases for each in case.facts.values(field)}) for field in fields}
    some = [
        Proposal(Condition((Term(field, value),)), Claim("result", direction, "rest"))
        for field, known in values.items()
        for value in known
        for direction in get_args(Direction)
    ]
    _, found = first(cases, Proposing(*some))
    assert len(found.registered) == MOST_PROPOSED
    confirmed = [
        msgspec.structs.replace(each, trial=msgspec.structs.replace(each.trial, confirmed_at=T0, status="confirmed"))
        for each in found.registered
    ]
    evidence = later_evidence(
        Evidence(tuple(cases), (), (), T0, 1), [LessonChange(1, "", T0, each) for each in confirmed], [], seq=2
    )
    assert len(run_reflection(COUNTS, AGENT, evidence).text) <= MOST_CHARS


def test_a_reflector_that_fails_stops_no_trial() -> None:
    evidence, found = first(random_cases(5, edge_bps=50.0))
    rng = random.Random(1)
    new = [random_case(rng, 300 + at, edge_bps=50.0) for at in range(30)]
    later = later_evidence(evidence, changes(found, seq=1), new, seq=2)
    failed = run_reflection(Proposing(problem="no answer"), AGENT, later)
    assert failed.problem == "no answer" and failed.text == run_reflection(COUNTS, AGENT, later).text


@pytest.mark.proof
def test_of_notes_about_noise_hardly_any_claims_something() -> None:
    notes = claiming = 0
    for seed in range(20):
        rng = random.Random(seed)
        known: list[LessonChange] = []
        evidence = Evidence((), (), (), T0, 0)
        for seq in range(1, 61):
            new = list(map(partial(random_case, rng), range(10 * seq, 10 * seq + 10)))
            evidence = later_evidence(evidence, known, new, seq=seq)
            found = run_reflection(COUNTS, AGENT, evidence)
            known = [each for each in known if each.lesson.trial.is_over] + changes(found, seq=seq, at=evidence.at)
            notes, claiming = notes + 1, claiming + (len(rendered_bullets(found.text)) > 1)
    assert notes == 1_200 and claiming <= 0.05 * notes, claiming
