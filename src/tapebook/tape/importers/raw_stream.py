"""A recorded stream of Hyperliquid, replayed: the same frames give the same facts as they did live.

Every line is a frame with the moment it was received, `{"at": ms, "frame": …}` or `ms<TAB>frame`. That moment is when
its facts were known, so nothing is assumed. Frames go through the decoders of the live source: midpoints are the first
of their five seconds, bars are final by the next bar or by the clock (`bars.py`). A recording of our own holds answers
of REST as well (`raw_answers.py`); from their lists it is known which perps are live, else all names count.

A silence longer than the live source would bear means that the recording was interrupted: bars that were open then may
lack trades, and are left out unless a later frame completes them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import msgspec

from tapebook.domain.instants import MINUTE, SECOND, floor
from tapebook.domain.market import Candle, Mid, Observation, PredictedFunding
from tapebook.domain.text import plural
from tapebook.errors import BadInput
from tapebook.tape.importer import EARLIEST, Ask, Imported, Parsed, Problems, Progress, Told
from tapebook.tape.importers.raw_answers import Answers
from tapebook.tape.importers.series import longest
from tapebook.tape.recording import read_line
from tapebook.tape.sources.hyperliquid.bars import Bars
from tapebook.tape.sources.hyperliquid.mids import Mids
from tapebook.tape.sources.hyperliquid.rest import ANSWER_CHANNEL
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.universe import Names, dex_of
from tapebook.tape.sources.hyperliquid.wire import CandlesFrame, Frame, Malformed, MidsFrame, OtherFrame, read_frame

_LIVE = HyperliquidSettings()
_PROGRESS_LINES = 1_000
# Of what is wrong with one line.
_SHOWN = 3


def parse(file: BinaryIO, ask: Ask, *, problems: Problems, progress: Progress) -> Parsed:
    """A recording as midpoints and bars, of one symbol or of all."""
    replay = _Replay(ask.symbol)
    lines = 0
    for lines, at, content in _lines(file, ask.now, problems):
        if lines % _PROGRESS_LINES == 0:
            progress(lines)
        if why := replay.line(content, at):
            problems.add(lines, why)
    if not replay.facts:
        bad = "".join(f"; line {first.row:,} {first.why}" for first in problems.first()[:1])
        of = f" of {ask.symbol}" if ask.symbol else ""
        raise BadInput(f"the recording has neither midpoints nor whole bars{of}{bad}")
    moments: dict[Observation, int] = dict(replay.facts)
    return Parsed(
        [fact for fact, _ in replay.facts],
        moments.__getitem__,
        (),
        problems.first(),
        problems.count,
        replay.told(lines),
    )


def _lines(file: BinaryIO, now: int, problems: Problems) -> Iterator[tuple[int, int, bytes]]:
    """Line number, moment and content; lines without a moment in order become problems."""
    newest = 0
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            at, content = read_line(line)
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


def _why_bad(frame: Frame, at: int) -> str:
    """What is wrong with a frame; empty when nothing is."""
    if isinstance(frame, Malformed):
        return f"{frame.what}: {frame.why}"
    if isinstance(frame, MidsFrame) and frame.bad:
        return f"no price of {', '.join(frame.bad[:5])} among the mids"
    if isinstance(frame, CandlesFrame) and frame.bad:
        return _said(frame.bad)
    ahead = [bar.symbol for bar in frame.candles if _is_ahead(bar, at)] if isinstance(frame, CandlesFrame) else []
    return f"a bar of {ahead[0]} begins after it was received" if ahead else ""


def _said(problems: Sequence[Malformed]) -> str:
    return "; ".join(f"{bad.what} {bad.subject}".rstrip() + f": {bad.why}" for bad in problems[:_SHOWN])


def _is_ahead(bar: Candle, at: int) -> bool:
    # Clocks differ a little; a bar further ahead has a damaged time, and would make all others look final.
    return bar.bucket_ts > at + MINUTE


class _Replay:
    """The facts of a recording, each with the moment it was known."""

    def __init__(self, symbol: str | None) -> None:
        self.facts: list[tuple[Imported, int]] = []
        self._symbol = symbol
        self._mids: dict[str, Mids] = {}
        self._bars = Bars(grace_ms=_LIVE.grace_ms)
        self._names = Names(_LIVE)
        self._answers = Answers(self._names, self._bars)
        # What was last said of a moment: an answer often repeats what is known.
        self._said: dict[tuple[object, ...], Imported] = {}
        # Bars with trades that were seen, and whether they left: symbol and beginning of each.
        self._seen: dict[tuple[str, int], bool] = {}
        self._at = 0
        self._silences: list[tuple[int, int]] = []
        self._other = 0

    def line(self, content: bytes, at: int) -> str:
        """Takes the next line; says what is wrong with it."""
        frame = read_frame(content)
        self._pass_time(at)
        if isinstance(frame, OtherFrame) and frame.channel == ANSWER_CHANNEL:
            return self._answer(content, at)
        self._frame(frame, at)
        return _why_bad(frame, at)

    def _answer(self, content: bytes, at: int) -> str:
        version = self._names.version
        facts, problems = self._answers.read(content, now=at)
        if version != self._names.version:
            for stream in self._mids.values():
                stream.forget()
        self._give((fact for fact in facts if self._is_asked_for(fact.symbol)), at)
        return _said(problems)

    def _frame(self, frame: Frame, at: int) -> None:
        if isinstance(frame, MidsFrame):
            dex = frame.dex or dex_of(next(iter(frame.prices_e8), ""))
            stream = self._mids.setdefault(dex, Mids(dex, wanted=self._wanted))
            self._give(stream.frame(frame, at=at), at)
        elif isinstance(frame, CandlesFrame):
            for candle in frame.candles:
                self._bar(candle, at)
        else:
            self._other += 1

    def told(self, lines: int) -> Told:
        """What the recording turned out to be."""
        symbols = {fact.symbol for fact, _ in self.facts}
        mids, bars = (sum(isinstance(fact, kind) for fact, _ in self.facts) for kind in (Mid, Candle))
        notes = [f"{plural(mids, 'midpoint')} and {plural(bars, 'bar')} of {plural(len(symbols), 'symbol')}"]
        others = len(self.facts) - mids - bars
        notes += [f"{others:,} contexts, books and rates"] if others else []
        notes += [f"{plural(self._other, 'frame')} of other channels"] if self._other else []
        if unfinished := sum(not left for left in self._seen.values()):
            bars_left = plural(unfinished, "bar")
            notes.append(f"left out: {bars_left} that had not ended when the recording did or broke off")
        return Told(
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
            longest_gaps=longest(self._silences),
            missing=0,
            notes=tuple(notes),
        )

    def _pass_time(self, at: int) -> None:
        """Lets bars become final by the clock at the moments they did live: the grace past a minute."""
        before, self._at = self._at, at
        patience = _LIVE.mids_silence_s if self._mids else _LIVE.candles_silence_s
        if before and at - before > patience * SECOND:
            self._silences.append((before, at))
            self._bars.doubt({symbol for symbol, _ in self._seen})
        due = floor(before - _LIVE.grace_ms, MINUTE) + _LIVE.grace_ms + MINUTE
        # A bar begins at most a minute ahead, so after three minutes none is left waiting.
        for moment in range(due, min(at, due + 3 * MINUTE) + 1, MINUTE):
            self._give(self._bars.tick(moment), moment)

    def _bar(self, candle: Candle, at: int) -> None:
        if not self._wanted(candle.symbol) or _is_ahead(candle, at):
            return
        if candle.sample_count:
            self._seen.setdefault((candle.symbol, candle.bucket_ts), False)
        self._give(self._bars.frame(candle), at)

    def _wanted(self, name: str) -> bool:
        # Sides of outcomes are not watched live either, unless they are named; nor are perps that are delisted.
        if self._symbol or not self._names.ready:
            return self._is_asked_for(name)
        return self._names.has_mid(name)

    def _is_asked_for(self, name: str) -> bool:
        return name == self._symbol if self._symbol else not name.startswith("#")

    def _give(self, facts: Iterable[Imported], at: int) -> None:
        for fact in facts:
            if isinstance(fact, Candle):
                self._seen[fact.symbol, fact.bucket_ts] = True
            place = (type(fact), fact.symbol, fact.bucket_ts, isinstance(fact, PredictedFunding) and fact.venue)
            if self._said.get(place) != fact:
                self._said[place] = fact
                self.facts.append((fact, at))
