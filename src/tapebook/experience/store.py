"""Experience in its database: what closed trades teach, and the rows of it that a packet shows.

1. `learn` turns closed trades into events, to be appended to the deployment's stream.
2. `records_as_of` reads the records as of a sequence number; they change only when an outcome was learned, so one
   lookup tells whether the cached ones still hold.
3. `similar` searches the moments and trades in memory, which are loaded when first asked for; `moments` has the notes
   of decisions' moments, and what the market did after earlier ones.
4. `rows_for_packet` gives rows, the most important first: the weights an ensemble reads; what the market did after
   similar moments and how similar trades ended, or that there are none; records of providers in this regime, the
   regime, the asset, the recent past and stated confidence. Every rate and mean carries n and interval, or is left out.

Packets of renderer 4 and before have the rows of `old_rows_for_packet`, which searches situations of own trades alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.agent import ExperienceRow, ExperienceSettings
from tapebook.domain.cache import LastCall
from tapebook.domain.market import AssetContext, Liquidity, LookbackBars, SettledFunding
from tapebook.domain.position import ClosedTrade
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import DAY
from tapebook.experience import events as ev
from tapebook.experience.events import ForgetTerms, SeenFeatures
from tapebook.experience.features import (
    DEFAULT_NEIGHBOURS,
    FEWEST_TO_FIT,
    PAGE_ROWS,
    ROW_BYTES,
    FeatureVector,
    Fit,
    LookbackReader,
    MarketFeatures,
    SeenMarket,
    SeenMoment,
    feature_vector_of,
    refit_due,
    seen_moment,
    unpack_features,
)
from tapebook.experience.memories import MomentNotes, NewestMoment, TwinMemory
from tapebook.experience.records import (
    ALL,
    ASSET,
    CONFIDENCE,
    PPM_PER_BP,
    PROVIDER,
    PROVIDER_REGIME,
    RECORD_KINDS,
    REGIME,
    SNAPSHOTS_KEPT,
    ChunkSnapshot,
    Outcome,
    RecentRecord,
    Record,
    RecordKey,
    outcome_of,
    snapshot_of,
    updated_records,
)
from tapebook.experience.rows import (
    ExperienceQuery,
    PacketExperience,
    experience_rows,
    joined_rows,
    old_similar_rows,
    overall_rows,
    record_rows,
    regime_rows,
    similar_experience,
    stable_rows,
)
from tapebook.experience.similar import PastTrade, SimilarPast
from tapebook.log import Draft, ReadCache

if TYPE_CHECKING:
    # It brings numpy, which only a search or a fit needs: `tapebook --help` starts without it.
    from tapebook.experience.moments import TradeMemory
    from tapebook.experience.situations import NearestNeighbours, Situations


# What a packet asks of every time; assets, of which there may be a thousand, are asked for by name.
ALWAYS_READ_KINDS = (ALL, PROVIDER, PROVIDER_REGIME, CONFIDENCE)

_MomentInputs = tuple[LookbackBars, AssetContext | SettledFunding | None, Liquidity | None]

LookbackKey = tuple[str, int, int]
"""The symbol, the moment and the watermark that bars were read as of."""

RowsInputs = tuple[object, ...]
"""All that the rows of a symbol depend on."""


class RecordsAsOf:
    """The sequence number of the newest outcome or forgetting, how many situations there were, and the records.

    `records` are those every decision asks for. The rest is read or computed when first asked for, and cached
    beside them: the fit, records by name, rows by regime and of all, the record of the last days by its settings, and
    the rows shown last for each symbol, which most decisions of a half hour show again. A new outcome makes a new
    object, so nothing here is ever invalidated.
    """

    def __init__(self, deployment: str, *, seq: int = 0, situations: int = 0, records: dict[RecordKey, Record]) -> None:
        self.deployment = deployment
        self.seq = seq
        self.situations = situations
        self.records = records
        self.fits: list[Fit | None] = []
        self.records_by_name: dict[RecordKey, Record] = {}
        self.regime_rows: dict[tuple[str, tuple[str, ...]], tuple[ExperienceRow, ...]] = {}
        self.overall_rows: dict[tuple[tuple[str, ...], int], tuple[ExperienceRow, ...]] = {}
        self.recent: dict[tuple[int, int], RecentRecord] = {}
        self.rows_by_symbol: dict[str, tuple[RowsInputs, tuple[ExperienceRow, ...]]] = {}
        self.told_by_symbol: dict[str, tuple[RowsInputs, PacketExperience]] = {}

    def continue_from(self, older: "RecordsAsOf", outcomes: Sequence[Outcome]) -> None:
        """Takes over older records and adds some more outcomes to them."""
        self.records, self.records_by_name = dict(older.records), dict(older.records_by_name)
        for outcome in outcomes:
            for record in updated_records(self.records | self.records_by_name, outcome):
                if record.kind in ALWAYS_READ_KINDS:
                    self.records[record.key] = record
                elif record.key in self.records_by_name:
                    self.records_by_name[record.key] = record
        ended = [(outcome.exited_at, outcome.result_ppm, outcome.net_usd_e6) for outcome in outcomes]
        self.recent = {
            settings: kept for settings, kept in older.recent.items() if all([kept.add(each) for each in ended])
        }


MIGRATIONS = "tapebook.experience"

_QUERIES = Queries.load("tapebook.experience")
# The events that write the tables of outcomes and forgettings, and those that write moments and their fits: a moment
# is noted every hour, and a trade ends much less often.
_OUTCOME_KINDS = [ev.EVENT_KINDS[body] for body in (ev.OutcomeLearned, ev.OutcomesForgotten, ev.OutcomesRemembered)]
_BATCH = 2_000
# Beyond it, reading all records anew is cheaper than adding outcomes one by one.
_MOST_TO_CATCH_UP = 20
_PAGES_AT_ONCE = 16


class LearnedOutcome(msgspec.Struct, frozen=True):
    """One outcome as it was learned, with what the decision saw; `packed` is its situation in hex, if it has one."""

    seq: int
    outcome: Outcome
    situations: int
    packed: str | None
    moment: FeatureVector | None = None
    source: str = ""

    @property
    def seen_features(self) -> SeenFeatures:
        """What the decision saw that entered the trade."""
        return SeenFeatures(unpack_features(bytes.fromhex(self.packed)) if self.packed else None, self.moment)


class Forgetting(msgspec.Struct, frozen=True):
    """What was forgotten by one event: when, how many outcomes, which were meant and why; and when it was undone."""

    forget_id: str
    at: int
    outcomes: int
    terms: ForgetTerms
    reason: str
    undone_at: int | None


class _SimilarInCache(msgspec.Struct, frozen=True):
    """What was similar to the last moment of a symbol, what was asked for, and what a packet was told of it.

    `noted` is the newest note by then: one more makes it be looked at again, mostly to find the same. `told` has what
    else the words depend on: the side that is held, and what trading costs.
    """

    asked: tuple[FeatureVector | None, int, ExperienceSettings, int | None]
    told: tuple[int, int]
    noted: int
    past: SimilarPast | None
    found: PacketExperience


class Experience:
    """The experience of one owner's deployments."""

    def __init__(self, db: Database, *, owner: str, answers: ReadCache | None = None) -> None:
        self._db = db
        self.owner = owner
        answers = answers or ReadCache()
        self._newest = answers.cached_read(self._read_newest, owner=owner, kinds=_OUTCOME_KINDS)
        self._standings: dict[str, RecordsAsOf] = {}
        self._fits: dict[str, tuple[int, Fit]] = {}
        self._situations: dict[str, Situations] = {}
        self._passed: dict[str, int] = {}
        # With the newest forgetting each was read as of: another one makes it be read again.
        self._trades: dict[str, tuple[int, TradeMemory]] = {}
        # Caches by symbol of what its bars and rates gave last; agents that look at one market share them.
        self._similar: dict[tuple[str, str], _SimilarInCache] = {}
        self.moments = MomentNotes(db, owner=owner, answers=answers)
        self.twins = TwinMemory(db, owner=owner)
        # A cache by deployment: the month before which all months are known to be summed up.
        self.months_summed_up: dict[str, int] = {}
        self.readers: defaultdict[str, LookbackReader] = defaultdict(LookbackReader)
        self._seen: dict[str, tuple[_MomentInputs, SeenMoment | None]] = {}
        # A cache that a backtest fills: the bars of its next moments, each as they are seen at its own.
        self.lookbacks_ahead: dict[LookbackKey, LookbackBars] = {}
        self._join = LastCall(joined_rows)

    def learn(
        self, deployment: str, closed: Sequence[tuple[ClosedTrade, DecisionRun | None]], *, seq: int
    ) -> list[Draft]:
        """The events that closed trades cause, each with the run that entered it; those already learned cause none.

        Pages and a new fit come first, from what is stored already: a fit never sees the outcomes beside it.
        """
        pairs = {trade.state.trade_id: (trade, run) for trade, run in closed}
        new = [pair for key, pair in pairs.items() if not self.is_learned(deployment, key)]
        if not new:
            return []
        # Of one moment by symbol: ids differ between live and a backtest, and what is learned first counts.
        new.sort(key=lambda pair: (pair[0].exit_tick_at, pair[0].state.symbol, pair[0].state.trade_id))
        outcomes = [self._outcome_with_features(deployment, trade, run, seq=seq) for trade, run in new]
        records = self.records_as_of(deployment, seq=seq)
        return self._page_and_fit_drafts(records, at=outcomes[-1][0].exited_at) + self._outcome_drafts(
            records, outcomes
        )

    def learn_outcomes(
        self, deployment: str, outcomes: Sequence[tuple[Outcome, SeenFeatures]], *, seq: int, source: str = ""
    ) -> list[Draft]:
        """The events of outcomes that come from files, each with its features; those already learned cause none."""
        pairs = {outcome.trade_id: (outcome, reading) for outcome, reading in outcomes}
        new = [pair for key, pair in pairs.items() if not self.is_learned(deployment, key)]
        if not new:
            return []
        new.sort(key=lambda pair: (pair[0].exited_at, pair[0].trade_id))
        records = self.records_as_of(deployment, seq=seq)
        pages = self._page_and_fit_drafts(records, at=new[-1][0].exited_at)
        return pages + self._outcome_drafts(records, new, source=source)

    def learned_up_to(
        self, deployment: str, *, seq: int, ended: Callable[[str], int | None] = lambda trade_id: None
    ) -> int:
        """Up to which sequence number every trade that ended was learned from; `ended` says where one did.

        Trades are learned from in the order of their ends, so it is the end of the one learned last. Outcomes from
        files have no trade here, and come when all others are learned.
        """
        known = self._passed.get(deployment)
        if known is not None and known <= seq:
            return known
        newest = self._newest(deployment, seq=seq)
        learned = newest[0] if newest else 0
        row = self._db.one(_QUERIES.trade_learned, **self._where(deployment), seq=learned) if learned else None
        end = ended(row[0]) if row else None
        return learned if end is None else end

    def mark_learned_up_to(self, deployment: str, *, seq: int) -> None:
        """Somebody looked, and up to here there is nothing to learn from any more."""
        self._passed[deployment] = seq

    def is_learned(self, deployment: str, trade_id: str) -> bool:
        """Whether a trade was learned from already."""
        return self._db.one(_QUERIES.known, **self._where(deployment), trade_id=trade_id) is not None

    def learned_outcome(self, deployment: str, trade_id: str) -> LearnedOutcome | None:
        """What was learned from a trade, without its moment; None when nothing was."""
        row = self._db.one(_QUERIES.outcome_of_trade, **self._where(deployment), trade_id=trade_id)
        return None if row is None else LearnedOutcome(row[0], msgspec.json.decode(row[1], type=Outcome), *row[2:])

    def records_as_of(self, deployment: str, *, seq: int) -> RecordsAsOf:
        """What was known as of a sequence number; asked again before anything was learned, it is the same object."""
        newest = self._newest(deployment, seq=seq)
        known = self._standings.get(deployment)
        if newest is None:
            if known is None or known.seq:
                known = RecordsAsOf(deployment, records={})
                self._standings.setdefault(deployment, known)
            return known
        at = max(newest[0], newest[2])
        if known is None or known.seq != at:
            fresh = RecordsAsOf(deployment, seq=at, situations=newest[1], records={})
            # What was forgotten in between makes sums that no outcome continues.
            follows = known is not None and newest[2] <= known.seq
            if known is None or not known.seq or not follows or not self._continued_from(known, fresh):
                every = (record for kind in ALWAYS_READ_KINDS for record in self._records_of_kind(deployment, kind, at))
                fresh.records.update((record.key, record) for record in every)
            known = self._standings[deployment] = fresh
        return known

    def forget_cached(self, deployment: str) -> None:
        """Drops what is in memory of a deployment, whose tables were written anew."""
        caches: list[dict[str, Any]] = [self._standings, self._fits, self._situations, self._passed]
        for kept in (*caches, self._trades):
            kept.pop(deployment, None)
        self.moments.forget_cached(deployment)
        self.twins.forget_cached(deployment)

    def records(self, deployment: str, *, seq: int) -> dict[RecordKey, Record]:
        """Every record as of a sequence number; one that all was forgotten of is none."""
        every = [record for kind in RECORD_KINDS for record in self._records_of_kind(deployment, kind, seq)]
        return {record.key: record for record in every if record != Record(*record.key)}

    def fit_as_of(self, deployment: str, *, seq: int) -> Fit | None:
        """The fit in force as of a sequence number."""
        row = self._db.one(_QUERIES.fit, **self._where(deployment), seq=seq)
        if row is None:
            return None
        if self._fits.get(deployment, (0, None))[0] != row[0]:
            self._fits[deployment] = row[0], msgspec.json.decode(row[1], type=Fit)
        return self._fits[deployment][1]

    def nearest(
        self, deployment: str, features: MarketFeatures, *, seq: int, most: int = DEFAULT_NEIGHBOURS
    ) -> "NearestNeighbours | None":
        """The situations like this one whose trades had ended; None before there was a fit."""
        records = self.records_as_of(deployment, seq=seq)
        fit, count = self._cached_fit(records), records.situations
        if fit is None:
            return None
        return self._situations_up_to(deployment, count).nearest(
            fit, feature_vector_of(features), count=count, most=most
        )

    def recent_record(self, deployment: str, settings: ExperienceSettings, *, seq: int, as_of: int) -> Record:
        """The record of the last days: the newest outcomes by time, at most `max_memory_size`."""
        row = self._db.one(
            _QUERIES.recent,
            **self._where(deployment),
            since=as_of - settings.context_window * DAY,
            as_of=as_of,
            seq=seq,
            most=settings.max_memory_size,
        )
        return Record("recent", _days_name(settings), *row) if row else Record("recent", _days_name(settings))

    def rows_as_of(
        self,
        deployment: str,
        question: ExperienceQuery,
        features: MarketFeatures | None,
        *,
        seq: int,
        settings: ExperienceSettings,
    ) -> tuple[ExperienceRow, ...]:
        """What a decision is told, most important first; nothing when experience is off or empty."""
        reading = feature_vector_of(features) if features else None
        return self.old_rows_for_packet(self.records_as_of(deployment, seq=seq), question, reading, settings=settings)

    def rows_for_packet(
        self, records: RecordsAsOf, question: ExperienceQuery, *, seq: int, settings: ExperienceSettings
    ) -> PacketExperience:
        """What a decision is told as of a sequence number, from records that have been read already."""
        if not settings.enabled:
            return PacketExperience()
        noted = self.moments.newest(records.deployment, seq=seq)
        # Moments speak before the first trade has ended.
        if not records.seq and noted is None:
            return PacketExperience()
        since = question.as_of - settings.context_window * DAY
        lately = records.recent.get((settings.context_window, settings.max_memory_size))
        recent = lately.made if lately is not None and lately.since <= since < lately.until else None
        if recent is None:
            recent = self._cached_recent_record(records, settings, question.as_of)
        symbol, regime, providers = question.symbol, question.regime, question.providers
        # All of the question but its time.
        asked = (question.moment, question.held, regime, providers, recent, settings, noted)
        kept = records.told_by_symbol.get(symbol)
        if kept is None or kept[0] != asked:
            # Without a fit nothing is known to be similar.
            found = PacketExperience()
            if noted is not None and noted[2] is not None:
                found = self._cached_similar(records, question, noted, seq=seq, settings=settings)
            rows = (*found.rows, *record_rows(recent.name, recent))
            if records.seq:
                # Those of a regime and those of all hold for every symbol until the next outcome is learned.
                here = records.regime_rows.get((regime, providers))
                if here is None:
                    named = {(REGIME, regime): self._record_by_name(records, (REGIME, regime))}
                    here = regime_rows(regime, providers, records.records | named)
                    records.regime_rows[regime, providers] = here
                rate = settings.learning_rate_e4
                every = records.overall_rows.get((providers, rate))
                if every is None:
                    every = overall_rows(providers, records.records, prior=settings.prior_trades)
                    records.overall_rows[providers, rate] = every
                asset = record_rows(symbol, self._record_by_name(records, (ASSET, symbol)))
                rows = (*found.rows, *here, *asset, *record_rows(recent.name, recent), *every)
            if kept is not None and kept[1].rows == rows:
                # Whoever shows them sees at once that nothing changed.
                rows = kept[1].rows
            kept = records.told_by_symbol[symbol] = asked, PacketExperience(rows, found.moves, found.analog)
        return kept[1]

    def _cached_similar(
        self,
        records: RecordsAsOf,
        question: ExperienceQuery,
        noted: NewestMoment,
        *,
        seq: int,
        settings: ExperienceSettings,
    ) -> PacketExperience:
        """What is similar to a moment, kept for its symbol as long as nothing of it has changed."""
        asked = (question.moment, records.seq, settings, noted[2])
        told = (question.held, noted[1])
        kept = self._similar.get((records.deployment, question.symbol))
        if kept is None or kept.asked != asked or kept.told != told or kept.noted != noted[0]:
            before = kept.past if kept is not None and kept.asked == asked else None
            past = self.similar(records.deployment, question.moment, seq=seq, settings=settings, before=before)
            if past is None:
                found = PacketExperience()
            elif kept is not None and kept.told == told and past.tells_as(before):
                found = kept.found
            else:
                found = similar_experience(past, held=question.held, costs_bps=noted[1] / PPM_PER_BP)
            kept = _SimilarInCache(asked, told, noted[0], past, found)
            self._similar[records.deployment, question.symbol] = kept
        return kept.found

    def similar(
        self,
        deployment: str,
        moment: FeatureVector | None,
        *,
        seq: int,
        settings: ExperienceSettings,
        before: SimilarPast | None = None,
    ) -> SimilarPast | None:
        """What is most alike to a moment as of a sequence number; None before there is a fit.

        `before` is what this gave when nothing was different but that fewer moments were noted.
        """
        fit = self.moments.fit_as_of(deployment, seq=seq)
        if fit is None or moment is None:
            return None
        terms: Any = {"most": settings.neighbours, "size": settings.max_memory_size}
        memory = self.moments.up_to(deployment, seq, size=settings.max_memory_size)
        count, last = memory.joined_count(seq), before.moments if before else None
        near = memory.neighbours(fit, moment, count=count, before=last, **terms)
        if before is not None:
            return SimilarPast(near, before.trades)
        trades = self._trades_up_to(deployment, seq, size=settings.max_memory_size)
        query, known = memory.whitened_query(fit, moment), trades.count_as_of(seq)
        return SimilarPast(near, trades.nearest_trades(fit, query, count=known, **terms))

    def seen_moment(self, market: SeenMarket) -> SeenMoment | None:
        """The market as a decision sees it at fixed look-backs; None where there are no bars."""
        if market.lookback is None:
            return None
        symbol, kept = market.symbol, self._seen.get(market.symbol)
        inputs = bars, funding, liquidity = market.lookback, market.context or market.settled_funding, market.liquidity
        if kept is None or kept[0] != inputs:
            # Its own cache are the last bars, which change when half an hour is over.
            found = self.readers[symbol](bars)
            seen = None if found is None else seen_moment(*found, funding, liquidity=liquidity)
            kept = self._seen[symbol] = inputs, seen
        return kept[1]

    def set_lookbacks_ahead(self, found: dict[LookbackKey, LookbackBars]) -> None:
        """Keeps the bars of moments to come, and reads their features: in a row that takes half the time."""
        self.lookbacks_ahead, last = found, None
        for key, bars in found.items():
            # Those of one half hour are the same object.
            if bars is not last:
                self.readers[key[0]](bars)
            last = bars

    def situation_count(self, deployment: str, *, seq: int) -> int:
        """How many situations there are to compare with: moments that joined, and those of trades of before them."""
        joined = self.moments.up_to(deployment, seq).joined_count(seq)
        return joined + self.records_as_of(deployment, seq=seq).situations

    def old_rows_for_packet(
        self,
        records: RecordsAsOf,
        question: ExperienceQuery,
        reading: FeatureVector | None,
        *,
        settings: ExperienceSettings,
    ) -> tuple[ExperienceRow, ...]:
        """The rows of a packet of renderer 4 and before: its neighbours are situations of own trades."""
        if not settings.enabled or not records.seq:
            return ()
        recent = self._cached_recent_record(records, settings, question.as_of)
        asked = (question.regime, question.providers, reading, recent, settings)
        kept = records.rows_by_symbol.get(question.symbol)
        if kept is None or kept[0] != asked:
            fit, count, similar = self._cached_fit(records), records.situations, tuple[ExperienceRow, ...]()
            if fit is not None and reading is not None:
                past = self._situations_up_to(records.deployment, count)
                similar = old_similar_rows(past.neighbours(fit, reading, count=count, most=settings.neighbours))
            keys = ((REGIME, question.regime), (ASSET, question.symbol))
            named = {key: self._record_by_name(records, key) for key in keys}
            stable = stable_rows(question, records.records | named, prior=settings.prior_trades)
            rows = experience_rows(stable, similar=similar, recent=recent, join=self._join)
            kept = records.rows_by_symbol[question.symbol] = asked, rows
        return kept[1]

    def outcomes(self, deployment: str, *, seq: int, most: int, since: int = 0) -> list[Outcome]:
        """The outcomes that ended last, newest by time."""
        rows = self._db.all(_QUERIES.outcomes, **self._where(deployment), seq=seq, since=since, most=most)
        return [msgspec.json.decode(row[0], type=Outcome) for row in rows]

    def history(self, deployment: str, *, seq: int) -> Iterator[LearnedOutcome]:
        """Every outcome in the order it was learned, read page by page."""
        after = 0
        while True:
            where = self._where(deployment) | {"after": after, "until": seq, "page": _BATCH}
            rows = self._db.all(_QUERIES.learned, **where)
            for row in rows:
                moment = None if row[4] is None else msgspec.json.decode(row[4], type=FeatureVector)
                outcome = msgspec.json.decode(row[1], type=Outcome)
                yield LearnedOutcome(row[0], outcome, row[2], row[3], moment, row[5])
            if len(rows) < _BATCH:
                return
            after = rows[-1][0]

    def forgettings(self, deployment: str, *, seq: int) -> list[Forgetting]:
        """What was forgotten as of a sequence number, oldest first, with what was taken back."""
        rows = self._db.all(_QUERIES.forgettings, **self._where(deployment), seq=seq)
        return [
            Forgetting(row[0], row[1], row[2], msgspec.json.decode(row[3], type=ForgetTerms), *row[4:]) for row in rows
        ]

    def forgotten_by_event(self, deployment: str, *, seq: int) -> dict[int, str]:
        """The outcomes that do not count as of a sequence number, by their events, each with what forgot it."""
        return {row[0]: row[1] for row in self._db.all(_QUERIES.forgotten, **self._where(deployment), seq=seq)}

    def packed_situations(self, deployment: str, *, after: int, until: int) -> bytearray:
        """Situations number `after` + 1 to `until` as bytes: from full pages, and one by one behind the last."""
        where, place = self._where(deployment), after
        rows = bytearray((until - after) * ROW_BYTES)
        # A few at a time, so that their memory is used again: new memory costs more than the reading.
        for start in range(after // PAGE_ROWS, -(-until // PAGE_ROWS), _PAGES_AT_ONCE):
            for page, packed in self._db.all(
                _QUERIES.pages, **where, first_page=start, end_page=start + _PAGES_AT_ONCE
            ):
                place = max(place, page * PAGE_ROWS)
                first, last = place - page * PAGE_ROWS, min(until - page * PAGE_ROWS, PAGE_ROWS)
                offset = (place - after) * ROW_BYTES
                rows[offset : offset + (last - first) * ROW_BYTES] = packed[first * ROW_BYTES : last * ROW_BYTES]
                place = page * PAGE_ROWS + last
        rest = self._db.all(_QUERIES.unpacked, **where, after=place, until=until)
        rows[(place - after) * ROW_BYTES :] = b"".join(bytes.fromhex(row[0]) for row in rest)
        return rows

    def fits(self, deployment: str, *, seq: int) -> list[Fit]:
        """Every fit so far, oldest first."""
        rows = self._db.all(_QUERIES.fits, **self._where(deployment), seq=seq)
        return [msgspec.json.decode(row[0], type=Fit) for row in rows]

    def draft_chunk_snapshot(
        self, deployment: str, chunk: str, *, since_seq: int, seq: int, span: tuple[int, int]
    ) -> Draft:
        """The event of a chunk's end: what was achieved between two sequence numbers, over a span of time."""
        before, after = self.records(deployment, seq=since_seq), self.records(deployment, seq=seq)
        return ev.draft_snapshot_taken(snapshot_of(chunk, before, after, started_at=span[0], ended_at=span[1]))

    def snapshots(self, deployment: str, *, seq: int, most: int = SNAPSHOTS_KEPT) -> list[ChunkSnapshot]:
        """The newest snapshots, newest first."""
        rows = self._db.all(_QUERIES.snapshots, **self._where(deployment), seq=seq, most=most)
        return [msgspec.json.decode(row[0], type=ChunkSnapshot) for row in rows]

    def _where(self, deployment: str) -> dict[str, str | int]:
        return {"owner": self.owner, "deployment": deployment}

    def _read_newest(self, deployment: str, *, seq: int) -> Row | None:
        return self._db.one(_QUERIES.newest, **self._where(deployment), seq=seq)

    def _trades_up_to(self, deployment: str, seq: int, *, size: int) -> "TradeMemory":
        """The trades in memory, as far as a sequence number at least; of those behind it, `size` or more."""
        newest = self._newest(deployment, seq=seq) or (0, 0, 0)
        kept = self._trades.get(deployment)
        if kept is None or kept[0] != newest[2] or kept[1].keep < size or not kept[1].holds(seq, size=size):
            from tapebook.experience.moments import TradeMemory

            kept = self._trades[deployment] = newest[2], TradeMemory(keep=size)
        if newest[0] > kept[1].seq:
            forgotten = self.forgotten_by_event(deployment, seq=newest[2]) if newest[2] else {}
            where = self._where(deployment) | {"until": newest[0], "page": _BATCH}
            while newest[0] > kept[1].seq:
                rows = self._db.all(_QUERIES.trade_moments, **where, after=kept[1].seq)
                known = [_past_trade(row) for row in rows if row[0] not in forgotten]
                kept[1].extend(known, seq=rows[-1][0] if len(rows) == _BATCH else newest[0])
        return kept[1]

    def _records_of_kind(self, deployment: str, kind: str, seq: int) -> list[Record]:
        return [Record(*row) for row in self._db.all(_QUERIES.records, **self._where(deployment), kind=kind, seq=seq)]

    def _continued_from(self, known: RecordsAsOf, fresh: RecordsAsOf) -> bool:
        """Fills records from those of a few outcomes before; what is stored was computed in the same way."""
        if known.seq > fresh.seq:
            return False
        where = self._where(known.deployment) | {"after": known.seq, "until": fresh.seq, "page": _MOST_TO_CATCH_UP + 1}
        rows = self._db.all(_QUERIES.learned, **where)
        if len(rows) > _MOST_TO_CATCH_UP:
            return False
        fresh.continue_from(known, [msgspec.json.decode(row[1], type=Outcome) for row in rows])
        return True

    def _record_by_name(self, records: RecordsAsOf, key: RecordKey) -> Record:
        """A record that not every decision asks for."""
        found = records.records_by_name.get(key)
        if found is None:
            where = {"owner": self.owner, "deployment": records.deployment, "kind": key[0], "name": key[1]}
            row = self._db.one(_QUERIES.record, **where, seq=records.seq)
            found = records.records_by_name[key] = Record(*row) if row else Record(*key)
        return found

    def _cached_fit(self, records: RecordsAsOf) -> Fit | None:
        """The fit in force; a new one is written together with the outcome behind it, so it changes with them."""
        if not records.fits:
            records.fits.append(self.fit_as_of(records.deployment, seq=records.seq))
        return records.fits[0]

    def _cached_recent_record(self, records: RecordsAsOf, settings: ExperienceSettings, as_of: int) -> Record:
        """The record of the last days from memory; a moment that memory does not reach is asked of the tables."""
        days, most = settings.context_window, settings.max_memory_size
        since, kept = as_of - days * DAY, records.recent.get((days, most))
        found = None if kept is None else kept.record(since=since, as_of=as_of)
        if found is not None:
            return found
        where = self._where(records.deployment) | {"seq": records.seq, "since": since, "most": most}
        ended = self._db.all(_QUERIES.results, **where)[::-1]
        kept = records.recent[days, most] = RecentRecord(ended, name=_days_name(settings), most=most)
        found = kept.record(since=since, as_of=as_of)
        return found or self.recent_record(records.deployment, settings, seq=records.seq, as_of=as_of)

    def _outcome_with_features(
        self, deployment: str, trade: ClosedTrade, run: DecisionRun | None, *, seq: int
    ) -> tuple[Outcome, SeenFeatures]:
        run_id = trade.state.entry_run_id
        row = self._db.one(_QUERIES.sight, **self._where(deployment), run_id=run_id, seq=seq) if run_id else None
        situation = msgspec.json.decode(row[0], type=ev.SituationSeen) if row else None
        if situation is None:
            return outcome_of(trade, run), SeenFeatures()
        seen = SeenFeatures(situation.reading or None, situation.moment)
        return outcome_of(trade, run, conditions=situation.conditions), seen

    def _outcome_drafts(
        self, records: RecordsAsOf, outcomes: Sequence[tuple[Outcome, SeenFeatures]], *, source: str = ""
    ) -> list[Draft]:
        known, count = dict(records.records), records.situations
        drafts = []
        for outcome, seen in outcomes:
            for key in ((REGIME, outcome.regime), (ASSET, outcome.symbol)):
                if key not in known:
                    known[key] = self._record_by_name(records, key)
            body = ev.outcome_learned_body(outcome, known, situations=count, seen=seen, source=source)
            known |= {record.key: record for record in body.records}
            count = body.situations
            drafts.append(ev.draft(outcome.exited_at, body))
        return drafts

    def _page_and_fit_drafts(self, records: RecordsAsOf, *, at: int) -> list[Draft]:
        """Pages that are full by now, and a new fit when it is due."""
        deployment, count = records.deployment, records.situations
        newest = self._db.one(_QUERIES.last_page, **self._where(deployment))
        first = 0 if newest is None or newest[0] is None else newest[0] + 1
        drafts = [
            ev.draft_page_packed(
                page, self.packed_situations(deployment, after=page * PAGE_ROWS, until=(page + 1) * PAGE_ROWS), at=at
            )
            for page in range(first, count // PAGE_ROWS)
        ]
        if count >= FEWEST_TO_FIT and refit_due(count, self._cached_fit(records)):
            drafts.append(ev.draft_fit(self._situations_up_to(deployment, count).fit_newest(count), at=at))
        return drafts

    def _situations_up_to(self, deployment: str, count: int) -> "Situations":
        kept = self._situations.get(deployment)
        if kept is None:
            from tapebook.experience.situations import Situations

            kept = self._situations[deployment] = Situations()
        if kept.count < count:
            kept.extend(self.packed_situations(deployment, after=kept.count, until=count))
        return kept


def _past_trade(row: Row) -> PastTrade:
    seq, symbol, side, entered_at, result_ppm, vector = row
    return PastTrade(seq, symbol, side, entered_at, result_ppm, msgspec.json.decode(vector, type=FeatureVector))


def _days_name(settings: ExperienceSettings) -> str:
    return f"last {settings.context_window} days"
