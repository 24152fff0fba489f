"""Ages a demo: its agents live through the weeks before it, with the tick of the live desk in virtual time.

1. `_begin` saves the agents as they were then and takes in the runbooks, known from the first moment on.
2. `write_past` puts the weeks on the tape: bars and funding of every perp, prediction markets, capital flows.
3. `PastDesk.live_through` makes the decision of every slot, in the order of time, a day to a transaction.
4. `_go_live` has an agent propose a manual from what it learned, gives the agents their live settings, sums up all of
   them together, and takes in what the log says.

The book is the demo's own, so the demo begins with what was learned by then, and `verify` and `replay` cover all of
it. A process that is killed goes on with the first step that is missing; the bytes are those of an undisturbed run.
Nothing waits for the disk while step 3 runs: a power cut may leave a home that has to be made again.
"""

import asyncio
from collections.abc import Callable, Sequence
from importlib import resources
from operator import itemgetter
from pathlib import Path

import msgspec

from tapebook.book.store import Book
from tapebook.clock import VirtualClock
from tapebook.context import MarketCache
from tapebook.desk.document_writes import propose_manual
from tapebook.desk.scheduler import bar_wait_ms
from tapebook.domain.agent import AgentProfile, Deployment, deployment_id
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, E6, decimal_text, iso_text
from tapebook.gc_pause import collect_young_garbage, gc_paused
from tapebook.home import exclusive_lock, write_once
from tapebook.ingest.world_past import write_past
from tapebook.lessons.notes import Notes
from tapebook.library.sync import sync_documents
from tapebook.library.workspace import WORKSPACE_FOLDER
from tapebook.search.documents import Documents
from tapebook.settings.config import Config
from tapebook.tape.bars import decision_moment
from tapebook.tick.decide import MarketCut, Slot
from tapebook.tick.learn import owner_layers_due
from tapebook.tick.story import deploy_agent, tick
from tapebook.wiring import PastTerms, Rooms, open_backtest
from tapebook.world.market import World

_RUNBOOKS = resources.files("tapebook.desk").joinpath("runbooks")
# A manual is read at every decision; the note of the agent has the rest.
_MOST_PROPOSED_LESSONS = 3


class DemoProgress(msgspec.Struct, frozen=True):
    """How far a demo has come, in the weeks before it or in itself; `doing` says what, if it is neither."""

    done: float
    market_time: int
    rows: int
    ticks: int
    trades: int
    doing: str = ""


class PastDesk:
    """All deployments of a home, over a tape that is there already."""

    def __init__(self, rooms: Rooms, deployments: Sequence[Deployment], clock: VirtualClock) -> None:
        self._rooms = rooms
        self._deployments, self._clock = deployments, clock
        self._seq = rooms.tape.head()[0]
        self._limit = bar_wait_ms(rooms.config)
        self._shelf = MarketCache()
        self.ticks = 0

    def live_through(self, since: int, until: int, *, progress: Callable[[int], None]) -> None:
        """Decides every slot between two midnights that is not decided yet."""
        step = min(deployment.agent.cadence_ms for deployment in self._deployments)
        with gc_paused():
            for day in range(self._first_day(since), until, DAY):
                self._decide_slots(range(day, day + DAY, step))
                collect_young_garbage()
                progress(day + DAY)

    def _decide_slots(self, slots: range) -> None:
        """All decisions of some slots, in one transaction."""
        with self._rooms.log.one_transaction():
            for slot in slots:
                self._decide_slot(slot)

    def _first_day(self, since: int) -> int:
        """The first day that is not in the log: one is there whole or not at all."""
        book = self._rooms.book
        runs = [
            book.last_run(each.id, symbol, seq=book.head(each.id))
            for each in self._deployments
            for symbol in each.agent.watchlist
        ]
        newest = max([run.scheduled_for for run in runs if run is not None], default=since - DAY)
        return newest - newest % DAY + DAY

    def _decide_slot(self, at: int) -> None:
        """All decisions of a slot, each when its newest bar is finished, as live."""
        due = [
            (self._decision_moment(deployment, symbol, at), deployment, symbol)
            for deployment in self._deployments
            if at % deployment.agent.cadence_ms == 0
            for symbol in deployment.agent.watchlist
        ]
        look: MarketCut | None = None
        for moment, deployment, symbol in sorted(due, key=itemgetter(0)):
            if look is None or look.as_of != moment:
                self._clock.advance(moment)
                look = MarketCut(moment, self._seq, self._shelf)
            tick(self._rooms, Slot(deployment, symbol, at), look=look)
            self.ticks += 1

    def _decision_moment(self, deployment: Deployment, symbol: str, at: int) -> int:
        minutes = deployment.agent.context.bar_minutes
        return decision_moment(
            self._rooms.tape, symbol, minutes=minutes, slot=at, limit=self._limit, watermark=self._seq
        )


def age_home(
    home: Path,
    world: World,
    *,
    until: int,
    agents: Sequence[tuple[AgentProfile, AgentProfile]],
    tape_written: Callable[[], None] = lambda: None,
    progress: Callable[[DemoProgress], None],
) -> None:
    """Lives through a world from its start up to a moment; a home that is older stays as it is.

    `agents` are pairs: as each decided in the past, and as it is to decide from then on. `tape_written` is called when
    the whole market is on the tape.
    """
    with exclusive_lock(home), exclusive_lock(home, "tape"):
        rooms = Rooms(home, clock=(clock := VirtualClock(world.start)))
        try:
            if rooms.tape.head()[1] >= until + DAY or _has_gone_live(rooms.book, rooms.documents, agents):
                return
            _begin(rooms, [past for past, _ in agents])
            asyncio.run(_write_tape(rooms, clock, world, until=until, progress=progress))
        finally:
            rooms.close()
        tape_written()
        _live_through_past(home, world.start, until, [past.name for past, _ in agents], progress=progress)
        rooms = Rooms(home, clock=VirtualClock(until))
        try:
            _go_live(rooms, [live for _, live in agents])
        finally:
            rooms.close()


def _has_gone_live(book: Book, documents: Documents, agents: Sequence[tuple[AgentProfile, AgentProfile]]) -> bool:
    """Whether the last step was done: documents are taken in at its end."""
    return all(book.agent(live.name, version=2) is not None for _, live in agents) and bool(documents.files())


def _begin(rooms: Rooms, profiles: Sequence[AgentProfile]) -> None:
    """Saves the agents and takes in the runbooks; once, also when it is done again."""
    if rooms.tape.head()[0]:
        return
    folder = rooms.home / WORKSPACE_FOLDER / "global" / "runbooks"
    for entry in sorted(_RUNBOOKS.iterdir(), key=lambda entry: entry.name):
        write_once(folder / entry.name, entry.read_text("utf-8"))
    for profile in profiles:
        if rooms.book.agent(profile.name) is None:
            rooms.book.save_agent(profile, at=rooms.clock.now())
    sync_documents(rooms)


async def _write_tape(
    rooms: Rooms, clock: VirtualClock, world: World, *, until: int, progress: Callable[[DemoProgress], None]
) -> None:
    def report(at: int) -> None:
        share = (at - world.start) / (until - world.start)
        progress(DemoProgress(share / 2, at, rooms.tape.rows_written(), 0, 0))

    await write_past(rooms, clock, world, until=until, progress=report)


def _live_through_past(
    home: Path, since: int, until: int, agents: Sequence[str], *, progress: Callable[[DemoProgress], None]
) -> None:

    def without_packets(config: Config) -> Config:
        # Thousands of packets of a market that can be made again: replay makes them, the archive need not have them.
        return msgspec.structs.replace(config, archive=msgspec.structs.replace(config.archive, packets=False))

    clock = VirtualClock(since)
    rooms = open_backtest(home, clock=clock, terms=PastTerms(without_packets))
    try:
        desk = PastDesk(rooms, [deploy_agent(rooms.book, rooms.clock, name) for name in agents], clock)
        rows = rooms.tape.rows_written()

        def report(at: int) -> None:
            share = (at - since) / (until - since)
            progress(DemoProgress((1 + share) / 2, at, rows, desk.ticks, rooms.book.closed_trade_count()))

        desk.live_through(since, until, progress=report)
    finally:
        rooms.close()


def _go_live(rooms: Rooms, profiles: Sequence[AgentProfile]) -> None:
    """What is done once at the end of the past; each part does nothing when it is done again."""
    _propose_from_past(rooms, [profile.name for profile in profiles])
    for profile in profiles:
        # A version of the owner's own is not undone.
        if rooms.book.agent(profile.name, version=2) is None:
            rooms.book.save_agent(profile, at=rooms.clock.now())
    while drafts := owner_layers_due(rooms, seq=(seq := rooms.book.head())):
        rooms.book.append("", drafts, expected_seq=seq)
    sync_documents(rooms)


def _propose_from_past(rooms: Rooms, agents: Sequence[str]) -> None:
    """Has the agent that learned most propose a manual, which waits for its owner; once, also when it is done again."""
    profiles = [rooms.book.find_agent(name).agent for name in agents]
    learned = {profile.name: _confirmed_lessons(rooms.book, rooms.notes, profile) for profile in profiles}
    profile = max(profiles, key=lambda each: len(learned[each.name]))
    # The name of a proposal has its moment and the manual that stands in it, so the same one is not made twice. An
    # agent that has another version was changed by its owner, who may have decided on it already.
    if rooms.book.agent(profile.name, version=2) is not None:
        return
    deployment = deployment_id(profile)
    totals = rooms.book.trade_totals(deployment)
    net = decimal_text(totals.net_usd_e6, E6, 2)
    lines = [
        "# Trading manual",
        "",
        "Where a line below speaks against an entry, halve its size and say so in the reason.",
        "",
        f"## What my trades showed by {iso_text(rooms.clock.now())[:10]}",
        "",
        *(f"- {bullet}" for bullet in learned[profile.name][:_MOST_PROPOSED_LESSONS]),
        f"- all in all: {plural(totals.count, 'round trip')}, {totals.won} won, net {net} USD",
    ]
    last = rooms.book.last_run(deployment, profile.watchlist[0], seq=rooms.book.head(deployment))
    propose_manual(rooms, profile.name, "\n".join(lines), run_id=last.run_id if last else "", by=profile.name)


def _confirmed_lessons(book: Book, notes: Notes, profile: AgentProfile) -> list[str]:
    deployment = deployment_id(profile)
    known = notes.lessons(deployment, seq=book.head(deployment))
    return [change.lesson.bullet() for change in known if change.lesson.trial.status == "confirmed"]
