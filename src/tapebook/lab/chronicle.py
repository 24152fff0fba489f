"""What a book says of a deployment between two sequence numbers, in bulk: a year of ticks in a few reads."""

from typing import NamedTuple

import msgspec

from tapebook.book.store import Book
from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import Deployment
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.trade import ClosedTrade, TradeState
from tapebook.experience.outcomes import Outcome, Proposal, outcome_of
from tapebook.wiring import Rooms

_QUERIES = Queries.load("tapebook.lab", "chronicle.sql")


class Moment(NamedTuple):
    """A figure of the account at a moment, and where it stands in the log."""

    seq: int
    at: int
    usd_e6: int


class Span(NamedTuple):
    """From when to when a position was held; no end while it is."""

    entry_seq: int
    entered_at: int
    exit_seq: int | None
    exited_at: int | None


class BookedFill(NamedTuple):
    """What a fill did to a position."""

    symbol: str
    at: int
    signed_size_e8: int
    price_e8: int


class Ended(msgspec.Struct, frozen=True):
    """A trade that ended, and its outcome as experience would learn it."""

    trade: ClosedTrade
    outcome: Outcome


class Chronicle:
    """A deployment's book from behind one sequence number up to another."""

    def __init__(self, db: Database, book: Book, *, deployment: str, after: int, until: int) -> None:
        self._db, self._book = db, book
        self._where = {"owner": book.owner, "deployment": deployment, "after": after, "until": until}
        self.after, self.until = after, until

    def told(self) -> tuple[int, str]:
        """How many decisions were made, and one hash over all that was told to anybody, in its order."""
        rows = self._db.all(_QUERIES.runs, **self._where)
        ticks = sum(trigger != "shadow" for trigger, _ in rows)
        return ticks, sha256_hex("\n".join(packet for _, packet in rows).encode())

    def snapshots(self) -> list[Moment]:
        """What the account was worth whenever it was valued."""
        return [Moment(*row) for row in self._db.all(_QUERIES.snapshots, **self._where)]

    def balances(self) -> list[Moment]:
        """Cash after every posting."""
        rows = self._db.all(_QUERIES.balances, **self._where)
        return [Moment(*row) for row in {row[0]: row for row in rows}.values()]

    def insurance(self) -> list[Moment]:
        """What an insurance paid, and when."""
        return [Moment(*row) for row in self._db.all(_QUERIES.insurance, **self._where)]

    def fills(self) -> list[BookedFill]:
        """Every fill, in the order of the log."""
        return [BookedFill(*row) for row in self._db.all(_QUERIES.fills, **self._where)]

    def spans(self) -> list[Span]:
        """When positions were held, by entry; what came after the end is not known yet."""
        rows = self._db.all(_QUERIES.spans, **self._where)
        return [
            Span(entry, entered, *((None, None) if end is None or end > self.until else (end, at)))
            for entry, entered, end, at in rows
        ]

    def ended(self) -> list[Ended]:
        """The trades that ended, oldest exit first."""
        return [self._ended(row) for row in self._db.all(_QUERIES.ended, **self._where)]

    def _ended(self, row: Row) -> Ended:
        trade = ClosedTrade(TradeState(*row[:22]), *row[22:25])
        run = self._book.run(trade.state.entry_run_id) if trade.state.entry_run_id else None
        votes = run.votes if run else ()
        proposals = tuple(Proposal(vote.engine, vote.action, vote.side, vote.confidence_e4) for vote in votes)
        made = msgspec.structs.replace(outcome_of(trade, None), provider=row[25] or "", votes=proposals)
        return Ended(trade, made)


def chronicle(rooms: Rooms, deployment: Deployment, *, after: int, until: int) -> Chronicle:
    """The book of a deployment between two sequence numbers."""
    return Chronicle(rooms.book_db, rooms.book, deployment=deployment.id, after=after, until=until)
