"""Runs that never got a packet: a slot whose time was over, or one that could not be opened. Recorded, not dropped."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from tapebook.book.events import RunDecided, draft
from tapebook.domain.instants import iso
from tapebook.domain.run import DecisionRun
from tapebook.loop.gather import watermarks_now
from tapebook.loop.slot import Slot
from tapebook.wiring import Rooms

_MOST_ERROR = 500


def abandon(rooms: Rooms, slots: Sequence[Slot], *, status: Literal["expired", "failed"], error: str) -> None:
    """Records decisions of one deployment that will not be made, and why; nothing to record writes nothing.

    After a long absence not every slot that passed has a run of its own: the one before them says how many did.
    """
    if not slots:
        return
    deployment, now = slots[0].deployment, rooms.clock.now()
    known = watermarks_now(rooms, deployment)
    skipped = _skipped(rooms, slots) if status == "expired" else {}
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
            error=f"{error}{skipped.get(slot.run_id(), '')}"[:_MOST_ERROR],
        )
        for slot in slots
    ]
    rooms.book.append(deployment.id, [draft(now, RunDecided(run)) for run in runs], expected_seq=known.book)


def _skipped(rooms: Rooms, slots: Sequence[Slot]) -> dict[str, str]:
    """What is said of slots, by their run, after which others of the pair passed that are not listed one by one."""
    told: dict[str, str] = {}
    by_pair: dict[tuple[str, str], list[Slot]] = {}
    for slot in slots:
        by_pair.setdefault((slot.symbol, slot.branch), []).append(slot)
    for pair in by_pair.values():
        ordered = sorted(pair, key=lambda slot: slot.scheduled_for)
        for slot, following in pairwise(ordered):
            step = slot.deployment.agent.cadence_ms
            between = range(slot.scheduled_for + step, following.scheduled_for, step)
            ends = [msgspec.structs.replace(slot, scheduled_for=at) for at in (*between[:1], *between[-1:])]
            # Slots that were decided in their time lie between two late ones as well.
            if between and not any(rooms.book.has_run(each.run_id()) for each in ends):
                told[slot.run_id()] = f"; the next {len(between):,} slots passed as well, until {iso(between[-1])}"
    return told
