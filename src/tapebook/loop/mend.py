"""Gaps of books that no single process can tell: a round of books is many questions, and a kill can fall between them.

The process that comes after does not know which symbols had been answered. It may miss one that the tape has, or begin
in the next round and miss none. So the tape itself is asked: before a gap is written, and again when a round is over.
"""

from collections.abc import Iterable

from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import Gap, Liquidity
from tapebook.tape.sources.hyperliquid.gaps import EVERY_SUBJECT, NOT_RUNNING, SOURCE
from tapebook.tape.store import Tape, View

ROUND = 5 * MINUTE
# After this long the source itself has named what it did not get in a round.
_PATIENCE = MINUTE


def true_gaps(tape: Tape, gaps: Iterable[Gap], *, now: int) -> list[Gap]:
    """The gaps without those of single books that the tape has."""
    return [gap for gap in gaps if not _is_there(tape, gap, now)]


def _is_there(tape: Tape, gap: Gap, now: int) -> bool:
    if gap.channel != "books" or gap.subject == EVERY_SUBJECT:
        return False
    books = tape.facts(Liquidity, gap.subject, since=gap.from_ts, view=View(now))
    return any(book.bucket_ts < gap.to_ts for book in books)


def untold_gaps(tape: Tape, *, now: int) -> list[Gap]:
    """The books missing in rounds of the last hour in which others came, that no gap names."""
    since = now - HOUR
    books = tape.buckets(Liquidity, since=now - 2 * HOUR, view=View(now))
    # A book that was kept between two rounds because it had changed says nothing of others.
    found = {bucket for each in books.values() for bucket in each if bucket % ROUND == 0}
    rounds = {bucket for bucket in found if since <= bucket <= now - ROUND - _PATIENCE}
    named = [each.gap for each in tape.channel_gaps("books", since=since, as_of=now)]
    return [
        Gap(SOURCE, "books", symbol, bucket, bucket + ROUND, NOT_RUNNING)
        for bucket in sorted(rounds)
        for symbol, there in sorted(books.items())
        # A symbol without a book for an hour is not expected to have one.
        if bucket not in there and any(bucket - HOUR < other < bucket for other in there)
        if not any(gap.subject in (EVERY_SUBJECT, symbol) and gap.from_ts <= bucket < gap.to_ts for gap in named)
    ]
