"""The experience of a home's agents, as people and programs use it: what `Tapebook.experience` gives."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tapebook.domain.agent import Deployment
from tapebook.domain.instants import iso
from tapebook.errors import BadInput, Damaged
from tapebook.experience import files
from tapebook.experience.learning import taken
from tapebook.experience.pages import reading_in
from tapebook.experience.rebuild import Rebuilt, rebuild, restore
from tapebook.home import fellow_writer, sole_writer
from tapebook.lab.experience_report import experience_report
from tapebook.log import Draft
from tapebook.loop.deploy import deploy
from tapebook.loop.experience import outcomes_due
from tapebook.wiring import Rooms

Moment = Callable[[int | str | None], int]
Finding = Callable[[str], Deployment]


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


class HomeExperience:
    """Experience by the name of an agent. `moment` reads times, `find` gives the deployment of an agent."""

    def __init__(self, rooms: Rooms, *, moment: Moment, find: Finding) -> None:
        self._rooms = rooms
        self._moment = moment
        self._find = find

    def show(self, agent: str, *, as_of: int | str | None = None) -> dict[str, Any]:
        """Whom an agent trusts and where it does well, now or as of a moment."""
        deployment, at, book = self._find(agent), self._moment(as_of), self._rooms.book
        seq = book.head(deployment.id) if as_of is None else book.seq_as_of(deployment.id, at)
        return experience_report(self._rooms, deployment, seq=seq, as_of=at)

    def export(self, agent: str, folder: str | Path) -> ExperienceFiles:
        """Writes every outcome and snapshot to a new folder, one JSON file each, and the records beside them."""
        room, name = self._rooms.experience, self._find(agent).id
        seq = self._rooms.book.head(name)
        history = list(room.history(name, seq=seq))
        outcomes = [
            (each.outcome, reading_in(bytes.fromhex(each.packed)) if each.packed else None) for each in history
        ]
        snapshots = room.snapshots(name, seq=seq)[::-1]
        files.export(Path(folder), outcomes, snapshots, records=room.records(name, seq=seq))
        return ExperienceFiles(str(folder), len(outcomes), len(snapshots))

    def import_files(self, agent: str, folder: str | Path) -> ExperienceFiles:
        """Learns what a folder holds, all of it or nothing; what is known already is left alone."""
        contents = files.read(Path(folder))
        self._refuse(contents, Path(folder))
        with self._writing(agent) as deployment, self._rooms.log.together():
            return self._learn(deployment, contents, str(folder))

    def rebuild(self, agent: str) -> RebuiltExperience:
        """Computes everything derived again from the outcomes; a table that differs is written anew from the log."""
        name = self._find(agent).id
        found = self._rebuilt(name)
        if found.differences:
            with sole_writer(self._rooms.home):
                restore(self._rooms.log, self._rooms.book_db, self._rooms.book.stream(name))
            self._rooms.experience.forget(name)
            left = self._rebuilt(name).differences
            if left:
                raise Damaged(f"{left[0]}, and the log says so too: run `tapebook verify`, and restore a backup")
        return RebuiltExperience(found.outcomes, found.situations, found.records, found.fits, found.differences)

    def _rebuilt(self, deployment: str) -> Rebuilt:
        return rebuild(self._rooms.experience, deployment, seq=self._rooms.book.head(deployment))

    @contextmanager
    def _writing(self, agent: str) -> Iterator[Deployment]:
        stream = self._rooms.book.stream(self._find(agent).id)
        with fellow_writer(self._rooms.home), self._rooms.leases.holding(stream):
            yield deploy(self._rooms, agent)

    def _refuse(self, contents: files.Contents, folder: Path) -> None:
        """Nothing is learned from a folder of which not all can be read, or that tells of what has not happened yet."""
        now = self._moment(None)
        late = [outcome for outcome, _ in contents.outcomes if outcome.exited_at > now]
        problems = [*contents.problems, *(f"outcome_{each.trade_id}.json: it ends after {iso(now)}" for each in late)]
        if problems:
            more = f" (and {len(problems) - 1} more files)" if len(problems) > 1 else ""
            raise BadInput(f"{folder / problems[0]}{more}; nothing was imported")
        if not contents.outcomes and not contents.snapshots:
            raise BadInput(f"{folder} has neither an outcome_*.json nor a snapshot_*.json: name an exported folder")

    def _learn(self, deployment: Deployment, contents: files.Contents, folder: str) -> ExperienceFiles:
        room, name, counted = self._rooms.experience, deployment.id, (len(contents.outcomes), len(contents.snapshots))
        # Trades that ended and were not learned from yet come first, or they would be passed over.
        seq = self._rooms.book.head(name)
        while due := outcomes_due(self._rooms, deployment, seq=seq):
            seq = self._append(deployment, due)
        known = room.snapshots(name, seq=seq)
        snapshots = [taken(each) for each in contents.snapshots if each not in known]
        seq = self._append(deployment, snapshots)
        new = [each for each in contents.outcomes if not room.is_learned(name, each[0].trade_id)]
        # The newest by itself: with it come the pages and the fit of all before it.
        for part in (new[:-1], new[-1:]):
            seq = self._append(deployment, room.learn_outcomes(name, part, seq=seq))
        return ExperienceFiles(folder, *counted, len(new), len(snapshots))

    def _append(self, deployment: Deployment, drafts: Sequence[Draft]) -> int:
        """Writes events, if there are any; returns where the stream ends."""
        book = self._rooms.book
        seq = book.head(deployment.id)
        return book.append(deployment.id, drafts, expected_seq=seq)[-1].seq if drafts else seq
