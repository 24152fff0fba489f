"""What a backtest is asked to do: whose decisions, over which time, in which pieces, with what memory.

A plan has one id, taken over everything that decides its outcome; the same plan again is the same backtest. What that
is besides what was asked, `identity` says.
"""

from typing import Literal

import msgspec

from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import short_id
from tapebook.domain.order import FillRule

Memory = Literal["on", "off", "frozen"]
ChunkKind = Literal["quarter", "month", "week", "none"]


class Chunk(msgspec.Struct, frozen=True):
    """A piece of a backtest, half open: decisions are those whose slot lies in it."""

    name: str
    start: int
    end: int


class Inputs(msgspec.Struct, frozen=True):
    """What a backtest is made of: the package's version, the rows, the code, and the model that is asked, if any."""

    version: str
    data_sha256: str
    code_sha256: str
    model: str = ""


class Plan(msgspec.Struct, frozen=True):
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
    chunks: tuple[Chunk, ...]
    memory: Memory
    freeze_at: int | None
    tape_seq: int
    settings_sha256: str
    notes: tuple[str, ...] = ()
    fill: FillRule = "bar_close"
    inputs: Inputs | None = None
    stored_id: str = ""

    @property
    def id(self) -> str:
        """The name of the backtest and of its folder: the one it was stored under, or will be."""
        if self.stored_id:
            return self.stored_id
        said = msgspec.to_builtins(self)
        del said["stored_id"]
        if self.inputs is not None:
            del said["tape_seq"]
        else:
            # As the first build took it.
            del said["inputs"], said["agent"]["mode"]
            if self.fill == "bar_close":
                del said["fill"]
        return short_id("bt", msgspec.json.encode(said, order="sorted").decode())
