"""What the log tells becomes documents: trades, decisions, incidents, and what agents noted.

Each stream is read from where it was read last (`LogRead`), a page at a time; a page's documents, entries and the new
mark are one append, so a killed process neither loses nor doubles anything. Halts and outages are few: they are told
anew whenever there is something new, and what says the same leaves no trace.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from tapebook.book import events as book_events
from tapebook.domain.agent import is_dry
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.instants import DAY, iso
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import quoted, sanitise_lines
from tapebook.domain.trade import ClosedTrade
from tapebook.lessons.events import NOTE_REFUSED, NOTE_WRITTEN, NoteRefused
from tapebook.log import Draft, Event
from tapebook.loop.entries import Pen, body
from tapebook.loop.tasks import agent_of
from tapebook.recall import documents as docs
from tapebook.recall import incidents, trouble
from tapebook.recall.documents import Document
from tapebook.recall.events import DocumentKept, LogRead, draft
from tapebook.recall.incidents import Halt
from tapebook.recall.policy import entry_id
from tapebook.recall.trouble import Trouble
from tapebook.wiring import Rooms

PAGE = 5_000
"""Events of a stream that are read for one append."""

OUTAGES_SINCE_MS = 30 * DAY
"""How far back outages are looked at again: a gap may be filled days later."""

_OWNER = ""
_RUN, _CLOSED = book_events.KINDS[book_events.RunDecided], book_events.KINDS[book_events.TradeClosed]
_HALTED, _RESUMED = book_events.KINDS[book_events.DeskHalted], book_events.KINDS[book_events.DeskResumed]


class _Named(msgspec.Struct):
    name: str


class _Asked(msgspec.Struct):
    agent: _Named


class _Planned(msgspec.Struct):
    """What is read of a backtest's plan: whose it is."""

    value: _Asked


def write_annals(rooms: Rooms) -> int:
    """Writes down all that is new; returns how many documents have a new version."""
    kept = 0
    for deployment, agent in rooms.book.deployments():
        # A dry run traded nothing that its agent should read of later.
        if is_dry(deployment):
            continue
        while (page := _page(rooms, deployment, agent)) is not None:
            kept += page
            rooms.leases.beat_if_due()
    return kept + _halts(rooms) + _outages(rooms) + _backtests(rooms)


def kept_drafts(rooms: Rooms, found: Iterable[Document]) -> list[Draft]:
    """The events of documents that say something new; their bodies are in the archive before them."""
    drafts, now, seq = [], rooms.clock.now(), rooms.documents.head()
    for each in found:
        content = each.text.encode()
        digest = sha256_hex(content)
        before = rooms.documents.version(each.scope, each.path, seq=seq)
        if before is None or before.sha256 != digest:
            rooms.archive.put(content)
            kept = DocumentKept(each.scope, each.path, each.kind, digest, len(content), "log", "system")
            drafts.append(draft(now, kept))
    return drafts


def _backtests(rooms: Rooms) -> int:
    """The summaries of backtests that have ended below this home."""
    agents = {profile.name for _, profile in rooms.book.agents(removed=True)}
    found = []
    for summary in sorted(rooms.home.glob("backtests/*/summary.md")):
        plan = msgspec.json.decode((summary.parent / "plan.json").read_bytes(), type=_Planned)
        text, agent = summary.read_text("utf-8"), plan.value.agent.name
        found.append(docs.backtest_document(summary.parent.name, text, agent=agent, agents=agents))
    drafts = kept_drafts(rooms, found)
    _append(rooms, drafts)
    return len(drafts)


def _append(rooms: Rooms, drafts: Sequence[Draft]) -> None:
    if drafts:
        rooms.documents.append(drafts)


def _page(rooms: Rooms, deployment: str, agent: str) -> int | None:
    """Reads one page of a deployment's stream; None when there is nothing new."""
    mark = rooms.documents.mark(deployment)
    stream = rooms.book.stream(deployment)
    events = list(islice(rooms.log.events(stream, after=mark.until), PAGE))
    if not events:
        return None
    reading = _Reading(rooms, agent, mark.troubles)
    for event in events:
        reading.take(event)
    drafts = kept_drafts(rooms, reading.documents())
    read = draft(rooms.clock.now(), LogRead(deployment, events[-1].seq, reading.troubles))
    rooms.documents.append([*drafts, *reading.entries, read])
    return len(drafts)


class _Reading:
    """A page of a deployment's stream, as far as it was read."""

    def __init__(self, rooms: Rooms, agent: str, troubles: Mapping[str, Trouble]) -> None:
        self._rooms = rooms
        self._agent = agent
        self._pen = Pen(rooms)
        self._trades: list[Document] = []
        self._days: dict[str, list[str]] = {}
        self._incidents: dict[str, Document] = {}
        self.entries: list[Draft] = []
        self.troubles = dict(troubles)

    def take(self, event: Event) -> None:
        """Reads one event; most kinds tell nothing."""
        if event.kind == _RUN:
            self._decided(book_events.body_of(event, book_events.RunDecided).run)
        elif event.kind == _CLOSED:
            self._closed(book_events.body_of(event, book_events.TradeClosed).trade)
        elif event.kind == NOTE_REFUSED:
            problem = msgspec.json.decode(event.body, type=NoteRefused).problem
            words = f"{iso(event.happened_at)[:16]} {quoted(problem)}"
            before = self.troubles.get("lessons")
            found = trouble.grown(before, "lessons", at=event.happened_at, state="rejected", words=words)
            self._troubled("lessons", found)
        elif event.kind == NOTE_WRITTEN and "lessons" in self.troubles:
            self._troubled("lessons", trouble.ended(self.troubles["lessons"], at=event.happened_at))

    def documents(self) -> list[Document]:
        """All that was told."""
        transcripts = [each for day, told in self._days.items() for each in self._transcripts(day, told)]
        return [*self._trades, *transcripts, *self._incidents.values()]

    def _decided(self, run: DecisionRun) -> None:
        # A shadow's decisions are nobody's.
        if run.trigger == "shadow":
            return
        if docs.acted(run):
            self._days.setdefault(iso(run.as_of)[:10], []).append(docs.decision_text(run))
        found = trouble.after_run(self.troubles.get("decisions"), run, incidents.run_words(run))
        if found is not None:
            self._troubled("decisions", found)
        name = entry_id(run.run_id)
        if sanitise_lines(run.note) and self._rooms.documents.entry(name) is None:
            said = self._pen.entry(
                self._agent, "journal", run.note, by=self._agent, run_id=run.run_id, at=run.as_of, entry_id=name
            )
            self.entries.append(said)

    def _closed(self, trade: ClosedTrade) -> None:
        book = self._rooms.book
        if "fills" in book.trade_lacks(trade.state.trade_id):
            # What is partly assumed is nothing to be found and learned from.
            return
        entry, left = book.run(trade.state.entry_run_id or ""), book.run(trade.exit_run_id or "")
        self._trades.append(docs.trade_document(self._agent, trade, entry=entry, exit_run=left))

    def _troubled(self, name: str, found: Trouble) -> None:
        told = incidents.decisions_incident if name == "decisions" else incidents.lessons_incident
        document = told(self._agent, found)
        self._incidents[document.path] = document
        if found.ended_at:
            self.troubles.pop(name, None)
        else:
            self.troubles[name] = found

    def _transcripts(self, day: str, told: Sequence[str]) -> list[Document]:
        """The last part of a day with what is new, and as many more as it takes."""
        part, there = 1, self._told(day, 1)
        while more := self._told(day, part + 1):
            part, there = part + 1, more
        decisions = [*there, *told]
        size = docs.DECISIONS_PER_PART
        parts = [decisions[start : start + size] for start in range(0, len(decisions), size)]
        return [
            docs.transcript(self._agent, day, part=number, decisions=some) for number, some in enumerate(parts, part)
        ]

    def _told(self, day: str, part: int) -> list[str]:
        """What a part of a day's transcript has by now."""
        rooms, place = self._rooms, docs.transcript(self._agent, day, part=part, decisions=())
        version = rooms.documents.version(place.scope, place.path, seq=rooms.documents.head())
        return docs.decisions_in(body(rooms, version.sha256).decode()) if version and version.sha256 else []


def _halts(rooms: Rooms) -> int:
    """Every halt there was, told anew when the owner's stream has moved."""
    head = rooms.book.head()
    if rooms.documents.mark(_OWNER).until == head:
        return 0
    stood: dict[str, Halt] = {}
    told: list[Halt] = []
    for event in rooms.log.events(rooms.book.stream(), until=head):
        if event.kind == _HALTED:
            halted = book_events.body_of(event, book_events.DeskHalted)
            told += _ended(stood, halted.subject, at=event.happened_at, reason=f"halted again: {halted.reason}")
            stood[halted.subject] = Halt(agent_of(halted.subject), event.happened_at, halted.reason)
        elif event.kind == _RESUMED:
            resumed = book_events.body_of(event, book_events.DeskResumed)
            told += _ended(stood, resumed.subject, at=event.happened_at, reason=resumed.reason)
    drafts = kept_drafts(rooms, map(incidents.halt_incident, [*told, *stood.values()]))
    rooms.documents.append([*drafts, draft(rooms.clock.now(), LogRead(_OWNER, head))])
    return len(drafts)


def _ended(stood: dict[str, Halt], subject: str, *, at: int, reason: str) -> list[Halt]:
    halt = stood.pop(subject, None)
    return [] if halt is None else [msgspec.structs.replace(halt, ended_at=at, ended_reason=reason)]


def _outages(rooms: Rooms) -> int:
    now = rooms.clock.now()
    recorded = [(found.gap, found.filled_at is not None) for found in rooms.tape.gaps(as_of=now)]
    recent = [each for each in incidents.outages(recorded) if each.ended_at > now - OUTAGES_SINCE_MS]
    drafts = kept_drafts(rooms, map(incidents.outage_incident, recent))
    _append(rooms, drafts)
    return len(drafts)
