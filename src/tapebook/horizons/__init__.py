"""Horizons: what the day, the week, the month, the quarter, the year and all time look like.

takes:  closed trades by the day they ended; what people and ticks write
gives:  seven layers of keys and values as of any moment, whose sums agree to the last unit
never:  sums one layer into the next, or lets what was written by hand into a sum of trades
"""

from tapebook.horizons.aggregate import Aggregate, fold, merged
from tapebook.horizons.aggregator import ContextAggregator
from tapebook.horizons.almanac import Almanac
from tapebook.horizons.connection import Connection, Live, init_db
from tapebook.horizons.contexts import ContextStore
from tapebook.horizons.layers import ContextLayer
from tapebook.horizons.leaf import Exit, exit_of, leaf_of
from tapebook.horizons.period import Period, parse_period, period_of
from tapebook.horizons.plan import roll_up
from tapebook.horizons.rollup import Days, News, catch_up, expire
from tapebook.horizons.rows import layer_rows
from tapebook.horizons.store import Found, Horizons
from tapebook.horizons.values import Terms

__all__ = [
    "Aggregate",
    "Almanac",
    "Connection",
    "ContextAggregator",
    "ContextLayer",
    "ContextStore",
    "Days",
    "Exit",
    "Found",
    "Horizons",
    "Live",
    "News",
    "Period",
    "Terms",
    "catch_up",
    "exit_of",
    "expire",
    "fold",
    "init_db",
    "layer_rows",
    "leaf_of",
    "merged",
    "parse_period",
    "period_of",
    "roll_up",
]
