"""Notes and lessons: the text form and hash of a note, the events that write both, and the tables they are read from.

A note says what holds for all trades, and has five slots, each with at most four bullets, or the line that nothing is
clear yet. Its hash joins it to the trades made under it. A promotion is an event of the owner's stream; the same event
in a deployment's stream says that the deployment was shown it: a decision reads its own stream alone, so it needs no
second watermark.

A lesson has one row for each event that registered, judged, confirmed, weakened or retired it, with all that is known
of it by then; what the market did after an exit is a row of its own, written once it is known.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import Note, SkillNote, StoredNote
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.run import Usage
from tapebook.lessons.hypotheses import OVERALL, SLOTS, is_rendered_bullet
from tapebook.lessons.trials import Lesson
from tapebook.log import Draft, Event, Projection, ReadCache, Write


def hash_lessons_text(text: str) -> str:
    """Sixteen hex digits of the text with every run of white space as one space."""
    # So two writers of the same words agree, however they break lines.
    return sha256_hex(" ".join(text.split()).encode())[:16]


NO_LESSONS = hash_lessons_text("")
"""The hash of decisions without lessons, so that they can be compared with those that had some."""


EMPTY_SLOT = "(no clear pattern yet)"
# Five slots of four bullets fit the 500 tokens that lessons have in the system message.
MOST_BULLETS = 4

Slots = Mapping[str, Sequence[str]]


def note_text(slots: Slots, *, overall: str = "") -> str:
    """A note as text: what holds for all trades, if that is known, and all slots."""
    # An empty slot is written too, so that it is seen to be empty.
    parts = [f"### {OVERALL}\n- {overall}"] if overall else []
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
            if slot not in (OVERALL, *SLOTS) or slot in found:
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
    return tuple(f"{slot}: {bullet}" for slot in (OVERALL, *SLOTS) for bullet in slots.get(slot, ()))


@lru_cache(maxsize=1_024)
def rendered_bullets(text: str) -> tuple[str, ...]:
    """The bullets of a note that were rendered from lessons, each with its slot in front; any other text has none."""
    return tuple(filter(is_rendered_bullet, note_bullets(text)))


def shared_bullets(text: str) -> tuple[str, ...]:
    """Those of the rendered bullets that others may be told: not what holds for all trades of one agent."""
    return tuple(bullet for bullet in rendered_bullets(text) if not bullet.startswith(f"{OVERALL}: "))


NOTE_WRITTEN = "note.written"
NOTE_REFUSED = "note.refused"
NOTE_PROMOTED = "note.promoted"

RESTATED_BY = "trials"
"""Who wrote a note when the reflector failed and later trades changed what there is to say."""


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


LESSON_KINDS = {
    "registered": "lesson.registered",
    "judged": "lesson.judged",
    "confirmed": "lesson.confirmed",
    "weakened": "lesson.weakened",
    "retired": "lesson.retired",
}
"""The kind of event for each change of a lesson; `judged` is more trades without a change."""

EXITS_FOLLOWED = "exits.followed"


class LessonChanged(msgspec.Struct, frozen=True):
    """A lesson with all that is known of it after a change."""

    lesson: Lesson


class FollowedExit(msgspec.Struct, frozen=True):
    """How far the market went on in favour of a position after it was left; None where no price was known."""

    trade_id: str
    after_1h_ppm: int | None
    after_4h_ppm: int | None


class ExitsFollowed(msgspec.Struct, frozen=True):
    """What the market did after some exits, each once."""

    exits: tuple[FollowedExit, ...]


class LessonChange(msgspec.Struct, frozen=True):
    """A row of a lesson's history: what happened to it when, and all that was known of it then."""

    seq: int
    change: str
    happened_at: int
    lesson: Lesson


def draft_lesson_change(lesson: Lesson, before: Lesson | None, *, at: int) -> Draft:
    """The event of a new lesson, or of one that was judged on more trades."""
    status = lesson.trial.status
    if before is None:
        return Draft.from_body(LESSON_KINDS["registered"], at, LessonChanged(lesson))
    change = "judged" if status in (before.trial.status, "registered") else status
    return Draft.from_body(LESSON_KINDS[change], at, LessonChanged(lesson))


def draft_exits_followed(exits: tuple[FollowedExit, ...], *, at: int) -> Draft:
    """The event of exits after which the market was followed."""
    return Draft.from_body(EXITS_FOLLOWED, at, ExitsFollowed(exits))


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


def _lesson_changed(event: Event) -> list[Write]:
    lesson = msgspec.json.decode(event.body, type=LessonChanged).lesson
    # The lesson as it was written: a field that lessons get later must not change the row of an old one.
    written = bytes(msgspec.json.decode(event.body, type=dict[str, msgspec.Raw])["lesson"]).decode()
    row = {
        "lesson_id": lesson.hypothesis.lesson_id,
        "change_kind": event.kind.partition(".")[2],
        "status": lesson.trial.status,
        "happened_at": event.happened_at,
        "lesson_json": written,
    }
    return [Write(_PROJECTION_QUERIES.lesson, event.columns() | row)]


def _exits_followed(event: Event) -> list[Write]:
    body = msgspec.json.decode(event.body, type=ExitsFollowed)
    return [Write(_PROJECTION_QUERIES.exit, event.columns() | msgspec.structs.asdict(each)) for each in body.exits]


PROJECTION = Projection(
    tables=("reflection_notes", "skill_notes", "lessons", "lesson_exits"),
    projectors={
        NOTE_WRITTEN: _note_written,
        NOTE_REFUSED: _note_refused,
        NOTE_PROMOTED: _note_promoted,
        **dict.fromkeys(LESSON_KINDS.values(), _lesson_changed),
        EXITS_FOLLOWED: _exits_followed,
    },
)


MIGRATIONS = "tapebook.lessons"
# Beyond any sequence number, and an integer that both databases take.
NO_END = 2**62
_QUERIES = Queries.load("tapebook.lessons")


class Notes:
    """The notes and lessons of one owner."""

    def __init__(self, db: Database, *, owner: str, answers: ReadCache | None = None) -> None:
        self._db = db
        self._owner = owner
        kept = (answers or ReadCache()).cached_read
        self.active_note = kept(self._read_active_note, owner=owner)
        self.notes_for_packet = kept(self._read_notes_for_packet, owner=owner)
        self.last_reflection = kept(self._read_last_reflection, owner=owner)
        self.skill_notes = kept(self._read_skill_notes, owner=owner)
        self.lessons = kept(self._read_lessons, owner=owner)

    def reflections(self, deployment: str, *, most: int, seq: int = NO_END) -> list[StoredNote]:
        """A deployment's reflections, newest first, as they stood as of a sequence number."""
        rows = self._db.all(_QUERIES.notes, owner=self._owner, deployment=deployment, most=most, seq=seq)
        return [StoredNote(row[0], _note_from_row(row), row[15], row[16]) for row in rows]

    def lesson_history(self, deployment: str, *, most: int, seq: int = NO_END) -> list[LessonChange]:
        """What happened to a deployment's lessons, newest first; without the trades that changed nothing."""
        rows = self._db.all(_QUERIES.lesson_changes, owner=self._owner, deployment=deployment, most=most, seq=seq)
        return [_lesson_change(row) for row in rows]

    def followed_exits(self, deployment: str, *, seq: int, most: int) -> dict[str, FollowedExit]:
        """What the market did after exits, by trade: those written last as of a sequence number."""
        rows = self._db.all(_QUERIES.exits, owner=self._owner, deployment=deployment, seq=seq, most=most)
        return {row[0]: FollowedExit(*row) for row in rows}

    def _read_lessons(self, deployment: str, *, seq: int) -> list[LessonChange]:
        """Every lesson as it was known last as of a sequence number, retired ones too, in the order of their ids."""
        rows = self._db.all(_QUERIES.lessons, owner=self._owner, deployment=deployment, seq=seq)
        return [_lesson_change(row) for row in rows]

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


def _lesson_change(row: Row) -> LessonChange:
    return LessonChange(row[0], row[1], row[2], msgspec.json.decode(row[3], type=Lesson))
