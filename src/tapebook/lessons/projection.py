"""The tables of notes: what each event of this room writes."""

from typing import Any

import msgspec

from tapebook.db import Queries
from tapebook.domain.note import Note
from tapebook.domain.run import Usage
from tapebook.lessons.events import (
    NOTE_PROMOTED,
    NOTE_REFUSED,
    NOTE_WRITTEN,
    NotePromoted,
    NoteRefused,
    NoteWritten,
)
from tapebook.log import Event, Projection, Write

_QUERIES = Queries.load("tapebook.lessons", "projections.sql")
# A note that asked no model.
_NO_USAGE = Usage("", 0, 0, 0, 0)


def _note_written(event: Event) -> list[Write]:
    note = msgspec.json.decode(event.body, type=NoteWritten).note
    return [Write(_QUERIES.supersede, _place(event)), Write(_QUERIES.note, _row(event, note, "active", ""))]


def _note_refused(event: Event) -> list[Write]:
    body = msgspec.json.decode(event.body, type=NoteRefused)
    return [Write(_QUERIES.note, _row(event, body.note, "refused", body.problem))]


def _note_promoted(event: Event) -> list[Write]:
    note = msgspec.json.decode(event.body, type=NotePromoted).note
    return [Write(_QUERIES.skill, msgspec.structs.asdict(note) | _place(event))]


def _place(event: Event) -> dict[str, Any]:
    return {"owner": event.stream.owner, "deployment": event.stream.deployment, "seq": event.seq}


def _row(event: Event, note: Note, status: str, problem: str) -> dict[str, Any]:
    used = msgspec.structs.asdict(note.usage or _NO_USAGE)
    return msgspec.structs.asdict(note) | used | _place(event) | {"status": status, "problem": problem}


PROJECTION = Projection(
    tables=("reflection_notes", "skill_notes"),
    projectors={NOTE_WRITTEN: _note_written, NOTE_REFUSED: _note_refused, NOTE_PROMOTED: _note_promoted},
)
