"""The poll of all books. Each symbol takes one to three questions in its five minutes.

When no book at all came in a bucket, that is one gap for all; when some came, those that did not
are a gap each.
"""

import msgspec

from tapebook.domain.instants import MINUTE, floor
from tapebook.domain.market import Liquidity
from tapebook.tape.sources.hyperliquid.answers import read_book
from tapebook.tape.sources.hyperliquid.books import Book, book_of, liquidity_of, next_picture
from tapebook.tape.sources.hyperliquid.errands import Errand, Errands
from tapebook.tape.sources.hyperliquid.gaps import EVERY_SUBJECT, NO_ANSWER, NOT_RUNNING, Cadence
from tapebook.tape.sources.hyperliquid.outbox import Outbox
from tapebook.tape.sources.hyperliquid.polls import Poll
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.universe import Names
from tapebook.tape.sources.hyperliquid.wire import Malformed, malformed

BUCKET = 5 * MINUTE


class BookPoll:
    """The books of all watched perps."""

    def __init__(self, settings: HyperliquidSettings, outbox: Outbox, errands: Errands, *, names: Names) -> None:
        self._every = settings.books_every_ms
        self._stepped = settings.stepped
        self._outbox = outbox
        self._errands = errands
        self._names = names
        # A restart asks again within the bucket: it cannot know which symbols had been answered.
        self._poll = Poll(self._every)
        self._cadence = Cadence("books", EVERY_SUBJECT, step=self._every)
        self._bucket = self._answered_in = -1
        # By symbol, full precision first; of the bucket being asked for.
        self._pictures: dict[str, dict[int, Book]] = {}
        self.trouble = NOT_RUNNING

    def resume(self, newest: int | None) -> None:
        """Begins where the tape ends; under virtual time a bucket was committed whole, so it is not asked for again."""
        self._cadence.resume(newest)
        if self._stepped:
            self._poll = Poll(self._every, newest=newest)

    def tick(self, at: int) -> None:
        """Queues the poll when it is due."""
        bucket = self._poll.due(at)
        if bucket is not None:
            self._bucket = bucket
            self._pictures.clear()
            for symbol in self._names.watched.perps:
                self._errands.add(Errand("books", symbol, bucket, expires=self._poll.ends(bucket)))

    def answered(self, errand: Errand, body: bytes, *, asked_at: int) -> bool:
        """A picture of a book; False when it cannot be read."""
        row = read_book(body)
        if isinstance(row, Malformed):
            self._outbox.malformed([row])
            return False
        try:
            book = book_of(row, symbol=errand.subject) if row is not None else None
        except ValueError as error:
            self._outbox.malformed([malformed("l2Book", error, errand.subject, subject=errand.subject)])
            return False
        if row is None:
            self._outbox.problem("unknown", f"there is no book of {errand.subject}", subject=errand.subject)
        self._seen(errand, book, asked_at)
        return True

    def expired(self, errand: Errand) -> None:
        """The bucket is over and the book of a symbol did not come."""
        if self._answered_in == errand.since:
            self._outbox.gap("books", errand.subject, (errand.since, errand.since + self._every), self.trouble)

    def _seen(self, errand: Errand, book: Book | None, asked_at: int) -> None:
        if errand.since != self._bucket:
            # It came so late that the next poll has begun.
            self.expired(errand)
            return
        if book is None:
            # One-sided, empty or unknown: that was seen, and there is nothing to say about it.
            return
        pictures = self._pictures.setdefault(errand.subject, {})
        pictures[errand.figures] = book
        further = next_picture(pictures)
        if further is None:
            self._done(errand, liquidity_of(errand.subject, pictures, bucket_ts=floor(asked_at, BUCKET)))
        else:
            self._errands.add(msgspec.structs.replace(errand, figures=further, tries=0, not_before=0.0))

    def _done(self, errand: Errand, fact: Liquidity) -> None:
        gap = self._cadence.seen(errand.since, self.trouble) if errand.since > self._answered_in else None
        self._answered_in, self.trouble = errand.since, NO_ANSWER
        self._outbox.put([fact], gap)
