"""Replay: rebuilds the packet of a stored run from its watermarks and compares both hashes.

1. `replay_runs` reads the runs one by one.
2. `rebuild_packet` gathers what was known then and assembles it with the renderer of the run.
3. Hashes of inputs and text are compared; the first differing line is named if the archive still has the text.

A run whose renderer this tapebook does not have cannot be rendered again. Its inputs still can be read and compared,
and so can the text that was stored; the report says for which runs that is all.
"""

from collections.abc import Callable, Iterable
from itertools import zip_longest

import msgspec

from tapebook.archive import Archive
from tapebook.book.store import Book
from tapebook.context import PACKET_VERSIONS, assemble_packet
from tapebook.domain.agent import Deployment
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.errors import Damaged
from tapebook.tick.prepare import gather_situation
from tapebook.tick.story import shadow_profile
from tapebook.wiring import Rooms


class ReplayReport(msgspec.Struct, frozen=True):
    """How many packets were looked at, how many were equal, what differed where, and of which only inputs are equal."""

    checked: int
    equal: int
    different: list[str]
    inputs_equal: list[str] = []


def replay_runs(
    rooms: Rooms, run_ids: Iterable[str], *, progress: Callable[[int], None] = lambda done: None
) -> ReplayReport:
    """Replays runs one by one."""
    checked, different, inputs_equal = 0, list[str](), list[str]()
    for run_id in run_ids:
        run = rooms.book.run(run_id)
        checked += 1
        try:
            if run is None:
                different.append(f"{run_id}: the run is not in the book")
            elif run.packet_sha256 and run.renderer not in PACKET_VERSIONS:
                is_equal, result = _compare_inputs(rooms, run)
                (inputs_equal if is_equal else different).append(f"{run_id}: {result}")
            elif problem := _packet_difference(rooms, run):
                different.append(f"{run_id}: {problem}")
        except Damaged as error:
            # What it was made of is lost or altered; others may be made of something else.
            different.append(f"{run_id}: {error}")
        progress(checked)
    return ReplayReport(checked, checked - len(different) - len(inputs_equal), different, inputs_equal)


def deployment_of(book: Book, run: DecisionRun) -> Deployment:
    """The deployment of a run with the version of the agent that decided."""
    found = book.agent_record(run.agent, version=run.agent_version)
    if found is None:
        raise Damaged(f"run {run.run_id} names version {run.agent_version} of {run.agent}, which is not in the book")
    agent = shadow_profile(found[1]) if run.trigger == "shadow" else found[1]
    return Deployment(run.owner, run.deployment, agent, run.agent_version)


def rebuild_packet(rooms: Rooms, run: DecisionRun, *, renderer: int | None = None) -> Packet:
    """The packet of a run, made again from what was known then; what could not be read then is left out again."""
    renderer = run.renderer if renderer is None else renderer
    if renderer not in PACKET_VERSIONS:
        raise Damaged(f"rendered by version {renderer}, which this tapebook does not have: replay it with a newer one")
    situation = gather_situation(
        rooms,
        deployment_of(rooms.book, run),
        run.symbol,
        as_of=run.as_of,
        watermarks=run.watermarks,
        skip=run.degraded,
        version=PACKET_VERSIONS[renderer],
    )
    return assemble_packet(situation, rooms.memory.packets)


def _packet_difference(rooms: Rooms, run: DecisionRun) -> str | None:
    if not run.packet_sha256:
        # A slot that expired, or could not be opened: nobody was told anything.
        return None
    packet = rebuild_packet(rooms, run)
    if packet.inputs_sha256 != run.inputs_sha256:
        return f"inputs differ{_first_difference(rooms.archive, run, packet)}"
    if packet.sha256 != run.packet_sha256:
        return f"the text differs{_first_difference(rooms.archive, run, packet)}"
    return None


def _compare_inputs(rooms: Rooms, run: DecisionRun) -> tuple[bool, str]:
    """Whether the inputs of a run without its renderer are equal, as any renderer here reads them; and what to say."""
    stored = rooms.archive.get(run.packet_key) if run.packet_key else None
    if stored is not None and sha256_hex(stored) != run.packet_sha256:
        return False, "the packet in the archive is not the one that was sent"
    kept = "is not kept" if stored is None else "in the archive it is as it was sent"
    for renderer in sorted(PACKET_VERSIONS, key=lambda known: abs(known - run.renderer)):
        if rebuild_packet(rooms, run, renderer=renderer).inputs_sha256 == run.inputs_sha256:
            text = f"the text is by renderer {run.renderer}, which this tapebook does not have, and {kept}"
            return True, f"the inputs are equal, read as by renderer {renderer}; {text}"
    known = ", ".join(map(str, sorted(PACKET_VERSIONS)))
    gone = f"renderer {run.renderer}, which made the packet, is not here: replay it with the tapebook that made it"
    return False, f"the inputs are not those of renderers {known}; {gone}"


def _first_difference(archive: Archive, run: DecisionRun, packet: Packet) -> str:
    """The first differing line, when the archive still has the text that was sent."""
    try:
        stored = archive.get(run.packet_key) if run.packet_key else None
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
