"""The memory of a backtest: which of its rooms are on, and what was learned in each.

`--memory` names rooms (`memory_mode`). A plan has them in the profile of its agent (`with_memory_mode`), so that a
decision of a backtest reads them as a live one does.
"""

from msgspec.structs import replace

from tapebook.backtest.plan import BacktestPlan, MemoryMode
from tapebook.domain.agent import (
    LEARNED_ROOMS,
    MEMORY_MAY_BE,
    AgentProfile,
    ReflectionSettings,
    memory_setting_text,
    parse_memory,
)
from tapebook.errors import BadInput

FROZEN: MemoryMode = "frozen"


def memory_mode(written: str) -> MemoryMode:
    """A mode as plans have it, however it was written; BadInput names the rooms there are."""
    if written.strip().lower() == FROZEN:
        return FROZEN
    try:
        return memory_setting_text(parse_memory(written))
    except ValueError as error:
        raise BadInput(f"there is no memory {written!r}: it may be frozen, {MEMORY_MAY_BE}") from error


def with_memory_mode(agent: AgentProfile, memory: MemoryMode) -> AgentProfile:
    """The agent of a backtest with a memory; `on` and `frozen` leave it the rooms of its own profile."""
    mode, own = memory_mode(memory), replace(agent, enabled=True, shadow=None)
    if mode in ("on", FROZEN):
        return own
    own = replace(own, context=replace(own.context, memory=parse_memory(mode)))
    # Whoever is told no lessons needs none written.
    return own if "lessons" in own.context.rooms else replace(own, reflection=ReflectionSettings(cadence="off"))


def is_learning(plan: BacktestPlan, at: int) -> bool:
    """Whether the memory of a plan takes in what happens at a moment."""
    if plan.freeze_at is not None:
        return at < plan.freeze_at
    return plan.memory == "on" or any(room in LEARNED_ROOMS for room in plan.agent.context.rooms)
