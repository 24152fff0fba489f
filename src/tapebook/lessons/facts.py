"""What closed trades say in numbers: every grouping a slot asks about, each against the rest, with its evidence.

1. each slot splits the trades in its own way (`_splits`): by hour, size, symbol, holding time, regime;
2. every group with enough trades is compared with the rest by Welch's test on the net result in basis points;
3. of all these comparisons, those are believed that keep the share of lucky ones at `FALSE_SHARE`.

The same table feeds the deterministic reflector, the model's prompt, and the check of the model's numbers.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import median
from typing import NamedTuple

import msgspec

from tapebook.domain.estimate import Estimate, benjamini_hochberg, mean_estimate, rate_estimate, welch_p_value
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.position import ClosedTrade

# Of the patterns that a note may state, one in twenty is expected to be luck.
FALSE_SHARE = 0.05
# Welch's test says hardly anything about groups that are smaller.
FEWEST_TRADES = 8
# Six blocks a day: hour by hour, most groups would stay below `FEWEST_TRADES`.
_BLOCK_HOURS = 4

GroupKey = Callable[[ClosedTrade], str]


class TradeGroup(msgspec.Struct, frozen=True):
    """Trades of one kind beside the rest: net results in basis points of what was put in, and wins."""

    slot: str
    name: str
    result_bps: Estimate
    rest_bps: Estimate
    wins: Estimate
    net_usd: float
    chance: float
    believed: bool


class ProfitCapture(msgspec.Struct, frozen=True):
    """Of the best mark a winner saw, the share it kept; and how far losers had been in the money, in basis points."""

    kept_by_winners: Estimate
    best_of_losers_bps: Estimate


class TradeFacts(msgspec.Struct, frozen=True):
    """The facts of a set of closed trades: all of them, the groups, and what winners kept."""

    all_bps: Estimate
    wins: Estimate
    groups: tuple[TradeGroup, ...]
    capture: ProfitCapture


def facts_of(trades: Sequence[ClosedTrade]) -> TradeFacts:
    """The table of a set of closed trades."""
    return _cached_facts(tuple(trades))


# Whoever writes a note and whoever checks it ask about the same trades.
@lru_cache(maxsize=8)
def _cached_facts(trades: tuple[ClosedTrade, ...]) -> TradeFacts:
    outcomes = [_Outcome(result_bps(trade), trade.state.net_usd_e6) for trade in trades]
    found = [group for slot, key in _splits(trades) for group in _groups(slot, [*map(key, trades)], outcomes)]
    believed = benjamini_hochberg([group.chance for group in found], false_share=FALSE_SHARE)
    groups = [msgspec.structs.replace(group, believed=yes) for group, yes in zip(found, believed, strict=True)]
    return TradeFacts(mean_estimate([each.bps for each in outcomes]), _wins(outcomes), tuple(groups), _capture(trades))


def result_bps(trade: ClosedTrade) -> float:
    """The net result in basis points of the notional at entry."""
    entered = trade.state.entry_notional_usd_e6
    return 10_000 * trade.state.net_usd_e6 / entered if entered else 0.0


def _splits(trades: Sequence[ClosedTrade]) -> list[tuple[str, GroupKey]]:
    size = median(trade.state.entry_notional_usd_e6 for trade in trades) if trades else 0
    held = median(trade.holding_ms for trade in trades) if trades else 0
    usd, minutes = math.floor(size / 1e6), math.floor(held / MINUTE)
    return [
        ("Entry timing", _entry_block),
        ("Sizing", lambda each: f"size {'above' if each.state.entry_notional_usd_e6 > size else 'up to'} ${usd}"),
        ("Sizing", lambda each: f"leverage {each.state.entry_leverage or 1}"),
        ("Symbol selection", lambda each: each.state.symbol),
        ("Symbol selection", lambda each: f"{each.state.symbol} {each.state.side}"),
        ("Exit timing", lambda each: f"held {'over' if each.holding_ms > held else 'up to'} {minutes} minutes"),
        ("Regime fit", lambda each: each.state.entry_regime_tag or "unknown"),
        ("Regime fit", lambda each: f"{each.state.side} in {each.state.entry_regime_tag or 'unknown'}"),
    ]


def _entry_block(trade: ClosedTrade) -> str:
    hour = trade.state.entry_tick_at // HOUR % 24
    first = hour - hour % _BLOCK_HOURS
    return f"entries {first:02d}-{first + _BLOCK_HOURS:02d} UTC"


class _Outcome(NamedTuple):
    bps: float
    net_usd_e6: int


def _groups(slot: str, keys: Sequence[str], outcomes: Sequence[_Outcome]) -> list[TradeGroup]:
    """Every group that is large enough, with a rest that is; `keys` names the group of each outcome."""
    counts = sorted(Counter(keys).items())
    large = [name for name, count in counts if FEWEST_TRADES <= count <= len(outcomes) - FEWEST_TRADES]
    pairs = list(zip(keys, outcomes, strict=True))
    return [
        _group(slot, name, [each for key, each in pairs if key == name], [each for key, each in pairs if key != name])
        for name in large
    ]


def _group(slot: str, name: str, ours: Sequence[_Outcome], rest: Sequence[_Outcome]) -> TradeGroup:
    own, theirs = [each.bps for each in ours], [each.bps for each in rest]
    net = sum(each.net_usd_e6 for each in ours) / 1e6
    return TradeGroup(
        slot,
        name,
        mean_estimate(own),
        mean_estimate(theirs),
        _wins(ours),
        net,
        welch_p_value(own, theirs),
        believed=False,
    )


def _wins(outcomes: Sequence[_Outcome]) -> Estimate:
    return rate_estimate(sum(each.net_usd_e6 > 0 for each in outcomes), len(outcomes))


def _capture(trades: Sequence[ClosedTrade]) -> ProfitCapture:
    winners = [trade.state for trade in trades if trade.state.net_usd_e6 > 0 and trade.state.mfe_usd_e6 > 0]
    losers = [trade.state for trade in trades if trade.state.net_usd_e6 <= 0 and trade.state.entry_notional_usd_e6]
    # Of winners only: a loser kept nothing, and its share would be below zero.
    kept = [state.net_usd_e6 / state.mfe_usd_e6 for state in winners]
    best = [10_000 * state.mfe_usd_e6 / state.entry_notional_usd_e6 for state in losers]
    return ProfitCapture(mean_estimate(kept), mean_estimate(best))
