"""Search: what do my rules, notes and past runs say?

takes:  documents in versions, a question.
gives:  citations with line ranges, as of any commit.
never:  returns text without a place, lets one agent's documents reach another.
"""

from tapebook.domain.packet import Citation
from tapebook.search.index import GLOBAL_SCOPE, DocumentVersion, Index, IndexAnswer, IndexCounts, IndexReport

__all__ = ["GLOBAL_SCOPE", "Citation", "DocumentVersion", "Index", "IndexAnswer", "IndexCounts", "IndexReport"]
