"""Decisions: from a packet to actions that the guard has judged.

takes:  a packet, and the limits of the account
gives:  actions with verdicts; problems are values, not exceptions
never:  places orders, retrieves anything, changes a rule because a text says so
"""

from tapebook.decision.guard import (
    Limits,
    Move,
    gate_order,
    judge_actions,
    move_of_order,
    unexplained_numbers,
)
from tapebook.decision.port import Engine, EngineAnswer, EngineTerms, default_members, make_engine, reads_facts_alone
from tapebook.decision.reply import Reply, ReplyRefusal, parse_reply

__all__ = [
    "Engine",
    "EngineAnswer",
    "EngineTerms",
    "Limits",
    "Move",
    "Reply",
    "ReplyRefusal",
    "default_members",
    "gate_order",
    "judge_actions",
    "make_engine",
    "move_of_order",
    "parse_reply",
    "reads_facts_alone",
    "unexplained_numbers",
]
