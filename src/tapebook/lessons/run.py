"""One reflection: the reflector proposes, the check decides. Nothing is written here; the caller keeps the note."""

from collections.abc import Sequence

import msgspec

from tapebook.domain.agent import AgentProfile
from tapebook.domain.run import Usage
from tapebook.domain.trade import ClosedTrade
from tapebook.lessons.check import Rejected, checked
from tapebook.lessons.hash import hash_lessons_text
from tapebook.lessons.port import Reflector


class Lesson(msgspec.Struct, frozen=True):
    """A note that passed: its text, its hash, what it rests on, and what it cost."""

    text: str
    content_hash: str
    window_start: int
    window_end: int
    trades_considered: int
    written_by: str
    usage: Usage | None


def run_reflection(
    reflector: Reflector, agent: AgentProfile, trades: Sequence[ClosedTrade], *, active: str | None
) -> Lesson | Rejected:
    """The next note, or why the active one stays."""
    if not trades:
        return Rejected("there are no closed trades to learn from")
    reflected = reflector.reflect(agent, trades, active=active)
    if reflected.problem is not None:
        return Rejected(reflected.problem, reflected.usage)
    text = checked(reflected.text, avoid=agent.avoid, trades=trades, active=active)
    if isinstance(text, Rejected):
        return Rejected(text.why, reflected.usage)
    return Lesson(
        text=text,
        content_hash=hash_lessons_text(text),
        window_start=min(trade.state.entry_tick_at for trade in trades),
        window_end=max(trade.exit_tick_at for trade in trades),
        trades_considered=len(trades),
        written_by=reflected.written_by,
        usage=reflected.usage,
    )
