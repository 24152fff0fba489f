"""Recall: what do my rules, notes and past runs say?

takes:  documents in versions, a question
gives:  citations with line ranges, as of any commit
never:  returns text without a place, lets one agent's documents reach another
"""

from tapebook.domain.citation import Citation
from tapebook.recall.port import Answer, Index, IndexCounts, IndexReport
from tapebook.recall.version import GLOBAL, Version

__all__ = ["GLOBAL", "Answer", "Citation", "Index", "IndexCounts", "IndexReport", "Version"]
