"""Desks whose agents decide twice: the real decision, and one beside it that sees less and trades nothing."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tapebook.desk.demo import VirtualDesk
from tapebook.domain.agent import AgentProfile, ContextProfile
from tapebook.domain.units import MINUTE
from tapebook.home import make_home
from tapebook.tick.story import deploy_agent
from tests.replay import desk

_BARS = ContextProfile(bar_minutes=1, bar_count=60)
PLAIN = [
    AgentProfile("quick-2m", desk.SYMBOLS, engine="trend", cadence_ms=2 * MINUTE, context=_BARS),
    AgentProfile(
        "votes-10m",
        ("kPEPE",),
        engine="ensemble",
        members=("trend", "reversion", "breakout", "carry"),
        cadence_ms=10 * MINUTE,
        context=_BARS,
    ),
]
SHADOW = ContextProfile(bar_minutes=2, bar_count=40, memory=False)
SHADOWED = [msgspec.structs.replace(agent, shadow=SHADOW) for agent in PLAIN]


def play(home: Path, agents: Sequence[AgentProfile], *, until: int = desk.START + 90 * MINUTE) -> None:
    """Runs a desk of these agents up to a moment; a home that is there already goes on from where it came."""
    make_home(home)
    with desk.opened(home) as (rooms, clock):
        for profile in agents:
            rooms.book.save_agent(profile, at=clock.now())
        table = VirtualDesk(rooms, [deploy_agent(rooms.book, rooms.clock, profile.name) for profile in agents], clock)
        table.run_steps(desk.steps_after(rooms.tape.head()[1]), until=until, after_step=lambda: None)
