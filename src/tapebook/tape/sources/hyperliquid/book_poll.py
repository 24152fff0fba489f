"""The poll of all books. Each symbol takes one to three questions in its five minutes.

Between two rounds books are looked at again, every minute and as far as a share of the weight
reaches; symbols take turns when it does not reach for all. A look is kept, in the bucket of its
minute, when the book has changed enough since the newest one that is kept: so at most one a minute.
Whose turn it is follows from the time, and what is compared with is on the tape, so that a process
that was killed goes on as it would have. A look that did not come is no gap.

When no book at all came in a bucket, that is one gap for all; when some came, those that did not
are a gap each.
"""

from collections.abc import Mapping

import msgspec

from tapebook.domain.instants import MINUTE, floor
from tapebook.domain.market import Liquidity
from tapebook.tape.sources.hyperliquid.answers import read_book
from tapebook.tape.sources.hyperliquid.books import Book, book_of, changed_enough, liquidity_of, next_picture
from tapebook.tape.sources.hyperliquid.errands import Errand, Errands
from tapebook.tape.sources.hyperliquid.gaps import EVERY_SUBJECT, NO_ANSWER, NOT_RUNNING, Cadence
from tapebook.tape.sources.hyperliquid.outbox import Outbox
from tapebook.tape.sources.hyperliquid.polls import Poll
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.universe import Names
from tapebook.tape.sources.hyperliquid.weights import rest_weight
from tapebook.tape.sources.hyperliquid.wire import Malformed, malformed

BUCKET = 5 * MINUTE
# A book takes three questions of weight 2 as a rule.
_LOOK_WEIGHT = 6


class BookPoll:
    """The books of all watched perps."""

    def __init__(self, settings: HyperliquidSettings, outbox: Outbox, errands: Errands, *, names: Names) -> None:
        self._settings = settings
        self._every = settings.books_every_ms
        self._outbox = outbox
        self._errands = errands
        self._names = names
        # A restart asks again within the bucket: it cannot know which symbols had been answered.
        self._poll = Poll(self._every)
        self._cadence = Cadence("books", EVERY_SUBJECT, step=self._every)
        self._bucket = self._answered_in = -1
        # By symbol, full precision first; of the bucket being asked for.
        self._pictures: dict[str, dict[int, Book]] = {}
        self._looks = Poll(settings.book_looks_every_ms or self._every)
        self._look_bucket = -1
        self._look_pictures: dict[str, dict[int, Book]] = {}
        # The newest book of each symbol that is kept.
        self._kept: dict[str, Liquidity] = {}
        self.trouble = NOT_RUNNING

    def resume(self, newest: int | None, *, kept: Mapping[str, Liquidity], at: int) -> None:
        """Begins where the tape ends; under virtual time a bucket was committed whole, so it is not asked for again."""
        self._cadence.resume(newest)
        self._kept = dict(kept)
        if self._settings.stepped and newest is not None:
            self._poll = Poll(self._every, newest=newest)
            self._looks = Poll(self._settings.book_looks_every_ms or self._every, newest=at)

    def tick(self, at: int) -> None:
        """Queues the poll when it is due, and looks in between."""
        bucket = self._poll.due(at)
        if bucket is not None:
            self._bucket = bucket
            self._pictures.clear()
            for symbol in self._names.watched.perps:
                self._errands.add(Errand("books", symbol, bucket, expires=self._poll.ends(bucket)))
        look = self._looks.due(at) if self._settings.book_looks_every_ms else None
        # Where a round begins, or a process does, all books are asked for anyway.
        if look is not None and look % self._every and bucket is None:
            self._look_bucket = look
            self._look_pictures.clear()
            for symbol in self._in_turn(look):
                self._errands.add(Errand("looks", symbol, look, expires=self._looks.ends(look)))

    def _in_turn(self, bucket: int) -> list[str]:
        """The symbols that are looked at now: all of them, or those whose turn it is."""
        every, symbols = self._settings.book_looks_every_ms, self._names.watched.perps
        per_minute = rest_weight(self._settings.weight_share * self._settings.book_looks_share)
        turns = max(1, -(-len(symbols) * _LOOK_WEIGHT // max(1, per_minute * every // MINUTE)))
        # Counts looks alone: there is none where a round begins.
        number = bucket // every - bucket // self._every
        return [symbol for place, symbol in enumerate(symbols) if place % turns == number % turns]

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
        if errand.kind == "looks":
            self._looked(errand, book)
        else:
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
        if pictures := self._whole(errand, book, self._pictures):
            self._done(errand, liquidity_of(errand.subject, pictures, bucket_ts=floor(asked_at, BUCKET)))

    def _looked(self, errand: Errand, book: Book | None) -> None:
        kept = self._kept.get(errand.subject)
        if errand.since != self._look_bucket or book is None or kept is None:
            return
        if pictures := self._whole(errand, book, self._look_pictures):
            fact = liquidity_of(errand.subject, pictures, bucket_ts=floor(errand.since, MINUTE))
            factor, imbalance = self._settings.book_change_factor, self._settings.book_change_imbalance
            if changed_enough(kept, fact, factor=factor, imbalance=imbalance):
                self._kept[fact.symbol] = fact
                self._outbox.put([fact])

    def _whole(self, errand: Errand, book: Book, taken: dict[str, dict[int, Book]]) -> Mapping[int, Book] | None:
        """The pictures of a book when this one completes them; else the next one is asked for."""
        pictures = taken.setdefault(errand.subject, {})
        pictures[errand.figures] = book
        further = next_picture(pictures)
        if further is None:
            return pictures
        self._errands.add(msgspec.structs.replace(errand, figures=further, tries=0, not_before=0.0))
        return None

    def _done(self, errand: Errand, fact: Liquidity) -> None:
        gap = self._cadence.seen(errand.since, self.trouble) if errand.since > self._answered_in else None
        self._answered_in, self.trouble = errand.since, NO_ANSWER
        self._kept[fact.symbol] = fact
        self._outbox.put([fact], gap)
