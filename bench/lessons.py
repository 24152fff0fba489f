"""How often lessons are right: notes about noise, planted lessons that hold and that do not, over many seeds.

A trade's result is a draw with a deviation of 60 bps. Facts of the entry are drawn apart from it, except that trades in
one regime, a third of all, may have an edge. One reflection comes after every ten trades, on the newest 200.
"""

import random
from collections.abc import Sequence

from bench.figure import Figure
from tapebook.domain.agent import AgentProfile
from tapebook.domain.units import HOUR
from tapebook.lessons import Evidence, LaterCases, ReflectorTerms, run_reflection, shared_bullets
from tapebook.lessons.hypotheses import Claim, Condition, EntryFacts, Term, TradeCase
from tapebook.lessons.notes import LessonChange
from tapebook.lessons.reflectors import statistics
from tapebook.lessons.search import (
    CaseTable,
    Registration,
    find_lessons,
    measure_claim,
    measure_family,
    register_lesson,
)
from tapebook.lessons.trials import Trial, judge

SEEDS = 200
PLANTED, *OTHERS = "trend_up_lowvol", "trend_down_hivol", "chop_lowvol"
EDGE_BPS, DEVIATION_BPS = 50.0, 60.0
LATER, FADED = 600, 900
CONDITION, CLAIM = Condition((Term("regime", PLANTED),)), Claim("result", "better", "rest")
AGENT = AgentProfile("a", ("BTC",))


def run() -> list[Figure]:
    """All figures of lessons."""
    return [*_search_figures(), *_notes_figures(), *_trial_figures()]


def _search_figures() -> list[Figure]:
    noise = sum(bool(_found(seed, 0.0)) for seed in range(2 * SEEDS))
    found = sum(CONDITION in _found(seed, EDGE_BPS) for seed in range(SEEDS))
    return [
        Figure("first notes about noise that claim anything", 100 * noise / (2 * SEEDS), "%", aim="≤ 5"),
        Figure("an edge of 50 bps in a third of 200 trades is found", 100 * found / SEEDS, "%"),
    ]


def _found(seed: int, edge_bps: float) -> list[Condition]:
    cases = _cases(random.Random(seed), 200, edge_bps)
    return [each.condition for each in find_lessons(measure_family(CaseTable(cases)))]


def _notes_figures() -> list[Figure]:
    """A hundred notes one after the other, of twenty worlds without any pattern."""
    reflector, notes, claiming = statistics.create(ReflectorTerms()), 0, 0
    for seed in range(20):
        rng = random.Random(10_000 + seed)
        cases: list[TradeCase] = []
        known: list[LessonChange] = []
        for seq in range(1, 101):
            new = _cases(rng, 10, 0.0, first=10 * seq)
            cases = [*cases, *new][-200:]
            later = {each.lesson.trial.seq for each in known if not each.lesson.trial.is_over}
            parts = tuple(LaterCases(after, tuple(new), tuple(new)) for after in later)
            found = run_reflection(reflector, AGENT, Evidence(tuple(cases), tuple(known), parts, 10 * seq * HOUR, seq))
            after = [*(lesson for _, lesson in found.judged), *found.registered]
            over = [each for each in known if each.lesson.trial.is_over]
            known = over + [LessonChange(seq, "", 10 * seq * HOUR, lesson) for lesson in after]
            notes, claiming = notes + 1, claiming + bool(shared_bullets(found.text))
    return [
        Figure("notes about noise, one after the other, that claim anything", 100 * claiming / notes, "%", aim="≤ 5")
    ]


def _trial_figures() -> list[Figure]:
    true = [_first_verdict(seed, EDGE_BPS) for seed in range(SEEDS)]
    half = [_first_verdict(seed, EDGE_BPS / 2) for seed in range(SEEDS)]
    false = [_first_verdict(seed, 0.0) for seed in range(SEEDS)]
    faded = [_retired_after(seed) for seed in range(SEEDS)]
    matched = sorted(trial.matched for trial in true if trial.confirmed_at is not None)
    return [
        Figure("planted true lessons confirmed within 600 later trades", _share(true, "confirmed"), "%"),
        Figure("planted true lessons retired", _share(true, "retired"), "%", aim="≤ 5"),
        Figure("later trades that met it until then, median", matched[len(matched) // 2], "trades"),
        Figure("true lessons of half the edge confirmed", _share(half, "confirmed"), "%"),
        Figure("planted false lessons retired within 600 later trades", _share(false, "retired"), "%"),
        Figure("planted false lessons confirmed", _share(false, "confirmed"), "%", aim="≤ 5"),
        Figure("confirmed lessons whose edge ends, retired within 900 trades", 100 * sum(faded) / SEEDS, "%"),
    ]


def _first_verdict(seed: int, edge_bps: float) -> Trial:
    """The trial of a lesson found on 200 trades with an edge, when it is first confirmed or over."""
    rng = random.Random(20_000 + seed)
    table = CaseTable(_cases(rng, 200, EDGE_BPS))
    measured = measure_claim(table, CONDITION, CLAIM)
    if measured is None:
        raise ValueError(f"too few trades in world {seed}")
    hypothesis, trial = register_lesson(measured, table, Registration("bench", 0, 0), carried=True), Trial(0)
    for case in _cases(rng, LATER, edge_bps):
        trial = judge(trial, hypothesis, [case], at=0, seq=0)
        if trial.is_over or trial.confirmed_at is not None:
            break
    return trial


def _retired_after(seed: int) -> bool:
    """Whether a lesson that was confirmed is retired when its edge ends."""
    rng = random.Random(30_000 + seed)
    table = CaseTable(_cases(rng, 200, EDGE_BPS))
    measured = measure_claim(table, CONDITION, CLAIM)
    if measured is None:
        raise ValueError(f"too few trades in world {seed}")
    hypothesis = register_lesson(measured, table, Registration("bench", 0, 0), carried=True)
    trial = judge(Trial(0), hypothesis, _cases(rng, LATER, EDGE_BPS), at=0, seq=0)
    return judge(trial, hypothesis, _cases(rng, FADED, 0.0), at=0, seq=0).is_over


def _share(trials: Sequence[Trial], status: str) -> float:
    return 100 * sum(trial.status == status for trial in trials) / len(trials)


def _cases(rng: random.Random, count: int, edge_bps: float, *, first: int = 0) -> list[TradeCase]:
    found = []
    for number in range(first, first + count):
        regime = rng.choice((PLANTED, *OTHERS))
        facts = EntryFacts(
            symbol=rng.choice(("BTC", "ETH", "SOL")),
            side=rng.choice(("long", "short")),
            regime=regime,
            hour=rng.choice(("00-04", "04-08", "08-12", "12-16", "16-20", "20-24")),
            volatility=rng.choice(("<1%", "1-2%", "2-4%")),
            funding=rng.choice(("negative", "usual", "high")),
            providers=("ensemble", rng.choice(("trend", "carry"))),
            confidence=rng.choice(("0.4-0.6", "0.6-0.8")),
            size=rng.choice(("$300-1000", "$1000-3000")),
        )
        result = rng.gauss(edge_bps if regime == PLANTED else 0.0, DEVIATION_BPS)
        ppm = [round(100 * value) for value in (result, rng.gauss(0, 30), rng.gauss(0, 60))]
        found.append(TradeCase(f"t{number}", number * HOUR, facts, *ppm))
    return found
