"""The memory of a backtest: plans of before keep theirs, and what is learned depends on the rooms."""

import msgspec
import pytest

from tapebook.backtest.memory import is_learning, memory_mode, with_memory_mode
from tapebook.backtest.plan import BacktestPlan
from tapebook.domain.agent import ACCOUNT_ROOMS, MEMORY_ROOMS, AgentProfile, ContextProfile
from tests.backtest.bars import START

AGENT = AgentProfile("tester", ("BTC",))


def plan(memory: str, agent: AgentProfile, freeze_at: int | None = None) -> BacktestPlan:
    return BacktestPlan(agent, 1, ("BTC",), START, START + 10, "none", (), memory, freeze_at, 1, "")


def test_a_plan_stored_with_memory_off_keeps_its_meaning() -> None:
    """Its agent was shown nothing of its account either, and it learned nothing."""
    stored = msgspec.to_builtins(plan("off", AGENT))
    stored["agent"]["context"]["memory"] = False
    found = msgspec.convert(stored, BacktestPlan)
    assert found.agent.context.rooms == () and not is_learning(found, START)


@pytest.mark.parametrize(
    ("memory", "rooms", "learns", "reflects"),
    [
        ("on", MEMORY_ROOMS, True, True),
        ("off", ACCOUNT_ROOMS, False, False),
        ("none", (), False, False),
        ("none,trades", ("trades",), False, False),
        ("lessons", (*ACCOUNT_ROOMS, "lessons"), True, True),
        ("experience,documents", (*ACCOUNT_ROOMS, "experience", "documents"), True, False),
    ],
)
def test_what_a_memory_shows_and_learns(memory: str, rooms: tuple[str, ...], learns: bool, reflects: bool) -> None:
    agent = with_memory_mode(AGENT, memory)
    assert agent.context.rooms == rooms and memory_mode(memory) == memory
    assert is_learning(plan(memory, agent), START) is learns
    assert (agent.reflection.cadence != "off") is reflects


def test_on_and_frozen_leave_an_agent_the_rooms_of_its_own() -> None:
    own = msgspec.structs.replace(AGENT, context=ContextProfile(memory=("trades", "lessons")))
    assert with_memory_mode(own, "on").context == with_memory_mode(own, "frozen").context == own.context
    frozen = plan("frozen", own, freeze_at=START + 5)
    assert (is_learning(frozen, START + 4), is_learning(frozen, START + 5)) == (True, False)
