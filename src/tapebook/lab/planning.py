"""From a wish to a plan: checks that the tape can carry a backtest, and pins all that decides its outcome.

1. the range is the one given, or all that the tape has of the agent's symbols;
2. symbols without a bar in it are left out, with a note; none left is an error, and so is a hole in the bars;
3. a memory that is off is a profile without memory; one that is frozen learns until a moment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tapebook.config import Config
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.canonical import canonical, sha256_hex
from tapebook.domain.instants import HOUR, SECOND, iso, parse_instant
from tapebook.domain.market import FundingRate
from tapebook.domain.note import Reflection
from tapebook.errors import BadInput
from tapebook.lab.chunks import split
from tapebook.lab.coverage import Coverage, coverage
from tapebook.lab.plan import Chunk, ChunkKind, Memory, Plan
from tapebook.tape.importer import span_text
from tapebook.tape.store import Tape, View
from tapebook.wiring import Rooms

_MOMENTS = ("start", "end", "freeze_at")


class Wish(msgspec.Struct, frozen=True):
    """What somebody asks for; without a range it is all there is."""

    start: int | None = None
    end: int | None = None
    chunks: ChunkKind = "quarter"
    memory: Memory = "on"
    freeze_at: int | None = None
    gaps: bool = False


def plan_for(rooms: Rooms, deployment: Deployment, wish: Mapping[str, Any]) -> Plan:
    """The plan of an agent for a wish given by name; its moments may be text."""
    said = {key: value for key, value in wish.items() if key in _MOMENTS and isinstance(value, str)}
    asked = Wish(**(dict(wish) | {key: parse_instant(value) for key, value in said.items()}))
    return make_plan(rooms.tape, rooms.config, deployment.agent, version=deployment.version, wish=asked)


def make_plan(tape: Tape, config: Config, agent: AgentProfile, *, version: int, wish: Wish) -> Plan:
    """The plan of a wish; BadInput, in one line, when the tape cannot carry it."""
    _check_wish(wish)
    found = [each for symbol in agent.watchlist if (each := coverage(tape, symbol, start=wish.start, end=wish.end))]
    if not found:
        raise BadInput(_nothing(tape, agent, wish))
    start, end = _range(found, agent, wish)
    chunks = split(wish.chunks, start, end)
    _check_bars(found, agent, wish)
    symbols = tuple(each.symbol for each in found)
    return Plan(
        agent=_remembering(agent, wish.memory),
        agent_version=version,
        symbols=symbols,
        start=start,
        end=end,
        chunk_kind=wish.chunks,
        chunks=chunks,
        memory=wish.memory,
        freeze_at=_freeze_at(wish, chunks),
        tape_seq=tape.head()[0],
        settings_sha256=_settings_hash(config),
        notes=tuple(_notes(tape, agent, found, wish=wish, end=end)),
    )


def _settings_hash(config: Config) -> str:
    settings = [repr(config.paper), config.engine.default, repr(config.desk.bar_wait_seconds)]
    return sha256_hex(canonical(settings))


def _check_wish(wish: Wish) -> None:
    if wish.start is not None and wish.end is not None and wish.end <= wish.start:
        raise BadInput(
            f"the range ends at {iso(wish.end)}, before it begins at {iso(wish.start)}: swap --from and --to"
        )
    if wish.freeze_at is not None and wish.memory != "frozen":
        raise BadInput("--freeze-at says when a memory stops learning: use it with --memory frozen")


def _nothing(tape: Tape, agent: AgentProfile, wish: Wish) -> str:
    watched = ", ".join(agent.watchlist)
    spans = [each for symbol in agent.watchlist if (each := coverage(tape, symbol))]
    there = "; ".join(f"{each.symbol} from {iso(each.first)} to {iso(each.last)}" for each in spans)
    if not spans:
        return f"the tape has no bars of {watched}: bring some with `tapebook import candles`, or run `tapebook ingest`"
    given = " ".join(
        [f"from {iso(wish.start)}" if wish.start is not None else "", f"to {iso(wish.end)}" if wish.end else ""]
    )
    return f"the tape has no bars of {watched} {given.strip()}; it has {there}: choose a range within"


def _range(found: Sequence[Coverage], agent: AgentProfile, wish: Wish) -> tuple[int, int]:
    """Whole slots of the agent's cadence, from the first bar that has ended to the end of the last."""
    cadence = agent.cadence_ms
    first = max(min(each.first_end for each in found), wish.start or 0)
    last = min(max(each.last for each in found), wish.end if wish.end is not None else 2**62)
    start, end = -(-first // cadence) * cadence, last // cadence * cadence
    if wish.start is not None and first - wish.start <= max(each.granularity_sec for each in found) * SECOND:
        # The range somebody named begins where they said, even though its first bar ends a little later.
        start = -(-wish.start // cadence) * cadence
    if wish.start is None:
        start = -(-min(each.first for each in found) // cadence) * cadence
    if end <= start:
        raise BadInput(f"there is no decision between {iso(first)} and {iso(last)}: the range is shorter than a slot")
    return start, end


def _check_bars(found: Sequence[Coverage], agent: AgentProfile, wish: Wish) -> None:
    bar_ms = agent.context.bar_minutes * 60 * SECOND
    for each in found:
        if each.granularity_sec * SECOND > bar_ms:
            raise BadInput(
                f"{agent.name} looks at bars of {agent.context.bar_minutes} minutes, but the tape has {each.symbol} "
                f"only every {span_text(each.granularity_sec * SECOND)}: choose a longer horizon or import smaller bars"
            )
        if each.holes and not wish.gaps:
            since, until = each.holes[0]
            raise BadInput(
                f"{each.symbol} has no bars from {iso(since)} to {iso(until)} (gaps in all: {len(each.holes)}): "
                "import them, choose another range, or add --gaps to sit them out"
            )


def _remembering(agent: AgentProfile, memory: Memory) -> AgentProfile:
    if memory != "off":
        return msgspec.structs.replace(agent, enabled=True, shadow=None)
    forgets = msgspec.structs.replace(agent.context, memory=False)
    return msgspec.structs.replace(
        agent, context=forgets, reflection=Reflection(cadence="off"), enabled=True, shadow=None
    )


def _freeze_at(wish: Wish, chunks: Sequence[Chunk]) -> int | None:
    """When learning stops; by default at the end of the first chunk, so that there is something to read."""
    if wish.memory != "frozen":
        return None
    return wish.freeze_at if wish.freeze_at is not None else chunks[0].end


def _notes(tape: Tape, agent: AgentProfile, found: Sequence[Coverage], *, wish: Wish, end: int) -> list[str]:
    """What a reader of the result must know."""
    has = {each.symbol for each in found}
    left_out = [symbol for symbol in agent.watchlist if symbol not in has]
    notes = [f"{', '.join(left_out)}: no bars in the range, left out"] if left_out else []
    unfunded = [each.symbol for each in found if not _has_funding(tape, each, end=end)]
    if unfunded:
        notes.append(f"{', '.join(unfunded)}: no funding in the tape, so none was paid or received")
    holes = sum(len(each.holes) for each in found)
    if holes:
        notes.append(f"gaps in the bars: {holes}; no decision trades on data that old")
    slow = [each.symbol for each in found if each.granularity_sec * SECOND > agent.cadence_ms]
    if slow:
        notes.append(f"{', '.join(slow)}: bars are longer than a slot; between their ends prices can be too old")
    if agent.manual:
        notes.append("the manual is today's, not that of the time")
    notes.append("leverage tables are of March 2026: assumed for earlier times")
    return notes


def _has_funding(tape: Tape, each: Coverage, *, end: int) -> bool:
    newest = tape.newest(FundingRate, each.symbol, view=View(end + HOUR))
    return newest is not None and newest.bucket_ts >= each.first
