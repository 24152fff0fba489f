"""Decisions: what an agent would see, one decision now, those that were made, and whether their packets are the same.

`Runs` gives decisions newest first.
"""

from collections.abc import Callable

import msgspec

from tapebook.api.open_home import AsOf, HomePart, listed_deployment, require_rows
from tapebook.book.pages import BookPages
from tapebook.broker.port import trades_elsewhere
from tapebook.context import Preview, assemble_packet, preview_packet
from tapebook.domain.agent import Deployment
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun, Watermarks
from tapebook.domain.units import iso_text
from tapebook.domain.views import ExplainedRunView, Page, RecordedRunView, RunComparison
from tapebook.errors import BadInput, UnknownName
from tapebook.home import shared_lock
from tapebook.lab.explain import ShadowReport, compare_runs, compare_shadow, explain_run, listed_run_views
from tapebook.lab.replay import ReplayReport, replay_runs
from tapebook.tick.decide import Slot
from tapebook.tick.prepare import documents_watermark, gather_situation, watermarks_now
from tapebook.tick.story import deploy_agent, repeated_run, shadow_tick, tick
from tapebook.wiring import Rooms

_ALL = 2**31 - 1


class EarlierRun(msgspec.Struct, frozen=True):
    """A decision that was made earlier on a market that stands still, and which demo would move that market on."""

    run: DecisionRun
    demo_seconds: int


class Runs(HomePart):
    """The decisions of a home."""

    def context(self, agent: str, symbol: str, *, as_of: AsOf = None, version: int | None = None) -> Packet:
        """What an agent would see of a symbol now, or what it would have seen at any past moment.

        Its profile is that of the moment; or a given version, also of a moment at which it did not exist.
        """
        with self._home.read() as rooms:
            moment = self._home.moment(as_of)
            then = moment if as_of is not None and version is None else None
            deployment = rooms.book.find_agent(agent, version=version, as_of=then)
            if symbol not in deployment.agent.watchlist:
                raise _unwatched_symbol(deployment, symbol, as_of=then)
            known = watermarks_now(rooms, deployment) if as_of is None else _watermarks_at(rooms, deployment, moment)
            situation = gather_situation(rooms, deployment, symbol, as_of=moment, watermarks=known)
            return assemble_packet(situation, rooms.memory.packets)

    def preview(self, agent: str, symbol: str, *, as_of: AsOf = None, version: int | None = None) -> Preview:
        """What that takes: tokens of every part against its cap, rows left out, and warnings at high settings."""
        return preview_packet(self.context(agent, symbol, as_of=as_of, version=version))

    def tick(self, agent: str, symbol: str, *, at: AsOf = None) -> DecisionRun:
        """Makes one decision now and carries it out; `at` names it, and the same moment again is the same decision.

        On the market of a demo home, which stands still, a decision that was `made_earlier` is given again; what is
        ordered there fills, for the market is moved on until it has.
        """
        with self._home.write() as rooms:
            deployment = rooms.book.find_agent(agent)
            if symbol not in deployment.agent.watchlist:
                raise _unwatched_symbol(deployment, symbol)
            earlier = repeated_run(rooms, deployment, symbol) if self._home.demo_clock is not None else None
            if earlier is not None:
                return earlier
            if trades_elsewhere(deployment.agent.broker):
                raise BadInput(f"{agent} decides elsewhere: record what it decided (docs/api.md)")
            if not deployment.agent.enabled:
                raise BadInput(f"{agent} is disabled: enable it with `tapebook agents enable {agent}` first")
            with shared_lock(rooms.home), rooms.leases.holding(rooms.book.stream(deployment.id)):
                self._home.catch_up()
                moment = rooms.clock.now() if at is None else self._home.moment(at)
                slot = Slot(deploy_agent(rooms.book, rooms.clock, agent), symbol, moment, trigger="manual")
                ask = rooms.leases.call_with_heartbeat
                run = tick(rooms, slot, ask=ask)
                if slot.deployment.agent.shadow is not None:
                    shadow_tick(rooms, slot, run, ask=ask)
            if rooms.book.working_orders(deployment.id) and self._home.play_market_on([deployment.id]):
                return rooms.book.run(run.run_id) or run
            return run

    def made_earlier(self, agent: str, symbol: str) -> EarlierRun | None:
        """The decision that a tick would only repeat, on a market that stands still; None where it would decide."""
        with self._home.read() as rooms:
            deployment = rooms.book.find_agent(agent)
            if symbol not in deployment.agent.watchlist:
                raise _unwatched_symbol(deployment, symbol)
            run = repeated_run(rooms, deployment, symbol) if self._home.demo_clock is not None else None
            if run is None:
                return None
            from tapebook.desk.demo import demo_seconds_beyond

            return EarlierRun(run, demo_seconds_beyond(self._home.moment(None)))

    def runs(
        self, agent: str | None = None, *, most: int = 20, before: str | None = None, as_of: AsOf = None
    ) -> Page[RecordedRunView]:
        """The newest decisions, of one agent or of all, as they stand or as they stood at a moment.

        `before` is the id of the last run of the page before, or its `next`.
        """
        require_rows(most)
        with self._home.read() as rooms:
            moment = None if as_of is None else self._home.moment(as_of)
            deployment = listed_deployment(rooms.book, agent, moment)
            if deployment is None:
                return Page()
            pages = BookPages(rooms.book, rooms.log, rooms.book_db)
            found = pages.runs(deployment, until=pages.until(moment), before=before, most=most + 1)
            views = listed_run_views(rooms.book, found)
            return Page.of_rows(views, most=most, cursor=lambda run: run["run_id"])

    def run(self, run_id: str) -> ExplainedRunView:
        """One decision, explained: what was told, said and allowed, and the orders, fills and trades it led to.

        Here and wherever a run is named, the beginning of its id is enough.
        """
        with self._home.read() as rooms:
            return explain_run(rooms, rooms.book.find_run(run_id))

    def replay(self, run_id: str | None = None, *, progress: Callable[[int], None] = lambda done: None) -> ReplayReport:
        """Rebuilds the packet of one run, or of all, and compares it byte for byte."""
        with self._home.read() as rooms:
            # Oldest first: what was learned for one packet is where the next goes on.
            chosen = [rooms.book.find_run(run_id).run_id] if run_id else rooms.book.run_ids(most=_ALL)[::-1]
            return replay_runs(rooms, chosen, progress=progress)

    def compare_shadow(
        self, agent: str, *, most: int = 500, progress: Callable[[int], None] = lambda done: None
    ) -> ShadowReport:
        """An agent's decisions beside those of its shadow, the newest pairs of them."""
        with self._home.read() as rooms:
            deployment = rooms.book.find_agent(agent, removed=True)
            return compare_shadow(rooms, agent, deployment.id, most=most, progress=progress)

    def compare_runs(self, first: str, second: str) -> RunComparison:
        """Two decisions, and what differs between the packets they were made from."""
        with self._home.read() as rooms:
            return compare_runs(rooms, rooms.book.find_run(first), rooms.book.find_run(second))


def _watermarks_at(rooms: Rooms, deployment: Deployment, moment: int) -> Watermarks:
    """How far each store could be read at a past moment."""
    docs = min(documents_watermark(rooms.documents, rooms.indexes), rooms.documents.seq_as_of(moment))
    curated = rooms.horizons.store.last_change("", seq=rooms.book.seq_as_of("", moment))
    return Watermarks(rooms.tape.head()[0], rooms.book.seq_as_of(deployment.id, moment), docs=docs, curated=curated)


def _unwatched_symbol(deployment: Deployment, symbol: str, *, as_of: int | None = None) -> UnknownName:
    name, watched = deployment.agent.name, ", ".join(deployment.agent.watchlist)
    if as_of is None:
        return UnknownName(f"{name} does not watch {symbol!r}; it watches: {watched}")
    return UnknownName(f"{name} did not watch {symbol!r} at {iso_text(as_of)}; it watched: {watched}")
