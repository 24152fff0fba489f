"""Experience: have I been here before, and whom should I trust?

takes:  closed trades with the runs that entered them, and what those runs saw
gives:  weights of providers, records with n and interval, similar situations with their outcomes
never:  counts anything that is not in the log, or uses a trade before it ended
"""

from tapebook.experience.events import draft_moment_seen, draft_situation_seen
from tapebook.experience.features import (
    HALF_HOUR,
    BarFeatures,
    FeatureVector,
    MarketFeatures,
    SeenMoment,
    feature_vector_of,
    features_of_bars,
    market_features,
    market_features_at,
)
from tapebook.experience.records import Outcome, outcome_of
from tapebook.experience.rows import ExperienceQuery, PacketExperience
from tapebook.experience.store import Experience

__all__ = [
    "HALF_HOUR",
    "BarFeatures",
    "Experience",
    "ExperienceQuery",
    "FeatureVector",
    "MarketFeatures",
    "Outcome",
    "PacketExperience",
    "SeenMoment",
    "draft_moment_seen",
    "draft_situation_seen",
    "feature_vector_of",
    "features_of_bars",
    "market_features",
    "market_features_at",
    "outcome_of",
]
