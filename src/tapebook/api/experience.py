"""Experience: show what outcomes taught the agents, find moments that were alike, export, import and rebuild it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from tapebook.api.open_home import AsOf, HomePart
from tapebook.desk.agents import deploy_agent
from tapebook.domain.agent import Deployment
from tapebook.domain.instants import HOUR, iso_text
from tapebook.domain.run import Watermarks
from tapebook.errors import BadInput, Damaged, UnknownName
from tapebook.experience import files
from tapebook.experience.events import draft_snapshot_taken
from tapebook.experience.rebuild import RebuildComparison, rebuild_and_compare, restore_tables
from tapebook.experience.similar import MOVE_SPANS, MoveEstimate, SimilarMoment
from tapebook.home import exclusive_lock, shared_lock
from tapebook.lab.experience import experience_report
from tapebook.log import Draft
from tapebook.tick.memory import moment_of, outcomes_due
from tapebook.tick.prepare import gather_situation
from tapebook.tick.trust import runs_of
from tapebook.wiring import Rooms

_PPM_PER_BP = 100


class ExperienceFiles(msgspec.Struct, frozen=True):
    """What was written to a folder, or read from one; what was there already is not counted as new."""

    folder: str
    outcomes: int
    snapshots: int
    new_outcomes: int = 0
    new_snapshots: int = 0


class RebuiltExperience(msgspec.Struct, frozen=True):
    """What was computed again from the outcomes, and what had differed; that is put right."""

    outcomes: int
    situations: int
    records: int
    fits: int
    differences: tuple[str, ...]


class NeighbourView(TypedDict):
    """A past moment that was alike; `distance` is in usual distances, and moves are in basis points by their span."""

    symbol: str
    at: str
    distance: float
    moves_bps: dict[str, float | None]


class MoveView(TypedDict):
    """What the market did in a span after moments that were alike, with its 95 % interval."""

    span: str
    mean_bps: float
    low_bps: float
    high_bps: float
    n: int
    independent: float


class NeighboursView(TypedDict):
    """The moments most alike to one, nearest first; `novel` says that nothing like it was seen before."""

    agent: str
    symbol: str
    as_of: str
    searched: int
    novel: bool
    neighbours: list[NeighbourView]
    moves: list[MoveView]


class HomeExperience(HomePart):
    """What outcomes taught the agents of a home."""

    def neighbours(self, agent: str, symbol: str, *, as_of: AsOf = None) -> NeighboursView:
        """The moments of the past that are most alike to one, and what the market did after them."""
        with self._home.read() as rooms:
            moment, book = self._home.moment(as_of), rooms.book
            deployment = book.find_agent(agent, removed=True)
            if symbol not in deployment.agent.watchlist:
                watched = ", ".join(deployment.agent.watchlist)
                raise UnknownName(f"{agent} does not watch {symbol!r}; it watches: {watched}")
            seq = book.head(deployment.id) if as_of is None else book.seq_as_of(deployment.id, moment)
            known = Watermarks(rooms.tape.head()[0], seq)
            situation = gather_situation(rooms, deployment, symbol, as_of=moment, watermarks=known)
            seen = moment_of(rooms.experience, situation.market)
            settings = deployment.agent.experience
            past = rooms.experience.similar(deployment.id, seen.vector, seq=seq, settings=settings) if seen else None
        near = past.moments if past else None
        return {
            "agent": agent,
            "symbol": symbol,
            "as_of": iso_text(moment),
            "searched": near.searched if near else 0,
            "novel": near.is_novel if near else True,
            "neighbours": [_neighbour_view(each, near.usual) for each in near.moments] if near else [],
            "moves": [_move_view(each) for each in near.move_estimates()] if near else [],
        }

    def show(self, agent: str, *, as_of: AsOf = None) -> dict[str, Any]:
        """Whom an agent trusts and where it does well, now or as of a moment."""
        with self._home.read() as rooms:
            deployment, at, book = rooms.book.find_agent(agent, removed=True), self._home.moment(as_of), rooms.book
            seq = book.head(deployment.id) if as_of is None else book.seq_as_of(deployment.id, at)
            return experience_report(rooms, deployment, seq=seq, as_of=at)

    def export(self, agent: str, folder: str | Path) -> ExperienceFiles:
        """Writes every outcome and snapshot to a new folder, one JSON file each, and the records beside them."""
        with self._home.read() as rooms:
            room, name = rooms.experience, rooms.book.find_agent(agent, removed=True).id
            seq = rooms.book.head(name)
            outcomes = [(each.outcome, each.seen_features) for each in room.history(name, seq=seq)]
            snapshots = room.snapshots(name, seq=seq)[::-1]
            files.export_folder(Path(folder), outcomes, snapshots, records=room.records(name, seq=seq))
        return ExperienceFiles(str(folder), len(outcomes), len(snapshots))

    def import_files(self, agent: str, folder: str | Path) -> ExperienceFiles:
        """Learns what a folder holds, all of it or nothing; what is known already is left alone."""
        contents = files.read_folder(Path(folder))
        with self._home.write() as rooms:
            _check_contents(contents, Path(folder), now=self._home.moment(None))
            stream = rooms.book.stream(rooms.book.find_agent(agent).id)
            with shared_lock(rooms.home), rooms.leases.holding(stream):
                deployment = deploy_agent(rooms, agent)
                with rooms.log.one_transaction():
                    return _learn_contents(rooms, deployment, contents, folder=str(folder))

    def rebuild(self, agent: str) -> RebuiltExperience:
        """Computes everything derived again from the outcomes; a table that differs is written anew from the log."""
        with self._home.write() as rooms:
            name = rooms.book.find_agent(agent, removed=True).id
            found = _rebuild_all(rooms, name)
            if found.differences:
                with exclusive_lock(rooms.home):
                    restore_tables(rooms.log, rooms.book_db, rooms.book.stream(name))
                rooms.experience.forget_cached(name)
                self._home.discard_readers()
                left = _rebuild_all(rooms, name).differences
                if left:
                    raise Damaged(f"{left[0]}, and the log says so too: run `tapebook verify`, and restore a backup")
        return RebuiltExperience(found.outcomes, found.situations, found.records, found.fits, found.differences)


def _neighbour_view(moment: SimilarMoment, usual: int) -> NeighbourView:
    moves = zip(MOVE_SPANS, moment.moves_ppm, strict=True)
    return {
        "symbol": moment.symbol,
        "at": iso_text(moment.at),
        "distance": round(math.sqrt(moment.distance / max(usual, 1)), 3),
        "moves_bps": {_span_text(span): None if move is None else move / _PPM_PER_BP for span, move in moves},
    }


def _move_view(move: MoveEstimate) -> MoveView:
    return {
        "span": _span_text(move.span_ms),
        "mean_bps": round(move.mean_bps, 1),
        "low_bps": round(move.low_bps, 1),
        "high_bps": round(move.high_bps, 1),
        "n": move.n,
        "independent": round(move.independent, 1),
    }


def _span_text(span_ms: int) -> str:
    return f"{span_ms // HOUR}h"


def _rebuild_all(rooms: Rooms, deployment: str) -> RebuildComparison:
    return rebuild_and_compare(
        rooms.experience, deployment, seq=rooms.book.head(deployment), runs=runs_of(rooms, deployment)
    )


def _check_contents(contents: files.ExperienceFolder, folder: Path, *, now: int) -> None:
    """Nothing is learned from a folder of which not all can be read, or that tells of what has not happened yet."""
    late = [outcome for outcome, _ in contents.outcomes if outcome.exited_at > now]
    problems = [
        *contents.problems,
        *(f"outcome_{each.trade_id}.json: it ends after {iso_text(now)}" for each in late),
    ]
    if problems:
        more = f" (and {len(problems) - 1} more files)" if len(problems) > 1 else ""
        raise BadInput(f"{folder / problems[0]}{more}; nothing was imported")
    if not contents.outcomes and not contents.snapshots:
        raise BadInput(f"{folder} has neither an outcome_*.json nor a snapshot_*.json: name an exported folder")


def _learn_contents(
    rooms: Rooms, deployment: Deployment, contents: files.ExperienceFolder, *, folder: str
) -> ExperienceFiles:
    room, name, counted = rooms.experience, deployment.id, (len(contents.outcomes), len(contents.snapshots))
    # Trades that ended and were not learned from yet come first, or they would be passed over.
    seq = rooms.book.head(name)
    while due := outcomes_due(rooms, deployment, seq=seq):
        seq = _append_drafts(rooms, name, due)
    known = room.snapshots(name, seq=seq)
    snapshots = [draft_snapshot_taken(each) for each in contents.snapshots if each not in known]
    seq = _append_drafts(rooms, name, snapshots)
    new = [each for each in contents.outcomes if not room.is_learned(name, each[0].trade_id)]
    # The newest by itself: with it come the pages and the fit of all before it.
    for part in (new[:-1], new[-1:]):
        seq = _append_drafts(rooms, name, room.learn_outcomes(name, part, seq=seq))
    return ExperienceFiles(folder, *counted, len(new), len(snapshots))


def _append_drafts(rooms: Rooms, deployment: str, drafts: Sequence[Draft]) -> int:
    """Writes events, if there are any; returns where the stream ends."""
    seq = rooms.book.head(deployment)
    return rooms.book.append(deployment, drafts, expected_seq=seq)[-1].seq if drafts else seq
