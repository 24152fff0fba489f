"""Notes: their text form and hash, the events that write them, and the tables they are read from.

A note has five slots, each with at most four bullets, or the line that nothing is clear yet. Its hash joins it to
the trades made under it. A promotion is an event of the owner's stream; the same event in a deployment's stream says
that the deployment was shown it: a decision reads its own stream alone, so it needs no second watermark.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import Note, SkillNote, StoredNote
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.run import Usage
from tapebook.log import Draft, Event, Projection, ReadCache, Write


def hash_lessons_text(text: str) -> str:
    """Sixteen hex digits of the text with every run of white space as one space."""
    # So two writers of the same words agree, however they break lines.
    return sha256_hex(" ".join(text.split()).encode())[:16]


NO_LESSONS = hash_lessons_text("")
"""The hash of decisions without lessons, so that they can be compared with those that had some."""


SLOTS = ("Entry timing", "Sizing", "Symbol selection", "Exit timing", "Regime fit")
EMPTY_SLOT = "(no clear pattern yet)"
# Five slots of four bullets fit the 500 tokens that lessons have in the system message.
MOST_BULLETS = 4

Slots = Mapping[str, Sequence[str]]


def note_text(slots: Slots) -> str:
    """A note as text, with all slots."""
    # An empty slot is written too, so that it is seen to be empty.
    parts = []
    for slot in SLOTS:
        lines = [f"- {bullet}" for bullet in slots.get(slot, ())] or [EMPTY_SLOT]
        parts.append("\n".join([f"### {slot}", *lines]))
    return "\n\n".join(parts)


def read_slots(text: str) -> dict[str, tuple[str, ...]] | str:
    """The bullets of each slot; or, as a text, why this is not a note."""
    found: dict[str, list[str]] = {}
    slot = ""
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("#"):
            slot = line.lstrip("# ").strip()
            if slot not in SLOTS or slot in found:
                return f"{slot[:40]!r} is not a slot, or stands twice"
            found[slot] = []
        elif line.startswith("- ") and slot:
            found[slot].append(line[2:].strip())
        elif line and line != EMPTY_SLOT:
            # Free text would be a way to bring instructions into the system message.
            return f"{line[:60]!r} is neither a heading nor a bullet"
    missing = [name for name in SLOTS if name not in found]
    if missing:
        return f"the slot {missing[0]!r} is missing"
    crowded = [name for name in SLOTS if len(found[name]) > MOST_BULLETS]
    return f"more than {MOST_BULLETS} bullets in {crowded[0]!r}" if crowded else {k: tuple(v) for k, v in found.items()}


@lru_cache(maxsize=1_024)
def note_bullets(text: str) -> tuple[str, ...]:
    """The bullets of a note that was checked, each with its slot in front."""
    # Cached, since a note is read by many ticks.
    slots = read_slots(text)
    if isinstance(slots, str):
        return ()
    return tuple(f"{slot}: {bullet}" for slot in SLOTS for bullet in slots[slot])


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


def draft_note_written(note: Note) -> Draft:
    """The event of a new note."""
    return Draft.from_body(NOTE_WRITTEN, note.generated_at, NoteWritten(note))


def draft_note_refused(note: Note, problem: str) -> Draft:
    """The event of a reflection without a note; what it cost is in the note, which has no text."""
    return Draft.from_body(NOTE_REFUSED, note.generated_at, NoteRefused(note, problem))


class NotePromoted(msgspec.Struct, frozen=True):
    """A note holds for a skill from now on, instead of the one before it; without a text, none does."""

    note: SkillNote


def draft_note_promoted(note: SkillNote) -> Draft:
    """The event of a promotion, or of its end."""
    return Draft.from_body(NOTE_PROMOTED, note.happened_at, NotePromoted(note))


_PROJECTION_QUERIES = Queries.load("tapebook.lessons", "projections.sql")
# A note that asked no model.
_NO_USAGE = Usage("", 0, 0, 0, 0)


def _note_written(event: Event) -> list[Write]:
    note = msgspec.json.decode(event.body, type=NoteWritten).note
    return [
        Write(_PROJECTION_QUERIES.supersede, event.columns()),
        Write(_PROJECTION_QUERIES.note, _note_columns(event, note, "active", "")),
    ]


def _note_refused(event: Event) -> list[Write]:
    body = msgspec.json.decode(event.body, type=NoteRefused)
    return [Write(_PROJECTION_QUERIES.note, _note_columns(event, body.note, "refused", body.problem))]


def _note_promoted(event: Event) -> list[Write]:
    note = msgspec.json.decode(event.body, type=NotePromoted).note
    return [Write(_PROJECTION_QUERIES.skill, msgspec.structs.asdict(note) | event.columns())]


def _note_columns(event: Event, note: Note, status: str, problem: str) -> dict[str, Any]:
    used = msgspec.structs.asdict(note.usage or _NO_USAGE)
    return msgspec.structs.asdict(note) | used | event.columns() | {"status": status, "problem": problem}


PROJECTION = Projection(
    tables=("reflection_notes", "skill_notes"),
    projectors={NOTE_WRITTEN: _note_written, NOTE_REFUSED: _note_refused, NOTE_PROMOTED: _note_promoted},
)


MIGRATIONS = "tapebook.lessons"
_QUERIES = Queries.load("tapebook.lessons")


class Notes:
    """The notes of one owner."""

    def __init__(self, db: Database, *, owner: str, answers: ReadCache | None = None) -> None:
        self._db = db
        self._owner = owner
        kept = (answers or ReadCache()).cached_read
        self.active_note = kept(self._read_active_note, owner=owner)
        self.notes_for_packet = kept(self._read_notes_for_packet, owner=owner)
        self.last_reflection = kept(self._read_last_reflection, owner=owner)
        self.skill_notes = kept(self._read_skill_notes, owner=owner)

    def reflections(self, deployment: str, *, most: int) -> list[StoredNote]:
        """A deployment's reflections, newest first."""
        rows = self._db.all(_QUERIES.notes, owner=self._owner, deployment=deployment, most=most)
        return [StoredNote(row[0], _note_from_row(row), row[15], row[16]) for row in rows]

    def _read_active_note(self, deployment: str, *, seq: int) -> Note | None:
        """The note that stood as of a sequence number."""
        row = self._db.one(_QUERIES.active, owner=self._owner, deployment=deployment, seq=seq)
        return None if row is None else _note_from_row(row)

    def _read_notes_for_packet(self, deployment: str, *, seq: int) -> tuple[Note | None, tuple[SkillNote, ...]]:
        """The note that stood and what a deployment was told of skills: every decision asks for both at once."""
        return self.active_note(deployment, seq=seq), tuple(self.skill_notes(deployment, seq=seq))

    def _read_last_reflection(self, deployment: str, *, seq: int) -> tuple[int, int] | None:
        """Where and when the newest reflection was, whatever came of it."""
        row = self._db.one(_QUERIES.last_try, owner=self._owner, deployment=deployment, seq=seq)
        return None if row is None else (row[0], row[1])

    def _read_skill_notes(self, deployment: str, *, seq: int) -> list[SkillNote]:
        """What a deployment was told of each skill; of an empty name, what the owner promoted. Some have no text."""
        rows = self._db.all(_QUERIES.skills, owner=self._owner, deployment=deployment, seq=seq)
        return [SkillNote(*row) for row in rows]


def _note_from_row(row: Row) -> Note:
    # A note without a model has no attempts.
    fields: Row = (*row[1:11], Usage(row[10], *row[11:15]) if row[14] else None)
    return Note(*fields)
