"""What a backtest is asked to do: whose decisions, over which time, in which pieces, with what memory.

A plan has one id, taken over everything that decides its outcome; the same plan again is the same backtest.
"""

from typing import Literal

import msgspec

from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import short_id

Memory = Literal["on", "off", "frozen"]
ChunkKind = Literal["quarter", "month", "week", "none"]


class Chunk(msgspec.Struct, frozen=True):
    """A piece of a backtest, half open: decisions are those whose slot lies in it."""

    name: str
    start: int
    end: int


class Plan(msgspec.Struct, frozen=True):
    """Everything that decides how a backtest ends; `symbols` are those of the watchlist that have data.

    `tape_seq` is how far the tape reached when it was planned: what is imported later does not change it.
    """

    agent: AgentProfile
    agent_version: int
    symbols: tuple[str, ...]
    start: int
    end: int
    chunk_kind: ChunkKind
    chunks: tuple[Chunk, ...]
    memory: Memory
    freeze_at: int | None
    tape_seq: int
    settings_sha256: str
    notes: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The name of the backtest and of its folder."""
        return short_id("bt", msgspec.json.encode(self, order="sorted").decode())
