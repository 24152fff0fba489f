"""The twins of deployments as of a sequence number: kept once a day, and folded from the runs behind that.

The twins are a function of the runs of a stream (`fold_run`). An event keeps them once a day (`draft_if_due`), so that
whoever reads them as of any sequence number folds the runs of a day at most; nothing is written beside a run. In
memory the newest are continued run by run: `add_run` takes the run that was appended behind what is known, and
`as_of` asks for the runs in between where somebody else decided.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from tapebook.db import Database, Queries
from tapebook.domain.run import DecisionRun, Vote
from tapebook.domain.units import DAY
from tapebook.experience.events import TwinsKept, draft
from tapebook.experience.twins import MarkCache, SymbolTwins, twins_after
from tapebook.log import Draft

_QUERIES = Queries.load("tapebook.experience")

ReadRuns = Callable[[int, int], Iterable[DecisionRun]]
"""The decisions behind one sequence number up to another, in their order."""

TwinsBySymbol = dict[str, SymbolTwins]


def voted_targets(votes: Iterable[Vote]) -> dict[str, int | None]:
    """What each member wants, None without a voice."""
    return {vote.engine: None if vote.target_e4 is msgspec.UNSET else vote.target_e4 for vote in votes}


def fold_run(twins: Mapping[str, SymbolTwins], run: DecisionRun, *, cache: MarkCache | None = None) -> TwinsBySymbol:
    """The twins after a decision; one without a mark, or of a shadow, changes nothing."""
    if isinstance(run.mark, msgspec.UnsetType) or run.branch != "main":
        return dict(twins)
    known, targets = twins.get(run.symbol), voted_targets(run.votes)
    if known is not None and run.as_of < known.at:
        # A clock that was set back: time in which nothing can have been earned.
        known = msgspec.structs.replace(known, at=run.as_of)
    after = twins_after(known, run.symbol, run.as_of, mark=run.mark, targets=targets, cache=cache)
    return {**twins, run.symbol: after}


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
        return [draft(now, TwinsKept(tuple(twins[symbol] for symbol in sorted(twins))))]

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
