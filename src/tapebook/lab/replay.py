"""Rebuilds the packet of a stored run from its watermarks and compares both hashes."""

from collections.abc import Callable, Iterable
from itertools import zip_longest

import msgspec

from tapebook.context import VERSIONS, assemble
from tapebook.domain.agent import Deployment
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.errors import Damaged
from tapebook.loop.gather import gather
from tapebook.loop.shadow import shadowed
from tapebook.wiring import Rooms


class ReplayReport(msgspec.Struct, frozen=True):
    """How many packets were rebuilt, how many were equal, and what differed where."""

    checked: int
    equal: int
    different: list[str]


def replay(
    rooms: Rooms, run_ids: Iterable[str], *, progress: Callable[[int], None] = lambda done: None
) -> ReplayReport:
    """Replays runs one by one."""
    checked, different = 0, []
    for run_id in run_ids:
        run = rooms.book.run(run_id)
        try:
            problem = "the run is not in the book" if run is None else _difference(rooms, run)
        except Damaged as error:
            # What it was made of is lost or altered; others may be made of something else.
            problem = str(error)
        checked += 1
        if problem:
            different.append(f"{run_id}: {problem}")
        progress(checked)
    return ReplayReport(checked, checked - len(different), different)


def rebuild(rooms: Rooms, run: DecisionRun) -> Packet:
    """The packet of a run, made again from what was known then; what could not be read then is left out again."""
    found = rooms.book.agent(run.agent, version=run.agent_version)
    if found is None:
        raise Damaged(f"run {run.run_id} names version {run.agent_version} of {run.agent}, which is not in the book")
    agent = shadowed(found[1]) if run.trigger == "shadow" else found[1]
    deployment = Deployment(run.owner, run.deployment, agent, run.agent_version)
    situation = gather(
        rooms,
        deployment,
        run.symbol,
        as_of=run.as_of,
        watermarks=run.watermarks,
        skip=run.degraded,
        renderer=run.renderer,
    )
    return assemble(situation)


def _difference(rooms: Rooms, run: DecisionRun) -> str | None:
    if not run.packet_sha256:
        # A slot that expired, or could not be opened: nobody was told anything.
        return None
    if run.renderer not in VERSIONS:
        return f"rendered by version {run.renderer}, which is not here: replay it with the tapebook that made it"
    packet = rebuild(rooms, run)
    if packet.inputs_sha256 != run.inputs_sha256:
        return f"inputs differ{_where(rooms, run, packet)}"
    if packet.sha256 != run.packet_sha256:
        return f"the text differs{_where(rooms, run, packet)}"
    return None


def _where(rooms: Rooms, run: DecisionRun, packet: Packet) -> str:
    """The first differing line, when the archive still has the text that was sent."""
    try:
        stored = rooms.archive.get(run.packet_key) if run.packet_key else None
    except Damaged as error:
        return f"; {error}"
    if stored is None:
        return ""
    lines = stored.decode().split("\n"), f"{packet.system}\n\n{packet.text}".split("\n")
    heading = ""
    for number, (then, again) in enumerate(zip_longest(*lines, fillvalue=""), start=1):
        heading = then if then.startswith("## ") else heading
        if then != again:
            return f": line {number} of the packet, {heading or 'system'}: {then!r} is now {again!r}"
    return ": in no line of its text"
