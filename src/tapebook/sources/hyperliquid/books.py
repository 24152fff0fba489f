"""Books: spread, depth and imbalance from pictures of an order book, and the poll of all books. Pure.

The exchange shows twenty levels a side. On a liquid coin those end long before 1 % of the price, so the same book is
requested with its prices rounded to fewer figures, which reaches further. The mid and the spread come from full
precision; each band of depth comes from the finest picture that reaches it on both sides. A side with fewer than
twenty levels is all there is.

Each symbol takes one to three requests in its five minutes. Between two rounds books are looked at again, every
minute and as far as a share of the weight reaches; symbols take turns when it does not reach for all. A look is
kept, in the bucket of its minute, when the book has changed enough since the newest one that is kept. Whose turn it
is follows from the time, and what is compared with is on the tape, so a process that was killed goes on as it would
have. A look that did not come is no gap. When no book at all came in a bucket, that is one gap for all; when some
came, those that did not are a gap each.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from tapebook.domain.market import EVERY_SUBJECT, Liquidity, dex_of
from tapebook.domain.units import E8, MINUTE, floor_to_step
from tapebook.sources.hyperliquid.gaps import NO_ANSWER, NOT_RUNNING, Cadence, Outbox
from tapebook.sources.hyperliquid.rest import Poll, RestQueue, RestRequest, rest_weight
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import ListedNames, full_name
from tapebook.sources.hyperliquid.wire import BookRow, LevelRow, Malformed, describe_malformed, price_e8, read_book

# So many levels of a side the exchange sends.
LEVELS = 20
# The distances from the mid at which depth is recorded, and at which the paper broker fills.
BANDS = (0.001, 0.005, 0.01)
# Full precision first, then what is asked for when it does not reach, finest first.
FULL = 0
ROUNDED = (4, 3, 2)

_Side = Sequence[tuple[float, float]]


class BookPicture(msgspec.Struct, frozen=True):
    """A picture of a book as numbers: (price, size) from the best outwards."""

    bids: tuple[tuple[float, float], ...]
    asks: tuple[tuple[float, float], ...]
    # Twice the mid, exact.
    best_sum_e8: int

    @property
    def mid(self) -> float:
        """The middle between the best bid and the best ask."""
        return self.best_sum_e8 / (2 * E8)


def book_of(row: BookRow, *, symbol: str | None = None) -> BookPicture | None:
    """A picture as numbers; None when a side is empty, for then there is no mid. ValueError when it is none.

    Nor is it one when it is not that of the symbol which was asked for.
    """
    if symbol is not None and full_name(dex_of(symbol), row.coin) != symbol:
        raise ValueError(f"asked for {symbol}, answered with {row.coin}")
    bids, asks = row.levels
    if not bids or not asks:
        return None
    best_sum = price_e8(bids[0].px) + price_e8(asks[0].px)
    return BookPicture(_side_numbers(bids), _side_numbers(asks), best_sum)


def _side_numbers(levels: list[LevelRow]) -> tuple[tuple[float, float], ...]:
    numbers = tuple((float(level.px), float(level.sz)) for level in levels)
    if not all(math.isfinite(price * size) and price > 0 and size >= 0 for price, size in numbers):
        raise ValueError("a level has no price or no size")
    return numbers


def next_picture(pictures: Mapping[int, BookPicture]) -> int | None:
    """The significant figures to ask for next, given the pictures so far; None when they are enough."""
    mid = pictures[FULL].mid
    for band in BANDS:
        if any(_reaches(book, mid, band) for book in pictures.values()):
            continue
        for figures in ROUNDED:
            if figures not in pictures and _levels_span(mid, figures) >= band:
                return figures
    return None


def _reaches(book: BookPicture, mid: float, band: float) -> bool:
    bids_reach = len(book.bids) < LEVELS or book.bids[-1][0] <= mid * (1 - band)
    asks_reach = len(book.asks) < LEVELS or book.asks[-1][0] >= mid * (1 + band)
    return bids_reach and asks_reach


def _levels_span(price: float, figures: int) -> float:
    """How far twenty neighbouring levels of so many figures lie apart, as a share of the price."""
    step = 10.0 ** (math.floor(math.log10(price)) - figures + 1)
    return (LEVELS - 1) * step / price


def liquidity_of(symbol: str, pictures: Mapping[int, BookPicture], *, bucket_ts: int) -> Liquidity:
    """The book boiled down; the depth of a band counts both sides."""
    full = pictures[FULL]
    mid = full.mid
    # Finest first: full precision, then more figures before fewer.
    finest = sorted(pictures, key=lambda figures: (figures != FULL, -figures))
    sides = [_band_depth([pictures[figures] for figures in finest], mid, band) for band in BANDS]
    depth = [bids + asks for bids, asks in sides]
    bids, asks = sides[-1]
    return Liquidity(
        symbol=symbol,
        bucket_ts=bucket_ts,
        mid_e8=full.best_sum_e8 // 2,
        spread_bps=round((full.asks[0][0] - full.bids[0][0]) / mid * 10_000, 4),
        depth_usd_10bps=round(depth[0], 2),
        depth_usd_50bps=round(depth[1], 2),
        depth_usd_100bps=round(depth[2], 2),
        imbalance=round((bids - asks) / depth[2], 4) if depth[2] else 0.0,
    )


def _band_depth(books: Sequence[BookPicture], mid: float, band: float) -> tuple[float, float]:
    """USD of bids and asks within a band, from the finest book that reaches it, else from the widest."""
    reaching = next((book for book in books if _reaches(book, mid, band)), books[-1])
    return _usd_within(reaching.bids, mid, band), _usd_within(reaching.asks, mid, band)


def _usd_within(side: _Side, mid: float, band: float) -> float:
    # A hair wider than the band: the product rounds, and a level exactly on the edge belongs to it.
    edge = mid * band * (1 + 1e-12)
    return math.fsum(price * size for price, size in side if abs(price - mid) <= edge)


def book_changed_enough(before: Liquidity, after: Liquidity, *, factor: float, imbalance: float) -> bool:
    """Whether a book differs so much from the newest one that is kept that it is worth a row of its own."""
    pairs = (
        (before.spread_bps, after.spread_bps),
        (before.depth_usd_10bps, after.depth_usd_10bps),
        (before.depth_usd_50bps, after.depth_usd_50bps),
        (before.depth_usd_100bps, after.depth_usd_100bps),
    )
    # From or to nothing counts, from nothing to nothing does not.
    grew = any(one != other and max(one, other) >= factor * min(one, other) for one, other in pairs)
    return grew or abs(after.imbalance - before.imbalance) >= imbalance


BOOKS_BUCKET_MS = 5 * MINUTE
# A book takes three questions of weight 2 as a rule.
_LOOK_WEIGHT = 6


class BookPoll:
    """The books of all watched perps."""

    def __init__(
        self, settings: HyperliquidSourceSettings, outbox: Outbox, errands: RestQueue, *, names: ListedNames
    ) -> None:
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
        self._pictures: dict[str, dict[int, BookPicture]] = {}
        self._looks = Poll(settings.book_looks_every_ms or self._every)
        self._look_bucket = -1
        self._look_pictures: dict[str, dict[int, BookPicture]] = {}
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
        bucket = self._poll.due_bucket(at)
        if bucket is not None:
            self._bucket = bucket
            self._pictures.clear()
            for symbol in self._names.watched.perps:
                self._errands.add(RestRequest("books", symbol, bucket, expires=self._poll.ends_at(bucket)))
        look = self._looks.due_bucket(at) if self._settings.book_looks_every_ms else None
        # Where a round begins, or a process does, all books are asked for anyway.
        if look is not None and look % self._every and bucket is None:
            self._look_bucket = look
            self._look_pictures.clear()
            for symbol in self._symbols_in_turn(look):
                self._errands.add(RestRequest("looks", symbol, look, expires=self._looks.ends_at(look)))

    def _symbols_in_turn(self, bucket: int) -> list[str]:
        """The symbols that are looked at now: all of them, or those whose turn it is."""
        every, symbols = self._settings.book_looks_every_ms, self._names.watched.perps
        per_minute = rest_weight(self._settings.weight_share * self._settings.book_looks_share)
        turns = max(1, -(-len(symbols) * _LOOK_WEIGHT // max(1, per_minute * every // MINUTE)))
        # Counts looks alone: there is none where a round begins.
        number = bucket // every - bucket // self._every
        return [symbol for place, symbol in enumerate(symbols) if place % turns == number % turns]

    def handle_answer(self, errand: RestRequest, body: bytes, *, asked_at: int) -> bool:
        """A picture of a book; False when it cannot be read."""
        row = read_book(body)
        if isinstance(row, Malformed):
            self._outbox.add_malformed([row])
            return False
        try:
            book = book_of(row, symbol=errand.subject) if row is not None else None
        except ValueError as error:
            self._outbox.add_malformed([describe_malformed("l2Book", error, errand.subject, subject=errand.subject)])
            return False
        if row is None:
            self._outbox.add_problem("unknown", f"there is no book of {errand.subject}", subject=errand.subject)
        if errand.kind == "looks":
            self._handle_look(errand, book)
        else:
            self._handle_round(errand, book, asked_at)
        return True

    def on_expired(self, errand: RestRequest) -> None:
        """The bucket is over and the book of a symbol did not come."""
        if self._answered_in == errand.since:
            self._outbox.add_gap("books", errand.subject, (errand.since, errand.since + self._every), self.trouble)

    def _handle_round(self, errand: RestRequest, book: BookPicture | None, asked_at: int) -> None:
        if errand.since != self._bucket:
            # It came so late that the next poll has begun.
            self.on_expired(errand)
            return
        if book is None:
            # One-sided, empty or unknown: that was seen, and there is nothing to say about it.
            return
        if pictures := self._complete_pictures(errand, book, self._pictures):
            self._keep_book(
                errand, liquidity_of(errand.subject, pictures, bucket_ts=floor_to_step(asked_at, BOOKS_BUCKET_MS))
            )

    def _handle_look(self, errand: RestRequest, book: BookPicture | None) -> None:
        kept = self._kept.get(errand.subject)
        if errand.since != self._look_bucket or book is None or kept is None:
            return
        if pictures := self._complete_pictures(errand, book, self._look_pictures):
            fact = liquidity_of(errand.subject, pictures, bucket_ts=floor_to_step(errand.since, MINUTE))
            factor, imbalance = self._settings.book_change_factor, self._settings.book_change_imbalance
            if book_changed_enough(kept, fact, factor=factor, imbalance=imbalance):
                self._kept[fact.symbol] = fact
                self._outbox.add_facts([fact])

    def _complete_pictures(
        self, errand: RestRequest, book: BookPicture, taken: dict[str, dict[int, BookPicture]]
    ) -> Mapping[int, BookPicture] | None:
        """The pictures of a book when this one completes them; else the next one is asked for."""
        pictures = taken.setdefault(errand.subject, {})
        pictures[errand.figures] = book
        further = next_picture(pictures)
        if further is None:
            return pictures
        self._errands.add(msgspec.structs.replace(errand, figures=further, tries=0, not_before=0.0))
        return None

    def _keep_book(self, errand: RestRequest, fact: Liquidity) -> None:
        gap = self._cadence.record_bucket(errand.since, self.trouble) if errand.since > self._answered_in else None
        self._answered_in, self.trouble = errand.since, NO_ANSWER
        self._kept[fact.symbol] = fact
        self._outbox.add_facts([fact], gap)
