"""Lessons: conditions that trades were entered under, what is claimed of them, and whether later trades confirm it.

takes:  closed trades, the lessons there are, conditions that a reflector proposes
gives:  lessons with their evidence and state, and one active note per deployment, rendered from them
never:  states a number it did not compute or a sentence it did not render, or judges a lesson on the trades it is from
"""

from tapebook.lessons.hypotheses import SLOTS, case_of, is_rendered_bullet
from tapebook.lessons.notes import (
    NO_LESSONS,
    hash_lessons_text,
    note_bullets,
    note_text,
    read_slots,
    rendered_bullets,
    shared_bullets,
)
from tapebook.lessons.reflection import (
    Evidence,
    LaterCases,
    Proposals,
    Reflected,
    ReflectionState,
    Reflector,
    ReflectorTerms,
    run_reflection,
    should_run_reflection,
)
from tapebook.lessons.trials import Lesson

__all__ = [
    "NO_LESSONS",
    "SLOTS",
    "Evidence",
    "LaterCases",
    "Lesson",
    "Proposals",
    "Reflected",
    "ReflectionState",
    "Reflector",
    "ReflectorTerms",
    "case_of",
    "hash_lessons_text",
    "is_rendered_bullet",
    "note_bullets",
    "note_text",
    "read_slots",
    "rendered_bullets",
    "run_reflection",
    "shared_bullets",
    "should_run_reflection",
]
