"""Targets of an ensemble: what its members want together, and when the way there is worth its costs.

A target is a position in ten-thousandths of a notional, from -10,000 (all short) over 0 (flat) to 10,000 (all long);
None is no voice. Two standing members have targets too: `cash` wants nothing, and `equal` wants what the majority
does (`majority_target_e4`). `weighted_target_e4` is linear in the targets, so that what is known of the gains of
weighted experts holds for the position that is traded.

`position_after_e4` trades towards a target. A large difference is traded at once. A small one is worth its costs only
when not trading has cost as much as trading the whole notional would: whoever rents for as long as renting was
cheaper, and buys then, pays at most twice what somebody pays who knew the future (ski rental, Karlin et al. 1988).
After a trade the position is the target, so trades never move more than the target did, and what is missed between
two trades is at most those costs and the move of one slot. By measure (`make bench ARGS=learning-worlds`) this band
makes a quarter of the trades of one that asks for the costs of the step alone, and earns more.
"""

from collections.abc import Iterable, Mapping

import msgspec

FULL_E4 = 10_000
CASH, EQUAL = "cash", "equal"
STANDING_MEMBERS = (CASH, EQUAL)
BAND_E4 = 3_500
"""From about a third of the notional on a difference is traded at once."""


class LearnedTrust(msgspec.Struct, frozen=True):
    """What an ensemble is told of its members: weights in ten-thousandths, and what not holding their target cost.

    Without weights the majority decides. `believed_e4` is the hit rate to believe for each tenth of confidence, where
    entries are sized by it.
    """

    weights: dict[str, int] = {}
    missed_e9: int = 0
    believed_e4: tuple[int, ...] = ()


NO_TRUST = LearnedTrust()


def majority_target_e4(targets: Iterable[int | None]) -> int:
    """What most voices want: a side with more than half of them, or with half when nobody is against it; else nothing.

    Its size is the mean of those for it.
    """
    voices = longs = shorts = long_sum = short_sum = 0
    for target in targets:
        if target is None:
            continue
        voices += 1
        if target > 0:
            longs, long_sum = longs + 1, long_sum + target
        elif target:
            shorts, short_sum = shorts + 1, short_sum + target
    winners, others, wanted = (longs, shorts, long_sum) if longs >= shorts else (shorts, longs, short_sum)
    if not winners or 2 * winners < voices or (2 * winners == voices and others):
        return 0
    return round(wanted / winners)


def weighted_target_e4(targets: Mapping[str, int | None], weights: Mapping[str, int], majority_e4: int) -> int:
    """The mean of all targets by weight: members, `equal` and `cash`; without weights it is the majority's."""
    total = sum(weights.values())
    if not total:
        return majority_e4
    wanted = weights.get(EQUAL, 0) * majority_e4
    for name, target in targets.items():
        if target:
            wanted += weights.get(name, 0) * target
    return round(wanted / total)


def position_after_e4(target_e4: int, held_e4: int, *, missed_e9: int, cost_ppm: int) -> int:
    """The position to hold from now on: the target, or what is held as long as the difference is not worth its costs.

    `missed_e9` is what not holding the target has cost since the last trade, in billionths of the notional.
    """
    away = abs(target_e4 - held_e4)
    if away >= BAND_E4 or (away and missed_e9 > 0 and missed_e9 >= cost_ppm * 1_000):
        return target_e4
    return held_e4
