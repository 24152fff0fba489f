"""A range of time becomes chunks: calendar quarters, months or ISO weeks in UTC, or the whole as one."""

from tapebook.domain.instants import DAY, iso
from tapebook.errors import BadInput
from tapebook.horizons.period import Kind, period_of
from tapebook.lab.plan import Chunk, ChunkKind

_SHORTEST = {"quarter": 90 * DAY, "month": 28 * DAY, "week": 7 * DAY}
_SMALLER = {"quarter": "month, week or none", "month": "week or none", "week": "none"}


def split(kind: ChunkKind, start: int, end: int) -> tuple[Chunk, ...]:
    """The chunks of a range, in order; the first and the last may be parts of their period."""
    if kind == "none":
        return (Chunk("all", start, end),)
    if end - start < _SHORTEST[kind]:
        days = (end - start) / DAY
        raise BadInput(
            f"a {kind} is longer than the range from {iso(start)} to {iso(end)} ({days:.1f} days): "
            f"use --chunks {_SMALLER[kind]}, or a longer range"
        )
    return tuple(_calendar(kind, start, end))


def _calendar(kind: Kind, start: int, end: int) -> list[Chunk]:
    chunks, at = [], start
    while at < end:
        period = period_of(kind, at)
        chunks.append(Chunk(period.key, at, min(period.end, end)))
        at = period.end
    return chunks
