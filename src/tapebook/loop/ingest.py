"""Ingestion: a source delivers, the tape commits, features are derived, old rows leave for the archive.

1. the source runs as a task of its own and puts what it learns into an `Intake`;
2. a few times a second the intake is emptied into one commit (`Ingester.flush`);
3. at every full minute features are derived and books that a kill took are named (`mend.py`), at
   every full hour bars are rolled up and old rows retired (`tidy.py`), all by `Ingester.keep_up`.

A commit that fails keeps what it could not write and tries again with the next one.
"""

from collections.abc import Sequence

import msgspec

from tapebook.config import Config
from tapebook.domain.instants import MINUTE, SECOND, floor
from tapebook.domain.market import Gap, MidFrame
from tapebook.domain.text import plural
from tapebook.errors import Busy, DatabaseAway, StoreFailed
from tapebook.loop.derive import Deriver
from tapebook.loop.mend import true_gaps, untold_gaps
from tapebook.loop.tidy import Tidy
from tapebook.tape.quarantine import PriceRules, Quarantine, Refused
from tapebook.tape.retention import Keep
from tapebook.tape.source import Fact, SourceProblem
from tapebook.wiring import Rooms

MAX_WAITING = 2_000_000
"""Facts kept in memory while the disk refuses to take them; beyond it the process must stop."""

_MOST_PROBLEMS = 1_000


class Waiting(msgspec.Struct, frozen=True):
    """What waits for one commit: facts, gaps that were found, ranges that were fetched since, and what went wrong."""

    facts: list[Fact] = []
    gaps: list[Gap] = []
    filled: list[Gap] = []
    problems: list[SourceProblem] = []


class Intake:
    """Where a source puts what it learns until it is committed."""

    def __init__(self) -> None:
        self._facts: list[Fact] = []
        self._gaps: list[Gap] = []
        self._filled: list[Gap] = []
        self._problems: list[SourceProblem] = []

    def take(self, observations: Sequence[Fact]) -> None:
        """Keeps observations for the next commit."""
        self._facts += observations

    def gap(self, gap: Gap) -> None:
        """Keeps a gap for the next commit."""
        self._gaps.append(gap)

    def filled(self, gap: Gap) -> None:
        """Keeps a range that was fetched for the next commit."""
        self._filled.append(gap)

    def problem(self, problem: SourceProblem) -> None:
        """Keeps what went wrong for the next commit."""
        self._problems.append(problem)

    def drain(self) -> "Waiting":
        """Gives everything away."""
        waiting = Waiting(self._facts, self._gaps, self._filled, self._problems)
        self._facts, self._gaps, self._filled, self._problems = [], [], [], []
        return waiting

    def give_back(self, waiting: "Waiting") -> None:
        """Takes back what could not be committed, in its place before what came since."""
        self._facts[:0] = waiting.facts
        self._gaps[:0] = waiting.gaps
        self._filled[:0] = waiting.filled
        # While the disk is full, the newest ones say enough.
        self._problems = [*waiting.problems, *self._problems][-_MOST_PROBLEMS:]

    def __len__(self) -> int:
        return sum(len(fact) if isinstance(fact, MidFrame) else 1 for fact in self._facts)


def price_rules(config: Config) -> PriceRules:
    """The settings of the quarantine, in the integers it counts with."""
    wanted = config.quarantine
    return PriceRules(
        factor_percent=round(wanted.jump_factor * 100),
        agree_ms=round(wanted.agree_seconds * SECOND),
        alone_ms=round(wanted.alone_seconds * SECOND),
    )


def _problem_of(refused: Refused) -> SourceProblem:
    return SourceProblem("quarantine", "refused row", f"{refused.channel} {refused.symbol}", refused.why)


class Ingester:
    """Commits what an intake collects and keeps the tape in order."""

    def __init__(self, rooms: Rooms, intake: Intake, *, keep: Keep, derive_every: int = MINUTE) -> None:
        self._rooms = rooms
        self._intake = intake
        self._derive_every = derive_every
        self._deriver = Deriver(rooms.tape)
        self._underived: list[str] = []
        self._quarantine = Quarantine(price_rules(rooms.config), rooms.tape.stored_prices())
        self._tidy = Tidy(rooms, keep=keep)
        self._tidies_next = False
        # What fell due before this moment was the business of an earlier process, what falls due at it is ours.
        self._derived = floor(rooms.clock.now() - 1, derive_every)

    def flush(self) -> str | None:
        """Commits what is waiting; returns why it could not, with everything kept for the next attempt.

        A database that is away is raised, with everything kept as well.
        """
        waiting = self._intake.drain()
        try:
            self._commit(waiting)
        except (StoreFailed, Busy) as error:
            # What was believed since the last commit is judged again with the next one.
            self._quarantine.forget()
            self._intake.give_back(waiting)
            if len(self._intake) > MAX_WAITING:
                raise
            if isinstance(error, DatabaseAway):
                raise
            return f"{error} (waiting: {plural(len(self._intake), 'fact')})"
        return None

    def close(self) -> None:
        """Commits what is waiting for the last time: what cannot be written now is lost, so that is an error."""
        self._commit(self._intake.drain())

    def _commit(self, waiting: Waiting) -> None:
        true = true_gaps(self._rooms.tape, waiting.gaps, now=self._rooms.clock.now())
        facts, refused = self._quarantine.sift(waiting.facts)
        self._rooms.tape.commit(facts, gaps=true, filled=waiting.filled, refused=refused)
        self._rooms.tape.note_problems([*waiting.problems, *map(_problem_of, refused)])

    def is_behind(self) -> bool:
        """Whether anything has fallen due that is not done."""
        moment = floor(self._rooms.clock.now(), self._derive_every)
        return bool(self._underived) or moment > self._derived or self._tidy.is_due()

    def keep_up(self, *, at_once: int | None = None) -> None:
        """Does what has fallen due, once; what could not be written raises, and is due again at the next call.

        Features of a symbol take some 20 ms. Where frames must not wait that long for all of them, `at_once` says for
        how many symbols something is done in one call; the next calls go on, with features and the hour's work in turn.
        """
        moment = floor(self._rooms.clock.now(), self._derive_every)
        if moment > self._derived and not self._underived:
            self._rooms.tape.commit([], gaps=untold_gaps(self._rooms.tape, now=moment))
            self._underived, self._derived = self._rooms.tape.symbols(), moment
        tidies = self._tidy.is_due()
        if self._underived and not (tidies and self._tidies_next):
            self._derive(self._underived[:at_once])
            self._underived = self._underived[at_once:] if at_once else []
            self._tidies_next = at_once is not None
            tidies = tidies and at_once is None
        if tidies:
            self._tidy.work(at_once=at_once)
            self._tidies_next = False

    def _derive(self, symbols: list[str]) -> None:
        derived, problems = self._deriver.due(symbols, now=self._derived)
        self._rooms.tape.commit([each.row for each in derived])
        self._rooms.tape.note_problems(problems)
        self._deriver.written(derived, now=self._derived)
