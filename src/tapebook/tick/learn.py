"""What an account learns between two decisions: outcomes, finished days and months, promoted notes, reflections.

Days of the book and of the tape (`BookDays`, `TapeDays`) are rolled up into layers when they are over (`layers_due`,
`owner_layers_due`), the twins of an ensemble's members are kept once a day (`twins_due`).

All are functions of the log: what is due follows from the trades closed since the last time, so the next tick makes
up for a process that was killed before it. Where the log knows that nothing was written since there was last
nothing to learn, nothing is read again.

An error in one part stops neither the others nor the tick: it is tried again before the next decision, and the
decision before that records why (`OptionalReads`). Only what the book itself says of an append is raised.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from tapebook.book.events import EVENT_KINDS, TradeClosed
from tapebook.book.materializer import day_start
from tapebook.book.store import Book
from tapebook.domain.agent import Deployment, Note
from tapebook.domain.canonical import short_id
from tapebook.domain.market import Candle
from tapebook.domain.position import ClosedTrade
from tapebook.domain.units import DAY, HOUR
from tapebook.errors import Retry, Stop
from tapebook.experience import Experience
from tapebook.experience.events import draft_snapshot_taken
from tapebook.experience.records import ChunkSnapshot, records_from_scratch, snapshot_of
from tapebook.horizons import Aggregate, ChangedDay, Period, RollupTerms, exit_of, leaf_of, roll_up_finished_days
from tapebook.horizons.layers import period_of
from tapebook.horizons.markets import MAX_SYMBOLS, PriceSpan, prices_of_day, sector_of
from tapebook.lessons import (
    Evidence,
    LaterCases,
    Reflected,
    ReflectionState,
    Reflector,
    run_reflection,
    shared_bullets,
    should_run_reflection,
)
from tapebook.lessons.hypotheses import EXIT_SPANS, TradeCase, ratio_ppm
from tapebook.lessons.notes import (
    NOTE_PROMOTED,
    NOTE_REFUSED,
    NOTE_WRITTEN,
    RESTATED_BY,
    FollowedExit,
    Notes,
    draft_exits_followed,
    draft_lesson_change,
    draft_note_refused,
    draft_note_written,
)
from tapebook.log import Draft
from tapebook.settings.config import Config
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.memory import STEP_TRADES, cases_of, members_of, outcomes_due, promoted_notes_due, runs_of
from tapebook.tick.prepare import LEARNING, OptionalReads, safe_causes
from tapebook.wiring import Rooms

MAX_TRADES_PER_NOTE = 200
"""How many of the newest closed trades a note rests on."""


_LearningState = tuple[Deployment, int, int, int | None]
"""All that decides whether something is due: who asks, the day, and how far what could matter is written."""

# Beside a new day: a trade that ended, a note on such trades, or one that was promoted.
_TEACHING_KINDS = frozenset((EVENT_KINDS[TradeClosed], NOTE_WRITTEN, NOTE_REFUSED, NOTE_PROMOTED))


def learn_what_is_due(rooms: Rooms, deployment: Deployment, *, calendar: bool = True) -> tuple[str, ...]:
    """Learns what there is to learn, and says why where it could not; asked again with nothing left it does nothing.

    After an import of many trades that is one step of them: a decision must not wait for all, and is told what is
    known by then. Where time has no chunks of its own, as those of a backtest, months of the calendar are summed up.
    """
    # What there is to learn is a function of: the day, and the newest events that teach; None when not known.
    book, taught = rooms.book, rooms.log.last_change_seq
    own = taught(book.stream(deployment.id), _TEACHING_KINDS, seq=book.head(deployment.id))
    shared = taught(book.stream(), _TEACHING_KINDS, seq=book.head())
    moment: _LearningState | None = None if own is None else (deployment, rooms.clock.now() // DAY, own, shared)
    if moment is not None and rooms.memory.nothing_to_learn_at.get(deployment.id) == moment:
        return ()
    optional = OptionalReads()
    learned = learn_from_trades(rooms, deployment, optional)
    if calendar:
        learned |= _sum_up_months(book, rooms.experience, deployment, optional=optional, now=rooms.clock.now())
    reflected = _reflect_if_due(rooms, deployment, optional)
    if not reflected and not learned and not optional.causes and moment is not None:
        rooms.memory.nothing_to_learn_at[deployment.id] = moment
    return tuple(optional.causes)


def learn_everything(rooms: Rooms, deployment: Deployment, *, progress: Callable[[int], None]) -> None:
    """Learns step after step until nothing is left, and keeps the lease alive in between; what fails ends it.

    A process that is killed meanwhile leaves what it learned by then; whoever decides next goes on.
    """
    before = rooms.book.head(deployment.id)
    optional = OptionalReads()
    while learn_from_trades(rooms, deployment, optional) and not optional.causes:
        rooms.leases.heartbeat_if_due()
        progress(rooms.book.head(deployment.id) - before)


def learn_from_trades(rooms: Rooms, deployment: Deployment, optional: OptionalReads) -> bool:
    """Learns the next step of what asks nobody: outcomes, days that are over, promoted notes; whether there was any."""
    seq = rooms.book.head(deployment.id)
    parts = {
        "outcomes": optional.read_or_default(
            f"{LEARNING} outcomes", [], outcomes_due, rooms.book, rooms.experience, deployment.id, seq=seq
        ),
        "layers": optional.read_or_default(f"{LEARNING} layers", [], layers_due, rooms, deployment, seq=seq),
        "promoted notes": optional.read_or_default(
            f"{LEARNING} promoted notes", [], promoted_notes_due, rooms.notes, deployment, seq=seq
        ),
    }
    parts["twins"] = optional.read_or_default(f"{LEARNING} twins", [], twins_due, rooms, deployment, seq=seq)
    due = {part: drafts for part, drafts in parts.items() if drafts}
    learned = [draft for drafts in due.values() for draft in drafts]
    if learned and isinstance(_try_append(rooms.book, deployment, learned, seq=seq), Exception):
        # One of them cannot be written: the others are, each by itself.
        for part, drafts in due.items():
            head = _try_append(rooms.book, deployment, drafts, seq=seq)
            if isinstance(head, Exception):
                optional.add_cause(f"{LEARNING} {part}", head)
            else:
                seq = head
    return bool(due)


def twins_due(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The event that keeps the twins of a deployment, once a day."""
    if not members_of(deployment.agent, rooms.config.engine.default):
        return []
    runs = runs_of(rooms.book, rooms.log, deployment.id)
    return rooms.experience.twins.draft_if_due(deployment.id, now=rooms.clock.now(), seq=seq, runs=runs)


class BookDays:
    """The days of a book: closed trades by the day of their exit, and what was posted to the ledger."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def heads(self, scope: str) -> dict[str, int]:
        """A deployment, or with an empty scope all there are, each with its newest sequence number."""
        names = [scope] if scope else [name for name, _ in self._book.deployments()]
        return {name: self._book.head(name) for name in names}

    def changed_days(self, scope: str, *, after: Mapping[str, int], until: Mapping[str, int]) -> list[ChangedDay]:
        """The days on which a trade ended or something was posted that became known in between."""
        found = []
        for name, seq in until.items():
            days = self._book.days_changed(name, after=after.get(name, 0), seq=seq)
            found += [ChangedDay(name, first, day) for day, first in days]
        return found

    def leaf(self, scope: str, day: Period, *, until: Mapping[str, int]) -> Aggregate:
        """The leaf of a day, as far as it is known."""
        exits, posted = [], []
        for name, seq in until.items():
            ended = self._book.trades_closed_between(name, since=day.start, until=day.end, seq=seq)
            exits += [exit_of(each.trade, each.engine, each.confidence_e4) for each in ended]
            posted.append(self._book.results_posted_between(name, since=day.start, until=day.end, seq=seq))
        known = [amount for amount in posted if amount is not None]
        return leaf_of(day, exits, ledger_usd_e6=sum(known) if known else None)


class TapeDays:
    """The days of some symbols on the tape, as far as they are known by a moment."""

    def __init__(self, tape: Tape, symbols: Iterable[str], *, now: int) -> None:
        self._tape = tape
        self._symbols = list(dict.fromkeys(symbols))[:MAX_SYMBOLS]
        self._now = now

    def prices(self, day: Period) -> dict[str, PriceSpan]:
        """The symbols with their prices on a day; without those nothing is known of."""
        # What is told in the hour after it belongs to a day; later corrections leave it as it was rolled up.
        view = View(min(self._now, day.end + HOUR - 1))
        found = {symbol: prices_of_day(self._bars(symbol, day, view)) for symbol in self._symbols}
        return {symbol: span for symbol, span in found.items() if span is not None}

    def _bars(self, symbol: str, day: Period, view: View) -> list[Candle]:
        for minutes, count in ((60, 24), (24 * 60, 1)):
            bars = self._tape.bars(symbol, minutes=minutes, count=count, view=view)
            if inside := [bar for bar in bars if bar.bucket_ts in day]:
                return inside
        return []


def layers_due(rooms: Rooms, deployment: Deployment, *, seq: int) -> list[Draft]:
    """The events of days that are over and are not in the layers yet.

    One lookup where no trade of such a day ended since there was last nothing to do: those of today can wait.
    """
    scope, now = deployment.id, rooms.clock.now()
    quiet = rooms.horizons.nothing_to_roll_up_at(scope, now=now)
    if quiet is not None:
        first = rooms.book.closed_count_since(scope, after=quiet, seq=seq)[1]
        if first is None or first >= day_start(now):
            return []
    return roll_up_finished_days(
        rooms.horizons,
        BookDays(rooms.book),
        scope,
        seq=seq,
        now=now,
        terms=rollup_terms(rooms.config),
        market=TapeDays(rooms.tape, deployment.agent.watchlist, now=now),
    )


def owner_layers_due(rooms: Rooms, *, seq: int) -> list[Draft]:
    """Roll-ups of all agents together, whose layers are in the owner's stream, a step at a time; none when all is in.

    No tick waits for that stream, so the librarian of a desk writes them.
    """
    now = rooms.clock.now()
    return roll_up_finished_days(
        rooms.horizons,
        BookDays(rooms.book),
        "",
        seq=seq,
        now=now,
        terms=rollup_terms(rooms.config),
        market=TapeDays(rooms.tape, watched_symbols(rooms.book), now=now),
    )


def watched_symbols(book: Book) -> list[str]:
    """What the agents of a home watch, without what was removed."""
    return [symbol for _, agent in book.agents() for symbol in agent.watchlist]


def rollup_terms(config: Config) -> RollupTerms:
    """The sectors of a home."""
    own = dict(entry.rsplit("=", 1) for entry in config.horizons.sectors)
    return RollupTerms(partial(sector_of, own=own))


def _sum_up_months(
    book: Book, experience: Experience, deployment: Deployment, *, optional: OptionalReads, now: int
) -> bool:
    """Whether months were over of which there was no snapshot; what they achieved is kept."""
    name, seq = f"{LEARNING} snapshots", book.head(deployment.id)
    drafts = optional.read_or_default(name, [], snapshots_due, book, experience, deployment.id, seq=seq, now=now)
    if not drafts:
        return False
    head = _try_append(book, deployment, drafts, seq=seq)
    if isinstance(head, Exception):
        optional.add_cause(name, head)
    return True


def snapshots_due(book: Book, experience: Experience, name: str, *, seq: int, now: int) -> list[Draft]:
    """The snapshots of months that are over and in which trades of the account ended, oldest first."""
    current = period_of("month", now)
    if experience.months_summed_up.get(name) == current.start:
        return []
    first = book.closed_after(name, after=0, seq=seq, most=1)
    months = [period_of("month", trade.exit_tick_at) for trade in first]
    taken = experience.snapshots(name, seq=seq)
    months += [period_of("month", each.ended_at) for each in taken if _is_of_month(each)]
    drafts, month = list[Draft](), max(months, default=current)
    while month < current:
        ended = book.trades_closed_between(name, since=month.start, until=month.end, seq=seq)
        forgotten = experience.forgotten_by_event(name, seq=seq) if ended else {}
        found = [experience.learned_outcome(name, each.trade.state.trade_id) for each in ended]
        if None in found:
            # It is over when all that ended in it was learned from.
            return drafts
        outcomes = [each.outcome for each in found if each is not None and each.seq not in forgotten]
        if outcomes:
            records = records_from_scratch(outcomes)
            taken_now = snapshot_of(month.key, {}, records, started_at=month.start, ended_at=month.end)
            drafts.append(draft_snapshot_taken(taken_now))
        month = month.next
    if not drafts:
        experience.months_summed_up[name] = current.start
    return drafts


def _is_of_month(snapshot: ChunkSnapshot) -> bool:
    """Whether a snapshot is of a whole month, and not of the chunk of a backtest that was imported."""
    month = period_of("month", snapshot.started_at)
    return (snapshot.chunk, snapshot.started_at, snapshot.ended_at) == (month.key, month.start, month.end)


def _try_append(book: Book, deployment: Deployment, drafts: list[Draft], *, seq: int) -> int | Exception:
    """The new head when all of it was appended; the error when a memory cannot write its rows, and nothing was."""
    # What concerns the book itself is raised: a lost lease, a full disk. So is all where nobody else writes, since
    # what was remembered of an append there cannot be taken back one by one.
    try:
        return book.append(deployment.id, drafts, expected_seq=seq)[-1].seq
    except (Retry, Stop):
        raise
    except Exception as error:
        if not book.takes_back_appends:
            raise
        return error


class _DueReflection(msgspec.Struct, frozen=True):
    """A reflection that is due: who makes it, of which trades, what is followed with it, and what stands by now."""

    reflector: Reflector
    trades: list[ClosedTrade]
    evidence: Evidence
    exits: tuple[FollowedExit, ...]
    active: str
    closed_since: int


def _reflect_if_due(rooms: Rooms, deployment: Deployment, optional: OptionalReads) -> bool:
    """Whether a reflection was due; what came of it is written."""
    # One that breaks is a refused one: the active note stays, and the next trigger tries again. So a model that was
    # paid for is not asked again at every tick.
    name = f"{LEARNING} reflection"
    due = optional.read_or_default(name, None, _reflection_due, rooms, deployment)
    if due is None:
        return False
    now = due.evidence.at
    drafts = rooms.leases.call_with_heartbeat(
        lambda: optional.read_or_default(name, None, _reflection_drafts, deployment, due)
    )
    if drafts is None:
        (why,) = safe_causes(optional.causes[-1:], without_keys=rooms.without_keys)
        drafts = [draft_note_refused(_note_of_reflection(deployment, None, due.trades, at=now), why)]
    head = _try_append(rooms.book, deployment, drafts, seq=due.evidence.seq)
    if isinstance(head, Exception):
        optional.add_cause(name, head)
        # Only remembered here: this process asks again when one more trade has ended.
        rooms.memory.failed_reflection_trades[deployment.id] = due.closed_since
    return True


def _reflection_drafts(deployment: Deployment, due: _DueReflection) -> list[Draft]:
    """Reflects; the events of what came of it: exits, lessons, and the note."""
    at = due.evidence.at
    found = run_reflection(due.reflector, deployment.agent, due.evidence)
    drafts = [draft_exits_followed(due.exits, at=at)] if due.exits else []
    drafts += [draft_lesson_change(after, before, at=at) for before, after in found.judged if after != before]
    drafts += [draft_lesson_change(new, None, at=at) for new in found.registered]
    note = _note_of_reflection(deployment, found, due.trades, at=at)
    if found.problem is None:
        return [*drafts, draft_note_written(note)]
    refused = msgspec.structs.replace(note, lessons_text="", content_hash="")
    drafts.append(draft_note_refused(refused, found.problem))
    # What later trades say needs no reflector: a lesson that was retired leaves the note all the same.
    if shared_bullets(found.text) != shared_bullets(due.active):
        drafts.append(draft_note_written(msgspec.structs.replace(note, usage=None, written_by=RESTATED_BY)))
    return drafts


def _reflection_due(rooms: Rooms, deployment: Deployment) -> _DueReflection | None:
    """The reflection that is due, if one is."""
    seq, reflection = rooms.book.head(deployment.id), deployment.agent.reflection
    if reflection.cadence == "off":
        return None
    state = _reflection_state(rooms.book, rooms.notes, deployment.id, seq=seq)
    if not should_run_reflection(state, reflection, as_of=rooms.clock.now()):
        return None
    if rooms.memory.failed_reflection_trades.get(deployment.id) == state.closed_since_note:
        return None
    trades = rooms.book.closed_trades(deployment.id, seq=seq, most=MAX_TRADES_PER_NOTE)[::-1]
    if not trades:
        return None
    active = rooms.notes.active_note(deployment.id, seq=seq)
    text = active.lessons_text if active else ""
    evidence, exits = _evidence(rooms, deployment, trades, seq=seq)
    return _DueReflection(rooms.reflector(deployment.agent), trades, evidence, exits, text, state.closed_since_note)


def _evidence(
    rooms: Rooms, deployment: Deployment, trades: list[ClosedTrade], *, seq: int
) -> tuple[Evidence, tuple[FollowedExit, ...]]:
    """What a reflection rests on, and the exits that can be followed by now."""
    name, now = deployment.id, rooms.clock.now()
    known = tuple(rooms.notes.lessons(name, seq=seq))
    followed = rooms.notes.followed_exits(name, seq=seq, most=2 * MAX_TRADES_PER_NOTE)
    new = tuple(
        _followed_exit(rooms.tape, trade, watermark=rooms.tape.head()[0])
        for trade in trades
        if trade.state.trade_id not in followed and trade.exit_tick_at + max(EXIT_SPANS.values()) <= now
    )
    # Trades from before the newest two hundred are not searched any more, so their exits are not followed either.
    exits = followed | {each.trade_id: each for each in new}
    cases = tuple(_with_exit(case, exits) for case in cases_of(rooms.experience, name, trades, seq=seq))
    fresh = {each.trade_id for each in new}
    after_exit = tuple(case for case in cases if case.trade_id in fresh)
    later = []
    for after in sorted({each.lesson.trial.seq for each in known if not each.lesson.trial.is_over}):
        found = list[TradeCase]()
        step = after
        # Mostly one step, since a lesson is judged at every reflection; after an import of many trades more.
        while ended := rooms.book.closed_after(name, after=step, seq=seq, most=STEP_TRADES):
            found += cases_of(rooms.experience, name, ended, seq=seq)
            step = rooms.book.trade_end_seq(ended[-1].state.trade_id) or seq
            if len(ended) < STEP_TRADES:
                break
        later.append(LaterCases(after, tuple(found), after_exit))
    return Evidence(cases, known, tuple(later), now, seq), new


def _with_exit(case: TradeCase, exits: Mapping[str, FollowedExit]) -> TradeCase:
    found = exits.get(case.trade_id)
    if found is None:
        return case
    return msgspec.structs.replace(case, after_exit_1h_ppm=found.after_1h_ppm, after_exit_4h_ppm=found.after_4h_ppm)


def _followed_exit(tape: Tape, trade: ClosedTrade, *, watermark: int) -> FollowedExit:
    """How far the market went on after an exit, as the tape knew it at each of the two moments."""
    state = trade.state
    ways: list[int | None] = []
    for span in EXIT_SPANS.values():
        at = trade.exit_tick_at + span
        price = tape.last_price(state.symbol, view=View(at, watermark)) if state.exited_e8 else None
        # A price from before the exit, or nearly so, says nothing of the way after it.
        if price is None or at - price.bucket_ts > span // 2:
            ways.append(None)
            continue
        sign = 1 if state.side == "long" else -1
        ways.append(sign * ratio_ppm(price.price_e8 - trade.exit_price_e8, trade.exit_price_e8))
    return FollowedExit(state.trade_id, *ways)


def _reflection_state(book: Book, notes: Notes, name: str, *, seq: int) -> ReflectionState:
    last = notes.last_reflection(name, seq=seq)
    count, first = book.closed_count_since(name, after=last[0] if last else 0, seq=seq)
    return ReflectionState(count, last[1] if last else None, first)


def _note_of_reflection(deployment: Deployment, found: Reflected | None, trades: list[ClosedTrade], *, at: int) -> Note:
    return Note(
        note_id=short_id("note", deployment.owner, deployment.id, at),
        agent=deployment.agent.name,
        agent_version=deployment.version,
        generated_at=at,
        window_start=min(trade.state.entry_tick_at for trade in trades),
        window_end=max(trade.exit_tick_at for trade in trades),
        trades_considered=len(trades),
        lessons_text=found.text if found else "",
        content_hash=found.content_hash if found else "",
        written_by=found.written_by if found else deployment.agent.reflection.reflector,
        usage=found.usage if found else None,
    )
