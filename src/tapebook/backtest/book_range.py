"""A deployment's book between two sequence numbers, read in bulk: a year of ticks in a few reads.

Gives decisions, account values, holding spans, fills and ended trades, and how much of each symbol was held on
average: what positions cost, weighted with how long they were held (`average_exposures`).
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from tapebook.book.store import Book
from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import Deployment
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.experience.records import Outcome, OutcomeVote, outcome_of

_QUERIES = Queries.load("tapebook.backtest", "book_range.sql")


class AccountValue(NamedTuple):
    """A figure of the account at a moment, and where it stands in the log."""

    seq: int
    at: int
    usd_e6: int


class HoldingSpan(NamedTuple):
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


class TradeOutcome(msgspec.Struct, frozen=True):
    """A trade that ended, and its outcome as experience would learn it."""

    trade: ClosedTrade
    outcome: Outcome


class BookRange:
    """A deployment's book from behind one sequence number up to another."""

    def __init__(self, db: Database, book: Book, *, deployment: str, after: int, until: int) -> None:
        self._db, self._book = db, book
        self._where = {"owner": book.owner, "deployment": deployment, "after": after, "until": until}
        self.after, self.until = after, until

    def from_moment(self, moment: int) -> "BookRange":
        """What of it happened after a moment: fills of the past are booked, and known, long after they happened."""
        firsts = [
            self._db.one(query, moment=moment, **self._where)
            for query in (_QUERIES.first_posting_after, _QUERIES.first_snapshot_after)
        ]
        seqs = [row[0] for row in firsts if row is not None and row[0] is not None]
        deployment, after = self._where["deployment"], min(seqs) - 1 if seqs else self.until
        return BookRange(self._db, self._book, deployment=str(deployment), after=after, until=self.until)

    def packets_digest(self) -> tuple[int, str]:
        """How many decisions were made, and one hash over all that was told to anybody, in its order."""
        rows = self._db.all(_QUERIES.runs, **self._where)
        ticks = sum(trigger != "shadow" for trigger, _ in rows)
        return ticks, sha256_hex("\n".join(packet for _, packet in rows).encode())

    def snapshots(self) -> list[AccountValue]:
        """What the account was worth whenever it was valued."""
        return list(map(AccountValue._make, self._db.all(_QUERIES.snapshots, **self._where)))

    def balances(self) -> list[AccountValue]:
        """Cash after every posting."""
        rows = self._db.all(_QUERIES.balances, **self._where)
        return list(map(AccountValue._make, {row[0]: row for row in rows}.values()))

    def insurance_payments(self) -> list[AccountValue]:
        """What an insurance paid, and when."""
        return [AccountValue(*row) for row in self._db.all(_QUERIES.insurance, **self._where)]

    def booked_fills(self) -> list[BookedFill]:
        """Every fill, in the order of the log."""
        return [BookedFill(*row) for row in self._db.all(_QUERIES.fills, **self._where)]

    def holding_spans(self) -> list[HoldingSpan]:
        """When positions were held, by entry; what came after the end is not known yet."""
        rows, until = self._db.all(_QUERIES.spans, **self._where), self.until
        return [
            HoldingSpan._make(row if row[2] is not None and row[2] <= until else (row[0], row[1], None, None))
            for row in rows
        ]

    def ended_trades(self) -> list[TradeOutcome]:
        """The trades that ended, oldest exit first."""
        return [self._ended_trade(row) for row in self._db.all(_QUERIES.ended, **self._where)]

    def _ended_trade(self, row: Row) -> TradeOutcome:
        trade = ClosedTrade(TradeState(*row[:22]), *row[22:25])
        run = self._book.run(trade.state.entry_run_id) if trade.state.entry_run_id else None
        votes = run.votes if run else ()
        proposals = tuple(OutcomeVote(vote.engine, vote.action, vote.side, vote.confidence_e4) for vote in votes)
        made = msgspec.structs.replace(outcome_of(trade, None), provider=row[25] or "", votes=proposals)
        return TradeOutcome(trade, made)


def book_range(book: Book, book_db: Database, deployment: Deployment, *, after: int, until: int) -> BookRange:
    """The book of a deployment between two sequence numbers."""
    return BookRange(book_db, book, deployment=deployment.id, after=after, until=until)


_E16_PER_USD = 10**16


def average_exposures(fills: Iterable[BookedFill], *, start: int, end: int) -> dict[str, float]:
    """The time-weighted average exposure of each symbol between two moments, in USD; negative for a short.

    A position counts at what it cost (its size at its average entry price), and no time in which nothing is held is
    left out: half of the time 1,000 long is 500, and as long 1,000 short beside it is nothing.
    """
    found: dict[str, float] = {}
    for symbol, steps in _cost_steps(fills).items():
        ends = [at for at, _ in steps[1:]] + [end]
        held = [cost * max(0, min(until, end) - max(at, start)) for (at, cost), until in zip(steps, ends, strict=True)]
        found[symbol] = sum(held) / (end - start)
    return {symbol: found[symbol] for symbol in sorted(found)}


def _cost_steps(fills: Iterable[BookedFill]) -> dict[str, list[tuple[int, float]]]:
    """For each symbol what its position costs in USD, with its sign, from each fill on."""
    sizes: dict[str, int] = {}
    costs: dict[str, float] = {}
    steps: dict[str, list[tuple[int, float]]] = {}
    for fill in fills:
        before, price = sizes.get(fill.symbol, 0), fill.price_e8 / _E16_PER_USD
        after = sizes[fill.symbol] = before + fill.signed_size_e8
        if before * after <= 0:
            cost = after * price
        elif abs(after) < abs(before):
            cost = costs[fill.symbol] * after / before
        else:
            cost = costs[fill.symbol] + fill.signed_size_e8 * price
        costs[fill.symbol] = cost
        steps.setdefault(fill.symbol, []).append((fill.at, cost))
    return steps
