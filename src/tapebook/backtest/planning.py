"""From a request to a plan: checks that the tape covers a backtest, and pins all that decides its outcome.

1. The range is the one given, or all that the tape has of the agent's symbols (`bar_coverage`).
2. Symbols without a bar in it are left out, with a note; none left is an error, and so is a hole in the bars.
3. A memory of some rooms, or of none, is another profile (`memory`); a frozen memory learns until a moment.
4. The inputs, rows, code and settings, are added (`identity`).

A bar that is missing in imported history is a hole. A live tape has no bar of a minute in which nobody traded, so
there a missing minute is a hole only when an open gap of candles is recorded for it, or when nothing else shows that
the feed was heard: no bar and no midpoint of any symbol of its exchange in that minute, and the bars before and after
it did not come in one answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict, get_args

import msgspec

from tapebook.backtest.identity import PlanFingerprints
from tapebook.backtest.memory import memory_mode, plan_memory, with_memory_mode
from tapebook.backtest.plan import BacktestChunk, BacktestPlan, ChunkKind, MemoryMode, split_range
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import Candle, FundingRate, Gap, Mid, dex_of, subject_of
from tapebook.domain.order import FillRule
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND, iso_text, parse_instant
from tapebook.errors import BadInput
from tapebook.settings.config import Config
from tapebook.tape.families import CANDLES
from tapebook.tape.store import Tape
from tapebook.tape.view import INTERVALS, View, span_text
from tapebook.wiring import Rooms

_END_OF_TIME = 253_402_300_799_999
_PAGE = 30 * DAY
_STRETCH = CANDLES.span_ms


class BarCoverage(msgspec.Struct, frozen=True):
    """The finest bars of a symbol within a range; `holes` are stretches without any, half open."""

    symbol: str
    granularity_sec: int
    first: int
    last: int
    bars: int
    holes: tuple[tuple[int, int], ...]

    @property
    def first_end(self) -> int:
        """When the first bar had ended."""
        return self.first + self.granularity_sec * SECOND


def bar_coverage(tape: Tape, symbol: str, *, start: int | None = None, end: int | None = None) -> BarCoverage | None:
    """The finest bars that lie in a range, or in all time; None when there are none."""
    for granularity in sorted(set(INTERVALS.values())):
        since, until = start, end
        if since is None or until is None:
            span = tape.candle_span(symbol, granularity_sec=granularity)
            if span is None:
                continue
            since = span[0] if since is None else since
            until = span[1] + granularity * SECOND if until is None else until
        found = _coverage_at(tape, symbol, granularity, since=since, until=until)
        if found is not None:
            return found
    return None


def bars_between(tape: Tape, symbol: str, *, granularity_sec: int, since: int, until: int) -> Iterator[Candle]:
    """A symbol's bars within a range as they are known now, read page by page."""
    step = granularity_sec * SECOND
    for at in range(since, until, _PAGE):
        last = min(at + _PAGE, until) - step
        yield from tape.candles(symbol, granularity_sec=granularity_sec, since=at, until=last, view=View(_END_OF_TIME))


def _coverage_at(tape: Tape, symbol: str, granularity: int, *, since: int, until: int) -> BarCoverage | None:
    step, holes, count = granularity * SECOND, list[tuple[int, int]](), 0
    live = _QuietMinutes(tape, symbol, since=since) if step == MINUTE else None
    first = expected = None
    for bar in bars_between(tape, symbol, granularity_sec=granularity, since=since, until=until):
        first = bar.bucket_ts if first is None else first
        if expected is not None and bar.bucket_ts > expected:
            missing = (expected, bar.bucket_ts)
            holes += live.holes(missing) if live else [missing]
        expected, count = bar.bucket_ts + step, count + 1
    if first is None or expected is None:
        return None
    return BarCoverage(symbol, granularity, first, expected, count, tuple(holes))


class _QuietMinutes:
    """Tells quiet minutes of a symbol from missing ones."""

    def __init__(self, tape: Tape, symbol: str, *, since: int) -> None:
        self._tape = tape
        self._symbol = symbol
        self._dex = dex_of(symbol)
        self._since = since
        self._gaps: list[Gap] | None = None
        # Minutes in which a bar of any symbol came, of the stretch that was looked at last: holes come in order.
        self._heard: tuple[int, set[int]] = (-1, set())

    def holes(self, missing: tuple[int, int]) -> list[tuple[int, int]]:
        """What of a stretch without bars is missing, and was not just quiet."""
        since, until = missing
        around = self._tape.minute_commits(self._symbol, since=since - MINUTE, until=until)
        before, after = (around.get(at, frozenset()) for at in (since - MINUTE, until))
        if not before and not after:
            return [missing]
        together = bool(before & after)
        holes: list[tuple[int, int]] = []
        for minute in range(since, until, MINUTE):
            if not self._in_gap(minute) and (together or self._is_heard(minute)):
                continue
            begins = holes.pop()[0] if holes and holes[-1][1] == minute else minute
            holes.append((begins, minute + MINUTE))
        return holes

    def _in_gap(self, minute: int) -> bool:
        if self._gaps is None:
            mine = (self._symbol, subject_of(self._dex))
            found = self._tape.channel_gaps("candles", since=self._since, as_of=_END_OF_TIME)
            self._gaps = [each.gap for each in found if each.filled_at is None and each.gap.subject in mine]
        return any(gap.from_ts <= minute < gap.to_ts for gap in self._gaps)

    def _is_heard(self, minute: int) -> bool:
        begins = minute - minute % _STRETCH
        if begins != self._heard[0]:
            self._heard = begins, self._observed_minutes(Candle, begins, begins + _STRETCH)
        return minute in self._heard[1] or bool(self._observed_minutes(Mid, minute, minute + MINUTE))

    def _observed_minutes(self, channel: type[Candle] | type[Mid], since: int, until: int) -> set[int]:
        return self._tape.observed_minutes(channel, of=self._is_of_dex, since=since, until=until)

    def _is_of_dex(self, symbol: str) -> bool:
        return dex_of(symbol) == self._dex


_MOMENTS = ("start", "end", "freeze_at")


class BacktestOptions(TypedDict, total=False):
    """A `BacktestRequest` as programs write it, by name; moments may be ISO-8601 text."""

    start: int | str | None
    end: int | str | None
    chunks: ChunkKind
    memory: MemoryMode
    freeze_at: int | str | None
    gaps: bool
    fill: FillRule | None
    memory_from: str | None


class BacktestRequest(msgspec.Struct, frozen=True):
    """What somebody asks for; without a range it is all there is, without a fill rule that of the settings."""

    start: int | None = None
    end: int | None = None
    chunks: ChunkKind = "quarter"
    memory: MemoryMode = "on"
    freeze_at: int | None = None
    gaps: bool = False
    fill: FillRule | None = None
    memory_from: str | None = None


def plan_for(rooms: Rooms, deployment: Deployment, wish: Mapping[str, Any]) -> BacktestPlan:
    """The plan of an agent for a request given by name; its moments may be text."""
    asked = _read_request(wish)
    plan = make_plan(rooms.tape, rooms.config, deployment.agent, version=deployment.version, wish=asked)
    return PlanFingerprints(rooms.tape, rooms.config, rooms.engine).with_inputs(
        plan_memory(rooms, plan, asked.memory_from)
    )


def _read_request(wish: Mapping[str, Any]) -> BacktestRequest:
    known = BacktestRequest.__struct_fields__
    if unknown := sorted(wish.keys() - set(known)):
        raise BadInput(f"a backtest has no option {unknown[0]!r}: choose from {', '.join(known)}")
    said = {key: value for key, value in wish.items() if key in _MOMENTS and isinstance(value, str)}
    try:
        moments = {key: parse_instant(value) for key, value in said.items()}
    except ValueError as error:
        raise BadInput(str(error)) from error
    return BacktestRequest(**(dict(wish) | moments))


def make_plan(tape: Tape, config: Config, agent: AgentProfile, *, version: int, wish: BacktestRequest) -> BacktestPlan:
    """The plan of a wish, without its inputs; BadInput, in one line, when the tape cannot carry it."""
    _check_request(wish)
    found = [each for symbol in agent.watchlist if (each := bar_coverage(tape, symbol, start=wish.start, end=wish.end))]
    if not found:
        raise BadInput(_no_bars_message(tape, agent, wish))
    start, end = _slot_range(found, agent, wish)
    chunks = split_range(wish.chunks, start, end)
    _check_bars(found, agent, wish)
    symbols = tuple(each.symbol for each in found)
    return BacktestPlan(
        agent=with_memory_mode(agent, wish.memory),
        agent_version=version,
        symbols=symbols,
        start=start,
        end=end,
        chunk_kind=wish.chunks,
        chunks=chunks,
        memory=memory_mode(wish.memory),
        freeze_at=_freeze_at(wish, chunks),
        tape_seq=tape.head()[0],
        settings_sha256="",
        notes=tuple(_notes(tape, agent, found, wish=wish, end=end)),
        fill=wish.fill or config.paper.fill,
    )


def _check_request(wish: BacktestRequest) -> None:
    if wish.start is not None and wish.end is not None and wish.end <= wish.start:
        raise BadInput(
            f"the range ends at {iso_text(wish.end)}, before it begins at {iso_text(wish.start)}: "
            "swap `start=` and `end=`"
        )
    _require_one_of("kind of chunks", wish.chunks, get_args(ChunkKind))
    memory_mode(wish.memory)
    if wish.fill is not None:
        _require_one_of("fill rule", wish.fill, get_args(FillRule))
    if wish.freeze_at is not None and wish.memory != "frozen":
        raise BadInput("`freeze_at=` says when a memory stops learning: use it with `memory=` frozen")


def _require_one_of(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise BadInput(f"there is no {what} {given!r}: choose {', '.join(known)}")


def _no_bars_message(tape: Tape, agent: AgentProfile, wish: BacktestRequest) -> str:
    watched = ", ".join(agent.watchlist)
    spans = [each for symbol in agent.watchlist if (each := bar_coverage(tape, symbol))]
    there = "; ".join(f"{each.symbol} from {iso_text(each.first)} to {iso_text(each.last)}" for each in spans)
    if not spans:
        return f"the tape has no bars of {watched}: bring some with `tapebook import candles`, or run `tapebook ingest`"
    given = " ".join(
        [
            f"from {iso_text(wish.start)}" if wish.start is not None else "",
            f"to {iso_text(wish.end)}" if wish.end else "",
        ]
    )
    return f"the tape has no bars of {watched} {given.strip()}; it has {there}: choose a range within"


def _slot_range(found: Sequence[BarCoverage], agent: AgentProfile, wish: BacktestRequest) -> tuple[int, int]:
    """Whole slots of the agent's cadence, from the first bar that has ended to the end of the last."""
    cadence = agent.cadence_ms
    first = max(min(each.first_end for each in found), wish.start or 0)
    last = min(max(each.last for each in found), wish.end if wish.end is not None else 2**62)
    start, end = -(-first // cadence) * cadence, last // cadence * cadence
    if wish.start is not None and first - wish.start <= max(each.granularity_sec for each in found) * SECOND:
        # The range somebody named begins where they said, even though its first bar ends a little later.
        start = -(-wish.start // cadence) * cadence
    if wish.start is None:
        start = -(-min(each.first for each in found) // cadence) * cadence
    if end <= start:
        raise BadInput(
            f"there is no decision between {iso_text(first)} and {iso_text(last)}: the range is shorter than a slot"
        )
    return start, end


def _check_bars(found: Sequence[BarCoverage], agent: AgentProfile, wish: BacktestRequest) -> None:
    bar_ms = agent.context.bar_minutes * 60 * SECOND
    for each in found:
        if each.granularity_sec * SECOND > bar_ms:
            raise BadInput(
                f"{agent.name} looks at bars of {agent.context.bar_minutes} minutes, but the tape has {each.symbol} "
                f"only every {span_text(each.granularity_sec * SECOND)}: choose a longer horizon or import smaller bars"
            )
        if each.holes and not wish.gaps:
            since, until = each.holes[0]
            raise BadInput(
                f"{each.symbol} has no bars from {iso_text(since)} to {iso_text(until)} "
                f"(gaps in all: {len(each.holes)}): "
                "import them, choose another range, or add `gaps=` to sit them out"
            )


def _freeze_at(wish: BacktestRequest, chunks: Sequence[BacktestChunk]) -> int | None:
    """When learning stops."""
    # By default at the end of the first chunk, so that there is something to read.
    if wish.memory != "frozen":
        return None
    return wish.freeze_at if wish.freeze_at is not None else chunks[0].end


def _notes(
    tape: Tape, agent: AgentProfile, found: Sequence[BarCoverage], *, wish: BacktestRequest, end: int
) -> list[str]:
    """What a reader of the result must know."""
    has = {each.symbol for each in found}
    left_out = [symbol for symbol in agent.watchlist if symbol not in has]
    notes = [f"{', '.join(left_out)}: no bars in the range, left out"] if left_out else []
    unfunded = [each.symbol for each in found if not _has_funding(tape, each, end=end)]
    if unfunded:
        notes.append(f"{', '.join(unfunded)}: no funding in the tape, so none was paid or received")
    holes = sum(len(each.holes) for each in found)
    if holes:
        notes.append(f"gaps in the bars: {holes}; no decision trades on data that old")
    slow = [each.symbol for each in found if each.granularity_sec * SECOND > agent.cadence_ms]
    if slow:
        notes.append(f"{', '.join(slow)}: bars are longer than a slot; between their ends prices can be too old")
    if agent.manual:
        notes.append("the manual is today's, not that of the time")
    notes.append("leverage tables are of March 2026: assumed for earlier times")
    return notes


def _has_funding(tape: Tape, each: BarCoverage, *, end: int) -> bool:
    newest = tape.newest(FundingRate, each.symbol, view=View(end + HOUR))
    return newest is not None and newest.bucket_ts >= each.first
