"""Answers of models, kept by what was asked: paid for once, whoever takes the decision over.

Not a projection: an answer is kept the moment it arrives, before there is a decision to record.
"""

import msgspec

from tapebook.db import Database, Queries

_QUERIES = Queries.load("tapebook.book", "replies.sql")


class Kept(msgspec.Struct, frozen=True):
    """An answer as it was encoded, and the run that asked for it."""

    answer_json: str
    run_id: str


class Replies:
    """The kept answers of one owner."""

    def __init__(self, db: Database, *, owner: str) -> None:
        self._db = db
        self._owner = owner

    def kept(self, key: str) -> Kept | None:
        """The answer that a question got before."""
        row = self._db.one(_QUERIES.kept, owner=self._owner, reply_key=key)
        return Kept(*row) if row else None

    def of_run(self, run_id: str) -> Kept | None:
        """The answer that a run asked for and paid for itself."""
        row = self._db.one(_QUERIES.of_run, owner=self._owner, run_id=run_id)
        return Kept(*row) if row else None

    def keep(self, key: str, kept: Kept, *, deployment: str, cost_usd_e6: int, at: int) -> None:
        """Keeps the first answer to a question; a second changes nothing."""
        self._db.run(
            _QUERIES.keep,
            owner=self._owner,
            reply_key=key,
            deployment=deployment,
            run_id=kept.run_id,
            cost_usd_e6=cost_usd_e6,
            answer_json=kept.answer_json,
            kept_at=at,
        )

    def spent_usd_e6(self, deployment: str, *, since: int) -> int:
        """What a deployment's models cost since a moment, answers not yet recorded included."""
        row = self._db.one(_QUERIES.spent, owner=self._owner, deployment=deployment, since=since)
        return row[0] if row else 0
