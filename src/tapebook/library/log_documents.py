"""Turns the log into documents: trades, decisions, incidents, changes of agents, and what agents noted.

Each stream is read from where it was read last (`LogRead`), a page at a time; a page's documents, entries and the
new position are one append, so a killed process neither loses nor doubles anything. Halts and outages are few: they
are written again whenever there is something new, and one that is unchanged leaves no new version.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from tapebook.archive import SpooledArchive
from tapebook.book import events as book_events
from tapebook.book.store import Book
from tapebook.clock import Clock
from tapebook.domain.agent import agent_name_of, is_dry_run
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.position import ClosedTrade
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import quote_line, sanitise_lines
from tapebook.domain.units import DAY, iso_text
from tapebook.lessons.notes import NOTE_REFUSED, NOTE_WRITTEN, RESTATED_BY, NoteRefused, NoteWritten
from tapebook.library import document_texts
from tapebook.library import document_texts as docs
from tapebook.library.document_texts import AgentChange, Document, Halt
from tapebook.library.entries import EntryWriter, archived_body
from tapebook.log import Draft, Event, Log
from tapebook.search.documents import (
    DocumentKept,
    Documents,
    LogRead,
    Outage,
    add_failure,
    draft_document_event,
    end_outage,
    entry_id_for,
    outage_after_run,
)
from tapebook.settings.profiles import profile_by_keys
from tapebook.tape.store import Tape
from tapebook.wiring import Rooms

EVENTS_PER_PAGE = 5_000
"""Events of a stream that are read for one append."""

OUTAGE_LOOKBACK_MS = 30 * DAY
"""How far back outages are looked at again: a gap may be filled days later."""

_OWNER_STREAM = ""
# The owner's stream is read twice: homes of before had read it for halts alone.
_CHANGES_READER = "@changes"
_RUN, _CLOSED = book_events.EVENT_KINDS[book_events.RunDecided], book_events.EVENT_KINDS[book_events.TradeClosed]
_SAVED, _REMOVED = book_events.EVENT_KINDS[book_events.AgentSaved], book_events.EVENT_KINDS[book_events.AgentRemoved]
_HALTED, _RESUMED = book_events.EVENT_KINDS[book_events.DeskHalted], book_events.EVENT_KINDS[book_events.DeskResumed]


class _PlanAgent(msgspec.Struct):
    name: str


class _PlanRequest(msgspec.Struct):
    agent: _PlanAgent


class _BacktestPlan(msgspec.Struct):
    """What is read of a backtest's plan: whose it is."""

    value: _PlanRequest


def write_log_documents(rooms: Rooms) -> int:
    """Writes down all that is new; returns how many documents have a new version."""
    kept, writer, book, log = 0, _LogDocuments(rooms.documents, rooms.archive, rooms.clock), rooms.book, rooms.log
    for deployment, agent in book.deployments():
        # A dry run traded nothing that its agent should read of later.
        if is_dry_run(deployment):
            continue
        while (page := _write_page(writer, book, log, stream=deployment, agent=agent)) is not None:
            kept += page
            rooms.leases.heartbeat_if_due()
    kept += _write_halts(writer, book, log) + _write_changes(writer, book, log)
    return kept + _write_outages(writer, rooms.tape) + _write_backtests(writer, book, rooms.home)


class _LogDocuments:
    """The documents that the log becomes: what is stored of them, and up to where it was read."""

    def __init__(self, documents: Documents, archive: SpooledArchive, clock: Clock) -> None:
        self.stored, self.archive, self.clock = documents, archive, clock

    def append(self, found: Iterable[Document], read: LogRead | None = None, entries: Sequence[Draft] = ()) -> int:
        """Appends those that say something new, with the place up to which was read; returns how many there are."""
        drafts = self._new_versions(found)
        if read is not None:
            self.stored.append([*drafts, *entries, draft_document_event(self.clock.now(), read)])
        elif drafts:
            self.stored.append(drafts)
        return len(drafts)

    def _new_versions(self, found: Iterable[Document]) -> list[Draft]:
        """The events of documents that say something new; their bodies are in the archive before them."""
        drafts, now, seq = [], self.clock.now(), self.stored.head()
        for each in found:
            content = each.text.encode()
            digest = sha256_hex(content)
            before = self.stored.version(each.scope, each.path, seq=seq)
            if before is None or before.sha256 != digest:
                self.archive.store_content_or_raise(content)
                kept = DocumentKept(each.scope, each.path, each.kind, digest, len(content), "log", "system")
                drafts.append(draft_document_event(now, kept))
        return drafts


def _write_backtests(writer: _LogDocuments, book: Book, home: Path) -> int:
    """The summaries of backtests that have ended below this home."""
    agents = set(book.agent_names())
    found = []
    for summary in sorted(home.glob("backtests/*/summary.md")):
        plan = msgspec.json.decode((summary.parent / "plan.json").read_bytes(), type=_BacktestPlan)
        text, agent = summary.read_text("utf-8"), plan.value.agent.name
        found.append(docs.backtest_document(summary.parent.name, text, agent=agent, agents=agents))
    return writer.append(found)


def _write_page(writer: _LogDocuments, book: Book, log: Log, *, stream: str, agent: str) -> int | None:
    """Reads one page of a deployment's stream; None when there is nothing new."""
    mark = writer.stored.read_mark(stream)
    events = list(islice(log.events(book.stream(stream), after=mark.until), EVENTS_PER_PAGE))
    if not events:
        return None
    reading = _StreamPage(book, writer, agent, mark.troubles)
    for event in events:
        reading.read_event(event)
    return writer.append(reading.documents(), LogRead(stream, events[-1].seq, reading.troubles), reading.entries)


class _StreamPage:
    """A page of a deployment's stream, as far as it was read."""

    def __init__(self, book: Book, writer: _LogDocuments, agent: str, troubles: Mapping[str, Outage]) -> None:
        self._book = book
        self._stored, self._archive = writer.stored, writer.archive
        self._agent = agent
        self._pen = EntryWriter(writer.stored, writer.archive)
        self._trades: list[Document] = []
        self._days: dict[str, list[str]] = {}
        self._incidents: dict[str, Document] = {}
        self.entries: list[Draft] = []
        self.troubles = dict(troubles)

    def read_event(self, event: Event) -> None:
        """Reads one event; most kinds tell nothing."""
        if event.kind == _RUN:
            self._add_decision(book_events.event_body(event, book_events.RunDecided).run)
        elif event.kind == _CLOSED:
            self._add_trade(book_events.event_body(event, book_events.TradeClosed).trade)
        elif event.kind == NOTE_REFUSED:
            problem = msgspec.json.decode(event.body, type=NoteRefused).problem
            words = f"{iso_text(event.happened_at)[:16]} {quote_line(problem)}"
            before = self.troubles.get("lessons")
            found = add_failure(before, "lessons", at=event.happened_at, state="rejected", words=words)
            self._note_outage("lessons", found)
        elif event.kind == NOTE_WRITTEN and "lessons" in self.troubles and not _is_restated(event):
            self._note_outage("lessons", end_outage(self.troubles["lessons"], at=event.happened_at))

    def documents(self) -> list[Document]:
        """All that was told."""
        transcripts = [each for day, lines in self._days.items() for each in self._transcripts(day, lines)]
        return [*self._trades, *transcripts, *self._incidents.values()]

    def _add_decision(self, run: DecisionRun) -> None:
        # A shadow's decisions are nobody's.
        if run.trigger == "shadow":
            return
        if docs.acted_or_refused(run):
            self._days.setdefault(iso_text(run.as_of)[:10], []).append(docs.decision_text(run))
        found = outage_after_run(self.troubles.get("decisions"), run, document_texts.failed_run_line(run))
        if found is not None:
            self._note_outage("decisions", found)
        name = entry_id_for(run.run_id)
        if sanitise_lines(run.note) and self._stored.entry(name) is None:
            entry = self._pen.draft_entry(
                self._agent, "journal", run.note, by=self._agent, run_id=run.run_id, at=run.as_of, entry_id=name
            )
            self.entries.append(entry)

    def _add_trade(self, trade: ClosedTrade) -> None:
        book = self._book
        if "fills" in book.trade_lacks(trade.state.trade_id):
            # What is partly assumed is nothing to be found and learned from.
            return
        entry, left = book.run(trade.state.entry_run_id or ""), book.run(trade.exit_run_id or "")
        self._trades.append(docs.trade_document(self._agent, trade, entry=entry, exit_run=left))

    def _note_outage(self, name: str, found: Outage) -> None:
        incident = document_texts.decisions_incident if name == "decisions" else document_texts.lessons_incident
        document = incident(self._agent, found)
        self._incidents[document.path] = document
        if found.ended_at:
            self.troubles.pop(name, None)
        else:
            self.troubles[name] = found

    def _transcripts(self, day: str, lines: Sequence[str]) -> list[Document]:
        """The last part of a day with what is new, and as many more as it takes."""
        part, there = 1, self._stored_decisions(day, 1)
        while more := self._stored_decisions(day, part + 1):
            part, there = part + 1, more
        decisions = [*there, *lines]
        size = docs.DECISIONS_PER_PART
        parts = [decisions[start : start + size] for start in range(0, len(decisions), size)]
        return [
            docs.transcript_document(self._agent, day, part=number, decisions=some)
            for number, some in enumerate(parts, part)
        ]

    def _stored_decisions(self, day: str, part: int) -> list[str]:
        """What a part of a day's transcript has by now."""
        place = docs.transcript_document(self._agent, day, part=part, decisions=())
        version = self._stored.version(place.scope, place.path, seq=self._stored.head())
        return (
            docs.transcript_decisions(archived_body(self._archive, version.sha256).decode())
            if version and version.sha256
            else []
        )


def _write_halts(writer: _LogDocuments, book: Book, log: Log) -> int:
    """Every halt there was, told anew when the owner's stream has moved."""
    head = book.head()
    if writer.stored.read_mark(_OWNER_STREAM).until == head:
        return 0
    stood: dict[str, Halt] = {}
    ended: list[Halt] = []
    for event in log.events(book.stream(), until=head):
        if event.kind == _HALTED:
            halted = book_events.event_body(event, book_events.DeskHalted)
            ended += _end_halt(stood, halted.subject, at=event.happened_at, reason=f"halted again: {halted.reason}")
            stood[halted.subject] = Halt(agent_name_of(halted.subject), event.happened_at, halted.reason)
        elif event.kind == _RESUMED:
            resumed = book_events.event_body(event, book_events.DeskResumed)
            ended += _end_halt(stood, resumed.subject, at=event.happened_at, reason=resumed.reason)
    found = map(document_texts.halt_incident, [*ended, *stood.values()])
    return writer.append(found, LogRead(_OWNER_STREAM, head))


def _write_changes(writer: _LogDocuments, book: Book, log: Log) -> int:
    """Every version of an agent since the last time, with what differs from the one before it."""
    head, mark = book.head(), writer.stored.read_mark(_CHANGES_READER).until
    if mark == head:
        return 0
    known: dict[str, Mapping[str, Any]] = {}
    found: list[Document] = []
    for event in log.events(book.stream(), until=head):
        if event.kind not in (_SAVED, _REMOVED):
            continue
        removed = event.kind == _REMOVED
        body: book_events.AgentSaved | book_events.AgentRemoved = (
            book_events.event_body(event, book_events.AgentRemoved)
            if removed
            else book_events.event_body(event, book_events.AgentSaved)
        )
        name, settings = body.profile.name, profile_by_keys(body.profile)
        # An agent as it was added is in its profile: only what somebody had to say of it is a document.
        if event.seq > mark and (name in known or body.reason):
            change = AgentChange(name, body.version, event.happened_at, body.reason, known.get(name), settings, removed)
            found.append(docs.change_document(change))
        known[name] = settings
    return writer.append(found, LogRead(_CHANGES_READER, head))


def _end_halt(stood: dict[str, Halt], subject: str, *, at: int, reason: str) -> list[Halt]:
    halt = stood.pop(subject, None)
    return [] if halt is None else [msgspec.structs.replace(halt, ended_at=at, ended_reason=reason)]


def _write_outages(writer: _LogDocuments, tape: Tape) -> int:
    now = writer.clock.now()
    recorded = [(found.gap, found.filled_at is not None) for found in tape.gaps(as_of=now)]
    recent = [each for each in document_texts.group_feed_outages(recorded) if each.ended_at > now - OUTAGE_LOOKBACK_MS]
    return writer.append(map(document_texts.feed_incident, recent))


def _is_restated(event: Event) -> bool:
    """Whether a note was written although its reflector failed."""
    return msgspec.json.decode(event.body, type=NoteWritten).note.written_by == RESTATED_BY
