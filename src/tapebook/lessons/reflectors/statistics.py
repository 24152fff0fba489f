"""Reflects by counting: the search of the grammar is all there is, and nothing is proposed beside it.

Needs no key, costs nothing, and gives the same note for the same trades on every machine.
"""

from collections.abc import Sequence

from tapebook.domain.agent import AgentProfile
from tapebook.lessons.reflection import Proposals, Reflector, ReflectorTerms
from tapebook.lessons.search import CaseTable
from tapebook.lessons.trials import Lesson


class StatisticsReflector:
    """The search alone."""

    def propose(self, agent: AgentProfile, table: CaseTable, *, standing: Sequence[Lesson]) -> Proposals:
        """Nothing beside what is searched anyway."""
        return Proposals("statistics")


def create(terms: ReflectorTerms) -> Reflector:
    """The adapter's entry point."""
    return StatisticsReflector()
