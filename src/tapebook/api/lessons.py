"""Lessons as hypotheses: what is claimed of which trades, the evidence, how later trades judged it, and its history."""

from typing import TypedDict

from tapebook.api.open_home import AsOf, HomePart, listed_deployment
from tapebook.domain.units import iso_text
from tapebook.lessons.hypotheses import Baseline, Direction, Metric, Status
from tapebook.lessons.notes import LessonChange
from tapebook.lessons.trials import Trial, capital

_PPM_PER_BP = 100


class LaterTradesView(TypedDict):
    """How a lesson did since it was registered.

    `effect_bps` is in the direction of the claim, null before there are trades on both sides. A capital of 20 for a
    lesson confirms it, one of 20 against it retires it.
    """

    trades: int
    rest: int
    rounds: int
    effect_bps: float | None
    capital_for: float
    capital_against: float


class HypothesisView(TypedDict):
    """A lesson with its evidence and its state; the effect is in the direction of the claim."""

    lesson_id: str
    slot: str
    statement: str
    status: Status
    stated: bool
    condition: dict[str, str]
    metric: Metric
    direction: Direction
    baseline: Baseline
    n: int
    rest_n: int
    effect_bps: float
    low_bps: float
    high_bps: float
    proposed_by: str
    registered_at: str
    registered_seq: int
    later: LaterTradesView
    confirmed_at: str | None
    reason: str


class LessonChangeView(TypedDict):
    """What happened to a lesson when, and what was known of it then."""

    at: str
    change: str
    lesson: HypothesisView


class HypothesesView(TypedDict):
    """An agent's lessons, retired ones last, and what happened to them, newest first."""

    lessons: list[HypothesisView]
    history: list[LessonChangeView]


class LessonTrials(HomePart):
    """The lessons of a home's agents, as hypotheses."""

    def hypotheses(self, agent: str, *, most: int = 20, as_of: AsOf = None) -> HypothesesView:
        """An agent's lessons with evidence and state, and the newest changes of them; now, or as of a moment."""
        with self._home.read() as rooms:
            moment, book = None if as_of is None else self._home.moment(as_of), rooms.book
            deployment = listed_deployment(book, agent, moment)
            if deployment is None:
                return {"lessons": [], "history": []}
            seq = book.head(deployment) if moment is None else book.seq_as_of(deployment, moment)
            known = rooms.notes.lessons(deployment, seq=seq)
            ordered = sorted(known, key=lambda each: (each.lesson.trial.is_over, -each.lesson.hypothesis.seq))
            history = rooms.notes.lesson_history(deployment, most=most, seq=seq)
            return {
                "lessons": [_hypothesis_view(each) for each in ordered],
                "history": [
                    {"at": iso_text(each.happened_at), "change": each.change, "lesson": _hypothesis_view(each)}
                    for each in history
                ],
            }


def _hypothesis_view(change: LessonChange) -> HypothesisView:
    hypothesis, trial = change.lesson.hypothesis, change.lesson.trial
    claim = hypothesis.claim
    return {
        "lesson_id": hypothesis.lesson_id,
        "slot": hypothesis.slot,
        "statement": change.lesson.bullet(),
        "status": trial.status,
        "stated": change.lesson.is_stated,
        "condition": {term.field: term.value for term in hypothesis.condition.terms},
        "metric": claim.metric,
        "direction": claim.direction,
        "baseline": claim.baseline,
        "n": hypothesis.n,
        "rest_n": hypothesis.rest_n,
        "effect_bps": hypothesis.effect_ppm / _PPM_PER_BP,
        "low_bps": hypothesis.low_ppm / _PPM_PER_BP,
        "high_bps": hypothesis.high_ppm / _PPM_PER_BP,
        "proposed_by": hypothesis.proposed_by,
        "registered_at": iso_text(hypothesis.registered_at),
        "registered_seq": hypothesis.seq,
        "later": _later_view(trial, sign=claim.sign, against_rest=claim.baseline == "rest"),
        "confirmed_at": None if trial.confirmed_at is None else iso_text(trial.confirmed_at),
        "reason": trial.reason,
    }


def _later_view(trial: Trial, *, sign: int, against_rest: bool) -> LaterTradesView:
    effect = None
    if trial.matched and (trial.rest or not against_rest):
        base = trial.rest_ppm / trial.rest if against_rest else 0.0
        effect = round(sign * (trial.matched_ppm / trial.matched - base) / _PPM_PER_BP, 1)
    return {
        "trades": trial.matched,
        "rest": trial.rest,
        "rounds": trial.rounds,
        "effect_bps": effect,
        "capital_for": capital(trial.capital_for) / 10**6,
        "capital_against": capital(trial.capital_against) / 10**6,
    }
