"""Notes in the database: the one that stood as of any sequence number, all that were tried, and those of skills."""

from tapebook.db import Database, Queries, Row
from tapebook.domain.note import Kept, Note, SkillNote
from tapebook.domain.run import Usage
from tapebook.log import Answers

MIGRATIONS = "tapebook.lessons"
_QUERIES = Queries.load("tapebook.lessons")


class Notes:
    """The notes of one owner."""

    def __init__(self, db: Database, *, owner: str, answers: Answers | None = None) -> None:
        self._db = db
        self._owner = owner
        kept = (answers or Answers()).kept
        self.active = kept(self._active, owner=owner)
        self.told = kept(self._told, owner=owner)
        self.last_try = kept(self._last_try, owner=owner)
        self.skills = kept(self._skills, owner=owner)

    def all(self, deployment: str, *, most: int) -> list[Kept]:
        """A deployment's reflections, newest first."""
        rows = self._db.all(_QUERIES.notes, owner=self._owner, deployment=deployment, most=most)
        return [Kept(row[0], _note(row), row[15], row[16]) for row in rows]

    def _active(self, deployment: str, *, seq: int) -> Note | None:
        """The note that stood as of a sequence number."""
        row = self._db.one(_QUERIES.active, owner=self._owner, deployment=deployment, seq=seq)
        return None if row is None else _note(row)

    def _told(self, deployment: str, *, seq: int) -> tuple[Note | None, tuple[SkillNote, ...]]:
        """The note that stood and what a deployment was told of skills: every decision asks for both at once."""
        return self.active(deployment, seq=seq), tuple(self.skills(deployment, seq=seq))

    def _last_try(self, deployment: str, *, seq: int) -> tuple[int, int] | None:
        """Where and when the newest reflection was, whatever came of it."""
        row = self._db.one(_QUERIES.last_try, owner=self._owner, deployment=deployment, seq=seq)
        return None if row is None else (row[0], row[1])

    def _skills(self, deployment: str, *, seq: int) -> list[SkillNote]:
        """What a deployment was told of each skill; of an empty name, what the owner promoted. Some have no text."""
        rows = self._db.all(_QUERIES.skills, owner=self._owner, deployment=deployment, seq=seq)
        return [SkillNote(*row) for row in rows]


def _note(row: Row) -> Note:
    # A note without a model has no attempts.
    fields: Row = (*row[1:11], Usage(row[10], *row[11:15]) if row[14] else None)
    return Note(*fields)
