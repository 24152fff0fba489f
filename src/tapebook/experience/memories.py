"""What a deployment remembers beside its outcomes: notes of moments with their fits, and the twins of its members.

A decision notes its moment once an hour (`MomentNotes.note`), with what the market did after earlier ones; `up_to`
gives those in memory (`moments.py`), which are loaded when first asked for. A single writer takes in what it appends
(`follow`), so that nothing is written out only to be read back.

The twins are a function of the runs of a stream (`twins.fold_run`). An event keeps them once a day
(`TwinMemory.draft_if_due`), so that whoever reads them as of any sequence number folds the runs of a day at most;
nothing is written beside a run. In memory the newest are continued run by run: `add_run` takes the run that was
appended behind what is known, and `as_of` asks for the runs in between where somebody else decided.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from tapebook.db import Database, Queries
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import DAY, HOUR
from tapebook.experience import events as ev
from tapebook.experience.events import MomentNoted
from tapebook.experience.features import FEWEST_TO_FIT, Fit, SeenMoment, refit_due
from tapebook.experience.twins import MarkCache, SymbolTwins, TwinsBySymbol, fold_run
from tapebook.log import Draft, Event, ReadCache

if TYPE_CHECKING:
    # It brings numpy, which only a search or a fit needs: `tapebook --help` starts without it.
    from tapebook.experience.moments import MomentMemory

_QUERIES = Queries.load("tapebook.experience")
_NOTED = ev.EVENT_KINDS[MomentNoted]
_KINDS = (_NOTED, ev.EVENT_KINDS[ev.MomentsFitted])

NewestMoment = tuple[int, int, int | None]
"""The sequence number of the newest note of a moment, what trading cost then, and that of the newest fit."""


class MomentNotes:
    """The moments of one owner's deployments."""

    def __init__(self, db: Database, *, owner: str, answers: ReadCache) -> None:
        self._db = db
        self._owner = owner
        self.newest = answers.cached_read(self._read_newest, owner=owner, kinds=_KINDS)
        self._memories: dict[str, MomentMemory] = {}
        self._fits: dict[str, tuple[int, Fit]] = {}
        # Of deployments that only this process writes, the newest note and fit as `follow` saw them appended.
        self._followed: dict[str, NewestMoment] = {}
        # By deployment and symbol the newest hour whose note was read or followed: a moment is noted in each at most.
        self.noted_hours: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def note(self, deployment: str, symbol: str, seen: SeenMoment, *, costs_ppm: int, seq: int) -> list[Draft]:
        """The events by which a decision at the end of a stream notes its moment; none when one was, this hour.

        With them comes a fit when one is due: it sees what had joined before.
        """
        memory, at = self.up_to(deployment, seq), seen.features.at
        if at // HOUR <= self.noted_hours[deployment].get(symbol, -1):
            return []
        # What came after earlier ones is written with the next note: one event an hour says both.
        moves = memory.moves_known_at(symbol, seen.features)
        price = seen.features.price_e8
        drafts = [ev.draft(at, MomentNoted(memory.noted + 1, symbol, at, price, costs_ppm, seen.vector, moves))]
        count = memory.joined_count(seq)
        if count >= FEWEST_TO_FIT and refit_due(count, self.fit_as_of(deployment, seq=seq)):
            drafts.append(ev.draft(at, ev.MomentsFitted(memory.fit_newest(count))))
        return drafts

    def follow(self, event: Event) -> None:
        """Takes in a moment as a single writer appends it, so that it is not written out only to be read back."""
        if event.kind not in _KINDS or event.stream.owner != self._owner:
            return
        deployment = event.stream.deployment
        before = self._followed.get(deployment) or self._read_newest(deployment, seq=event.seq - 1)
        if event.kind != _NOTED:
            # A fit comes behind the note that it was due with.
            if before is not None:
                self._followed[deployment] = before[0], before[1], event.seq
            return
        body, memory = ev.body_of(event, MomentNoted), self._memories.get(deployment)
        self._followed[deployment] = event.seq, body.costs_ppm, before[2] if before else None
        self.noted_hours[deployment][body.symbol] = body.at // HOUR
        # One that has not read all notes before this one reads this one with them.
        if memory is not None and body.number == memory.noted + 1:
            memory.add(event.seq, body)

    def fit_as_of(self, deployment: str, *, seq: int) -> Fit | None:
        """The fit of moments in force as of a sequence number."""
        noted = self.newest(deployment, seq=seq)
        if noted is None or noted[2] is None:
            return None
        kept = self._fits.get(deployment)
        if kept is None or kept[0] != noted[2]:
            row = self._db.all(_QUERIES.moment_fit, **self._where(deployment), seq=noted[2])[0]
            kept = self._fits[deployment] = noted[2], msgspec.json.decode(row[1], type=Fit)
        return kept[1]

    def fits(self, deployment: str, *, seq: int) -> list[tuple[int, Fit]]:
        """Every fit of moments so far, oldest first, with the event it is from."""
        rows = self._db.all(_QUERIES.moment_fits, **self._where(deployment), seq=seq)
        return [(row[0], msgspec.json.decode(row[1], type=Fit)) for row in rows]

    def noted_between(self, deployment: str, *, after: int, until: int) -> list[tuple[int, MomentNoted]]:
        """Notes of moments between two sequence numbers, in order."""
        rows = self._db.all(_QUERIES.moments, **self._where(deployment), after=after, until=until)
        return [(row[0], msgspec.json.decode(row[1], type=MomentNoted)) for row in rows]

    def up_to(self, deployment: str, seq: int, *, size: int = 0) -> "MomentMemory":
        """The moments in memory, as far as a sequence number at least; of those behind it, `size` or more."""
        kept = self._memories.get(deployment)
        if kept is None or not kept.holds(seq, size=size):
            from tapebook.experience.moments import MomentMemory

            kept = self._memories[deployment] = MomentMemory()
        kept.keep = max(kept.keep, size)
        newest = self.newest(deployment, seq=seq)
        if newest is not None and newest[0] > kept.seq:
            for at, noted in self.noted_between(deployment, after=kept.seq, until=newest[0]):
                kept.add(at, noted)
                self.noted_hours[deployment][noted.symbol] = noted.at // HOUR
        return kept

    def _read_newest(self, deployment: str, *, seq: int) -> NewestMoment | None:
        """The newest note of a moment and the newest fit, by their sequence numbers, and what trading cost then."""
        followed = self._followed.get(deployment)
        if followed is not None and followed[0] <= seq and (followed[2] or 0) <= seq:
            return followed
        row = self._db.one(_QUERIES.newest_moment, **self._where(deployment), seq=seq)
        return None if row is None else (row[0], row[1], row[2])

    def forget_cached(self, deployment: str) -> None:
        """Drops what is in memory of a deployment."""
        caches: list[dict[str, Any]] = [self._memories, self._fits, self._followed, self.noted_hours]
        for kept in caches:
            kept.pop(deployment, None)

    def _where(self, deployment: str) -> dict[str, str | int]:
        return {"owner": self._owner, "deployment": deployment}


ReadRuns = Callable[[int, int], Iterable[DecisionRun]]
"""The decisions behind one sequence number up to another, in their order."""


class TwinMemory:
    """The twins of one owner's deployments."""

    def __init__(self, db: Database, *, owner: str) -> None:
        self._db = db
        self._owner = owner
        self._known: dict[str, tuple[int, TwinsBySymbol]] = {}
        self.cache = MarkCache()

    def as_of(self, deployment: str, *, seq: int, runs: ReadRuns) -> TwinsBySymbol:
        """The twins by symbol as of a sequence number."""
        known = self._known.get(deployment)
        if known is None or known[0] > seq:
            known = self._read_newest(deployment, seq=seq)
        if known[0] < seq:
            twins = known[1]
            for run in runs(known[0], seq):
                twins = fold_run(twins, run)
            known = seq, twins
        self._known[deployment] = known
        return known[1]

    def add_run(self, run: DecisionRun, *, after: int, seq: int) -> None:
        """Takes a run that was appended as `seq`, if the twins of just before it are known."""
        known = self._known.get(run.deployment)
        if known is not None and known[0] == after:
            self._known[run.deployment] = seq, fold_run(known[1], run, cache=self.cache)

    def draft_if_due(self, deployment: str, *, now: int, seq: int, runs: ReadRuns) -> list[Draft]:
        """The event that keeps the twins, once a day."""
        row = self._db.one(_QUERIES.twins, owner=self._owner, deployment=deployment, seq=seq)
        if row is not None and row[1] // DAY >= now // DAY:
            return []
        twins = self.as_of(deployment, seq=seq, runs=runs)
        if not twins or (row is not None and max(each.at for each in twins.values()) <= row[1]):
            return []
        return [ev.draft(now, ev.TwinsKept(tuple(twins[symbol] for symbol in sorted(twins))))]

    def forget_cached(self, deployment: str) -> None:
        """Drops what is in memory of a deployment."""
        self._known.pop(deployment, None)

    def kept_between(self, deployment: str, *, seq: int) -> list[tuple[int, TwinsBySymbol]]:
        """All twins that were kept as far as a sequence number, oldest first, each with its own."""
        rows = self._db.all(_QUERIES.kept_twins, owner=self._owner, deployment=deployment, seq=seq)
        return [(row[0], _by_symbol(row[1])) for row in rows]

    def _read_newest(self, deployment: str, *, seq: int) -> tuple[int, TwinsBySymbol]:
        row = self._db.one(_QUERIES.twins, owner=self._owner, deployment=deployment, seq=seq)
        return (0, {}) if row is None else (row[0], _by_symbol(row[2]))


def twin_differences(memory: TwinMemory, deployment: str, *, seq: int, runs: ReadRuns) -> list[str]:
    """Which of the kept twins are not those that the runs give from the first one on."""
    differences, after, twins = [], 0, TwinsBySymbol()
    for at, kept in memory.kept_between(deployment, seq=seq):
        for run in runs(after, at):
            twins = fold_run(twins, run)
        after = at
        if twins != kept:
            differences.append(f"the twins kept as event {at} are not those of the runs before it")
    return differences


def _by_symbol(text: str) -> TwinsBySymbol:
    return {each.symbol: each for each in msgspec.json.decode(text, type=tuple[SymbolTwins, ...])}
