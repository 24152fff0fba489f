"""Answers of REST in a recorded stream: contexts, books, rates and bars, as the live source made them.

An answer stands in a recording as a frame of its own, with its question and the moment that was asked. The questions
of one book come one after another, full precision first; the answers before that are of no use.
"""

from collections.abc import Callable

import msgspec

from tapebook.domain.instants import MINUTE, floor
from tapebook.domain.market import Liquidity
from tapebook.tape.importer import Imported
from tapebook.tape.sources.hyperliquid.answers import (
    read_book,
    read_candles,
    read_contexts,
    read_funding,
    read_meta,
    read_predicted,
    read_spot_meta,
)
from tapebook.tape.sources.hyperliquid.bars import Bars
from tapebook.tape.sources.hyperliquid.book_poll import BUCKET
from tapebook.tape.sources.hyperliquid.books import (
    FULL,
    Book,
    book_of,
    changed_enough,
    liquidity_of,
    next_picture,
)
from tapebook.tape.sources.hyperliquid.contexts import contexts_of, funding_of, predicted_of
from tapebook.tape.sources.hyperliquid.rest import Exchanged
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.universe import Names
from tapebook.tape.sources.hyperliquid.wire import READ_ERRORS, Malformed, malformed

_LIVE = HyperliquidSettings()


class _Range(msgspec.Struct):
    coin: str


class _Question(msgspec.Struct, rename="camel"):
    type: str
    dex: str = ""
    coin: str = ""
    n_sig_figs: int | None = None
    req: _Range | None = None


class _Envelope(msgspec.Struct):
    data: Exchanged


_envelope = msgspec.json.Decoder(_Envelope)
_question = msgspec.json.Decoder(_Question)

Facts = tuple[list[Imported], list[Malformed]]
_Reader = Callable[["Answers", _Question, bytes, int], Facts]


class Answers:
    """What recorded answers say, one after another; names are learned and bars completed on the way."""

    def __init__(self, names: Names, bars: Bars) -> None:
        self._names = names
        self._bars = bars
        self._now = 0
        # By symbol, when the full book was asked for and the pictures since.
        self._books: dict[str, tuple[int, dict[int, Book]]] = {}
        # By symbol, the newest book that was given out.
        self._kept: dict[str, Liquidity] = {}

    def read(self, frame: bytes, *, now: int) -> Facts:
        """The facts of an answer, and what cannot be read of it."""
        self._now = now
        try:
            said = _envelope.decode(frame).data
            question = _question.decode(said.request)
        except READ_ERRORS as error:
            return [], [malformed("answer", error, frame[:200].decode(errors="replace"))]
        reader = _READERS.get(question.type)
        return reader(self, question, bytes(said.answer), said.asked_at) if reader else ([], [])

    def _meta(self, question: _Question, body: bytes, asked_at: int) -> Facts:
        perps = read_meta(body)
        if isinstance(perps, Malformed):
            return [], [perps]
        self._names.learn_perps(question.dex, perps.universe)
        return [], list(perps.problems)

    def _spots(self, question: _Question, body: bytes, asked_at: int) -> Facts:
        pairs = read_spot_meta(body)
        if isinstance(pairs, Malformed):
            return [], [pairs]
        self._names.learn_spots(pair.name for pair in pairs.good())
        return [], list(pairs.problems)

    def _contexts(self, question: _Question, body: bytes, asked_at: int) -> Facts:
        answer = read_contexts(body)
        if isinstance(answer, Malformed):
            return [], [answer]
        self._names.learn_perps(question.dex, answer.universe)
        live = self._names.live(question.dex)
        facts, problems = contexts_of(answer, dex=question.dex, watched=live, bucket_ts=floor(asked_at, MINUTE))
        return list(facts), [*answer.problems, *problems]

    def _predicted(self, question: _Question, body: bytes, asked_at: int) -> Facts:
        answer = read_predicted(body)
        if isinstance(answer, Malformed):
            return [], [answer]
        live = self._names.live("")
        facts, problems = predicted_of(answer.good(), watched=live, bucket_ts=floor(asked_at, MINUTE))
        return list(facts), [*answer.problems, *problems]

    def _funding(self, question: _Question, body: bytes, asked_at: int) -> Facts:
        answer = read_funding(body)
        if isinstance(answer, Malformed):
            return [], [answer]
        facts, problems = funding_of(question.coin, answer.good(), until=self._now)
        return list(facts), [*answer.problems, *problems]

    def _candles(self, question: _Question, body: bytes, asked_at: int) -> Facts:
        symbol = question.req.coin if question.req else ""
        rows = read_candles(body)
        if isinstance(rows, Malformed):
            return [], [rows]
        self._bars.trust(symbol)
        # A bar from the future would make all others look final.
        candles = [bar for bar in rows.good() if bar.symbol == symbol and bar.bucket_ts <= self._now + MINUTE]
        return list(self._bars.backfill(symbol, candles, now=self._now)), list(rows.problems)

    def _book(self, question: _Question, body: bytes, asked_at: int) -> Facts:
        row = read_book(body)
        try:
            book = book_of(row, symbol=question.coin) if row is not None and not isinstance(row, Malformed) else None
        except ValueError as error:
            row = malformed("l2Book", error, question.coin)
        if isinstance(row, Malformed):
            return [], [row]
        fact = self._picture(question, book, asked_at) if book is not None else None
        return ([fact] if fact else []), []

    def _picture(self, question: _Question, book: Book, asked_at: int) -> Liquidity | None:
        """The liquidity once the pictures are enough; one that is answered in the next bucket came too late."""
        figures = question.n_sig_figs or FULL
        since, pictures = (asked_at, {}) if figures == FULL else self._books.get(question.coin, (asked_at, {}))
        pictures[figures] = book
        self._books[question.coin] = since, pictures
        if FULL not in pictures or floor(since, BUCKET) != floor(self._now, BUCKET) or next_picture(pictures):
            return None
        before = self._kept.get(question.coin)
        if before is None or floor(before.bucket_ts, BUCKET) < floor(asked_at, BUCKET):
            self._kept[question.coin] = liquidity_of(question.coin, pictures, bucket_ts=floor(asked_at, BUCKET))
            return self._kept[question.coin]
        return self._look(before, liquidity_of(question.coin, pictures, bucket_ts=floor(asked_at, MINUTE)))

    def _look(self, before: Liquidity, book: Liquidity) -> Liquidity | None:
        """A second book of one round was a look: it counts when it has changed, as it did live."""
        factor, imbalance = _LIVE.book_change_factor, _LIVE.book_change_imbalance
        if not changed_enough(before, book, factor=factor, imbalance=imbalance):
            return None
        self._kept[book.symbol] = book
        return book


_READERS: dict[str, _Reader] = {
    "meta": Answers._meta,
    "spotMeta": Answers._spots,
    "metaAndAssetCtxs": Answers._contexts,
    "predictedFundings": Answers._predicted,
    "fundingHistory": Answers._funding,
    "candleSnapshot": Answers._candles,
    "l2Book": Answers._book,
}
