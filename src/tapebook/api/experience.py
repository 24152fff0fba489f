"""Experience: show what outcomes taught, find moments that were alike, export, import, forget and rebuild it."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, cast

import msgspec

from tapebook.api.open_home import AsOf, HomePart
from tapebook.book.store import Book
from tapebook.domain.agent import Deployment
from tapebook.domain.run import Watermarks
from tapebook.domain.text import has_hidden_characters
from tapebook.domain.units import HOUR, iso_text
from tapebook.errors import BadInput, Damaged, UnknownName
from tapebook.experience import Experience, files
from tapebook.experience.events import ForgetTerms, draft_snapshot_taken
from tapebook.experience.forgetting import IMPORTED, OWN, draft_forgetting, draft_remembering, outcomes_meant
from tapebook.experience.rebuild import RebuildComparison, rebuild_and_compare, restore_tables
from tapebook.experience.records import Outcome
from tapebook.experience.similar import MOVE_SPANS, MoveEstimate, SimilarMoment
from tapebook.experience.store import LearnedOutcome
from tapebook.home import exclusive_lock, shared_lock
from tapebook.lab.experience import experience_report, snapshot_view
from tapebook.log import Draft, Log
from tapebook.tick.memory import outcomes_due, runs_of
from tapebook.tick.prepare import gather_situation
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms

LONGEST_SOURCE = 80
_PPM_PER_BP = 100


class ExperienceFiles(msgspec.Struct, frozen=True):
    """What was written to a folder, or read from one; what was there already is not counted as new.

    `skipped` names what holds no closed trade.
    """

    folder: str
    outcomes: int
    snapshots: int
    new_outcomes: int = 0
    new_snapshots: int = 0
    skipped: tuple[str, ...] = ()


class RebuiltExperience(msgspec.Struct, frozen=True):
    """What was computed again from the outcomes, and what had differed; that is put right."""

    outcomes: int
    situations: int
    records: int
    fits: int
    differences: tuple[str, ...]


class ForgottenExperience(msgspec.Struct, frozen=True):
    """What was forgotten, or counts again: how many outcomes, and the id by which it is taken back.

    A dry run has no id.
    """

    id: str | None
    outcomes: int


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


class IntervalView(TypedDict):
    """A rate or a mean with the interval that holds the truth 95 times of 100."""

    value: float
    low: float
    high: float


class RecordView(TypedDict):
    """How trades did; the rate is null without any, the mean below two of them."""

    n: int
    won: int
    net_usd: float
    win_rate: IntervalView | None
    mean_bps: IntervalView | None


class TrendView(TypedDict):
    """How the newer half of chunks differs from the older."""

    direction: str
    chunks: int
    change_bps: IntervalView


class NamedRecordView(RecordView):
    """How a regime or an asset did, and its trend over chunks."""

    name: str
    trend: TrendView | None


class RegimeTrustView(RecordView):
    """How a provider did in a regime; the weight is null without a paper twin."""

    regime: str
    weight: float | None


class ProviderView(NamedRecordView):
    """How a provider did, the trust in it, and both by regime."""

    weight: float | None
    regimes: list[RegimeTrustView]


class MemberSymbolView(TypedDict):
    """A member's paper twin on one symbol."""

    symbol: str
    regime: str
    weight: float | None
    gain_bps: float
    changes: int


class MemberView(TypedDict):
    """A member of an ensemble: the trust in it, and what its paper twins made."""

    name: str
    weight: float | None
    gain_bps: float
    changes: int
    symbols: list[MemberSymbolView]


class CalibrationView(TypedDict):
    """Of stated confidences, how many won and what is believed of them."""

    confidence: str
    n: int
    win_rate: IntervalView
    believed: float


class ChunkRecordView(RecordView):
    """What was achieved in a chunk."""

    chunk: str
    started_at: str
    ended_at: str
    sharpe: float


class FitView(TypedDict):
    """Which situations the scale of similarity was fitted to."""

    first_situation: int
    last_situation: int


class ForgettingView(TypedDict):
    """What was forgotten by one event, and when that was taken back."""

    id: str
    at: str
    outcomes: int
    source: str | None
    provider: str | None
    since: str | None
    until: str | None
    reason: str
    undone_at: str | None


class ExperienceView(TypedDict):
    """What outcomes taught an agent, as of a moment."""

    agent: str
    deployment_id: str
    as_of: str
    settings: dict[str, Any]
    outcomes: int
    situations: int
    fit: FitView | None
    all: RecordView
    members: list[MemberView]
    providers: list[ProviderView]
    regimes: list[NamedRecordView]
    assets: list[NamedRecordView]
    calibration: list[CalibrationView]
    snapshots: list[ChunkRecordView]
    forgotten: list[ForgettingView]


class HomeExperience(HomePart):
    """What outcomes taught the agents of a home."""

    def similar(self, agent: str, symbol: str, *, as_of: AsOf = None) -> NeighboursView:
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
            seen = rooms.experience.seen_moment(situation.market)
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

    def show(self, agent: str, *, as_of: AsOf = None) -> ExperienceView:
        """Whom an agent trusts and where it does well, now or as of a moment."""
        with self._home.read() as rooms:
            deployment, at, book = rooms.book.find_agent(agent, removed=True), self._home.moment(as_of), rooms.book
            seq = book.head(deployment.id) if as_of is None else book.seq_as_of(deployment.id, at)
            return cast(ExperienceView, experience_report(rooms, deployment, seq=seq, as_of=at))

    def snapshots(self, agent: str, *, as_of: AsOf = None) -> list[dict[str, Any]]:
        """What each chunk achieved, newest first: months of a desk, and the chunks of a backtest."""
        with self._home.read() as rooms:
            name, at = rooms.book.find_agent(agent, removed=True).id, self._home.moment(as_of)
            seq = rooms.book.head(name) if as_of is None else rooms.book.seq_as_of(name, at)
            return [snapshot_view(each) for each in rooms.experience.snapshots(name, seq=seq)]

    def export(self, agent: str, folder: str | Path) -> ExperienceFiles:
        """Writes every outcome and snapshot to a new folder, one JSON file each, and the records beside them."""
        with self._home.read() as rooms:
            room, name = rooms.experience, rooms.book.find_agent(agent, removed=True).id
            seq = rooms.book.head(name)
            forgotten = room.forgotten_by_event(name, seq=seq)
            history = room.history(name, seq=seq)
            outcomes = [(each.outcome, each.seen_features) for each in history if each.seq not in forgotten]
            snapshots = room.snapshots(name, seq=seq)[::-1]
            files.export_folder(Path(folder), outcomes, snapshots, records=room.records(name, seq=seq))
        return ExperienceFiles(str(folder), len(outcomes), len(snapshots))

    def import_files(self, agent: str, folder: str | Path, *, source: str | None = None) -> ExperienceFiles:
        """Learns what a folder holds, all of it or nothing; what is known already is left alone.

        `source` is the name of the import, by which it can be forgotten: without one, that of the folder.
        """
        contents, name = files.read_folder(Path(folder)), _source_name(Path(folder).resolve().name, source)
        with self._home.write() as rooms:
            _check_contents(contents, Path(folder), now=self._home.moment(None))
            stream = rooms.book.stream(rooms.book.find_agent(agent).id)
            with shared_lock(rooms.home), rooms.leases.holding(stream):
                deployment = deploy_agent(rooms.book, rooms.clock, agent)
                with rooms.log.one_transaction():
                    return _learn_contents(
                        rooms.book, rooms.experience, deployment.id, contents=contents, folder=str(folder), source=name
                    )

    def forget(
        self,
        agent: str,
        *,
        source: str = "",
        provider: str = "",
        since: AsOf = None,
        until: AsOf = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> ForgottenExperience:
        """Outcomes that meet all of these count no longer, from now on; a dry run only counts them.

        `source` is `own`, `imported` or the name of an import; `since` and `until` are of exits.
        """
        since_ms, until_ms = (None if each is None else self._home.moment(each) for each in (since, until))
        terms = ForgetTerms(source, provider, since_ms, until_ms)
        if terms == ForgetTerms():
            raise BadInput("say what to forget: a source, a provider, or exits since or until a time")
        if dry_run:
            # Beside a desk: nothing is locked for a count.
            with self._home.read() as rooms:
                name = rooms.book.find_agent(agent).id
                return ForgottenExperience(
                    None, len(_outcomes_meant(rooms.book, rooms.experience, name, terms, seq=rooms.book.head(name)))
                )
        with self._writing(agent) as (rooms, deployment):
            room, name = rooms.experience, deployment.id
            seq = _learn_due(rooms.book, room, name)
            meant = _outcomes_meant(rooms.book, rooms.experience, name, terms, seq=seq)
            if not meant:
                return ForgottenExperience(None, 0)
            made = draft_forgetting(room, name, meant, terms=terms, reason=reason, seq=seq, at=rooms.clock.now())
            seq = _append_drafts(rooms.book, name, [made])
            return ForgottenExperience(room.forgettings(name, seq=seq)[-1].forget_id, len(meant))

    def remember(self, agent: str, forget_id: str) -> ForgottenExperience:
        """Takes back what was forgotten: it counts again, from now on, as if it had never been forgotten."""
        with self._writing(agent) as (rooms, deployment):
            room, name, seq = rooms.experience, deployment.id, rooms.book.head(deployment.id)
            made = draft_remembering(room, name, forget_id, seq=seq, at=rooms.clock.now())
            (forgotten,) = [each for each in room.forgettings(name, seq=seq) if each.forget_id == forget_id]
            _append_drafts(rooms.book, name, [made])
        return ForgottenExperience(forget_id, forgotten.outcomes)

    @contextmanager
    def _writing(self, agent: str) -> Iterator[tuple[Rooms, Deployment]]:
        """The stream of an agent in one transaction: beside a desk, but never at once with it."""
        with self._home.write() as rooms:
            deployment = rooms.book.find_agent(agent)
            held = rooms.leases.holding(rooms.book.stream(deployment.id))
            with shared_lock(rooms.home), held, rooms.log.one_transaction():
                yield rooms, deployment

    def rebuild(self, agent: str) -> RebuiltExperience:
        """Computes everything derived again from the outcomes; a table that differs is written anew from the log."""
        with self._home.write() as rooms:
            name = rooms.book.find_agent(agent, removed=True).id
            found = _rebuild_all(rooms.book, rooms.experience, rooms.log, deployment=name)
            if found.differences:
                with exclusive_lock(rooms.home):
                    restore_tables(rooms.log, rooms.book_db, rooms.book.stream(name))
                rooms.experience.forget_cached(name)
                self._home.discard_readers()
                left = _rebuild_all(rooms.book, rooms.experience, rooms.log, deployment=name).differences
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


def _rebuild_all(book: Book, experience: Experience, log: Log, *, deployment: str) -> RebuildComparison:
    runs = runs_of(book, log, deployment)
    return rebuild_and_compare(experience, deployment, seq=book.head(deployment), runs=runs)


def _check_contents(contents: files.ExperienceFolder, folder: Path, *, now: int) -> None:
    """Nothing is learned from a folder of which not all can be read, or that tells of what has not happened yet."""
    late = [outcome for outcome, _ in contents.outcomes if outcome.exited_at > now]
    problems = [f"{_place_of(each, folder)}: it ends after {iso_text(now)}" for each in late]
    _refuse([*contents.problems, *problems], folder)
    if not contents.outcomes and not contents.snapshots:
        skipped = f" ({contents.skipped[0]})" if contents.skipped else ""
        raise BadInput(f"{folder} has neither an outcome nor a snapshot{skipped}: name an exported folder")


def _place_of(outcome: Outcome, folder: Path) -> str:
    """Where an outcome stands: its own file, or a line of some other."""
    name = f"outcome_{outcome.trade_id}.json"
    return name if (folder / name).exists() else f"trade {outcome.trade_id}"


def _refuse(problems: Sequence[str], folder: Path) -> None:
    """Names the first of some problems, if there are any."""
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BadInput(f"{folder / problems[0]}{more}; nothing was imported")


def _learn_contents(
    book: Book, room: Experience, name: str, *, contents: files.ExperienceFolder, folder: str, source: str
) -> ExperienceFiles:
    counted = (len(contents.outcomes), len(contents.snapshots))
    # Trades that ended and were not learned from yet come first, or they would be passed over.
    seq = _learn_due(book, room, name)
    known = room.snapshots(name, seq=seq)
    snapshots = [draft_snapshot_taken(each) for each in contents.snapshots if each not in known]
    seq = _append_drafts(book, name, snapshots)
    told_by_id, strange = {each[0].trade_id: each for each in contents.outcomes}, list[str]()
    new = list[files.OutcomeWithFeatures]()
    for each in told_by_id.values():
        before = room.learned_outcome(name, each[0].trade_id)
        if before is None:
            new.append(each)
        elif text := files.result_difference(before.outcome, each[0]):
            strange.append(f"{_place_of(each[0], Path(folder))}: {text}")
    _refuse(strange, Path(folder))
    # The newest by itself: with it come the pages and the fit of all before it.
    for part in (new[:-1], new[-1:]):
        seq = _append_drafts(book, name, room.learn_outcomes(name, part, seq=seq, source=source))
    return ExperienceFiles(folder, *counted, len(new), len(snapshots), contents.skipped)


def _outcomes_meant(
    book: Book, experience: Experience, deployment: str, terms: ForgetTerms, *, seq: int
) -> list[LearnedOutcome]:
    own = {trade.state.trade_id for trade in book.closed_after(deployment, after=0, seq=seq)}
    return outcomes_meant(experience, deployment, terms, seq=seq, is_own=own.__contains__)


def _learn_due(book: Book, experience: Experience, name: str) -> int:
    """Learns from trades that ended and were not learned from yet; returns where the stream ends."""
    seq = book.head(name)
    while due := outcomes_due(book, experience, name, seq=seq):
        seq = _append_drafts(book, name, due)
    return seq


def _source_name(folder: str, source: str | None) -> str:
    """The name of an import; BadInput when it is none, or means something else."""
    name = folder if source is None else source
    if not 0 < len(name) <= LONGEST_SOURCE or has_hidden_characters(name) or name in (OWN, IMPORTED):
        raise BadInput(f"{name!r} is no name for an import: give one of 1 to {LONGEST_SOURCE} letters with `source=`")
    return name


def _append_drafts(book: Book, deployment: str, drafts: Sequence[Draft]) -> int:
    """Writes events, if there are any; returns where the stream ends."""
    seq = book.head(deployment)
    return book.append(deployment, drafts, expected_seq=seq)[-1].seq if drafts else seq
