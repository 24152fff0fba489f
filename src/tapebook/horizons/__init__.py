"""Horizons: what the day, the week, the month, the quarter, the year and all time look like.

takes:  closed trades by the day they ended; the prices of days; what people and ticks write
gives:  seven layers of keys and values as of any moment, whose sums agree to the last unit
never:  sums one layer into the next, or lets what was written by hand into a sum of trades
"""

from tapebook.horizons.aggregate import Aggregate, TradeExit, exit_of, fold_spans, fold_two_spans, leaf_of
from tapebook.horizons.contexts import ContextAggregator, ContextStore, LayerConnection, LiveLayer, init_db
from tapebook.horizons.layers import ContextLayer, Period, parse_period, period_of
from tapebook.horizons.rollup import (
    ChangedDay,
    LeafSource,
    catch_up,
    expire_layers,
    plan_rollup,
    roll_up_finished_days,
)
from tapebook.horizons.rows import HeldNow, layer_rows
from tapebook.horizons.store import Horizons, LayerCache, LayerValue
from tapebook.horizons.values import RollupTerms

__all__ = [
    "Aggregate",
    "ChangedDay",
    "ContextAggregator",
    "ContextLayer",
    "ContextStore",
    "HeldNow",
    "Horizons",
    "LayerCache",
    "LayerConnection",
    "LayerValue",
    "LeafSource",
    "LiveLayer",
    "Period",
    "RollupTerms",
    "TradeExit",
    "catch_up",
    "exit_of",
    "expire_layers",
    "fold_spans",
    "fold_two_spans",
    "init_db",
    "layer_rows",
    "leaf_of",
    "parse_period",
    "period_of",
    "plan_rollup",
    "roll_up_finished_days",
]
