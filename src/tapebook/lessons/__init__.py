"""Lessons: what weeks of closed trades say, in five slots, with numbers that can be checked.

takes:  closed trades, the active note, the avoid rules
gives:  one active note per deployment, or the reason why there is none
never:  overrides an avoid rule, invents a number, says something where nothing is there
"""

from tapebook.lessons.check import Rejected, checked
from tapebook.lessons.due import ReflectionState, should_run_reflection
from tapebook.lessons.hash import NO_LESSONS, hash_lessons_text
from tapebook.lessons.port import Reflected, Reflector, ReflectorTerms
from tapebook.lessons.run import run_reflection
from tapebook.lessons.slots import SLOTS, bullets, note_text, read_slots

__all__ = [
    "NO_LESSONS",
    "SLOTS",
    "Reflected",
    "ReflectionState",
    "Reflector",
    "ReflectorTerms",
    "Rejected",
    "bullets",
    "checked",
    "hash_lessons_text",
    "note_text",
    "read_slots",
    "run_reflection",
    "should_run_reflection",
]
