"""Two decisions side by side: any two runs, or every shadow decision with the real one of its tick."""

import difflib
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from tapebook import views
from tapebook.domain.instants import iso
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action, DecisionRun
from tapebook.lab.explain import packet_text, rebuilt
from tapebook.wiring import Rooms


class Pair(msgspec.Struct, frozen=True):
    """One tick decided twice. `sections` are those that differ; None when a packet could not be made again."""

    symbol: str
    as_of: str
    main_run: str
    shadow_run: str
    main: str
    shadow: str
    differs: bool
    main_tokens: int
    shadow_tokens: int
    sections: list[str] | None


class ShadowReport(msgspec.Struct, frozen=True):
    """What another context profile would have changed; every count stands beside how many pairs it is of.

    `unpaired` are shadow decisions whose real one is not there; they are in no other figure.
    """

    agent: str
    pairs: int
    differing: int
    unpaired: int
    table: list[dict[str, Any]]
    main_tokens: int
    shadow_tokens: int
    shadow_cost_usd: float
    ticks: list[Pair]

    @property
    def saved_tokens(self) -> int:
        """How many tokens the shadow's packets took less, in sum; negative when they took more."""
        return self.main_tokens - self.shadow_tokens


def compare_shadow(
    rooms: Rooms, agent: str, deployment: str, *, most: int, progress: Callable[[int], None]
) -> ShadowReport:
    """The newest pairs of a deployment, newest first."""
    ticks, costs, unpaired = [], 0, 0
    for shadow_id, main_id in rooms.book.shadow_pairs(deployment, most=most):
        shadow, main = rooms.book.run(shadow_id), rooms.book.run(main_id) if main_id else None
        if shadow is None or main is None:
            unpaired += 1
            continue
        ticks.append(_pair(rooms, main, shadow))
        costs += shadow.usage.cost_usd_e6 if shadow.usage else 0
        progress(len(ticks))
    counts = Counter((pair.main, pair.shadow) for pair in ticks)
    return ShadowReport(
        agent=agent,
        pairs=len(ticks),
        differing=sum(pair.differs for pair in ticks),
        unpaired=unpaired,
        table=[{"main": main, "shadow": shadow, "pairs": n} for (main, shadow), n in sorted(counts.items())],
        main_tokens=sum(pair.main_tokens for pair in ticks),
        shadow_tokens=sum(pair.shadow_tokens for pair in ticks),
        shadow_cost_usd=costs / 1e6,
        ticks=ticks,
    )


def compare_runs(rooms: Rooms, first: DecisionRun, second: DecisionRun) -> views.View:
    """Both decisions, and their packets line by line; `diff` is null where a text is not kept any more."""
    before, after = (packet_text(rooms, run, rebuilt(rooms, run)) for run in (first, second))
    diff = None
    if before is not None and after is not None:
        names = first.run_id, second.run_id
        diff = list(difflib.unified_diff(before.split("\n"), after.split("\n"), *names, lineterm="", n=1))
    return {"first": views.run_view(first), "second": views.run_view(second), "diff": diff}


def word(run: DecisionRun) -> str:
    """A decision in a word or two: `open long`, `hold`, several joined with +; `failed` when there is none."""
    if not run.actions:
        return "failed" if run.error else "nothing"
    return " + ".join(f"{action.action} {action.side}" if action.side else action.action for action in run.actions)


def _pair(rooms: Rooms, main: DecisionRun, shadow: DecisionRun) -> Pair:
    return Pair(
        symbol=main.symbol,
        as_of=iso(main.as_of),
        main_run=main.run_id,
        shadow_run=shadow.run_id,
        main=word(main),
        shadow=word(shadow),
        differs=[_order(action) for action in main.actions] != [_order(action) for action in shadow.actions],
        main_tokens=main.tokens,
        shadow_tokens=shadow.tokens,
        sections=_differing(rebuilt(rooms, main), rebuilt(rooms, shadow)),
    )


def _order(action: Action) -> tuple[Any, ...]:
    """What an action would do; how sure it is and why is not part of it."""
    asks = (action.notional_usd_e6, action.leverage, action.order_type, action.limit_price_e8)
    return (action.action, action.symbol, action.side, *(asks if action.action in ("open", "adjust") else ()))


def _differing(main: Packet | None, shadow: Packet | None) -> list[str] | None:
    if main is None or shadow is None:
        return None
    before = {section.name: section for section in main.sections}
    after = {section.name: section for section in shadow.sections}
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]
