"""What an account learns between two decisions: from every trade that ended, of every day that is over, from
what was promoted to its skills, and by a reflection when one is due.

All are functions of the log: what is due follows from the trades closed since the last time, so a process that
was killed before it is made up for by the next tick. Where the log knows that nothing was written since there was
last nothing to learn, nobody looks again.
"""

from tapebook.book.events import KINDS, TradeClosed
from tapebook.domain.agent import Deployment
from tapebook.domain.canonical import short_id
from tapebook.domain.instants import DAY
from tapebook.domain.note import Note
from tapebook.domain.trade import ClosedTrade
from tapebook.lessons import ReflectionState, Rejected, run_reflection, should_run_reflection
from tapebook.lessons.events import NOTE_PROMOTED, NOTE_REFUSED, NOTE_WRITTEN, refused, written
from tapebook.lessons.run import Lesson
from tapebook.loop.experience import outcomes_due
from tapebook.loop.horizons import layers_due
from tapebook.loop.patience import waited_for
from tapebook.loop.skills import tellings_due
from tapebook.wiring import Rooms

MOST_TRADES = 200
"""How many of the newest closed trades a note rests on."""


_Moment = tuple[Deployment, int, int, int | None]
"""All that decides whether something is due: who asks, the day, and how far what could matter is written."""

# Beside a new day: a trade that ended, a note on such trades, or one that was promoted.
_STIRRING = frozenset((KINDS[TradeClosed], NOTE_WRITTEN, NOTE_REFUSED, NOTE_PROMOTED))


def learn(rooms: Rooms, deployment: Deployment) -> None:
    """Learns all there is to learn; asked again at the same moment it does nothing."""
    moment = _moment(rooms, deployment)
    if moment is not None and rooms.quiet.get(deployment.id) == moment:
        return
    seq = rooms.book.head(deployment.id)
    due = [find(rooms, deployment, seq=seq) for find in (outcomes_due, layers_due, tellings_due)]
    learned = [draft for drafts in due for draft in drafts]
    if learned:
        rooms.book.append(deployment.id, learned, expected_seq=seq)
    if not _reflected(rooms, deployment) and not learned and moment is not None:
        rooms.quiet[deployment.id] = moment


def _moment(rooms: Rooms, deployment: Deployment) -> _Moment | None:
    """The moment it is; None where others write too, and only a look tells."""
    own = rooms.log.changed(rooms.book.stream(deployment.id), _STIRRING)
    if own is None:
        return None
    return deployment, rooms.clock.now() // DAY, own, rooms.log.changed(rooms.book.stream(), _STIRRING)


def _reflected(rooms: Rooms, deployment: Deployment) -> bool:
    """Whether a reflection was due; what came of it is written."""
    seq, now = rooms.book.head(deployment.id), rooms.clock.now()
    reflection = deployment.agent.reflection
    if reflection.cadence == "off" or not should_run_reflection(_state(rooms, deployment, seq), reflection, as_of=now):
        return False
    trades = rooms.book.closed_trades(deployment.id, seq=seq, most=MOST_TRADES)[::-1]
    active = rooms.notes.active(deployment.id, seq=seq)
    reflector = rooms.reflector(deployment.agent)
    text = active.lessons_text if active else None
    found = waited_for(rooms, lambda: run_reflection(reflector, deployment.agent, trades, active=text))
    note = _note(deployment, found, trades, at=now)
    event = refused(note, found.why) if isinstance(found, Rejected) else written(note)
    rooms.book.append(deployment.id, [event], expected_seq=seq)
    return True


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
