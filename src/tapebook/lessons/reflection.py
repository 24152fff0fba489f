"""One reflection: is it due, what do later trades say of the lessons there are, and which new ones are there?

1. `should_run_reflection` counts trades since the last note, not modulo the total, so two trades closed in one tick
   cannot skip it;
2. `run_reflection` judges the lessons that stand on the trades that ended since, searches the grammar for new ones,
   and measures what a `Reflector` proposes: conditions and claims, never a number or a sentence;
3. the note is rendered from the lessons that stand, so it says nothing that was not measured here.

It writes nothing: the caller stores the lessons and the note.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, Protocol

import msgspec

from tapebook.domain.agent import AgentProfile, ReflectionSettings
from tapebook.domain.estimate import mean_estimate
from tapebook.domain.run import Usage
from tapebook.domain.units import DAY
from tapebook.errors import ConfigError
from tapebook.lessons.hypotheses import SLOTS, Claim, Condition, TradeCase, canonical_form, overall_text
from tapebook.lessons.notes import MOST_BULLETS, LessonChange, hash_lessons_text, note_text
from tapebook.lessons.search import (
    CaseTable,
    MeasuredClaim,
    Registration,
    find_lessons,
    measure_claim,
    measure_family,
    register_lesson,
)
from tapebook.lessons.trials import Lesson, Trial, judge
from tapebook.llm import Asker


class Proposal(msgspec.Struct, frozen=True):
    """A condition and what is claimed of trades that meet it."""

    condition: Condition
    claim: Claim


class Proposals(msgspec.Struct, frozen=True):
    """What a reflector proposes, who it is, and what it cost.

    `dropped` counts what it said that is not in the grammar; `problem` says why it said nothing.
    """

    written_by: str
    claims: tuple[Proposal, ...] = ()
    dropped: int = 0
    usage: Usage | None = None
    problem: str | None = None


class Reflector(Protocol):
    """Anything that can propose what to look at."""

    def propose(self, agent: AgentProfile, table: CaseTable, *, standing: Sequence[Lesson]) -> Proposals:
        """Claims about closed trades, beside those that are searched anyway and those that stand."""
        ...


def _no_asker(_provider: str, _model: str) -> NoReturn:
    raise ConfigError("this reflector can only be made by a home, which knows its models")


class ReflectorTerms(msgspec.Struct, frozen=True):
    """What a reflector may need to be made: a provider's model, and what it may spend on one note."""

    model: str = ""
    max_usd_e6: int = 0
    asker: Callable[[str, str], Asker] = _no_asker


class ReflectionState(msgspec.Struct, frozen=True):
    """How many trades were closed since the last note, when that was (None: never), and when the first one closed."""

    closed_since_note: int
    last_note_at: int | None
    first_close_at: int | None


def should_run_reflection(state: ReflectionState, reflection: ReflectionSettings, *, as_of: int) -> bool:
    """Whether a note is due. A daily one needs a day with a closed trade to be over."""
    if reflection.cadence == "off" or not state.closed_since_note:
        return False
    if reflection.cadence == "per_n_trades":
        return state.closed_since_note >= reflection.every_n_trades
    # Without a note yet, the first closed trade begins the count of days.
    since = state.first_close_at if state.last_note_at is None else state.last_note_at
    return since is not None and as_of // DAY > since // DAY


# As many as fit the budget of lessons in the packet.
MOST_CHARS = 2_000
# Proposals that wait for later trades; each may be confirmed by luck, so they are few.
MOST_PROPOSED = 8


class LaterCases(msgspec.Struct, frozen=True):
    """Trades that ended after a sequence number, and those of them or before whose way after the exit became known."""

    after: int
    ended: tuple[TradeCase, ...]
    followed: tuple[TradeCase, ...] = ()


class Evidence(msgspec.Struct, frozen=True):
    """What a reflection rests on: the newest closed trades, oldest exit first, and what each lesson is judged on.

    `later` has one entry for each sequence number up to which a lesson was judged before; all reach to `seq`.
    """

    cases: tuple[TradeCase, ...]
    known: tuple[LessonChange, ...]
    later: tuple[LaterCases, ...]
    at: int
    seq: int


class Reflected(msgspec.Struct, frozen=True):
    """What came of a reflection: lessons that were judged, each before and after, new ones, and the note.

    `problem` says why the reflector proposed nothing; the rest holds all the same.
    """

    judged: tuple[tuple[Lesson, Lesson], ...]
    registered: tuple[Lesson, ...]
    text: str
    content_hash: str
    written_by: str
    dropped: int
    usage: Usage | None
    problem: str | None


def run_reflection(reflector: Reflector, agent: AgentProfile, evidence: Evidence) -> Reflected:
    """Judges the lessons that stand, registers new ones, and renders the note."""
    later = {each.after: each for each in evidence.later}
    before = [change.lesson for change in evidence.known if not change.lesson.trial.is_over]
    judged = [(lesson, _judged_lesson(lesson, later.get(lesson.trial.seq), evidence)) for lesson in before]
    standing = [after for _, after in judged if not after.trial.is_over]
    table = CaseTable(evidence.cases)
    # After the trials, so that a model is told what stands by now.
    proposals = reflector.propose(agent, table, standing=standing)
    new = _new_lessons(table, proposals, standing=standing, evidence=evidence)
    text = render_note(evidence.cases, [*standing, *new])
    return Reflected(
        judged=tuple(judged),
        registered=tuple(new),
        text=text,
        content_hash=hash_lessons_text(text),
        written_by=proposals.written_by,
        dropped=proposals.dropped,
        usage=proposals.usage,
        problem=proposals.problem,
    )


def _judged_lesson(lesson: Lesson, later: LaterCases | None, evidence: Evidence) -> Lesson:
    if later is None:
        return lesson
    cases = later.ended if lesson.hypothesis.claim.metric == "result" else later.followed
    return Lesson(lesson.hypothesis, judge(lesson.trial, lesson.hypothesis, cases, at=evidence.at, seq=evidence.seq))


def _new_lessons(
    table: CaseTable, proposals: Proposals, *, standing: Sequence[Lesson], evidence: Evidence
) -> list[Lesson]:
    """What the search carries, and what was proposed beside it, as far as there is room and it is new."""
    measured = [measure_claim(table, each.hypothesis.condition, each.hypothesis.claim) for each in standing]
    said = [each for each in measured if each is not None]
    taken = {each.hypothesis.lesson_id for each in standing} | _retired_lately(evidence)
    room = {slot: MOST_BULLETS - sum(each.hypothesis.slot == slot for each in standing) for slot in SLOTS}
    waiting = sum(not each.hypothesis.carried for each in standing)
    found = [(each, "statistics") for each in find_lessons(measure_family(table))]
    carried = {each.lesson_id for each, _ in found}
    # Last, so that what the search carries has the room first.
    found += [(each, proposals.written_by) for each in _measured_proposals(table, proposals.claims)]
    new: list[Lesson] = []
    for each, by in found:
        if each.lesson_id in taken or any(each.says_the_same(other) for other in said):
            continue
        is_carried = each.lesson_id in carried
        hypothesis = register_lesson(each, table, Registration(by, evidence.at, evidence.seq), carried=is_carried)
        if not room[hypothesis.slot] or (not is_carried and waiting >= MOST_PROPOSED):
            continue
        room[hypothesis.slot] -= 1
        waiting += not is_carried
        taken.add(each.lesson_id)
        said.append(each)
        new.append(Lesson(hypothesis, Trial(evidence.seq)))
    return new


def _retired_lately(evidence: Evidence) -> set[str]:
    """Lessons that were retired while trades were open or closing that the note still rests on."""
    # The trades that made it look true are no evidence against its retirement.
    oldest = min((case.exited_at for case in evidence.cases), default=0)
    retired = [change for change in evidence.known if change.lesson.trial.is_over]
    return {change.lesson.hypothesis.lesson_id for change in retired if change.happened_at > oldest}


def _measured_proposals(table: CaseTable, proposals: Iterable[Proposal]) -> list[MeasuredClaim]:
    """What was proposed, in numbers; what too few trades meet, or contradict, is left out."""
    canonical = [canonical_form(each.condition, each.claim) for each in proposals]
    measured = [measure_claim(table, condition, claim) for condition, claim in canonical]
    return [each for each in measured if each is not None and each.effect.value >= 1]


_ORDER = {"confirmed": 0, "registered": 1, "weakened": 2}


def render_note(cases: Sequence[TradeCase], lessons: Iterable[Lesson]) -> str:
    """The note about some trades and the lessons that are stated: those that hold first, cut to whole bullets."""
    stated = sorted(
        (each for each in lessons if each.is_stated),
        key=lambda each: (_ORDER[each.trial.status], each.hypothesis.seq, each.hypothesis.lesson_id),
    )
    slots = {slot: [each.bullet() for each in stated if each.hypothesis.slot == slot][:MOST_BULLETS] for slot in SLOTS}
    overall = mean_estimate([float(case.result_ppm) for case in cases])
    said = overall_text(overall.n, *map(round, (overall.value, overall.low, overall.high))) if overall.n > 1 else ""
    while len(text := note_text(slots, overall=said)) > MOST_CHARS:
        max(slots.values(), key=len).pop()
    return text
