"""What an account learns between two decisions: from every trade that ended, of every day that is over, from
what was promoted to its skills, and by a reflection when one is due.

All are functions of the log: what is due follows from the trades closed since the last time, so a process that
was killed before it is made up for by the next tick. Where the log knows that nothing was written since there was
last nothing to learn, nobody looks again.

Whatever a part raises stops neither the others nor the tick: it is tried again before the next decision, and the
decision before that is told why (`optional_reads`). Only what the book itself says of an append is raised.
"""

from collections.abc import Callable

import msgspec

from tapebook.book.events import KINDS, TradeClosed
from tapebook.domain.agent import Deployment
from tapebook.domain.canonical import short_id
from tapebook.domain.instants import DAY
from tapebook.domain.note import Note
from tapebook.domain.trade import ClosedTrade
from tapebook.errors import Retry, Stop
from tapebook.lessons import ReflectionState, Reflector, Rejected, run_reflection, should_run_reflection
from tapebook.lessons.events import NOTE_PROMOTED, NOTE_REFUSED, NOTE_WRITTEN, refused, written
from tapebook.lessons.run import Lesson
from tapebook.log import Draft
from tapebook.log.sole import SoleLog
from tapebook.loop.experience import outcomes_due
from tapebook.loop.horizons import layers_due
from tapebook.loop.optional_reads import LEARNING, OptionalReads, safe_causes
from tapebook.loop.patience import waited_for
from tapebook.loop.skills import tellings_due
from tapebook.wiring import Rooms

MOST_TRADES = 200
"""How many of the newest closed trades a note rests on."""


_Moment = tuple[Deployment, int, int, int | None]
"""All that decides whether something is due: who asks, the day, and how far what could matter is written."""

# Beside a new day: a trade that ended, a note on such trades, or one that was promoted.
_STIRRING = frozenset((KINDS[TradeClosed], NOTE_WRITTEN, NOTE_REFUSED, NOTE_PROMOTED))


def learn(rooms: Rooms, deployment: Deployment) -> tuple[str, ...]:
    """Learns what there is to learn, and says why where it could not; asked again with nothing left it does nothing.

    After an import of many trades that is one step of them: a decision must not wait for all, and is told what is
    known by then.
    """
    moment = _moment(rooms, deployment)
    if moment is not None and rooms.quiet.get(deployment.id) == moment:
        return ()
    optional = OptionalReads()
    learned = learn_from_trades(rooms, deployment, optional)
    reflected = _reflected(rooms, deployment, optional)
    if not reflected and not learned and not optional.causes and moment is not None:
        rooms.quiet[deployment.id] = moment
    return optional.causes


def learn_everything(rooms: Rooms, deployment: Deployment, *, progress: Callable[[int], None]) -> None:
    """Learns step after step until nothing is left, and keeps the lease alive in between; what fails ends it.

    A process that is killed meanwhile leaves what it learned by then; whoever decides next goes on.
    """
    before = rooms.book.head(deployment.id)
    optional = OptionalReads()
    while learn_from_trades(rooms, deployment, optional) and not optional.causes:
        rooms.leases.beat_if_due()
        progress(rooms.book.head(deployment.id) - before)


def learn_from_trades(rooms: Rooms, deployment: Deployment, optional: OptionalReads) -> bool:
    """Learns the next step of what asks nobody: outcomes, days that are over, promoted notes; whether there was any."""
    seq = rooms.book.head(deployment.id)
    parts = {
        "outcomes": optional.read(f"{LEARNING} outcomes", [], outcomes_due, rooms, deployment, seq=seq),
        "layers": optional.read(f"{LEARNING} layers", [], layers_due, rooms, deployment, seq=seq),
        "promoted notes": optional.read(f"{LEARNING} promoted notes", [], tellings_due, rooms, deployment, seq=seq),
    }
    due = {part: drafts for part, drafts in parts.items() if drafts}
    learned = [draft for drafts in due.values() for draft in drafts]
    if learned and isinstance(_appended(rooms, deployment, learned, seq=seq), Exception):
        # One of them cannot be written: the others are, each by itself.
        for part, drafts in due.items():
            head = _appended(rooms, deployment, drafts, seq=seq)
            if isinstance(head, Exception):
                optional.add_cause(f"{LEARNING} {part}", head)
            else:
                seq = head
    return bool(due)


def _appended(rooms: Rooms, deployment: Deployment, drafts: list[Draft], *, seq: int) -> int | Exception:
    """The new head when all of it was appended; the error when a memory cannot write its rows, and nothing was.

    What concerns the book itself is raised: a lost lease, a full disk. So is all where nobody else writes, since
    what was remembered of an append there cannot be taken back one by one.
    """
    try:
        return rooms.book.append(deployment.id, drafts, expected_seq=seq)[-1].seq
    except (Retry, Stop):
        raise
    except Exception as error:
        if isinstance(rooms.log, SoleLog):
            raise
        return error


def _moment(rooms: Rooms, deployment: Deployment) -> _Moment | None:
    """The moment it is; None where others write too, and only a look tells."""
    own = rooms.log.changed(rooms.book.stream(deployment.id), _STIRRING)
    if own is None:
        return None
    return deployment, rooms.clock.now() // DAY, own, rooms.log.changed(rooms.book.stream(), _STIRRING)


class _Due(msgspec.Struct, frozen=True):
    """A reflection that is due: who makes it, of which trades, and what stands by now."""

    reflector: Reflector
    trades: list[ClosedTrade]
    active: str | None
    closed_since: int
    seq: int


def _reflected(rooms: Rooms, deployment: Deployment, optional: OptionalReads) -> bool:
    """Whether a reflection was due; what came of it is written.

    One that breaks is a rejected one: the active note stays, and the next trigger tries again. So a model that
    was paid for is not asked again at every tick.
    """
    name = f"{LEARNING} reflection"
    due = optional.read(name, None, _due, rooms, deployment)
    if due is None:
        return False
    now = rooms.clock.now()
    event = waited_for(rooms, lambda: optional.read(name, None, _reflection, deployment, due, at=now))
    if event is None:
        (why,) = safe_causes(rooms, optional.causes[-1:])
        event = refused(_note(deployment, Rejected(why), due.trades, at=now), why)
    head = _appended(rooms, deployment, [event], seq=due.seq)
    if isinstance(head, Exception):
        optional.add_cause(name, head)
        # Only remembered here: this process asks again when one more trade has ended.
        rooms.unwritten[deployment.id] = due.closed_since
    return True


def _reflection(deployment: Deployment, due: _Due, *, at: int) -> Draft:
    """Reflects; the event of what came of it."""
    found = run_reflection(due.reflector, deployment.agent, due.trades, active=due.active)
    note = _note(deployment, found, due.trades, at=at)
    return refused(note, found.why) if isinstance(found, Rejected) else written(note)


def _due(rooms: Rooms, deployment: Deployment) -> _Due | None:
    """The reflection that is due, if one is."""
    seq, reflection = rooms.book.head(deployment.id), deployment.agent.reflection
    if reflection.cadence == "off":
        return None
    state = _state(rooms, deployment, seq)
    if not should_run_reflection(state, reflection, as_of=rooms.clock.now()):
        return None
    if rooms.unwritten.get(deployment.id) == state.closed_since_note:
        return None
    trades = rooms.book.closed_trades(deployment.id, seq=seq, most=MOST_TRADES)[::-1]
    active = rooms.notes.active(deployment.id, seq=seq)
    text = active.lessons_text if active else None
    return _Due(rooms.reflector(deployment.agent), trades, text, state.closed_since_note, seq)


def _state(rooms: Rooms, deployment: Deployment, seq: int) -> ReflectionState:
    last = rooms.notes.last_try(deployment.id, seq=seq)
    count, first = rooms.book.closed_since(deployment.id, after=last[0] if last else 0, seq=seq)
    return ReflectionState(count, last[1] if last else None, first)


def _note(deployment: Deployment, found: Lesson | Rejected, trades: list[ClosedTrade], *, at: int) -> Note:
    lesson = None if isinstance(found, Rejected) else found
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
