"""The events of this room: a reflection ended, with a note or with the reason why there is none."""

import msgspec

from tapebook.domain.note import Note
from tapebook.log import Draft

NOTE_WRITTEN = "note.written"
NOTE_REFUSED = "note.refused"


class NoteWritten(msgspec.Struct, frozen=True):
    """A note passed its check and stands from now on; the one before it is superseded."""

    note: Note


class NoteRefused(msgspec.Struct, frozen=True):
    """A reflection that came to nothing, and why. The active note stays; the next trigger tries again."""

    note: Note
    problem: str


def written(note: Note) -> Draft:
    """The event of a new note."""
    return Draft.of(NOTE_WRITTEN, note.generated_at, NoteWritten(note))


def refused(note: Note, problem: str) -> Draft:
    """The event of a reflection without a note; what it cost is in the note, which has no text."""
    return Draft.of(NOTE_REFUSED, note.generated_at, NoteRefused(note, problem))
