"""Reflects by counting: what the numbers carry becomes a bullet with n and interval, and nothing else is said.

Needs no key, costs nothing, and gives the same note for the same trades on every machine.
"""

from collections.abc import Sequence

from tapebook.domain.agent import AgentProfile
from tapebook.domain.estimate import Estimate
from tapebook.domain.position import ClosedTrade
from tapebook.lessons.facts import FEWEST_TRADES, ProfitCapture, TradeFacts, TradeGroup, facts_of
from tapebook.lessons.notes import MOST_BULLETS, SLOTS, note_text
from tapebook.lessons.reflection import Reflector, ReflectorNote, ReflectorTerms


class StatisticsReflector:
    """Bullets from the table of facts."""

    def reflect(self, agent: AgentProfile, trades: Sequence[ClosedTrade], *, active: str | None) -> ReflectorNote:
        """The note these trades carry; what an earlier note said counts only if the trades still do."""
        return ReflectorNote(note_text(_bullets(facts_of(trades))), "statistics")


def _bullets(facts: TradeFacts) -> dict[str, list[str]]:
    slots: dict[str, list[str]] = {slot: [] for slot in SLOTS}
    slots["Exit timing"] += _capture_bullets(facts.capture)
    for group in sorted(facts.groups, key=lambda each: (each.chance, each.slot, each.name)):
        if group.believed and len(slots[group.slot]) < MOST_BULLETS:
            slots[group.slot].append(_sentence(group))
    return slots


def _sentence(group: TradeGroup) -> str:
    verdict = "does better" if group.result_bps.value > group.rest_bps.value else "does worse"
    return (
        f"{group.name} {verdict}: {_bps_with_interval(group.result_bps)}, "
        f"the rest {group.rest_bps.value:+.1f} bps (n={group.rest_bps.n})"
    )


def _bps_with_interval(estimate: Estimate) -> str:
    return f"{estimate.value:+.1f} bps a trade (n={estimate.n}, 95% {estimate.low:+.1f} to {estimate.high:+.1f})"


def _capture_bullets(capture: ProfitCapture) -> list[str]:
    kept = capture.kept_by_winners
    # Said only when even the upper bound is below half: otherwise it is no pattern.
    if kept.n < FEWEST_TRADES or kept.high >= 0.5:
        return []
    low, share, high = (f"{100 * value:.0f}" for value in (kept.low, kept.value, kept.high))
    return [f"winners kept {share}% of their best mark (n={kept.n}, 95% {low} to {high}): less than half"]


def create(terms: ReflectorTerms) -> Reflector:
    """The adapter's entry point."""
    return StatisticsReflector()
