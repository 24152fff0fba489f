"""Runs that never got a packet: a slot whose time was over, or one that could not be opened. Recorded, not dropped."""

from collections.abc import Sequence
from typing import Literal

from tapebook.book.events import RunDecided, draft
from tapebook.domain.run import DecisionRun
from tapebook.loop.gather import watermarks_now
from tapebook.loop.slot import Slot
from tapebook.wiring import Rooms

_MOST_ERROR = 500


def abandon(rooms: Rooms, slots: Sequence[Slot], *, status: Literal["expired", "failed"], error: str) -> None:
    """Records decisions of one deployment that will not be made, and why; nothing to record writes nothing."""
    if not slots:
        return
    deployment, now = slots[0].deployment, rooms.clock.now()
    known = watermarks_now(rooms, deployment)
    runs = [
        DecisionRun(
            run_id=slot.run_id(),
            owner=deployment.owner,
            deployment=deployment.id,
            agent=deployment.agent.name,
            agent_version=deployment.version,
            symbol=slot.symbol,
            scheduled_for=slot.scheduled_for,
            trigger=slot.trigger,
            branch=slot.branch,
            as_of=now,
            watermarks=known,
            renderer=0,
            inputs_sha256="",
            packet_sha256="",
            tokens=0,
            engine=deployment.agent.engine or rooms.config.engine.default,
            packet_key=None,
            reply_key=None,
            status=status,
            actions=(),
            verdicts=(),
            error=error[:_MOST_ERROR],
        )
        for slot in slots
    ]
    rooms.book.append(deployment.id, [draft(now, RunDecided(run)) for run in runs], expected_seq=known.book)
