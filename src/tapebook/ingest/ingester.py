"""Commits what sources deliver, derives features, and names what is missing.

1. every source runs as a task of its own and puts what it learns into a `FactBuffer`;
2. a few times a second the buffer is emptied into one commit (`Ingester.flush`);
3. `Ingester.do_due_work`: at every full minute features are derived (`FeatureDeriver`: all of a symbol each five
   minutes, in between those that changed enough) and sources name the gaps that only the tape shows; at every full
   hour `compaction` does its work.

A commit that fails keeps what it could not write and tries again with the next one.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tapebook.domain.market import TRADED_KINDS, AssetContext, FeatureRow, Gap, Liquidity, MidFrame, SubjectKind
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND, floor_to_step
from tapebook.errors import Busy, Damaged, DatabaseAway, StoreFailed
from tapebook.ingest.compaction import Compaction
from tapebook.settings.config import Config
from tapebook.tape.features import (
    Feature,
    FundingPressure,
    LiquidityProfile,
    PositioningPressure,
    VolatilityProfile,
    changed_enough,
    funding_pressure,
    liquidity_profile,
    metrics_json,
    positioning_pressure,
    volatility_profile,
)
from tapebook.tape.quarantine import PriceRules, Quarantine, RefusedObservation
from tapebook.tape.retention import RetentionPeriods
from tapebook.tape.source import Fact, ProgressTable, SourceProblem, SourceProgress
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.wiring import Rooms

FEATURE_CADENCE_MS = 5 * MINUTE
_MAX_PROBLEM_CHARS = 300

# What odd facts, or a chunk that the archive has lost, can lead to; a disk that refuses concerns all symbols.
_FEATURE_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    *(msgspec.MsgspecError, Damaged),
)


class SymbolFeatures(msgspec.Struct, frozen=True):
    """All features of one symbol at one moment; None where too little is known."""

    liquidity: LiquidityProfile | None = None
    pressure: FundingPressure | None = None
    volatility: VolatilityProfile | None = None
    positioning: PositioningPressure | None = None


class DerivedRow(msgspec.Struct, frozen=True):
    """A row, and the feature it tells of."""

    row: FeatureRow
    feature: Feature


def compute_features(tape: Tape, symbol: str, *, view: View) -> SymbolFeatures:
    """Reads a day of one symbol and computes its features."""
    now = view.as_of
    contexts = tape.facts(AssetContext, symbol, since=now - DAY - HOUR, view=view)
    predicted = tape.predicted_funding(symbol, since=now - HOUR, view=view)
    minutes = tape.candles(symbol, granularity_sec=60, since=floor_to_step(now, MINUTE) - DAY - MINUTE, view=view)
    liquidity = liquidity_profile(tape.facts(Liquidity, symbol, since=now - DAY, view=view), as_of=now)
    pressure = funding_pressure(contexts, predicted, as_of=now)
    return SymbolFeatures(
        liquidity,
        pressure,
        volatility_profile(minutes, as_of=now),
        positioning_pressure(minutes, pressure, liquidity, as_of=now),
    )


class FeatureDeriver:
    """Remembers what was written last, to know what has changed."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._last: dict[tuple[str, str], Feature] = {}
        self._full_at: dict[str, int] = {}

    def rows_due(self, symbols: Iterable[str], *, now: int) -> tuple[list[DerivedRow], list[SourceProblem]]:
        """What is to be written at a moment: everything each five minutes, in between what changed enough.

        A symbol whose facts make no feature is a problem of that symbol and of no other.
        """
        found: list[DerivedRow] = []
        problems: list[SourceProblem] = []
        for symbol in symbols:
            try:
                found += self._rows_due_of(symbol, now)
            except _FEATURE_ERRORS as error:
                detail = f"{type(error).__name__}: {error}"[:_MAX_PROBLEM_CHARS]
                problems.append(SourceProblem("tapebook", "features", symbol, detail))
        return found, problems

    def _rows_due_of(self, symbol: str, now: int) -> list[DerivedRow]:
        full = floor_to_step(now, FEATURE_CADENCE_MS) > self._full_at.get(symbol, -1)
        found = []
        for family, feature in _features_by_family(compute_features(self._tape, symbol, view=View(now))):
            before = None if full else self._last.get((symbol, family))
            if changed_enough(before, feature):
                found.append(DerivedRow(FeatureRow(symbol, now, metrics_json(feature), family), feature))
        return found

    def mark_written(self, derived: Iterable[DerivedRow], *, now: int) -> None:
        """The rows are on the tape: from now on others are compared with them."""
        for each in derived:
            self._last[each.row.symbol, each.row.family] = each.feature
            self._full_at[each.row.symbol] = floor_to_step(now, FEATURE_CADENCE_MS)


def _features_by_family(features: SymbolFeatures) -> list[tuple[str, Feature]]:
    found = {"pressure": features.pressure, "volatility": features.volatility, "positioning": features.positioning}
    return [(family, feature) for family, feature in found.items() if feature is not None]


MAX_PENDING_FACTS = 2_000_000
"""Facts kept in memory while the disk refuses to take them; beyond it the process must stop."""

# Problems are for people, who read the first of them.
_MAX_PROBLEMS = 1_000


class PendingFacts(msgspec.Struct, frozen=True):
    """What waits for one commit: facts, gaps that were found, ranges that were fetched since, what went wrong, and how
    far sources have come.
    """

    facts: list[Fact] = []
    gaps: list[Gap] = []
    filled: list[Gap] = []
    problems: list[SourceProblem] = []
    kinds: dict[str, SubjectKind] = {}
    progress: list[SourceProgress] = []


class FactBuffer:
    """Where sources put what they learn until it is committed."""

    def __init__(self) -> None:
        self._facts: list[Fact] = []
        self._gaps: list[Gap] = []
        self._filled: list[Gap] = []
        self._problems: list[SourceProblem] = []
        self._kinds: dict[str, SubjectKind] = {}
        self._progress: list[SourceProgress] = []

    def add_observations(self, observations: Sequence[Fact]) -> None:
        """Keeps observations for the next commit."""
        self._facts += observations

    def add_gap(self, gap: Gap) -> None:
        """Keeps a gap for the next commit."""
        self._gaps.append(gap)

    def add_filled_range(self, gap: Gap) -> None:
        """Keeps a range that was fetched for the next commit."""
        self._filled.append(gap)

    def add_problem(self, problem: SourceProblem) -> None:
        """Keeps what went wrong for the next commit."""
        self._problems.append(problem)

    def add_kinds(self, kinds: Mapping[str, SubjectKind]) -> None:
        """Keeps the kinds of symbols for the next commit."""
        self._kinds |= kinds

    def add_progress(self, progress: SourceProgress) -> None:
        """Keeps how far a source has come for the next commit."""
        self._progress.append(progress)

    def drain_pending(self) -> "PendingFacts":
        """Returns everything that waits, and empties the buffer."""
        waiting = PendingFacts(self._facts, self._gaps, self._filled, self._problems, self._kinds, self._progress)
        self._facts, self._gaps, self._filled, self._problems, self._kinds = [], [], [], [], {}
        self._progress = []
        return waiting

    def put_back(self, waiting: "PendingFacts") -> None:
        """Takes back what could not be committed, in its place before what came since."""
        self._facts[:0] = waiting.facts
        self._gaps[:0] = waiting.gaps
        self._filled[:0] = waiting.filled
        self._kinds = waiting.kinds | self._kinds
        self._progress[:0] = waiting.progress
        # While the disk is full, the newest ones say enough.
        self._problems = [*waiting.problems, *self._problems][-_MAX_PROBLEMS:]

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


def _problem_of(refused: RefusedObservation) -> SourceProblem:
    return SourceProblem("quarantine", "refused row", f"{refused.channel} {refused.symbol}", refused.why)


class Ingester:
    """Commits what an intake collects and keeps the tape in order."""

    def __init__(
        self, rooms: Rooms, intake: FactBuffer, *, keep: RetentionPeriods | None, derive_every: int = MINUTE
    ) -> None:
        self._rooms = rooms
        self._intake = intake
        self._derive_every = derive_every
        self._deriver = FeatureDeriver(rooms.tape)
        self._underived: list[str] = []
        self._quarantine = Quarantine(price_rules(rooms.config), rooms.tape.stored_prices())
        self._tidy = Compaction(rooms, keep=keep)
        self._tidies_next = False
        # What fell due before this moment was the business of an earlier process, what falls due at it is ours.
        self._derived = floor_to_step(rooms.clock.now() - 1, derive_every)

    def flush(self) -> str | None:
        """Commits what is waiting; returns why it could not, with everything kept for the next attempt.

        A database that is away is raised, with everything kept as well.
        """
        waiting = self._intake.drain_pending()
        try:
            self._commit(waiting)
        except (StoreFailed, Busy) as error:
            # What was believed since the last commit is judged again with the next one.
            self._quarantine.clear_cache()
            self._intake.put_back(waiting)
            if len(self._intake) > MAX_PENDING_FACTS:
                raise
            if isinstance(error, DatabaseAway):
                raise
            return f"{error} (waiting: {plural(len(self._intake), 'fact')})"
        return None

    def close(self) -> None:
        """Commits what is waiting for the last time."""
        # What cannot be written now is lost, so that is an error.
        self._commit(self._intake.drain_pending())

    def _commit(self, waiting: PendingFacts) -> None:
        tape, gaps, now = self._rooms.tape, waiting.gaps, self._rooms.clock.now()
        for source in self._rooms.sources:
            gaps = source.missing_on_tape(tape, gaps, now=now)
        facts, refused = self._quarantine.split_believed(waiting.facts)
        tape.commit(facts, gaps=gaps, filled=waiting.filled, refused=refused, kinds=waiting.kinds)
        tape.note_problems([*waiting.problems, *map(_problem_of, refused)])
        # Behind the rows: a source that is killed in between asks its last question again, and knows what it delivered.
        ProgressTable(self._rooms.tape_db).note(waiting.progress)

    def is_behind(self) -> bool:
        """Whether anything has fallen due that is not done."""
        moment = floor_to_step(self._rooms.clock.now(), self._derive_every)
        return bool(self._underived) or moment > self._derived or self._tidy.is_due()

    def do_due_work(self, *, at_once: int | None = None) -> None:
        """Does what has fallen due, once; what could not be written raises, and is due again at the next call.

        Features of a symbol take some 20 ms. Where frames must not wait that long for all of them, `at_once` says for
        how many symbols something is done in one call; the next calls go on, with features and the hour's work in turn.
        """
        moment = floor_to_step(self._rooms.clock.now(), self._derive_every)
        if moment > self._derived and not self._underived:
            tape = self._rooms.tape
            gaps = [gap for source in self._rooms.sources for gap in source.unrecorded_gaps(tape, now=moment)]
            tape.commit([], gaps=gaps)
            # Features are made of bars, books and funding: of what is traded.
            self._underived, self._derived = tape.symbols(*TRADED_KINDS), moment
        tidies = self._tidy.is_due()
        if self._underived and not (tidies and self._tidies_next):
            self._derive(self._underived[:at_once])
            self._underived = self._underived[at_once:] if at_once else []
            self._tidies_next = at_once is not None
            tidies = tidies and at_once is None
        if tidies:
            self._tidy.do_due_work(at_once=at_once)
            self._tidies_next = False

    def _derive(self, symbols: list[str]) -> None:
        derived, problems = self._deriver.rows_due(symbols, now=self._derived)
        self._rooms.tape.commit([each.row for each in derived])
        self._rooms.tape.note_problems(problems)
        self._deriver.mark_written(derived, now=self._derived)
