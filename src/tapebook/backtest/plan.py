"""The plan of a backtest: whose decisions, over which time, in which chunks, with what memory.

A plan has one id, a hash over everything that decides its outcome: the same plan again is the same backtest. What
counts besides the request is written in `identity`. Chunks are calendar quarters, months or ISO weeks in UTC, or the
whole range as one (`split_range`).
"""

from typing import Literal

import msgspec

from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import short_id
from tapebook.domain.order import FillRule
from tapebook.domain.units import DAY, iso_text
from tapebook.errors import BadInput
from tapebook.horizons.layers import PeriodKind, period_of

MemoryMode = str
"""`on`, `off`, `none`, `frozen`, or names of rooms: `domain.agent.MEMORY_MAY_BE`."""
ChunkKind = Literal["quarter", "month", "week", "none"]


class BacktestChunk(msgspec.Struct, frozen=True):
    """A piece of a backtest, half open: decisions are those whose slot lies in it."""

    name: str
    start: int
    end: int


class BacktestInputs(msgspec.Struct, frozen=True):
    """What a backtest is made of: the package's version, the rows, the code, and the model that is asked, if any."""

    version: str
    data_sha256: str
    code_sha256: str
    model: str = ""


class MemorySource(msgspec.Struct, frozen=True):
    """Where a memory begins: what a deployment, live or of a backtest, had learned up to a sequence number.

    `head` is the hash there, which covers all before it; `events` are those that are taken over.
    """

    name: str
    deployment: str
    learned_until: int
    seq: int
    head: str
    events: int


class KnownTexts(msgspec.Struct, frozen=True):
    """Documents and curated entries of the home that become known before the end of a backtest.

    `dated` of the versions of documents are known from the date they state, the others from when they were added.
    `sha256` is over all of them, each with its moment.
    """

    versions: int
    dated: int
    curated: int
    sha256: str


class TextWatermarks(msgspec.Struct, frozen=True):
    """How far a home was read for its texts: the streams of documents, of its owner and of the agent."""

    documents: int
    owner: int
    deployment: int


class BacktestPlan(msgspec.Struct, frozen=True):
    """Everything that decides how a backtest ends; `symbols` are those of the watchlist that have data.

    `tape_seq` is how far the tape reached when it was planned: what is imported later does not change it. It is no
    part of the id, which has the digest of the rows instead: an import of something else is no other backtest.

    Plans of the first build have no inputs; their orders filled at the close of a bar.
    """

    agent: AgentProfile
    agent_version: int
    symbols: tuple[str, ...]
    start: int
    end: int
    chunk_kind: ChunkKind
    chunks: tuple[BacktestChunk, ...]
    memory: MemoryMode
    freeze_at: int | None
    tape_seq: int
    settings_sha256: str
    notes: tuple[str, ...] = ()
    fill: FillRule = "bar_close"
    inputs: BacktestInputs | None = None
    stored_id: str = ""
    memory_from: MemorySource | None = None
    texts: KnownTexts | None = None
    texts_until: TextWatermarks | None = None

    @property
    def id(self) -> str:
        """The name of the backtest and of its folder: the one it was stored under, or will be."""
        if self.stored_id:
            return self.stored_id
        fields = msgspec.to_builtins(self)
        # The id cannot be part of what it is the hash of.
        del fields["stored_id"]
        # The digest of the texts stands for it: what the home got since, and is not seen, is no other backtest.
        del fields["texts_until"]
        for name in ("memory_from", "texts"):
            if fields[name] is None:
                del fields[name]
        if self.inputs is not None:
            # The digest of the rows stands for it: an import of another symbol is no other backtest.
            del fields["tape_seq"]
        else:
            # As the first build took it.
            del fields["inputs"], fields["agent"]["mode"]
            if self.fill == "bar_close":
                del fields["fill"]
        return short_id("bt", msgspec.json.encode(fields, order="sorted").decode())


_SHORTEST = {"quarter": 90 * DAY, "month": 28 * DAY, "week": 7 * DAY}
_SMALLER = {"quarter": "month, week or none", "month": "week or none", "week": "none"}


def split_range(kind: ChunkKind, start: int, end: int) -> tuple[BacktestChunk, ...]:
    """The chunks of a range, in order; the first and the last may be parts of their period."""
    if kind == "none":
        return (BacktestChunk("all", start, end),)
    if end - start < _SHORTEST[kind]:
        days = (end - start) / DAY
        raise BadInput(
            f"a {kind} is longer than the range from {iso_text(start)} to {iso_text(end)} ({days:.1f} days): "
            f"use `chunks=` {_SMALLER[kind]}, or a longer range"
        )
    return tuple(_calendar_chunks(kind, start, end))


def _calendar_chunks(kind: PeriodKind, start: int, end: int) -> list[BacktestChunk]:
    chunks, at = [], start
    while at < end:
        period = period_of(kind, at)
        chunks.append(BacktestChunk(period.key, at, min(period.end, end)))
        at = period.end
    return chunks
