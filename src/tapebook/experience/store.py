"""Experience in its database: what closed trades teach, and what a decision gets to know of it.

1. `learn` turns closed trades into events (`learning`), to be appended to the deployment's stream.
2. `standing` reads the records as of a sequence number; they change only when an outcome was learned,
   so one lookup tells whether those in memory still hold.
3. `nearest` searches the situations in memory, which are loaded page by page when first asked for.
4. `rows` says all of it to a packet.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.instants import DAY
from tapebook.domain.memory import ExperienceRow, ExperienceSettings
from tapebook.domain.run import DecisionRun
from tapebook.domain.trade import ClosedTrade
from tapebook.experience import events as ev
from tapebook.experience import learning
from tapebook.experience.fits import FEWEST, NEAREST, Fit, refit_due
from tapebook.experience.outcomes import Outcome, outcome_of
from tapebook.experience.pages import PAGE, ROW_BYTES
from tapebook.experience.recent import Recent
from tapebook.experience.records import ASSET, KINDS, REGIME, Key, Record
from tapebook.experience.rows import Question, StandingRows, experience_rows, standing_rows
from tapebook.experience.sights import Reading, Sight, reading_of
from tapebook.experience.snapshots import KEPT, Snapshot, snapshot_of
from tapebook.experience.standing import EVERY_TIME, Standing
from tapebook.log import Answers, Draft

if TYPE_CHECKING:
    # It brings numpy, which only a search or a fit needs.
    from tapebook.experience.situations import Company, Nearest, Situations

MIGRATIONS = "tapebook.experience"

_QUERIES = Queries.load("tapebook.experience")
_BATCH = 2_000
_FEW = 20
_PAGES = 16


class Learned(msgspec.Struct, frozen=True):
    """One outcome as it was learned; `packed` is its situation in hex, if anybody saw one."""

    seq: int
    outcome: Outcome
    situations: int
    packed: str | None


class Experience:
    """The experience of one owner's deployments."""

    def __init__(self, db: Database, *, owner: str, answers: Answers | None = None) -> None:
        self._db = db
        self.owner = owner
        self._newest = (answers or Answers()).kept(self._read_newest, owner=owner)
        self._standings: dict[str, Standing] = {}
        self._fits: dict[str, tuple[int, Fit]] = {}
        self._situations: dict[str, Situations] = {}
        self._passed: dict[str, int] = {}

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
        outcomes = [self._outcome(deployment, trade, run, seq=seq) for trade, run in new]
        standing = self.standing(deployment, seq=seq)
        return self._tended(standing, at=outcomes[-1][0].exited_at) + self._lessons(standing, outcomes)

    def learn_outcomes(
        self, deployment: str, outcomes: Sequence[tuple[Outcome, Reading | None]], *, seq: int
    ) -> list[Draft]:
        """The same for outcomes that come from files, each with what was seen; those already learned cause none."""
        pairs = {outcome.trade_id: (outcome, reading) for outcome, reading in outcomes}
        new = [pair for key, pair in pairs.items() if not self.is_learned(deployment, key)]
        if not new:
            return []
        new.sort(key=lambda pair: (pair[0].exited_at, pair[0].trade_id))
        standing = self.standing(deployment, seq=seq)
        return self._tended(standing, at=new[-1][0].exited_at) + self._lessons(standing, new)

    def passed(self, deployment: str, *, seq: int, ended: Callable[[str], int | None] = lambda trade_id: None) -> int:
        """Up to which sequence number every trade that ended was learned from; `ended` says where one did.

        Trades are learned from in the order of their ends, so it is the end of the one learned last. Outcomes from
        files have no trade here, and come when all others are learned.
        """
        known = self._passed.get(deployment)
        if known is not None and known <= seq:
            return known
        learned = self.standing(deployment, seq=seq).seq
        row = self._db.one(_QUERIES.trade_learned, **self._where(deployment), seq=learned) if learned else None
        end = ended(row[0]) if row else None
        return learned if end is None else end

    def pass_over(self, deployment: str, *, seq: int) -> None:
        """Somebody looked, and up to here there is nothing to learn from any more."""
        self._passed[deployment] = seq

    def is_learned(self, deployment: str, trade_id: str) -> bool:
        """Whether a trade was learned from already."""
        return self._db.one(_QUERIES.known, **self._where(deployment), trade_id=trade_id) is not None

    def standing(self, deployment: str, *, seq: int) -> Standing:
        """What was known as of a sequence number; asked again before anything was learned, it is the same object."""
        newest = self._newest(deployment, seq=seq)
        if newest is None:
            return Standing(deployment, records={})
        known = self._standings.get(deployment)
        if known is None or known.seq != newest[0]:
            fresh = Standing(deployment, seq=newest[0], situations=newest[1], records={})
            if known is None or not self._caught_up(known, fresh):
                every = (record for kind in EVERY_TIME for record in self._of_kind(deployment, kind, newest[0]))
                fresh.records.update((record.key, record) for record in every)
            known = self._standings[deployment] = fresh
        return known

    def forget(self, deployment: str) -> None:
        """Drops what is in memory of a deployment, whose tables were written anew."""
        for kept in (self._standings, self._fits, self._situations, self._passed):
            kept.pop(deployment, None)

    def records(self, deployment: str, *, seq: int) -> dict[Key, Record]:
        """Every record as of a sequence number."""
        return {record.key: record for kind in KINDS for record in self._of_kind(deployment, kind, seq)}

    def record(self, deployment: str, key: Key, *, seq: int) -> Record:
        """One record as of a sequence number; empty when nothing is known."""
        row = self._db.one(_QUERIES.record, **self._where(deployment), kind=key[0], name=key[1], seq=seq)
        return Record(*row) if row else Record(*key)

    def fit(self, deployment: str, *, seq: int) -> Fit | None:
        """The fit in force as of a sequence number."""
        row = self._db.one(_QUERIES.fit, **self._where(deployment), seq=seq)
        if row is None:
            return None
        if self._fits.get(deployment, (0, None))[0] != row[0]:
            self._fits[deployment] = row[0], msgspec.json.decode(row[1], type=Fit)
        return self._fits[deployment][1]

    def nearest(self, deployment: str, sight: Sight, *, seq: int, most: int = NEAREST) -> "Nearest | None":
        """The situations like this one whose trades had ended; None before there was a fit."""
        standing = self.standing(deployment, seq=seq)
        fit, count = self._fit(standing), standing.situations
        if fit is None:
            return None
        return self._loaded(deployment, count).nearest(fit, reading_of(sight), count=count, most=most)

    def recent(self, deployment: str, settings: ExperienceSettings, *, seq: int, as_of: int) -> Record:
        """The record of the last days: the newest outcomes by time, at most `max_memory_size`."""
        row = self._db.one(
            _QUERIES.recent,
            **self._where(deployment),
            since=as_of - settings.context_window * DAY,
            as_of=as_of,
            seq=seq,
            most=settings.max_memory_size,
        )
        return Record("recent", _days(settings), *row) if row else Record("recent", _days(settings))

    def rows(
        self, deployment: str, question: Question, sight: Sight | None, *, seq: int, settings: ExperienceSettings
    ) -> tuple[ExperienceRow, ...]:
        """What a decision is told, most important first; nothing when experience is off or empty."""
        reading = reading_of(sight) if sight else None
        return self.told(self.standing(deployment, seq=seq), question, reading, settings=settings)

    def told(
        self, standing: Standing, question: Question, reading: Reading | None, *, settings: ExperienceSettings
    ) -> tuple[ExperienceRow, ...]:
        """The same for whoever has asked already what was known, and read what is seen."""
        if not settings.enabled or not standing.seq:
            return ()
        recent = self._recent(standing, settings, question.as_of)
        asked = (question.regime, question.providers, reading, recent, settings)
        kept = standing.told.get(question.symbol)
        if kept is None or kept[0] != asked:
            company = None if reading is None else self._company(standing, reading, settings.neighbours)
            rows = experience_rows(self._standing_rows(standing, question, settings), company=company, recent=recent)
            kept = standing.told[question.symbol] = asked, rows
        return kept[1]

    def outcomes(self, deployment: str, *, seq: int, most: int, since: int = 0) -> list[Outcome]:
        """The outcomes that ended last, newest by time."""
        rows = self._db.all(_QUERIES.outcomes, **self._where(deployment), seq=seq, since=since, most=most)
        return [msgspec.json.decode(row[0], type=Outcome) for row in rows]

    def situation(self, deployment: str, number: int) -> Outcome | None:
        """The outcome of a situation by its number, such as a neighbour's."""
        row = self._db.one(_QUERIES.situation, **self._where(deployment), number=number)
        return msgspec.json.decode(row[0], type=Outcome) if row else None

    def history(self, deployment: str, *, seq: int) -> Iterator[Learned]:
        """Every outcome in the order it was learned, read page by page."""
        after = 0
        while True:
            where = self._where(deployment) | {"after": after, "until": seq, "page": _BATCH}
            rows = self._db.all(_QUERIES.learned, **where)
            for row in rows:
                yield Learned(row[0], msgspec.json.decode(row[1], type=Outcome), row[2], row[3])
            if len(rows) < _BATCH:
                return
            after = rows[-1][0]

    def packed(self, deployment: str, *, after: int, until: int) -> bytearray:
        """Situations number `after` + 1 to `until` as bytes: from full pages, and one by one behind the last."""
        where, place = self._where(deployment), after
        rows = bytearray((until - after) * ROW_BYTES)
        # A few at a time, so that their memory is used again: new memory costs more than the reading.
        for start in range(after // PAGE, -(-until // PAGE), _PAGES):
            for page, packed in self._db.all(_QUERIES.pages, **where, first_page=start, end_page=start + _PAGES):
                place = max(place, page * PAGE)
                first, last = place - page * PAGE, min(until - page * PAGE, PAGE)
                offset = (place - after) * ROW_BYTES
                rows[offset : offset + (last - first) * ROW_BYTES] = packed[first * ROW_BYTES : last * ROW_BYTES]
                place = page * PAGE + last
        rest = self._db.all(_QUERIES.unpacked, **where, after=place, until=until)
        rows[(place - after) * ROW_BYTES :] = b"".join(bytes.fromhex(row[0]) for row in rest)
        return rows

    def fits(self, deployment: str, *, seq: int) -> list[Fit]:
        """Every fit so far, oldest first."""
        rows = self._db.all(_QUERIES.fits, **self._where(deployment), seq=seq)
        return [msgspec.json.decode(row[0], type=Fit) for row in rows]

    def snapshot(self, deployment: str, chunk: str, *, since_seq: int, seq: int, span: tuple[int, int]) -> Draft:
        """The event of a chunk's end: what was achieved between two sequence numbers, over a span of time."""
        before, after = self.records(deployment, seq=since_seq), self.records(deployment, seq=seq)
        return learning.taken(snapshot_of(chunk, before, after, started_at=span[0], ended_at=span[1]))

    def snapshots(self, deployment: str, *, seq: int, most: int = KEPT) -> list[Snapshot]:
        """The newest snapshots, newest first."""
        rows = self._db.all(_QUERIES.snapshots, **self._where(deployment), seq=seq, most=most)
        return [msgspec.json.decode(row[0], type=Snapshot) for row in rows]

    def _where(self, deployment: str) -> dict[str, str | int]:
        return {"owner": self.owner, "deployment": deployment}

    def _read_newest(self, deployment: str, *, seq: int) -> Row | None:
        return self._db.one(_QUERIES.newest, **self._where(deployment), seq=seq)

    def _of_kind(self, deployment: str, kind: str, seq: int) -> list[Record]:
        return [Record(*row) for row in self._db.all(_QUERIES.records, **self._where(deployment), kind=kind, seq=seq)]

    def _caught_up(self, known: Standing, fresh: Standing) -> bool:
        """Fills a standing from one that is a few outcomes older; what is stored was computed in the same way."""
        if known.seq > fresh.seq:
            return False
        where = self._where(known.deployment) | {"after": known.seq, "until": fresh.seq, "page": _FEW + 1}
        rows = self._db.all(_QUERIES.learned, **where)
        if len(rows) > _FEW:
            return False
        fresh.take_over(known, [msgspec.json.decode(row[1], type=Outcome) for row in rows])
        return True

    def _named(self, standing: Standing, key: Key) -> Record:
        """A record that not every decision asks for."""
        found = standing.named.get(key)
        if found is None:
            found = standing.named[key] = self.record(standing.deployment, key, seq=standing.seq)
        return found

    def _standing_rows(self, standing: Standing, question: Question, settings: ExperienceSettings) -> StandingRows:
        key = (question.symbol, question.regime, question.providers, settings.prior_trades)
        said = standing.rows.get(key)
        if said is None:
            named = {key: self._named(standing, key) for key in ((REGIME, question.regime), (ASSET, question.symbol))}
            said = standing_rows(question, standing.records | named, prior=settings.prior_trades)
            standing.rows[key] = said
        return said

    def _company(self, standing: Standing, reading: Reading, most: int) -> "Company | None":
        fit, count = self._fit(standing), standing.situations
        if fit is None:
            return None
        return self._loaded(standing.deployment, count).company(fit, reading, count=count, most=most)

    def _fit(self, standing: Standing) -> Fit | None:
        """The fit in force; a new one is written together with the outcome behind it, so it changes with them."""
        if not standing.fits:
            standing.fits.append(self.fit(standing.deployment, seq=standing.seq))
        return standing.fits[0]

    def _recent(self, standing: Standing, settings: ExperienceSettings, as_of: int) -> Record:
        """The record of the last days from memory; a moment that memory does not reach is asked of the tables."""
        since, most = as_of - settings.context_window * DAY, settings.max_memory_size
        kept = standing.recent.get(settings)
        found = None if kept is None else kept.record(since=since, as_of=as_of)
        if found is not None:
            return found
        where = self._where(standing.deployment) | {"seq": standing.seq, "since": since, "most": most}
        ended = self._db.all(_QUERIES.results, **where)[::-1]
        kept = standing.recent[settings] = Recent(ended, name=_days(settings), most=most)
        found = kept.record(since=since, as_of=as_of)
        return found or self.recent(standing.deployment, settings, seq=standing.seq, as_of=as_of)

    def _outcome(
        self, deployment: str, trade: ClosedTrade, run: DecisionRun | None, *, seq: int
    ) -> tuple[Outcome, Reading | None]:
        run_id = trade.state.entry_run_id
        row = self._db.one(_QUERIES.sight, **self._where(deployment), run_id=run_id, seq=seq) if run_id else None
        sight = msgspec.json.decode(row[0], type=ev.SituationSeen) if row else None
        return outcome_of(trade, run, conditions=sight.conditions if sight else ()), sight.reading if sight else None

    def _lessons(self, standing: Standing, outcomes: Sequence[tuple[Outcome, Reading | None]]) -> list[Draft]:
        known, count = dict(standing.records), standing.situations
        drafts = []
        for outcome, reading in outcomes:
            for key in ((REGIME, outcome.regime), (ASSET, outcome.symbol)):
                if key not in known:
                    known[key] = self._named(standing, key)
            body = learning.learned_from(outcome, known, situations=count, reading=reading)
            known |= {record.key: record for record in body.records}
            count = body.situations
            drafts.append(ev.draft(outcome.exited_at, body))
        return drafts

    def _tended(self, standing: Standing, *, at: int) -> list[Draft]:
        """Pages that are full by now, and a new fit when it is due."""
        deployment, count = standing.deployment, standing.situations
        newest = self._db.one(_QUERIES.last_page, **self._where(deployment))
        first = 0 if newest is None or newest[0] is None else newest[0] + 1
        drafts = [
            learning.packed_page(page, self.packed(deployment, after=page * PAGE, until=(page + 1) * PAGE), at=at)
            for page in range(first, count // PAGE)
        ]
        if count >= FEWEST and refit_due(count, self._fit(standing)):
            drafts.append(learning.fitted(self._loaded(deployment, count).fit(count), at=at))
        return drafts

    def _loaded(self, deployment: str, count: int) -> "Situations":
        kept = self._situations.get(deployment)
        if kept is None:
            from tapebook.experience.situations import Situations

            kept = self._situations[deployment] = Situations()
        if kept.count < count:
            kept.extend(self.packed(deployment, after=kept.count, until=count))
        return kept


def _days(settings: ExperienceSettings) -> str:
    return f"last {settings.context_window} days"
