"""Experience: have I been here before, and whom should I trust?

takes:  closed trades with the runs that entered them, and what those runs saw
gives:  weights of providers, records with n and interval, similar situations with their outcomes
never:  counts anything that is not in the log, or uses a trade before it ended
"""

from tapebook.experience.learning import seen
from tapebook.experience.outcomes import Outcome, outcome_of
from tapebook.experience.rows import Question
from tapebook.experience.sights import HALF_HOUR, Reading, Shapes, Sight, reading_of, shape_of, sight_at, sight_of
from tapebook.experience.store import Experience

__all__ = [
    "HALF_HOUR",
    "Experience",
    "Outcome",
    "Question",
    "Reading",
    "Shapes",
    "Sight",
    "outcome_of",
    "reading_of",
    "seen",
    "shape_of",
    "sight_at",
    "sight_of",
]
