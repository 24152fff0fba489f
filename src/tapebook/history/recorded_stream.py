"""A recorded stream of Hyperliquid, replayed: the same frames give the same facts as they did live.

Every line is a frame with the moment it was received, `{"at": ms, "frame": …}` or `ms<TAB>frame`. That moment is
when its facts were known, so nothing is assumed. Frames go through the decoders of the live source: midpoints are
the first of their five seconds, bars are final by the next bar or by the clock (`sources/hyperliquid/prices.py`).

A recording of our own holds answers of REST as well, each as a frame with its request and the moment that was asked
(`RecordedAnswers`); from their lists it is known which perps are live, else all names count. The requests of one
book come one after another, full precision first; the answers before that are of no use.

What other sources have recorded of their answers goes to their own replays (`SourceReplay`), and counts for nothing
here: an exchange that is silent is silent, whatever others say.

A silence longer than the live source would bear means that the recording was interrupted: bars that were open then
may lack trades, and are left out unless a later frame completes them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, cast

import msgspec

from tapebook.domain.market import (
    Candle,
    FeatureRow,
    Liquidity,
    Mid,
    Observation,
    PredictedFunding,
    RegistryRecord,
    dex_of,
)
from tapebook.domain.text import plural
from tapebook.domain.units import MINUTE, SECOND, floor_to_step
from tapebook.errors import BadInput
from tapebook.history.importer import FileFindings, Imported, ImportRequest, ParsedFile, Progress, RowProblems
from tapebook.history.series import longest_gaps
from tapebook.sources.hyperliquid.books import (
    BOOKS_BUCKET_MS,
    FULL,
    BookPicture,
    book_changed_enough,
    book_of,
    liquidity_of,
    next_picture,
)
from tapebook.sources.hyperliquid.contexts import contexts_of, funding_of, predicted_of
from tapebook.sources.hyperliquid.prices import BarFinalizer, MidStream
from tapebook.sources.hyperliquid.rest import ANSWER_CHANNEL, RecordedExchange
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import ListedNames
from tapebook.sources.hyperliquid.wire import (
    READ_ERRORS,
    CandlesFrame,
    Frame,
    Malformed,
    MidsFrame,
    OtherFrame,
    describe_malformed,
    read_book,
    read_candles,
    read_contexts,
    read_frame,
    read_funding,
    read_meta,
    read_predicted,
    read_spot_meta,
)
from tapebook.tape.recording import parse_line
from tapebook.tape.source import SourceReplay
from tapebook.tape.view import EARLIEST

_LIVE_SETTINGS = HyperliquidSourceSettings()


class _CandleRange(msgspec.Struct):
    coin: str


class _Question(msgspec.Struct, rename="camel"):
    type: str
    dex: str = ""
    coin: str = ""
    n_sig_figs: int | None = None
    req: _CandleRange | None = None


class _AnswerEnvelope(msgspec.Struct):
    data: RecordedExchange


_envelope = msgspec.json.Decoder(_AnswerEnvelope)
_question = msgspec.json.Decoder(_Question)

FactsAndProblems = tuple[list[Imported], list[Malformed]]
_AnswerReader = Callable[["RecordedAnswers", _Question, bytes, int], FactsAndProblems]


class RecordedAnswers:
    """What recorded answers say, one after another; names are learned and bars completed on the way."""

    def __init__(self, names: ListedNames, bars: BarFinalizer) -> None:
        self._names = names
        self._bars = bars
        self._now = 0
        # By symbol, when the full book was asked for and the pictures since.
        self._books: dict[str, tuple[int, dict[int, BookPicture]]] = {}
        # By symbol, the newest book that was given out.
        self._kept: dict[str, Liquidity] = {}

    def read_answer(self, frame: bytes, *, now: int) -> FactsAndProblems:
        """The facts of an answer, and what cannot be read of it."""
        self._now = now
        try:
            envelope = _envelope.decode(frame).data
            question = _question.decode(envelope.request)
        except READ_ERRORS as error:
            return [], [describe_malformed("answer", error, frame[:200].decode(errors="replace"))]
        reader = _READERS.get(question.type)
        return reader(self, question, bytes(envelope.answer), envelope.asked_at) if reader else ([], [])

    def _meta(self, question: _Question, body: bytes, asked_at: int) -> FactsAndProblems:
        perps = read_meta(body)
        if isinstance(perps, Malformed):
            return [], [perps]
        self._names.learn_perps(question.dex, perps.universe)
        return [], list(perps.problems)

    def _spots(self, question: _Question, body: bytes, asked_at: int) -> FactsAndProblems:
        pairs = read_spot_meta(body)
        if isinstance(pairs, Malformed):
            return [], [pairs]
        self._names.learn_spots(pair.name for pair in pairs.good_rows())
        return [], list(pairs.problems)

    def _contexts(self, question: _Question, body: bytes, asked_at: int) -> FactsAndProblems:
        answer = read_contexts(body)
        if isinstance(answer, Malformed):
            return [], [answer]
        self._names.learn_perps(question.dex, answer.universe)
        live = self._names.live_perps(question.dex)
        facts, problems = contexts_of(answer, dex=question.dex, watched=live, bucket_ts=floor_to_step(asked_at, MINUTE))
        return list(facts), [*answer.problems, *problems]

    def _predicted_rates(self, question: _Question, body: bytes, asked_at: int) -> FactsAndProblems:
        answer = read_predicted(body)
        if isinstance(answer, Malformed):
            return [], [answer]
        live = self._names.live_perps("")
        facts, problems = predicted_of(answer.good_rows(), watched=live, bucket_ts=floor_to_step(asked_at, MINUTE))
        return list(facts), [*answer.problems, *problems]

    def _funding(self, question: _Question, body: bytes, asked_at: int) -> FactsAndProblems:
        answer = read_funding(body)
        if isinstance(answer, Malformed):
            return [], [answer]
        facts, problems = funding_of(question.coin, answer.good_rows(), until=self._now)
        return list(facts), [*answer.problems, *problems]

    def _candles(self, question: _Question, body: bytes, asked_at: int) -> FactsAndProblems:
        symbol = question.req.coin if question.req else ""
        rows = read_candles(body)
        if isinstance(rows, Malformed):
            return [], [rows]
        self._bars.clear_doubt(symbol)
        # A bar from the future would make all others look final.
        candles = [bar for bar in rows.good_rows() if bar.symbol == symbol and bar.bucket_ts <= self._now + MINUTE]
        return list(self._bars.add_backfill(symbol, candles, now=self._now)), list(rows.problems)

    def _book(self, question: _Question, body: bytes, asked_at: int) -> FactsAndProblems:
        row = read_book(body)
        try:
            book = book_of(row, symbol=question.coin) if row is not None and not isinstance(row, Malformed) else None
        except ValueError as error:
            row = describe_malformed("l2Book", error, question.coin)
        if isinstance(row, Malformed):
            return [], [row]
        fact = self._picture(question, book, asked_at) if book is not None else None
        return ([fact] if fact else []), []

    def _picture(self, question: _Question, book: BookPicture, asked_at: int) -> Liquidity | None:
        """The liquidity once the pictures are enough; one that is answered in the next bucket came too late."""
        figures = question.n_sig_figs or FULL
        since, pictures = (asked_at, {}) if figures == FULL else self._books.get(question.coin, (asked_at, {}))
        pictures[figures] = book
        self._books[question.coin] = since, pictures
        if (
            FULL not in pictures
            or floor_to_step(since, BOOKS_BUCKET_MS) != floor_to_step(self._now, BOOKS_BUCKET_MS)
            or next_picture(pictures)
        ):
            return None
        before = self._kept.get(question.coin)
        if before is None or floor_to_step(before.bucket_ts, BOOKS_BUCKET_MS) < floor_to_step(
            asked_at, BOOKS_BUCKET_MS
        ):
            self._kept[question.coin] = liquidity_of(
                question.coin, pictures, bucket_ts=floor_to_step(asked_at, BOOKS_BUCKET_MS)
            )
            return self._kept[question.coin]
        return self._second_book(
            before, liquidity_of(question.coin, pictures, bucket_ts=floor_to_step(asked_at, MINUTE))
        )

    def _second_book(self, before: Liquidity, book: Liquidity) -> Liquidity | None:
        """A second book of one round was a look: it counts when it has changed, as it did live."""
        factor, imbalance = _LIVE_SETTINGS.book_change_factor, _LIVE_SETTINGS.book_change_imbalance
        if not book_changed_enough(before, book, factor=factor, imbalance=imbalance):
            return None
        self._kept[book.symbol] = book
        return book


_READERS: dict[str, _AnswerReader] = {
    "meta": RecordedAnswers._meta,
    "spotMeta": RecordedAnswers._spots,
    "metaAndAssetCtxs": RecordedAnswers._contexts,
    "predictedFundings": RecordedAnswers._predicted_rates,
    "fundingHistory": RecordedAnswers._funding,
    "candleSnapshot": RecordedAnswers._candles,
    "l2Book": RecordedAnswers._book,
}


_PROGRESS_LINES = 1_000
# Of what is wrong with one line.
_SHOWN = 3


def parse_stream(file: BinaryIO, ask: ImportRequest, *, problems: RowProblems, progress: Progress) -> ParsedFile:
    """A recording as midpoints and bars, of one symbol or of all, and of all as what other sources make of theirs."""
    # Other sources have no facts of one symbol alone.
    others = {} if ask.symbol else ask.replays
    replay = _StreamReplay(ask.symbol, others)
    lines = 0
    for lines, at, content in _stamped_lines(file, ask.now, problems):
        if lines % _PROGRESS_LINES == 0:
            progress(lines)
        if why := replay.add_line(content, at):
            problems.add(lines, why)
    if not replay.facts:
        bad = "".join(f"; line {first.row:,} {first.why}" for first in problems.first()[:1])
        of = f" of {ask.symbol}" if ask.symbol else ""
        raise BadInput(f"the recording has neither midpoints nor whole bars{of}, nor a whole answer{bad}")
    moments: dict[Observation, int] = dict(replay.facts)
    return ParsedFile(
        [fact for fact, _ in replay.facts],
        moments.__getitem__,
        (),
        problems.first(),
        problems.count,
        replay.findings(lines),
        {symbol: kind for each in others.values() for symbol, kind in each.kinds.items()},
    )


def _stamped_lines(file: BinaryIO, now: int, problems: RowProblems) -> Iterator[tuple[int, int, bytes]]:
    """Line number, moment and content; lines without a moment in order become problems."""
    newest = 0
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            at, content = parse_line(line)
        except (msgspec.DecodeError, ValueError) as error:
            problems.add(number, f"is no frame with a moment: {error}")
            continue
        if not EARLIEST <= at <= now:
            problems.add(number, f"was received at {at}, which is no moment of the past in milliseconds")
        elif at < newest:
            problems.add(number, f"was received at {at}, before the line above it")
        else:
            newest = at
            yield number, at, content


def _why_bad_frame(frame: Frame, at: int) -> str:
    """What is wrong with a frame; empty when nothing is."""
    if isinstance(frame, Malformed):
        return f"{frame.what}: {frame.why}"
    if isinstance(frame, MidsFrame) and frame.bad:
        return f"no price of {', '.join(frame.bad[:5])} among the mids"
    if isinstance(frame, CandlesFrame) and frame.bad:
        return _problems_text(frame.bad)
    ahead = [bar.symbol for bar in frame.candles if _is_ahead(bar, at)] if isinstance(frame, CandlesFrame) else []
    return f"a bar of {ahead[0]} begins after it was received" if ahead else ""


def _problems_text(problems: Sequence[Malformed]) -> str:
    return "; ".join(f"{bad.what} {bad.subject}".rstrip() + f": {bad.why}" for bad in problems[:_SHOWN])


def _is_ahead(bar: Candle, at: int) -> bool:
    # Clocks differ a little; a bar further ahead has a damaged time, and would make all others look final.
    return bar.bucket_ts > at + MINUTE


class _StreamReplay:
    """The facts of a recording, each with the moment it was known."""

    def __init__(self, symbol: str | None, others: Mapping[str, SourceReplay]) -> None:
        self.facts: list[tuple[Imported, int]] = []
        self._others = others
        self._rows_of_others = dict.fromkeys(others, 0)
        self._symbol = symbol
        self._mids: dict[str, MidStream] = {}
        self._bars = BarFinalizer(grace_ms=_LIVE_SETTINGS.grace_ms)
        self._names = ListedNames(_LIVE_SETTINGS)
        self._answers = RecordedAnswers(self._names, self._bars)
        # What was last said of a moment: an answer often repeats what is known.
        self._said: dict[tuple[object, ...], Imported] = {}
        # Bars with trades that were seen, and whether they left: symbol and beginning of each.
        self._seen: dict[tuple[str, int], bool] = {}
        self._at = 0
        self._silences: list[tuple[int, int]] = []
        self._other = 0

    def add_line(self, content: bytes, at: int) -> str:
        """Takes the next line; says what is wrong with it."""
        for name, other in self._others.items():
            if other.is_mine(content):
                facts, why = other.add_frame(content, at=at)
                self.facts += [(cast("Imported", fact), at) for fact in facts]
                self._rows_of_others[name] += len(facts)
                return why
        frame = read_frame(content)
        self._pass_time(at)
        if isinstance(frame, OtherFrame) and frame.channel == ANSWER_CHANNEL:
            return self._answer(content, at)
        self._frame(frame, at)
        return _why_bad_frame(frame, at)

    def _answer(self, content: bytes, at: int) -> str:
        version = self._names.version
        facts, problems = self._answers.read_answer(content, now=at)
        if version != self._names.version:
            for stream in self._mids.values():
                stream.forget_names()
        self._add_facts((fact for fact in facts if self._is_asked_for(fact.symbol)), at)
        return _problems_text(problems)

    def _frame(self, frame: Frame, at: int) -> None:
        if isinstance(frame, MidsFrame):
            dex = frame.dex or dex_of(next(iter(frame.symbols), ""))
            stream = self._mids.setdefault(dex, MidStream(dex, wanted=self._is_wanted))
            self._add_facts(stream.mids_of_frame(frame, at=at), at)
        elif isinstance(frame, CandlesFrame):
            for candle in frame.candles:
                self._bar(candle, at)
        else:
            self._other += 1

    def findings(self, lines: int) -> FileFindings:
        """What the recording turned out to be."""
        symbols = {fact.symbol for fact, _ in self.facts if not isinstance(fact, FeatureRow | RegistryRecord)}
        mids, bars = (sum(isinstance(fact, kind) for fact, _ in self.facts) for kind in (Mid, Candle))
        notes = [f"{plural(mids, 'midpoint')} and {plural(bars, 'bar')} of {plural(len(symbols), 'symbol')}"]
        notes += [f"{plural(rows, 'row')} of {name}" for name, rows in self._rows_of_others.items() if rows]
        others = len(self.facts) - mids - bars - sum(self._rows_of_others.values())
        notes += [f"{others:,} contexts, books and rates"] if others else []
        notes += [f"{plural(self._other, 'frame')} of other channels"] if self._other else []
        if unfinished := sum(not left for left in self._seen.values()):
            bars_left = plural(unfinished, "bar")
            notes.append(f"left out: {bars_left} that had not ended when the recording did or broke off")
        return FileFindings(
            format="recorded stream",
            row_name="line",
            columns={},
            unused=(),
            times="milliseconds since 1970, UTC, when each frame was received",
            values="prices as the exchange wrote them",
            rows_read=lines,
            duplicates=0,
            first_ts=min(fact.bucket_ts for fact, _ in self.facts),
            last_ts=max(fact.bucket_ts for fact, _ in self.facts),
            spacing_ms=None,
            gap_count=len(self._silences),
            longest_gaps=longest_gaps(self._silences),
            missing=0,
            notes=tuple(notes),
        )

    def _pass_time(self, at: int) -> None:
        """Lets bars become final by the clock at the moments they did live: the grace past a minute."""
        before, self._at = self._at, at
        silence_s = _LIVE_SETTINGS.mids_silence_s if self._mids else _LIVE_SETTINGS.candles_silence_s
        if before and at - before > silence_s * SECOND:
            self._silences.append((before, at))
            self._bars.mark_doubtful({symbol for symbol, _ in self._seen})
        due = floor_to_step(before - _LIVE_SETTINGS.grace_ms, MINUTE) + _LIVE_SETTINGS.grace_ms + MINUTE
        # A bar begins at most a minute ahead, so after three minutes none is left waiting.
        for moment in range(due, min(at, due + 3 * MINUTE) + 1, MINUTE):
            self._add_facts(self._bars.finish_by_clock(moment), moment)

    def _bar(self, candle: Candle, at: int) -> None:
        if not self._is_wanted(candle.symbol) or _is_ahead(candle, at):
            return
        if candle.sample_count:
            self._seen.setdefault((candle.symbol, candle.bucket_ts), False)
        self._add_facts(self._bars.add_frame(candle), at)

    def _is_wanted(self, name: str) -> bool:
        # Sides of outcomes are not watched live either, unless they are named; nor are perps that are delisted.
        if self._symbol or not self._names.ready:
            return self._is_asked_for(name)
        return self._names.has_mid(name)

    def _is_asked_for(self, name: str) -> bool:
        return name == self._symbol if self._symbol else not name.startswith("#")

    def _add_facts(self, facts: Iterable[Imported], at: int) -> None:
        for fact in facts:
            if isinstance(fact, Candle):
                self._seen[fact.symbol, fact.bucket_ts] = True
            place = (type(fact), fact.symbol, fact.bucket_ts, isinstance(fact, PredictedFunding) and fact.venue)
            if self._said.get(place) != fact:
                self._said[place] = fact
                self.facts.append((fact, at))
