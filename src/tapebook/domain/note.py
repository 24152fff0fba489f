"""Notes an agent's trades have earned, and how often it stops to write one."""

from typing import Literal, get_args

import msgspec

from tapebook.domain.run import Usage

Cadence = Literal["off", "per_n_trades", "daily"]
CADENCES: tuple[Cadence, ...] = get_args(Cadence)


class Reflection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to reflect and who writes; `off`, after so many closed trades, or once a UTC day."""

    cadence: Cadence = "per_n_trades"
    every_n_trades: int = 10
    reflector: str = "statistics"


class Note(msgspec.Struct, frozen=True):
    """A note that passed its check: the lessons of a deployment from `generated_at` until a newer one stands."""

    note_id: str
    agent: str
    agent_version: int
    generated_at: int
    window_start: int
    window_end: int
    trades_considered: int
    lessons_text: str
    content_hash: str
    written_by: str
    usage: Usage | None = None


class Kept(msgspec.Struct, frozen=True):
    """A reflection in its place: the note, whether it is active, superseded or refused, and why it was refused."""

    seq: int
    note: Note
    status: Literal["active", "superseded", "refused"]
    problem: str


class SkillNote(msgspec.Struct, frozen=True):
    """A note that an owner promoted: whoever has the skill is told it. Without a text, it was taken back.

    `source` is the deployment it comes from, `agent` that deployment's agent.
    """

    skill: str
    note_id: str
    source: str
    agent: str
    happened_at: int
    lessons_text: str
    content_hash: str
