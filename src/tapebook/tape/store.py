"""The tape in its database: commits observations, reads them as of a moment and a watermark.

One commit is one transaction with one sequence number and one `known_at`, later than any before.
A read names both: `as_of` (what was known at a moment) and `watermark` (the newest commit that
may be seen). A live run reads its whole tape and remembers the watermark; a replay reads no
further. Rows are never changed: a correction is a new revision of its bucket.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.instants import SECOND
from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, Observation

MIGRATIONS = "tapebook.tape"
_QUERIES = Queries.load("tapebook.tape")
_FAMILIES: dict[type, str] = {
    Mid: "mid",
    Candle: "candle",
    Liquidity: "liquidity",
    AssetContext: "context",
    FundingRate: "funding",
}
NO_WATERMARK = 2**62

Fact = TypeVar("Fact", Mid, Liquidity, AssetContext, FundingRate)


class Clock(Protocol):
    """Anything that knows market time."""

    def now(self) -> int:
        """UTC milliseconds."""
        ...


class View(msgspec.Struct, frozen=True):
    """How far a read may see: what was known at a moment, up to a commit."""

    as_of: int
    watermark: int = NO_WATERMARK


class Tape:
    """All market rows of one database."""

    def __init__(self, db: Database, *, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def head(self) -> tuple[int, int]:
        """The newest commit and when it was known; (0, 0) on an empty tape."""
        row = self._db.one(_QUERIES.head)
        return (row[0], row[1]) if row else (0, 0)

    def commit(self, observations: Iterable[Observation]) -> int:
        """Writes observations in one transaction and returns its sequence number."""
        with self._db.transaction():
            seq, previous = self.head()
            known_at = max(previous + 1, self._clock.now())
            written = sum(self._add(fact, known_at=known_at, seq=seq + 1) for fact in observations)
            self._db.run(_QUERIES.commit, seq=seq + 1, known_at=known_at, rows_written=written)
        return seq + 1

    def seq_as_of(self, as_of: int) -> int:
        """The newest commit known at a moment."""
        row = self._db.one(_QUERIES.seq_as_of, as_of=as_of)
        return row[0] if row else 0

    def rows_written(self) -> int:
        """How many rows the tape has taken in."""
        row = self._db.one(_QUERIES.rows_written)
        return row[0] if row else 0

    def first_known_at(self) -> int:
        """When the oldest commit was known; 0 on an empty tape."""
        row = self._db.one(_QUERIES.first_commit)
        return row[0] if row else 0

    def symbols(self) -> list[str]:
        """Every symbol that has bars."""
        return [row[0] for row in self._db.all(_QUERIES.symbols)]

    def newest(self, family: type[Fact], symbol: str, *, view: View) -> Fact | None:
        """The newest fact of a family about a symbol."""
        query = getattr(_QUERIES, f"newest_{_FAMILIES[family]}")
        row = self._db.one(query, symbol=symbol, as_of=view.as_of, watermark=view.watermark)
        return family(*row) if row else None

    def mids(self, symbol: str, *, since: int, until: int, view: View, most: int = NO_WATERMARK) -> list[Mid]:
        """A symbol's midpoints between two moments, oldest first."""
        params = {"symbol": symbol, "since": since, "until": until, "most": most}
        rows = self._db.all(_QUERIES.mids_between, as_of=view.as_of, watermark=view.watermark, **params)
        return [Mid(*row) for row in _newest_revisions(rows, bucket=1)]

    def candles(self, symbol: str, *, granularity_sec: int, since: int, view: View) -> list[Candle]:
        """A symbol's bars since a moment that had ended by `view.as_of`, oldest first."""
        params = {"symbol": symbol, "granularity_sec": granularity_sec, "since": since}
        before = view.as_of - granularity_sec * SECOND + 1
        rows = self._db.all(
            _QUERIES.candles_between, before=before, as_of=view.as_of, watermark=view.watermark, **params
        )
        return [Candle(*row) for row in _newest_revisions(rows, bucket=2)]

    def _add(self, fact: Observation, *, known_at: int, seq: int) -> int:
        """Adds a fact as revision 0, or as the next revision when it differs from what is stored."""
        family = _FAMILIES[type(fact)]
        values: dict[str, Any] = msgspec.structs.asdict(fact)
        add = getattr(_QUERIES, f"add_{family}")
        if self._db.one(add, revision=0, known_at=known_at, seq=seq, **values) is not None:
            return 1
        stored = self._db.one(getattr(_QUERIES, f"same_{family}"), **values)
        if stored is None or stored[1:] == tuple(values.values()):
            return 0
        self._db.one(add, revision=stored[0] + 1, known_at=known_at, seq=seq, **values)
        return 1


def _newest_revisions(rows: Sequence[Row], *, bucket: int) -> list[Row]:
    """Rows ordered by bucket and revision, reduced to the last of each bucket."""
    return list({row[bucket]: row for row in rows}.values())
