"""Notes in the database: the one that stood as of any sequence number, and all that were tried."""

from tapebook.db import Database, Queries, Row
from tapebook.domain.note import Kept, Note
from tapebook.domain.run import Usage

MIGRATIONS = "tapebook.lessons"
_QUERIES = Queries.load("tapebook.lessons")


class Notes:
    """The notes of one owner."""

    def __init__(self, db: Database, *, owner: str) -> None:
        self._db = db
        self._owner = owner

    def active(self, deployment: str, *, seq: int) -> Note | None:
        """The note that stood as of a sequence number."""
        row = self._db.one(_QUERIES.active, owner=self._owner, deployment=deployment, seq=seq)
        return None if row is None else _note(row)

    def last_try(self, deployment: str, *, seq: int) -> tuple[int, int] | None:
        """Where and when the newest reflection was, whatever came of it."""
        row = self._db.one(_QUERIES.last_try, owner=self._owner, deployment=deployment, seq=seq)
        return None if row is None else (row[0], row[1])

    def all(self, deployment: str, *, most: int) -> list[Kept]:
        """A deployment's reflections, newest first."""
        rows = self._db.all(_QUERIES.notes, owner=self._owner, deployment=deployment, most=most)
        return [Kept(row[0], _note(row), row[15], row[16]) for row in rows]


def _note(row: Row) -> Note:
    # A note without a model has no attempts.
    fields: Row = (*row[1:11], Usage(row[10], *row[11:15]) if row[14] else None)
    return Note(*fields)
