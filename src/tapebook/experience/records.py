"""Outcomes of closed trades, and records of them: integer sums by provider, regime, asset and confidence.

A record is (n, wins, Σ result, Σ result², Σ money) with results in millionths of the notional entered. Sums do not
depend on the order of outcomes, two records of one key can be added, and the record of a stretch of time is a
difference of two versions (`RecentRecord`, `ChunkSnapshot`). Who is credited with what:

    the engine of the run, the regime, the asset, all      the trade's net result
    a member that voted for the side that was traded       the same
    a member that voted for the other side                 the negative of the result before costs
    a member that voted to hold or to close                nothing

Costs are left out of the mirrored result, since the trade it stands for never paid them.

Weight of a provider in an ensemble, 1 without evidence and between 0.5 and 1.5 with it:

    elsewhere = Σ results in other regimes / (n there + prior)
    expected  = (Σ results in this regime + prior × elsewhere) / (n here + prior)
    weight    = 1 + expected / scale

This is the posterior mean of a normal prior around zero, whose strength is `prior` trades, and of a second one that
draws the record in a regime towards the record elsewhere. `scale` is the root mean square of all results of the
deployment: one scale for all keeps the order of providers that of their results.

Calibration: the hit rates per bucket of stated confidence are shrunk towards the overall rate and made monotone (pool
adjacent violators), so a higher confidence never stands for a lower rate by the luck of small buckets.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from math import sqrt
from operator import mul
from typing import Literal

import msgspec

from tapebook.domain.agent import ExperienceRow
from tapebook.domain.estimate import Estimate, rate_estimate, student_quantile
from tapebook.domain.position import ClosedTrade, TradeSide
from tapebook.domain.run import Action, ActionKind, DecisionRun
from tapebook.domain.units import E6, decimal_text, divide_half_even

# Confidence in steps of a tenth: finer ones would stay empty for years.
BUCKETS = 10
_ONE_E4 = 10_000


class CalibrationPoint(msgspec.Struct, frozen=True):
    """One bucket: the observed rate, and the one to believe."""

    bucket: str
    observed: Estimate
    believed: float


def confidence_bucket(confidence_e4: int) -> str:
    """The bucket of a confidence, such as `0.6-0.7`; the highest holds 1.0 too."""
    place = min(max(confidence_e4, 0) * BUCKETS // _ONE_E4, BUCKETS - 1)
    return f"{place / BUCKETS:.1f}-{(place + 1) / BUCKETS:.1f}"


def calibration_curve(counts: Sequence[tuple[str, int, int]], *, prior: float) -> tuple[CalibrationPoint, ...]:
    """The curve of (bucket, n, wins): buckets without trades have no point."""
    filled = sorted((bucket, n, wins) for bucket, n, wins in counts if n)
    if not filled:
        return ()
    overall = sum(wins for *_, wins in filled) / sum(n for _, n, _ in filled)
    shrunk = [(wins + prior * overall) / (n + prior) for _, n, wins in filled]
    believed = isotonic_regression(shrunk, [n + prior for _, n, _ in filled])
    return tuple(
        CalibrationPoint(bucket, rate_estimate(wins, n), level)
        for (bucket, n, wins), level in zip(filled, believed, strict=True)
    )


def believed_rates_e4(records: "Mapping[RecordKey, Record]", *, prior: float, fewest: int) -> tuple[int, ...]:
    """The hit rate to believe for each tenth of stated confidence; 10,000 where fewer trades than `fewest` say so."""
    counts = [(record.name, record.n, record.wins) for record in records.values() if record.kind == CONFIDENCE]
    points = {point.bucket: point for point in calibration_curve(counts, prior=prior) if point.observed.n >= fewest}
    names = [confidence_bucket(place * _ONE_E4 // BUCKETS) for place in range(BUCKETS)]
    return tuple(round(_ONE_E4 * points[name].believed) if name in points else _ONE_E4 for name in names)


def isotonic_regression(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence nearest to the values in weighted squares."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (low, low_weight, low_count), (high, high_weight, high_count) = pools[-2:]
            total = low_weight + high_weight
            pools[-2:] = [((low * low_weight + high * high_weight) / total, total, low_count + high_count)]
    return [value for value, _, count in pools for _ in range(count)]


UNKNOWN_REGIME = "unknown"
PPM = 1_000_000
# Ten times what was put in: beyond it sums of squares would outgrow 64 bits before a hundred thousand trades.
MOST_PPM = 10 * PPM


class OutcomeVote(msgspec.Struct, frozen=True):
    """What one member of an ensemble had proposed."""

    provider: str
    action: ActionKind
    side: Literal["long", "short"] | None
    confidence_e4: int


class Outcome(msgspec.Struct, frozen=True):
    """A round trip with its result and the decision that began it.

    `provider` is the engine of the entering run, empty when no run of ours did it. `conditions` are
    pairs of a name and a text, such as the volatility at the entry.
    """

    trade_id: str
    run_id: str | None
    symbol: str
    side: TradeSide
    provider: str
    votes: tuple[OutcomeVote, ...]
    confidence_e4: int | None
    regime: str
    conditions: tuple[tuple[str, str], ...]
    entry_price_e8: int
    exit_price_e8: int
    entered_at: int
    exited_at: int
    notional_usd_e6: int
    gross_usd_e6: int
    net_usd_e6: int
    exit_reason: str

    @property
    def result_ppm(self) -> int:
        """The net result in millionths of the notional entered: hundredths of a basis point."""
        return ppm_of(self.net_usd_e6, self.notional_usd_e6)

    @property
    def gross_ppm(self) -> int:
        """The result before fees and funding, in millionths of the notional at entry."""
        return ppm_of(self.gross_usd_e6, self.notional_usd_e6)

    @property
    def is_win(self) -> bool:
        """A win is a net result above zero; everything else is a loss."""
        return self.net_usd_e6 > 0

    @property
    def holding_ms(self) -> int:
        """How long the position lived."""
        return self.exited_at - self.entered_at


def outcome_of(
    closed: ClosedTrade, run: DecisionRun | None, *, conditions: tuple[tuple[str, str], ...] = ()
) -> Outcome:
    """The outcome of a closed trade; `run` is the one that entered it, None when nobody of ours did."""
    state = closed.state
    entering = _entering_action(closed, run) if run else None
    votes = run.votes if run else ()
    return Outcome(
        trade_id=state.trade_id,
        run_id=state.entry_run_id,
        symbol=state.symbol,
        side=state.side,
        provider=run.engine if run else "",
        votes=tuple(OutcomeVote(vote.engine, vote.action, vote.side, vote.confidence_e4) for vote in votes),
        confidence_e4=entering.confidence_e4 if entering else None,
        regime=state.entry_regime_tag or UNKNOWN_REGIME,
        conditions=conditions,
        entry_price_e8=state.entry_price_e8 if state.entered_e8 else 0,
        exit_price_e8=closed.exit_price_e8 if state.exited_e8 else 0,
        entered_at=state.entry_tick_at,
        exited_at=closed.exit_tick_at,
        notional_usd_e6=state.entry_notional_usd_e6,
        gross_usd_e6=state.realised_usd_e6,
        net_usd_e6=state.net_usd_e6,
        exit_reason=closed.exit_reason,
    )


def ppm_of(amount_usd_e6: int, notional_usd_e6: int) -> int:
    """An amount in millionths of a notional, within bounds; 0 of nothing."""
    if not notional_usd_e6:
        return 0
    return max(-MOST_PPM, min(MOST_PPM, divide_half_even(amount_usd_e6 * PPM, notional_usd_e6)))


def _entering_action(closed: ClosedTrade, run: DecisionRun) -> Action | None:
    """The allowed action that asked for this position."""
    wanted = (closed.state.symbol, closed.state.side)
    for action, verdict in zip(run.actions, run.verdicts, strict=True):
        if verdict.allowed and action.action in ("open", "adjust") and (action.symbol, action.side) == wanted:
            return action
    return None


ALL, PROVIDER, REGIME, ASSET = "all", "provider", "regime", "asset"
PROVIDER_REGIME, CONFIDENCE = "provider_regime", "confidence"
LONG, SHORT = "long", "short"
RECORD_KINDS = (ALL, PROVIDER, REGIME, ASSET, PROVIDER_REGIME, CONFIDENCE)
PPM_PER_BP = PPM // 10_000
# Both ends of a 95 % interval.
_TWO_SIDED = 0.975

RecordKey = tuple[str, str]


class Credit(msgspec.Struct, frozen=True):
    """A result that counts for one record."""

    kind: str
    name: str
    result_ppm: int
    usd_e6: int


class Record(msgspec.Struct, frozen=True, array_like=True):
    """The sums of one key."""

    kind: str
    name: str
    n: int = 0
    wins: int = 0
    total_ppm: int = 0
    square_ppm2: int = 0
    usd_e6: int = 0

    @property
    def key(self) -> RecordKey:
        """What it is the record of."""
        return self.kind, self.name

    @property
    def mean_bps(self) -> Estimate:
        """The mean result with its Student interval; without a second trade nothing is known of its spread."""
        if not self.n:
            return Estimate(0.0, -float("inf"), float("inf"), 0)
        middle = self.total_ppm / (self.n * PPM_PER_BP)
        if self.n < 2:
            return Estimate(middle, -float("inf"), float("inf"), self.n)
        half = _cached_quantile(self.n) * self.deviation_ppm / PPM_PER_BP / sqrt(self.n)
        return Estimate(middle, middle - half, middle + half, self.n)

    @property
    def deviation_ppm(self) -> float:
        """The standard deviation of one result (n − 1)."""
        if self.n < 2:
            return 0.0
        return sqrt((self.n * self.square_ppm2 - self.total_ppm**2) / (self.n * (self.n - 1)))

    @property
    def win_rate(self) -> Estimate:
        """The share of wins with Wilson's interval."""
        return rate_estimate(self.wins, self.n)


def add_records(one: Record, other: Record, *, sign: int = 1, name: str | None = None) -> Record:
    """Two records of one key as one; with sign -1, what `one` has beyond `other`, under a name of its own if given."""
    return Record(
        one.kind,
        one.name if name is None else name,
        one.n + sign * other.n,
        one.wins + sign * other.wins,
        one.total_ppm + sign * other.total_ppm,
        one.square_ppm2 + sign * other.square_ppm2,
        one.usd_e6 + sign * other.usd_e6,
    )


def records_by_side(sides: Sequence[int], results_ppm: Sequence[int]) -> tuple[Record, Record, Record]:
    """Results in millionths as records: all, those long (1) and those short (-1)."""
    every = _summed_record("", results_ppm)
    long = _summed_record(LONG, [ppm for ppm, side in zip(results_ppm, sides, strict=True) if side > 0])
    return every, long, add_records(every, long, sign=-1, name=SHORT)


def _summed_record(side: str, results_ppm: Sequence[int]) -> Record:
    # By functions of the language itself, since every decision asks.
    total, wins = sum(results_ppm), sum(map((0).__lt__, results_ppm))
    return Record("similar", side, len(results_ppm), wins, total, sum(map(mul, results_ppm, results_ppm)), total)


def with_credit(record: Record, credit: Credit, *, sign: int = 1) -> Record:
    """A record after one more result; with sign -1, as it would be without it."""
    result = credit.result_ppm
    one = Record(*record.key, 1, int(credit.usd_e6 > 0), result, result * result, credit.usd_e6)
    return add_records(record, one, sign=sign)


def mean_difference_bps(one: Record, other: Record) -> Estimate | None:
    """By how much the mean of one record lies above another's, with Welch's interval; None when nothing can be said."""
    if one.n < 2 or other.n < 2:
        return None
    a, b = ((each.deviation_ppm / PPM_PER_BP) ** 2 / each.n for each in (one, other))
    if a + b <= 0:
        return None
    freedom = (a + b) ** 2 / (a * a / (one.n - 1) + b * b / (other.n - 1))
    gap = (one.total_ppm / one.n - other.total_ppm / other.n) / PPM_PER_BP
    half = student_quantile(_TWO_SIDED, freedom) * sqrt(a + b)
    return Estimate(gap, gap - half, gap + half, one.n)


def provider_in_regime(provider: str, regime: str) -> str:
    """The name of a provider's record in one regime."""
    return f"{provider} in {regime}"


def credits_of(outcome: Outcome) -> list[Credit]:
    """Everything an outcome counts for."""
    result, usd = outcome.result_ppm, outcome.net_usd_e6
    found = [
        Credit(ALL, "", result, usd),
        Credit(REGIME, outcome.regime, result, usd),
        Credit(ASSET, outcome.symbol, result, usd),
    ]
    if outcome.confidence_e4 is not None:
        found.append(Credit(CONFIDENCE, confidence_bucket(outcome.confidence_e4), result, usd))
    if outcome.provider:
        found += _provider_credits(outcome.provider, outcome.regime, result, usd_e6=usd)
    for vote in outcome.votes:
        if vote.action not in ("open", "adjust") or vote.side is None:
            continue
        with_us = vote.side == outcome.side
        earned = (result, usd) if with_us else (-outcome.gross_ppm, -outcome.gross_usd_e6)
        found += _provider_credits(vote.provider, outcome.regime, earned[0], usd_e6=earned[1])
    return found


def updated_records(known: Mapping[RecordKey, Record], *outcomes: Outcome, sign: int = 1) -> tuple[Record, ...]:
    """The next version of every record that outcomes count for, by key; `known` may lack those that begin with them.

    With sign -1 they count no longer.
    """
    new: dict[RecordKey, Record] = {}
    for outcome in outcomes:
        for credit in credits_of(outcome):
            key = (credit.kind, credit.name)
            new[key] = with_credit(new.get(key) or known.get(key) or Record(*key), credit, sign=sign)
    return tuple(new[key] for key in sorted(new))


def records_from_scratch(outcomes: Iterable[Outcome]) -> dict[RecordKey, Record]:
    """All records of some outcomes from scratch."""
    known: dict[RecordKey, Record] = {}
    for outcome in outcomes:
        known |= {record.key: record for record in updated_records(known, outcome)}
    return known


def _provider_credits(provider: str, regime: str, result_ppm: int, *, usd_e6: int) -> list[Credit]:
    names = ((PROVIDER, provider), (PROVIDER_REGIME, provider_in_regime(provider, regime)))
    return [Credit(kind, name, result_ppm, usd_e6) for kind, name in names]


@lru_cache(maxsize=1_024)
def _cached_quantile(n: int) -> float:
    # Two digits of the degrees of freedom, rounded down: a little wide, and few enough to be remembered.
    freedom, step = n - 1, 1
    while freedom >= 100:
        freedom, step = freedom // 10, step * 10
    return student_quantile(_TWO_SIDED, freedom * step)


EndedTrade = tuple[int, int, int]
"""An outcome as far as sums need it: its exit, its result in millionths, its money."""


# Beyond any moment.
_NO_END = 2**62


class RecentRecord:
    """The newest outcomes, oldest first, at most so many; as of some moment and every later one.

    `made` is the record of those after `since`, and of those after every moment before `until`; None when it is to be
    made anew.
    """

    def __init__(self, outcomes: Sequence[EndedTrade], *, name: str, most: int) -> None:
        kept = outcomes[max(0, len(outcomes) - most) :]
        self._outcomes = deque(kept)
        self._name = name
        self._most = most
        self._wins = sum([usd > 0 for _, _, usd in kept])
        self._ppm = sum([ppm for _, ppm, _ in kept])
        self._ppm2 = sum([ppm * ppm for _, ppm, _ in kept])
        self._usd = sum([usd for _, _, usd in kept])
        self.since = self.until = -1
        self.made: Record | None = None

    def add(self, ended: EndedTrade) -> bool:
        """Takes in one more; False when it does not come last, and all must be read again."""
        if self._outcomes and ended[0] <= self._outcomes[-1][0]:
            return False
        self._append(ended)
        return True

    def record(self, *, since: int, as_of: int) -> Record | None:
        """The record of the outcomes after a moment; the same object until one comes or leaves.

        None where memory does not reach: before what was asked for so far, or before an exit.
        """
        outcomes = self._outcomes
        if since < self.since or (outcomes and outcomes[-1][0] > as_of):
            return None
        self.since = since
        while outcomes and outcomes[0][0] <= since:
            self._drop_oldest()
        self.until = outcomes[0][0] if outcomes else _NO_END
        if self.made is None:
            self.made = Record("recent", self._name, len(outcomes), self._wins, self._ppm, self._ppm2, self._usd)
        return self.made

    def _append(self, ended: EndedTrade) -> None:
        self._outcomes.append(ended)
        self._count(ended, 1)
        if len(self._outcomes) > self._most:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._count(self._outcomes.popleft(), -1)

    def _count(self, ended: EndedTrade, sign: int) -> None:
        self.made = None
        _, ppm, usd = ended
        self._wins += sign * (usd > 0)
        self._ppm += sign * ppm
        self._ppm2 += sign * ppm * ppm
        self._usd += sign * usd


# A weight stays between half and one and a half: no record silences a provider or makes it decide alone.
MOST_SHIFT = 0.5


def provider_weight(overall: Record, here: Record, *, scale_ppm: float, prior: float) -> float:
    """A provider's weight from its record in all and in the regime at hand; never falls as the results rise."""
    if scale_ppm <= 0:
        return 1.0
    elsewhere = (overall.total_ppm - here.total_ppm) / (overall.n - here.n + prior)
    expected = (here.total_ppm + prior * elsewhere) / (here.n + prior)
    return 1 + max(-MOST_SHIFT, min(MOST_SHIFT, expected / scale_ppm))


def result_scale_ppm(records: Mapping[RecordKey, Record]) -> float:
    """The root mean square of all results; 0 when there are none."""
    every = records.get((ALL, ""))
    return sqrt(every.square_ppm2 / every.n) if every and every.n else 0.0


def weight_rows(
    records: Mapping[RecordKey, Record], providers: Sequence[str], *, regime: str, prior: float
) -> tuple[ExperienceRow, ...]:
    """The rows an ensemble reads, such as ("provider", "trend", "1.20"), in the order of the providers."""
    scale = result_scale_ppm(records)
    rows = []
    for name in providers:
        overall = records.get((PROVIDER, name), Record(PROVIDER, name))
        here = records.get(
            (PROVIDER_REGIME, provider_in_regime(name, regime)),
            Record(PROVIDER_REGIME, provider_in_regime(name, regime)),
        )
        rows.append(
            ExperienceRow("provider", name, f"{provider_weight(overall, here, scale_ppm=scale, prior=prior):.2f}")
        )
    return tuple(rows)


# Twenty-five years of quarters, or two of weeks.
SNAPSHOTS_KEPT = 100
_SNAPSHOT_KINDS = (PROVIDER, REGIME, ASSET)


class ChunkSnapshot(msgspec.Struct, frozen=True):
    """The records of one chunk alone: of all trades, and by provider, regime and asset."""

    chunk: str
    started_at: int
    ended_at: int
    result: Record
    parts: tuple[Record, ...]

    @property
    def sharpe_e4(self) -> int:
        """Mean over deviation of a trade's result, not annualised; 0 below two trades."""
        spread = self.result.deviation_ppm
        return round(10_000 * self.result.total_ppm / self.result.n / spread) if spread else 0

    @property
    def net_usd(self) -> str:
        """What the chunk earned."""
        return decimal_text(self.result.usd_e6, E6, 2)


def snapshot_of(
    chunk: str, before: Mapping[RecordKey, Record], after: Mapping[RecordKey, Record], *, started_at: int, ended_at: int
) -> ChunkSnapshot:
    """What came in between two states of the records."""
    gained = [_gain_since(record, before) for key, record in sorted(after.items()) if key[0] in _SNAPSHOT_KINDS]
    result = _gain_since(after.get((ALL, ""), Record(ALL, "")), before)
    return ChunkSnapshot(chunk, started_at, ended_at, result, tuple(record for record in gained if record.n))


def records_by_chunk(snapshots: Sequence[ChunkSnapshot], kind: str = PROVIDER) -> dict[str, list[tuple[str, Record]]]:
    """How each provider (or regime, or asset) did from chunk to chunk, oldest first; chunks without it are left out."""
    lines: dict[str, list[tuple[str, Record]]] = {}
    for snapshot in sorted(snapshots, key=lambda each: (each.ended_at, each.chunk)):
        for record in snapshot.parts:
            if record.kind == kind:
                lines.setdefault(record.name, []).append((snapshot.chunk, record))
    return lines


class RecordTrend(msgspec.Struct, frozen=True):
    """How the newer half of some chunks compares with the older: the change of the mean result, and what it means."""

    direction: Literal["improving", "declining", "unclear"]
    change_bps: Estimate


def trend_of(chunks: Sequence[Record]) -> RecordTrend | None:
    """The trend of one name's records, oldest chunk first; None below two chunks, or with too few trades.

    A change that its own interval does not tell from none is unclear, whatever the last chunk looks like.
    """
    half = len(chunks) // 2
    if not half:
        return None
    older, newer = (reduce(add_records, part) for part in (chunks[:half], chunks[len(chunks) - half :]))
    change = mean_difference_bps(newer, older)
    if change is None:
        return None
    if change.low > 0:
        return RecordTrend("improving", change)
    return RecordTrend("declining" if change.high < 0 else "unclear", change)


def _gain_since(record: Record, before: Mapping[RecordKey, Record]) -> Record:
    return add_records(record, before.get(record.key, Record(*record.key)), sign=-1)
