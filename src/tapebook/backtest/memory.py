"""The memory of a backtest: which rooms are on, with what it begins, and what becomes known on the way.

1. `--memory` names rooms (`memory_mode`). A plan has them in the profile of its agent (`with_memory_mode`), so that
   a decision of a backtest reads them as a live one does.
2. `--memory-from` names whose memory it begins with (`memory_source`): the events by which a live agent, or an
   earlier backtest, had learned by the start are written once more, into the stream of the backtest
   (`inherit_memory`). Nothing of that account comes with them, and nothing that was learned later.
3. Documents and curated entries of the home are written into the backtest's own book at the moment they became
   known (`TextArrivals`): when they were added, or at the date `known_at` in the front matter of a document. So a
   decision at T sees those of T, and what the home gets later changes nothing.

A plan pins all of it (`plan_memory`). Of documents, those that people wrote for the agent or for every agent are
seen; what the live agent noted, and what the log says of its runs, is its memory and no text of the home.
"""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tapebook.archive import Archive
from tapebook.backtest.home import backtest_home
from tapebook.backtest.plan import BacktestPlan, KnownTexts, MemoryMode, MemorySource, TextWatermarks
from tapebook.book.store import Book
from tapebook.clock import VirtualClock
from tapebook.domain.agent import (
    LEARNED_ROOMS,
    MEMORY_MAY_BE,
    AgentProfile,
    ReflectionSettings,
    deployment_id,
    memory_setting_text,
    parse_memory,
)
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.units import iso_text, parse_instant
from tapebook.errors import BadInput, Damaged
from tapebook.experience.events import PROJECTION as EXPERIENCE
from tapebook.horizons.events import EVENT_KINDS as LAYER_KINDS
from tapebook.horizons.events import PROJECTION as HORIZONS
from tapebook.horizons.events import LayerCurated, LayerRolled, body_of
from tapebook.horizons.events import draft as draft_layer
from tapebook.lessons.notes import PROJECTION as LESSONS
from tapebook.library.entries import archived_body
from tapebook.library.search import index_new_versions, store_search_terms
from tapebook.log import Draft, Event, Log, Stream
from tapebook.search import GLOBAL_SCOPE
from tapebook.search.documents import (
    DOCUMENT_EVENT_KINDS,
    DocumentKept,
    DocumentRemoved,
    Documents,
    document_event_body,
)
from tapebook.settings.config import load_config
from tapebook.wiring import Rooms

FROZEN: MemoryMode = "frozen"
LIVE = "live"
"""Whose memory a backtest begins with, if it is that of the agent itself."""

STATED_DATE = "known_at"
"""The key of a document's front matter that says since when it was known."""


def memory_mode(written: str) -> MemoryMode:
    """A mode as plans have it, however it was written; BadInput names the rooms there are."""
    if written.strip().lower() == FROZEN:
        return FROZEN
    try:
        return memory_setting_text(parse_memory(written))
    except ValueError as error:
        raise BadInput(f"there is no memory {written!r}: it may be frozen, {MEMORY_MAY_BE}") from error


def with_memory_mode(agent: AgentProfile, memory: MemoryMode) -> AgentProfile:
    """The agent of a backtest with a memory; `on` and `frozen` leave it the rooms of its own profile."""
    mode, own = memory_mode(memory), replace(agent, enabled=True, shadow=None)
    if mode in ("on", FROZEN):
        return own
    own = replace(own, context=replace(own.context, memory=parse_memory(mode)))
    # Whoever is told no lessons needs none written.
    return own if "lessons" in own.context.rooms else replace(own, reflection=ReflectionSettings(cadence="off"))


def is_learning(plan: BacktestPlan, at: int) -> bool:
    """Whether the memory of a plan takes in what happens at a moment."""
    if plan.freeze_at is not None:
        return at < plan.freeze_at
    return plan.memory == "on" or any(room in LEARNED_ROOMS for room in plan.agent.context.rooms)


def plan_memory(rooms: Rooms, plan: BacktestPlan, source: str | None) -> BacktestPlan:
    """A plan with what its memory begins with, and with the texts that become known on the way."""
    begins = None if source is None else memory_source(rooms.book, rooms.log, plan, source, home=rooms.home)
    heads = (rooms.documents.log_head(), rooms.book.head(), rooms.book.head(deployment_id(plan.agent)))
    until = TextWatermarks(*heads)
    found = text_arrivals(rooms.book, rooms.documents, plan, until, archive=rooms.archive, log=rooms.log)
    counts = Counter(each.draft.kind for each in found)
    texts = KnownTexts(
        versions=sum(counts[kind] for kind in _DOCUMENT_KINDS),
        dated=sum(each.is_dated for each in found),
        curated=counts[_CURATED],
        sha256=_arrivals_sha256(found),
    )
    seen = {"texts": texts, "texts_until": until} if found else {}
    return replace(plan, memory_from=begins, **seen)


# What a backtest begins with: the events of the rooms that learn, but for what people wrote, which has its own moment.
_CURATED = LAYER_KINDS[LayerCurated]
_ROLLED = LAYER_KINDS[LayerRolled]
LEARNING_KINDS = frozenset((*EXPERIENCE.projectors, *LESSONS.projectors, *HORIZONS.projectors)) - {_CURATED}

MEMORY_INHERITED = "memory.inherited"


class MemoryInherited(msgspec.Struct, frozen=True):
    """The events before this one are not the backtest's own: they are what another had learned."""

    source: MemorySource


def memory_source(book: Book, log: Log, plan: BacktestPlan, name: str, *, home: Path) -> MemorySource:
    """What a live agent, or a backtest by its id, had learned; BadInput where that is nothing, or came too late."""
    if not any(room in LEARNED_ROOMS for room in plan.agent.context.rooms):
        raise BadInput(
            f"`memory_from=` {name} would not be seen with `memory=` {plan.memory}: name rooms that are learned"
        )
    if name == LIVE:
        deployment, until = deployment_id(plan.agent), plan.start
        seq = book.seq_as_of(deployment, until)
        found = _source_at(book, log, LIVE, deployment, until=until, seq=seq)
    else:
        found = _backtest_source(home, name, plan)
    if not found.events:
        who = f"the live {plan.agent.name}" if name == LIVE else f"backtest {found.name}"
        raise BadInput(
            f"{who} had learned nothing by {iso_text(found.learned_until)}: choose a later `start=`, or another"
        )
    return found


def _backtest_source(parent: Path, name: str, plan: BacktestPlan) -> MemorySource:
    home = backtest_home(parent, name)
    other, result = home.plan(), home.result()
    if result is None:
        raise BadInput(f"backtest {home.id} is not finished: run the same `tapebook backtest` again first")
    if other.end > plan.start:
        raise BadInput(
            f"backtest {home.id} learned until {iso_text(other.end)}, and this one begins before that, at "
            f"{iso_text(plan.start)}: choose a later `start=`, or one that ended earlier"
        )
    with closing(_open_reader(home.folder, at=plan.start)) as rooms:
        return _source_at(
            rooms.book,
            rooms.log,
            home.id,
            deployment_id(other.agent),
            until=other.end,
            seq=rooms.book.head(deployment_id(other.agent)),
        )


def _source_at(book: Book, log: Log, name: str, deployment: str, *, until: int, seq: int) -> MemorySource:
    stream = book.stream(deployment)
    newest = log.event(stream, seq) if seq else None
    count = sum(event.kind in LEARNING_KINDS for event in log.events(stream, until=seq)) if seq else 0
    return MemorySource(name, deployment, until, seq, newest.hash if newest else "", count)


def inherit_memory(book: Book, log: Log, plan: BacktestPlan, *, parent: Path) -> None:
    """Writes what the memory of a plan begins with, in one transaction, unless it is there already."""
    source, stream = plan.memory_from, book.stream(deployment_id(plan.agent))
    if source is None or inherited_seq(book, log, plan):
        return
    folder = parent if source.name == LIVE else backtest_home(parent, source.name).folder
    with closing(_open_reader(folder, at=plan.start)) as other:
        events = list(other.log.events(other.book.stream(source.deployment), until=source.seq))
    if not events or (events[-1].seq, events[-1].hash) != (source.seq, source.head):
        raise Damaged(f"what {source.name} had learned is no longer there: ask for the backtest again")
    drafts = [_inherited_draft(event) for event in events if event.kind in LEARNING_KINDS]
    drafts.append(Draft.from_body(MEMORY_INHERITED, plan.start, MemoryInherited(source)))
    log.append(stream, drafts, expected_seq=log.head(stream).seq)


def inherited_seq(book: Book, log: Log, plan: BacktestPlan) -> int:
    """Up to which event the stream of a backtest is what another had learned; 0 when nothing is."""
    stream = book.stream(deployment_id(plan.agent))
    return log.newest_of_kinds(stream).get(MEMORY_INHERITED, 0) if plan.memory_from else 0


def _inherited_draft(event: Event) -> Draft:
    if event.kind == _ROLLED:
        # How far it had looked says nothing of this stream, whose trades are to be rolled up from the first one.
        return draft_layer(event.happened_at, replace(body_of(event, LayerRolled), until={}))
    return Draft(event.kind, event.happened_at, event.body, event.schema)


def _open_reader(folder: Path, *, at: int) -> Rooms:
    return Rooms(folder, clock=VirtualClock(at), read_with=load_config(folder))


_KEPT, _REMOVED = DOCUMENT_EVENT_KINDS[DocumentKept], DOCUMENT_EVENT_KINDS[DocumentRemoved]
_DOCUMENT_KINDS = (_KEPT, _REMOVED)
_ARRIVING_KINDS = frozenset((*_DOCUMENT_KINDS, _CURATED))


class TextArrival(msgspec.Struct, frozen=True):
    """One event of a document or a curated entry, and when it becomes known; `is_dated` if the text itself says so."""

    at: int
    stream: Stream
    draft: Draft
    is_dated: bool = False


def text_arrivals(
    book: Book, documents: Documents, plan: BacktestPlan, until: TextWatermarks, *, archive: Archive, log: Log
) -> list[TextArrival]:
    """What of a home's texts becomes known before the end of a plan, in the order in which it does."""
    shown, found = plan.agent.context.rooms, list[TextArrival]()
    if "documents" in shown:
        found += _document_arrivals(documents, archive, log, plan, until=until.documents)
    if "horizons" in shown:
        found += _curated_arrivals(log, book.stream(), until=until.owner)
        found += _curated_arrivals(log, book.stream(deployment_id(plan.agent)), until=until.deployment)
    return sorted((each for each in found if each.at < plan.end), key=lambda each: each.at)


def _curated_arrivals(log: Log, stream: Stream, *, until: int) -> list[TextArrival]:
    # Most streams have none, which is known without reading them.
    if _CURATED not in log.newest_of_kinds(stream):
        return []
    events = [event for event in log.events(stream, until=until) if event.kind == _CURATED]
    return [
        TextArrival(event.known_at, stream, Draft(event.kind, event.known_at, event.body, event.schema))
        for event in events
    ]


def _document_arrivals(
    documents: Documents, archive: Archive, log: Log, plan: BacktestPlan, *, until: int
) -> Iterator[TextArrival]:
    """The versions of documents that people wrote; one that a later one stands before at its own moment is left out."""
    versions: dict[tuple[str, str], list[TextArrival]] = {}
    for event in log.events(documents.stream, until=until):
        if event.kind not in _DOCUMENT_KINDS:
            continue
        kept = document_event_body(event, DocumentKept) if event.kind == _KEPT else None
        place = kept or document_event_body(event, DocumentRemoved)
        key = (place.scope, place.path)
        if place.scope not in (plan.agent.name, GLOBAL_SCOPE) or (kept is None and key not in versions):
            continue
        if kept is not None and not _is_of_people(kept):
            continue
        stated = None if kept is None else _stated_date(archive, kept)
        at = event.known_at if stated is None else stated
        draft = Draft(event.kind, at, event.body, event.schema)
        versions.setdefault(key, []).append(TextArrival(at, documents.stream, draft, stated is not None))
    for each in versions.values():
        for number, version in enumerate(each):
            first_later = min((later.at for later in each[number + 1 :]), default=None)
            if first_later is None or version.at < first_later:
                yield version


def _is_of_people(kept: DocumentKept) -> bool:
    """Whether people write a file: also a strategy of an agent, for which nobody vouches."""
    return kept.origin == "file" and (kept.trust == "owner" or kept.path.split("/")[2:3] == ["strategies"])


def _stated_date(archive: Archive, kept: DocumentKept) -> int | None:
    """Since when a document says it was known; None when it does not say."""
    if not kept.path.lower().endswith((".md", ".markdown", ".mdx")):
        return None
    # Here, since it brings numpy, and `tapebook agents` starts without it.
    from tapebook.search.indexing import front_matter_value

    stated = front_matter_value(archived_body(archive, kept.sha256).decode(errors="replace"), STATED_DATE)
    try:
        return None if stated is None else parse_instant(stated)
    except ValueError as error:
        raise BadInput(f"{STATED_DATE} in the front matter of {kept.path}: {error}") from error


def _arrivals_sha256(found: list[TextArrival]) -> str:
    lines = [f"{each.at} {each.stream.name} {each.draft.kind} {each.draft.body}" for each in found]
    return sha256_hex("\n".join(lines).encode())


class TextArrivals:
    """The texts of a plan that are not in the backtest's own book yet."""

    def __init__(self, rooms: Rooms, plan: BacktestPlan, *, parent: Path) -> None:
        self._rooms = rooms
        self._left: deque[TextArrival] = deque()
        self.next_at: int | None = None
        if plan.texts is None or plan.texts_until is None:
            return
        with closing(_open_reader(parent, at=plan.start)) as home:
            found = text_arrivals(home.book, home.documents, plan, plan.texts_until, archive=home.archive, log=home.log)
        if _arrivals_sha256(found) != plan.texts.sha256:
            raise Damaged("the home's documents are not those of the plan any more: ask for the backtest again")
        written = {stream: self._count_written(stream) for stream in {each.stream for each in found}}
        for each in found:
            if written[each.stream]:
                # In the order of a stream those that are there came first: a killed process goes on behind them.
                written[each.stream] -= 1
            else:
                self._left.append(each)
        self._move_on()

    def write_until(self, moment: int) -> None:
        """Writes all that has become known by a moment, and indexes it."""
        due: dict[Stream, list[Draft]] = {}
        while self._left and self._left[0].at <= moment:
            each = self._left.popleft()
            due.setdefault(each.stream, []).append(each.draft)
        for stream, drafts in due.items():
            if stream == self._rooms.documents.stream:
                store_search_terms(self._rooms.documents, self._rooms.clock, self._rooms.indexes)
            self._rooms.log.append(stream, drafts, expected_seq=self._rooms.log.head(stream).seq)
            if stream == self._rooms.documents.stream:
                index_new_versions(self._rooms.documents, self._rooms.archive, self._rooms.indexes)
        self._move_on()

    def _count_written(self, stream: Stream) -> int:
        return sum(event.kind in _ARRIVING_KINDS for event in self._rooms.log.events(stream))

    def _move_on(self) -> None:
        self.next_at = self._left[0].at if self._left else None
