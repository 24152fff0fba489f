"""Reflects by counting: what the numbers carry becomes a bullet with n and interval, and nothing else is said.

Needs no key, costs nothing, and gives the same note for the same trades on every machine.
"""

from collections.abc import Sequence

from tapebook.domain.agent import AgentProfile
from tapebook.domain.estimate import Estimate
from tapebook.domain.trade import ClosedTrade
from tapebook.lessons.facts import FEWEST, Capture, Facts, Group, facts_of
from tapebook.lessons.port import Reflected, Reflector, ReflectorTerms
from tapebook.lessons.slots import MOST_BULLETS, SLOTS, note_text


class StatisticsReflector:
    """Bullets from the table of facts."""

    def reflect(self, agent: AgentProfile, trades: Sequence[ClosedTrade], *, active: str | None) -> Reflected:
        """The note these trades carry; what an earlier note said counts only if the trades still do."""
        return Reflected(note_text(_bullets(facts_of(trades))), "statistics")


def _bullets(facts: Facts) -> dict[str, list[str]]:
    slots: dict[str, list[str]] = {slot: [] for slot in SLOTS}
    slots["Exit timing"] += _captured(facts.capture)
    for group in sorted(facts.groups, key=lambda each: (each.chance, each.slot, each.name)):
        if group.believed and len(slots[group.slot]) < MOST_BULLETS:
            slots[group.slot].append(_sentence(group))
    return slots


def _sentence(group: Group) -> str:
    verdict = "does better" if group.result_bps.value > group.rest_bps.value else "does worse"
    return (
        f"{group.name} {verdict}: {_bps(group.result_bps)}, "
        f"the rest {group.rest_bps.value:+.1f} bps (n={group.rest_bps.n})"
    )


def _bps(estimate: Estimate) -> str:
    return f"{estimate.value:+.1f} bps a trade (n={estimate.n}, 95% {estimate.low:+.1f} to {estimate.high:+.1f})"


def _captured(capture: Capture) -> list[str]:
    kept = capture.kept_by_winners
    if kept.n < FEWEST or kept.high >= 0.5:
        return []
    low, share, high = (f"{100 * value:.0f}" for value in (kept.low, kept.value, kept.high))
    return [f"winners kept {share}% of their best mark (n={kept.n}, 95% {low} to {high}): less than half"]


def create(terms: ReflectorTerms) -> Reflector:
    """The adapter's entry point."""
    return StatisticsReflector()
