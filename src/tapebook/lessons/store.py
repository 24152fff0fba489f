"""Notes in the database: the one that stood as of any sequence number, and all of them."""

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.note import Note
from tapebook.domain.run import Usage

MIGRATIONS = "tapebook.lessons"
_QUERIES = Queries.load("tapebook.lessons")


class Kept(msgspec.Struct, frozen=True):
    """A note, and the sequence number from which it stands."""

    seq: int
    note: Note


class Notes:
    """The notes of one owner."""

    def __init__(self, db: Database, *, owner: str) -> None:
        self._db = db
        self._owner = owner

    def active(self, deployment: str, *, seq: int) -> Kept | None:
        """The note that stood as of a sequence number."""
        row = self._db.one(_QUERIES.active, owner=self._owner, deployment=deployment, seq=seq)
        return None if row is None else _kept(row)

    def all(self, deployment: str, *, most: int) -> list[Kept]:
        """A deployment's notes, newest first."""
        rows = self._db.all(_QUERIES.notes, owner=self._owner, deployment=deployment, most=most)
        return [_kept(row) for row in rows]


def _kept(row: Row) -> Kept:
    # The last four columns are what a model used; a note without a model has no attempts.
    usage = Usage(row[10], *row[11:15]) if row[14] else None
    fields: Row = (*row[1:11], usage)
    return Kept(row[0], Note(*fields))
