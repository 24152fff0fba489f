"""What an account learns between two decisions: outcomes, finished days, promoted notes, and reflections.

All are functions of the log: what is due follows from the trades closed since the last time, so the next tick makes
up for a process that was killed before it. Where the log knows that nothing was written since there was last
nothing to learn, nothing is read again.

An error in one part stops neither the others nor the tick: it is tried again before the next decision, and the
decision before that records why (`OptionalReads`). Only what the book itself says of an append is raised.
"""

from collections.abc import Callable

import msgspec

from tapebook.book.events import EVENT_KINDS, TradeClosed
from tapebook.domain.agent import Deployment, Note
from tapebook.domain.canonical import short_id
from tapebook.domain.instants import DAY
from tapebook.domain.position import ClosedTrade
from tapebook.errors import Retry, Stop
from tapebook.lessons import ReflectionState, Reflector, RejectedNote, run_reflection, should_run_reflection
from tapebook.lessons.notes import NOTE_PROMOTED, NOTE_REFUSED, NOTE_WRITTEN, draft_note_refused, draft_note_written
from tapebook.lessons.reflection import Lesson
from tapebook.log import Draft
from tapebook.log.single_writer import SingleWriterLog
from tapebook.tick.heartbeat import call_with_heartbeat
from tapebook.tick.memory import layers_due, outcomes_due, promoted_notes_due
from tapebook.tick.prepare import LEARNING, OptionalReads, safe_causes
from tapebook.wiring import Rooms

MAX_TRADES_PER_NOTE = 200
"""How many of the newest closed trades a note rests on."""


_LearningState = tuple[Deployment, int, int, int | None]
"""All that decides whether something is due: who asks, the day, and how far what could matter is written."""

# Beside a new day: a trade that ended, a note on such trades, or one that was promoted.
_TEACHING_KINDS = frozenset((EVENT_KINDS[TradeClosed], NOTE_WRITTEN, NOTE_REFUSED, NOTE_PROMOTED))


def learn_what_is_due(rooms: Rooms, deployment: Deployment) -> tuple[str, ...]:
    """Learns what there is to learn, and says why where it could not; asked again with nothing left it does nothing.

    After an import of many trades that is one step of them: a decision must not wait for all, and is told what is
    known by then.
    """
    moment = _learning_state(rooms, deployment)
    if moment is not None and rooms.nothing_to_learn_at.get(deployment.id) == moment:
        return ()
    optional = OptionalReads()
    learned = learn_from_trades(rooms, deployment, optional)
    reflected = _reflect_if_due(rooms, deployment, optional)
    if not reflected and not learned and not optional.causes and moment is not None:
        rooms.nothing_to_learn_at[deployment.id] = moment
    return optional.causes


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
        "outcomes": optional.read_or_default(f"{LEARNING} outcomes", [], outcomes_due, rooms, deployment, seq=seq),
        "layers": optional.read_or_default(f"{LEARNING} layers", [], layers_due, rooms, deployment, seq=seq),
        "promoted notes": optional.read_or_default(
            f"{LEARNING} promoted notes", [], promoted_notes_due, rooms, deployment, seq=seq
        ),
    }
    due = {part: drafts for part, drafts in parts.items() if drafts}
    learned = [draft for drafts in due.values() for draft in drafts]
    if learned and isinstance(_try_append(rooms, deployment, learned, seq=seq), Exception):
        # One of them cannot be written: the others are, each by itself.
        for part, drafts in due.items():
            head = _try_append(rooms, deployment, drafts, seq=seq)
            if isinstance(head, Exception):
                optional.add_cause(f"{LEARNING} {part}", head)
            else:
                seq = head
    return bool(due)


def _try_append(rooms: Rooms, deployment: Deployment, drafts: list[Draft], *, seq: int) -> int | Exception:
    """The new head when all of it was appended; the error when a memory cannot write its rows, and nothing was."""
    # What concerns the book itself is raised: a lost lease, a full disk. So is all where nobody else writes, since
    # what was remembered of an append there cannot be taken back one by one.
    try:
        return rooms.book.append(deployment.id, drafts, expected_seq=seq)[-1].seq
    except (Retry, Stop):
        raise
    except Exception as error:
        if isinstance(rooms.log, SingleWriterLog):
            raise
        return error


def _learning_state(rooms: Rooms, deployment: Deployment) -> _LearningState | None:
    """What there is to learn is a function of: the day, and the newest events that teach; None when not known."""
    book, log = rooms.book, rooms.log
    own = log.last_change_seq(book.stream(deployment.id), _TEACHING_KINDS, seq=book.head(deployment.id))
    shared = log.last_change_seq(book.stream(), _TEACHING_KINDS, seq=book.head())
    return None if own is None else (deployment, rooms.clock.now() // DAY, own, shared)


class _DueReflection(msgspec.Struct, frozen=True):
    """A reflection that is due: who makes it, of which trades, and what stands by now."""

    reflector: Reflector
    trades: list[ClosedTrade]
    active: str | None
    closed_since: int
    seq: int


def _reflect_if_due(rooms: Rooms, deployment: Deployment, optional: OptionalReads) -> bool:
    """Whether a reflection was due; what came of it is written."""
    # One that breaks is a rejected one: the active note stays, and the next trigger tries again. So a model that was
    # paid for is not asked again at every tick.
    name = f"{LEARNING} reflection"
    due = optional.read_or_default(name, None, _reflection_due, rooms, deployment)
    if due is None:
        return False
    now = rooms.clock.now()
    event = call_with_heartbeat(
        rooms, lambda: optional.read_or_default(name, None, _reflection_draft, deployment, due, at=now)
    )
    if event is None:
        (why,) = safe_causes(rooms, optional.causes[-1:])
        event = draft_note_refused(_note_of_reflection(deployment, RejectedNote(why), due.trades, at=now), why)
    head = _try_append(rooms, deployment, [event], seq=due.seq)
    if isinstance(head, Exception):
        optional.add_cause(name, head)
        # Only remembered here: this process asks again when one more trade has ended.
        rooms.failed_reflection_trades[deployment.id] = due.closed_since
    return True


def _reflection_draft(deployment: Deployment, due: _DueReflection, *, at: int) -> Draft:
    """Reflects; the event of what came of it."""
    found = run_reflection(due.reflector, deployment.agent, due.trades, active=due.active)
    note = _note_of_reflection(deployment, found, due.trades, at=at)
    return draft_note_refused(note, found.why) if isinstance(found, RejectedNote) else draft_note_written(note)


def _reflection_due(rooms: Rooms, deployment: Deployment) -> _DueReflection | None:
    """The reflection that is due, if one is."""
    seq, reflection = rooms.book.head(deployment.id), deployment.agent.reflection
    if reflection.cadence == "off":
        return None
    state = _reflection_state(rooms, deployment, seq)
    if not should_run_reflection(state, reflection, as_of=rooms.clock.now()):
        return None
    if rooms.failed_reflection_trades.get(deployment.id) == state.closed_since_note:
        return None
    trades = rooms.book.closed_trades(deployment.id, seq=seq, most=MAX_TRADES_PER_NOTE)[::-1]
    active = rooms.notes.active_note(deployment.id, seq=seq)
    text = active.lessons_text if active else None
    return _DueReflection(rooms.reflector(deployment.agent), trades, text, state.closed_since_note, seq)


def _reflection_state(rooms: Rooms, deployment: Deployment, seq: int) -> ReflectionState:
    last = rooms.notes.last_reflection(deployment.id, seq=seq)
    count, first = rooms.book.closed_count_since(deployment.id, after=last[0] if last else 0, seq=seq)
    return ReflectionState(count, last[1] if last else None, first)


def _note_of_reflection(
    deployment: Deployment, found: Lesson | RejectedNote, trades: list[ClosedTrade], *, at: int
) -> Note:
    lesson = None if isinstance(found, RejectedNote) else found
    reflector = deployment.agent.reflection.reflector
    return Note(
        note_id=short_id("note", deployment.owner, deployment.id, at),
        agent=deployment.agent.name,
        agent_version=deployment.version,
        generated_at=at,
        window_start=min(trade.state.entry_tick_at for trade in trades),
        window_end=max(trade.exit_tick_at for trade in trades),
        trades_considered=len(trades),
        lessons_text=lesson.text if lesson else "",
        content_hash=lesson.content_hash if lesson else "",
        written_by=lesson.written_by if lesson else found.usage.model if found.usage else reflector,
        usage=found.usage,
    )
