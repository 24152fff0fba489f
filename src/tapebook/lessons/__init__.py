"""Lessons: what weeks of closed trades say, in five slots, with numbers that can be checked.

takes:  closed trades, the active note, the avoid rules
gives:  one active note per deployment, or the reason why there is none
never:  overrides an avoid rule, invents a number, says something where nothing is there
"""

from tapebook.lessons.notes import NO_LESSONS, SLOTS, hash_lessons_text, note_bullets, note_text, read_slots
from tapebook.lessons.reflection import (
    ReflectionState,
    Reflector,
    ReflectorNote,
    ReflectorTerms,
    RejectedNote,
    check_note,
    run_reflection,
    should_run_reflection,
)

__all__ = [
    "NO_LESSONS",
    "SLOTS",
    "ReflectionState",
    "Reflector",
    "ReflectorNote",
    "ReflectorTerms",
    "RejectedNote",
    "check_note",
    "hash_lessons_text",
    "note_bullets",
    "note_text",
    "read_slots",
    "run_reflection",
    "should_run_reflection",
]
