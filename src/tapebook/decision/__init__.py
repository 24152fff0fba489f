"""Decisions: from a packet to actions that the guard has judged.

takes:  a packet, and the limits of the account
gives:  actions with verdicts; problems are values, not exceptions
never:  places orders, retrieves anything, changes a rule because a text says so
"""

from tapebook.decision.guard import Limits, judge, too_old
from tapebook.decision.parse import Refusal, Reply, parse
from tapebook.decision.port import Engine

__all__ = ["Engine", "Limits", "Refusal", "Reply", "judge", "parse", "too_old"]
