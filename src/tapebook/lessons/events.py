"""The events of this room: how a reflection ended, and what an owner promoted.

A promotion is an event of the owner's stream. The same event in a deployment's stream says that it was told: a
decision reads its own stream alone, so it needs no second watermark.
"""

import msgspec

from tapebook.domain.note import Note, SkillNote
from tapebook.log import Draft

NOTE_WRITTEN = "note.written"
NOTE_REFUSED = "note.refused"
NOTE_PROMOTED = "note.promoted"


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


class NotePromoted(msgspec.Struct, frozen=True):
    """A note holds for a skill from now on, instead of the one before it; without a text, none does."""

    note: SkillNote


def promoted(note: SkillNote) -> Draft:
    """The event of a promotion, or of its end."""
    return Draft.of(NOTE_PROMOTED, note.happened_at, NotePromoted(note))
