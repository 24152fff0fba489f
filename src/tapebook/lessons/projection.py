"""The table of notes: what each event of this room writes."""

import msgspec

from tapebook.db import Queries
from tapebook.domain.run import Usage
from tapebook.lessons.events import NOTE_WRITTEN, NoteWritten
from tapebook.log import Event, Projection, Write

_QUERIES = Queries.load("tapebook.lessons", "projections.sql")
# A note that asked no model.
_NO_USAGE = Usage("", 0, 0, 0, 0)


def _note_written(event: Event) -> list[Write]:
    note = msgspec.json.decode(event.body, type=NoteWritten).note
    where = {"owner": event.stream.owner, "deployment": event.stream.deployment, "seq": event.seq}
    row = msgspec.structs.asdict(note) | msgspec.structs.asdict(note.usage or _NO_USAGE) | where
    return [Write(_QUERIES.supersede, where | {"agent": note.agent}), Write(_QUERIES.note, row)]


PROJECTION = Projection(tables=("reflection_notes",), projectors={NOTE_WRITTEN: _note_written})
