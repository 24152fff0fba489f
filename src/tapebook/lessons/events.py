"""The events of this room: a note was written, or a reflection came to nothing."""

import msgspec

from tapebook.domain.note import Note
from tapebook.domain.run import Usage
from tapebook.log import Draft

NOTE_WRITTEN = "note.written"
NOTE_REFUSED = "note.refused"


class NoteWritten(msgspec.Struct, frozen=True):
    """A note passed its check and stands from now on; the one before it is superseded."""

    note: Note


class NoteRefused(msgspec.Struct, frozen=True):
    """A reflection that came to nothing: why, and what it cost. The active note stays."""

    why: str
    closed_count: int
    usage: Usage | None = None


def written(note: Note) -> Draft:
    """The event of a new note."""
    return Draft.of(NOTE_WRITTEN, note.generated_at, NoteWritten(note))


def refused(body: NoteRefused, *, at: int) -> Draft:
    """The event of a reflection without a note."""
    return Draft.of(NOTE_REFUSED, at, body)
