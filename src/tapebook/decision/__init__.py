"""Decisions: from a packet to actions that the guard has judged.

takes:  a packet, and the limits of the account
gives:  actions with verdicts; problems are values, not exceptions
never:  places orders, retrieves anything, changes a rule because a text says so
"""

from tapebook.decision.figures import unexplained
from tapebook.decision.guard import gate, judge
from tapebook.decision.limits import Limits, Move, move_of
from tapebook.decision.parse import Refusal, Reply, parse
from tapebook.decision.port import Answer, Engine, EngineTerms

__all__ = [
    "Answer",
    "Engine",
    "EngineTerms",
    "Limits",
    "Move",
    "Refusal",
    "Reply",
    "gate",
    "judge",
    "move_of",
    "parse",
    "unexplained",
]
