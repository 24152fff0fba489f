"""The measures of a backtest, as functions of its book and tape: computed again, they give the same bytes.

A chunk lies between two sequence numbers of the book (`measure_chunk`):

1. the trades that ended in it, their money, and the parts it came from (`attribute_result`);
2. equity at its ends, at every midnight and whenever the book knows it (`equity`);
3. how providers, regimes and assets did, against all chunks before (`result_rows`, `with_trend_directions`);
4. what the memory held at its end: the note, the snapshots, the situations;
5. all packets as one hash, and the head of the log.

The whole is measured the same way, over all chunks as one, with the baselines beside it (`measure_all`).

The parts of a result sum to it exactly:

    market    what the exposure would have earned at the even pace of the market over the whole stretch
    sizing    what came of having more on some trades than on others, beyond that pace
    timing    the rest of the gross result: being in at these moments and not at others, at the usual size
    fees, funding    as they were booked; fees are negative

With N for a trade's notional, s for its side, h for how long it was held, g for its gross result and d for the
pace of its symbol, one trade has market = s N h d and an excess x = g / N - s h d; sizing is the sum of
(N - mean N) x.

Records of providers, regimes and assets are counted from the trades themselves, so that they are complete whatever a
memory took in. The weights are those the memory held, and stay at 1 where it took in nothing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tapebook.backtest.book_range import TradeOutcome, average_exposures, book_range
from tapebook.backtest.equity import (
    deepest_drawdown,
    equity_at,
    equity_points,
    midnights,
    share_held,
    sharpe_ratio,
    step_returns,
)
from tapebook.backtest.plan import BacktestChunk, BacktestPlan
from tapebook.backtest.result import (
    BPS_DIGITS,
    CHANCE_DIGITS,
    RATE_DIGITS,
    SHARPE_DIGITS,
    BacktestResult,
    ChunkResult,
    ChunkTrend,
    Direction,
    ResultParts,
    ResultRow,
    RoomUse,
    round_estimate,
    round_fixed,
    round_to_cents_e6,
)
from tapebook.decision.rule_engine import USUAL_SETTINGS
from tapebook.domain.agent import MEMORY_ROOMS, Deployment, MemoryRoom
from tapebook.domain.estimate import Estimate, benjamini_hochberg, rate_estimate, student_cdf, student_quantile
from tapebook.domain.position import ClosedTrade
from tapebook.domain.targets import FULL_E4
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, E6, floor_to_step
from tapebook.experience import Experience
from tapebook.experience.memories import ReadRuns
from tapebook.experience.records import (
    ALL,
    ASSET,
    PPM_PER_BP,
    PROVIDER,
    REGIME,
    Record,
    RecordKey,
    credits_of,
)
from tapebook.experience.twins import E9, follower_bound_e9, weights_e4
from tapebook.horizons import LayerCache
from tapebook.lessons import NO_LESSONS, note_bullets
from tapebook.lessons.notes import Notes
from tapebook.search.documents import Documents
from tapebook.tape.view import GRACE_MS, View
from tapebook.tick.memory import runs_of
from tapebook.tick.quotes import TapeQuotes
from tapebook.wiring import Rooms

StartAndEndPrice = tuple[int | None, int | None]


def symbol_paces(
    trades: Sequence[ClosedTrade], prices: Mapping[str, StartAndEndPrice], *, start: int, end: int
) -> dict[str, float]:
    """Each symbol's return per millisecond from its prices at the start and the end of a stretch.

    A symbol that had no price at the start begins with the mark at which it was entered first.
    """
    found = {}
    # Newest first, so that the first entry of a symbol without a price is the one that stays.
    for trade in sorted(trades, key=lambda each: -each.state.entry_tick_at):
        symbol, entered_at = trade.state.symbol, trade.state.entry_tick_at
        first, last = prices.get(symbol, (None, None))
        since, begun = (start, first) if first else (entered_at, trade.state.entry_mark_e8)
        if begun and last and end > since:
            found[symbol] = (last / begun - 1) / (end - since)
    return found


def attribute_result(trades: Sequence[ClosedTrade], paces: Mapping[str, float]) -> ResultParts:
    """The parts of some trades' net result; `paces` is each symbol's return per millisecond."""
    sizes = [trade.state.entry_notional_usd_e6 for trade in trades]
    usual = math.fsum(sizes) / len(sizes) if sizes else 0.0
    market, sizing = [], []
    for trade, size in zip(trades, sizes, strict=True):
        side = 1 if trade.state.side == "long" else -1
        expected = side * trade.holding_ms * paces.get(trade.state.symbol, 0.0)
        market.append(size * expected)
        excess = trade.state.realised_usd_e6 / size - expected if size else 0.0
        sizing.append((size - usual) * excess)
    moved, sized = round(math.fsum(market)), round(math.fsum(sizing))
    return ResultParts(
        market_usd_e6=moved,
        # The rest, so that the parts sum to the result to the last millionth.
        timing_usd_e6=sum(trade.state.realised_usd_e6 for trade in trades) - moved - sized,
        sizing_usd_e6=sized,
        fees_usd_e6=-sum(trade.state.fees_usd_e6 for trade in trades),
        funding_usd_e6=sum(trade.state.funding_usd_e6 for trade in trades),
    )


FALSE_SHARE = 0.05
"""Of the changes that a chunk calls up or down, at most this share may be luck."""

Records = Mapping[RecordKey, Record]


class ProviderWeights(NamedTuple):
    """The trust of an ensemble in its members at the end of a stretch and before it; nobody's where there is none."""

    now: Mapping[str, float]
    before: Mapping[str, float]


def records_of(ended: Iterable[TradeOutcome]) -> dict[RecordKey, Record]:
    """The records of some trades."""
    sums: dict[RecordKey, list[int]] = {}
    for each in ended:
        for credit in credits_of(each.outcome):
            kept = sums.setdefault((credit.kind, credit.name), [0, 0, 0, 0, 0])
            kept[0] += 1
            kept[1] += credit.usd_e6 > 0
            kept[2] += credit.result_ppm
            kept[3] += credit.result_ppm**2
            kept[4] += credit.usd_e6
    return {key: Record(*key, *kept) for key, kept in sums.items()}


def weights_of(experience: Experience, deployment: str, *, since_seq: int, seq: int, runs: ReadRuns) -> ProviderWeights:
    """The trust of a deployment at two sequence numbers, as the mean over its symbols."""
    before, now = (_trust_at(experience, deployment, seq=at, runs=runs) for at in (since_seq, seq))
    return ProviderWeights(now, before)


def _trust_at(experience: Experience, deployment: str, *, seq: int, runs: ReadRuns) -> dict[str, float]:
    memory = experience.twins
    # From the twins that were kept last: those in memory may be of long before.
    memory.forget_cached(deployment)
    twins = memory.as_of(deployment, seq=seq, runs=runs).values()
    shares: dict[str, list[int]] = {}
    for each in twins:
        for name, weight in weights_e4(each, "").items():
            shares.setdefault(name, []).append(weight)
    return {name: round_fixed(sum(found) / len(found) / FULL_E4, RATE_DIGITS) for name, found in shares.items()}


def result_rows(
    kind: str, now: Records, before: Records, *, trusted: ProviderWeights | None = None
) -> tuple[ResultRow, ...]:
    """A line for every provider, regime or asset that a trade counted for, by name."""
    found = sorted((record for record in now.values() if record.kind == kind), key=lambda record: record.name)
    return tuple(_result_row(record, before.get(record.key), trusted) for record in found)


def with_trend_directions(*tables: Sequence[ResultRow]) -> list[tuple[ResultRow, ...]]:
    """Tables whose trends say up or down only where that stands against having looked at so many."""
    chances = [row.trend.chance for table in tables for row in table if row.trend is not None]
    # All tables together: who looks at enough rows always finds one that changed.
    stands = benjamini_hochberg(chances, false_share=FALSE_SHARE)
    most = max((chance for chance, stood in zip(chances, stands, strict=True) if stood), default=-1.0)
    return [tuple(_with_direction(row, most) for row in table) for table in tables]


def mean_difference(now: Record, before: Record) -> tuple[Estimate, float] | None:
    """By how many bps the mean of one record lies above another's, with Welch's interval, and the chance of it."""
    if now.n < 2 or before.n < 2:
        return None
    gap = (now.total_ppm / now.n - before.total_ppm / before.n) / PPM_PER_BP
    a, b = ((each.deviation_ppm / PPM_PER_BP) ** 2 / each.n for each in (now, before))
    if a + b <= 0:
        return None
    freedom = (a + b) ** 2 / (a * a / (now.n - 1) + b * b / (before.n - 1))
    half = student_quantile(0.975, freedom) * math.sqrt(a + b)
    chance = 2 * student_cdf(-abs(gap) / math.sqrt(a + b), freedom)
    return Estimate(gap, gap - half, gap + half, now.n), chance


def _result_row(record: Record, earlier: Record | None, trusted: ProviderWeights | None) -> ResultRow:
    mean = round_estimate(record.mean_bps, BPS_DIGITS) if record.n >= 2 else None
    now, before = (None, None) if trusted is None else (trusted.now.get(record.name), trusted.before.get(record.name))
    return ResultRow(
        name=record.name,
        n=record.n,
        won=record.wins,
        net_usd_e6=record.usd_e6,
        win_rate=round_estimate(record.win_rate, RATE_DIGITS),
        mean_bps=mean,
        trend=_trend(record, earlier) if earlier else None,
        weight=now,
        weight_before=before,
    )


def _trend(now: Record, before: Record) -> ChunkTrend | None:
    found = mean_difference(now, before)
    if found is None:
        return None
    change, chance = found
    return ChunkTrend("unclear", round_estimate(change, BPS_DIGITS), before.n, round_fixed(chance, CHANCE_DIGITS))


def _with_direction(row: ResultRow, most: float) -> ResultRow:
    trend = row.trend
    if trend is None or trend.chance > most:
        return row
    direction: Direction = "up" if trend.change_bps.value > 0 else "down"
    return replace(row, trend=replace(trend, direction=direction))


WHOLE = "total"

DailyEquity = tuple[tuple[int, int], ...]


def measure_chunk(
    rooms: Rooms, deployment: Deployment, plan: BacktestPlan, chunk: BacktestChunk, *, since_seq: int, seq: int
) -> ChunkResult:
    """What a chunk came to, which lies in the book behind one sequence number and up to another."""
    return _ChunkMeasure(rooms, deployment, plan, chunk=chunk, since_seq=since_seq, seq=seq).result()


def measure_all(
    rooms: Rooms, deployment: Deployment, plan: BacktestPlan, chunks: Sequence[ChunkResult]
) -> BacktestResult:
    """What a backtest came to, from its measured chunks."""
    # It brings numpy, which the commands that only read a result have no use for.
    from tapebook.backtest.baselines import measure_baselines

    whole, seq = BacktestChunk(WHOLE, plan.start, plan.end), chunks[-1].head_seq
    runs = runs_of(rooms.book, rooms.log, deployment.id)
    total = measure_chunk(rooms, deployment, plan, whole, since_seq=0, seq=seq)
    book = book_range(rooms.book, rooms.book_db, deployment, after=0, until=seq)
    ended, exposures = book.ended_trades(), average_exposures(book.booked_fills(), start=plan.start, end=plan.end)
    return BacktestResult(
        id=plan.id,
        agent=plan.agent.name,
        agent_version=plan.agent_version,
        engine=plan.agent.engine or rooms.config.engine.default,
        strategy=plan.agent.strategy,
        symbols=plan.symbols,
        start=plan.start,
        end=plan.end,
        chunk_kind=plan.chunk_kind,
        memory=plan.memory,
        freeze_at=plan.freeze_at,
        notes=plan.notes,
        chunks=tuple(chunks),
        total=total,
        baselines=measure_baselines(
            rooms.tape,
            rooms.config,
            plan,
            total,
            chunks=chunks,
            trades=[each.trade for each in ended],
            exposures=exposures,
        ),
        packets_sha256=total.packets_sha256,
        fill=plan.fill,
        inputs=plan.inputs,
        exposures=tuple((symbol, round_to_cents_e6(usd)) for symbol, usd in exposures.items()),
        bound_usd_e6=_bound_usd_e6(rooms.experience, deployment, seq=seq, runs=runs)
        if is_remembering(plan)
        else msgspec.UNSET,
        rooms=room_uses(
            rooms.documents,
            rooms.experience,
            deployment,
            [each.trade for each in ended],
            seq=seq,
            at=plan.end,
            horizons=rooms.horizons,
            notes=rooms.notes,
        ),
        memory_from=plan.memory_from,
        texts=plan.texts,
    )


def is_remembering(plan: BacktestPlan) -> bool:
    """Whether decisions of a plan are told what was learned of members."""
    return plan.agent.experience.enabled and "experience" in plan.agent.context.rooms


def _bound_usd_e6(
    experience: Experience, deployment: Deployment, *, seq: int, runs: ReadRuns
) -> int | msgspec.UnsetType:
    """How far the trust in members could have put the account behind doing nothing, by the votes and prices of it.

    A unit is what a rule trades by its own settings, within the cap of a position.
    """
    twins = experience.twins.as_of(deployment.id, seq=seq, runs=runs)
    if not twins:
        return msgspec.UNSET
    unit = min(round(USUAL_SETTINGS.notional_usd * E6), deployment.agent.caps.max_position_usd_e6)
    return sum(follower_bound_e9(each) * unit // E9 for each in twins.values())


_EVERY_NOTE = 2**31 - 1


def room_uses(
    documents: Documents,
    experience: Experience,
    deployment: Deployment,
    trades: Sequence[ClosedTrade],
    *,
    horizons: LayerCache,
    notes: Notes,
    seq: int,
    at: int,
) -> tuple[RoomUse, ...]:
    """What each room of a memory held at the end of a backtest, and what of that met its trades, as far as is known."""
    name = deployment.id
    statuses = Counter(each.status for each in notes.reflections(name, most=_EVERY_NOTE))
    told = sum(trade.state.entry_lessons_hash not in (None, NO_LESSONS) for trade in trades)
    records = experience.records_as_of(name, seq=seq)
    outcomes = sum(record.n for record in records.records.values() if record.kind == ALL)
    situations = experience.situation_count(name, seq=seq)
    layers = len(horizons.packet_rows(name, seq=seq, as_of=at))
    texts = sum(documents.kinds().values())
    held: dict[MemoryRoom, str] = {
        "trades": f"{plural(len(trades), 'trade')} closed",
        "lessons": f"{plural(statuses['active'] + statuses['superseded'], 'note')}, {statuses['refused']} refused; "
        f"{told} of {len(trades)} trades were entered under one",
        "experience": f"{plural(outcomes, 'outcome')} and {plural(situations, 'situation')} known",
        "horizons": f"{plural(layers, 'row')} at the end",
        "documents": f"{plural(texts, 'document')} at the end",
    }
    shown = deployment.agent.context.rooms
    return tuple(RoomUse(room, room in shown, held.get(room, "") if room in shown else "") for room in MEMORY_ROOMS)


class _ChunkMeasure:
    """One chunk on its way to a result."""

    def __init__(
        self,
        rooms: Rooms,
        deployment: Deployment,
        plan: BacktestPlan,
        *,
        chunk: BacktestChunk,
        since_seq: int,
        seq: int,
    ) -> None:
        self._rooms = rooms
        self._deployment, self._plan, self._chunk = deployment, plan, chunk
        self._since, self._seq = since_seq, seq
        self._book = book_range(rooms.book, rooms.book_db, deployment, after=since_seq, until=seq)
        self._ended = self._book.ended_trades()

    def result(self) -> ChunkResult:
        """All measures."""
        chunk = self._chunk
        daily = tuple((day, self._equity(day)) for day in midnights(chunk.start, chunk.end))
        ticks, digest = self._book.packets_digest()
        return ChunkResult(
            name=chunk.name,
            start=chunk.start,
            end=chunk.end,
            ticks=ticks,
            sharpe=_rounded_sharpe(sharpe_ratio(step_returns([equity for _, equity in daily]))),
            exposure=round_fixed(share_held(self._book, chunk.start, chunk.end), RATE_DIGITS),
            parts=self._parts(),
            daily=daily,
            packets_sha256=digest,
            **self._money(),
            **self._tables(daily),
            **self._memory(),
        )

    def _money(self) -> dict[str, Any]:
        states = [each.trade.state for each in self._ended]
        won = sum(state.net_usd_e6 > 0 for state in states)
        net = sum(state.net_usd_e6 for state in states)
        first, last = self._equity(self._chunk.start), self._equity(self._chunk.end)
        insured = sum(each.usd_e6 for each in self._book.insurance_payments())
        fall = deepest_drawdown([first, *(point.own_usd_e6 for point in equity_points(self._book)), last - insured])
        return {
            "trades": len(states),
            "won": won,
            "win_rate": round_estimate(rate_estimate(won, len(states)), RATE_DIGITS),
            "gross_usd_e6": sum(state.realised_usd_e6 for state in states),
            "fees_usd_e6": sum(state.fees_usd_e6 for state in states),
            "funding_usd_e6": sum(state.funding_usd_e6 for state in states),
            "net_usd_e6": net,
            "open_usd_e6": last - first - net,
            "equity_start_usd_e6": first,
            "equity_end_usd_e6": last,
            "drawdown_usd_e6": fall.usd_e6,
            "drawdown_ppm": fall.ppm,
            "insurance_usd_e6": insured,
        }

    def _tables(self, daily: DailyEquity) -> dict[str, Any]:
        now = records_of(self._ended)
        before = records_of(
            book_range(
                self._rooms.book, self._rooms.book_db, self._deployment, after=0, until=self._since
            ).ended_trades()
        )
        runs = runs_of(self._rooms.book, self._rooms.log, self._deployment.id)
        trusted = weights_of(
            self._rooms.experience, self._deployment.id, since_seq=self._since, seq=self._seq, runs=runs
        )
        assets = [replace(row, sharpe=self._asset_sharpe(row.name, daily)) for row in result_rows(ASSET, now, before)]
        tables = result_rows(PROVIDER, now, before, trusted=trusted), result_rows(REGIME, now, before), assets
        return dict(zip(("providers", "regimes", "assets"), with_trend_directions(*tables), strict=True))

    def _asset_sharpe(self, symbol: str, daily: DailyEquity) -> Estimate | None:
        """Of what the asset's trades realised each day, as a share of equity at its start; other days are zero."""
        realised: dict[int, int] = {}
        for each in self._ended:
            if each.outcome.symbol == symbol:
                day = floor_to_step(each.outcome.exited_at, DAY)
                realised[day] = realised.get(day, 0) + each.outcome.net_usd_e6
        return _rounded_sharpe(
            sharpe_ratio([realised.get(day, 0) / equity for day, equity in daily[:-1] if equity > 0])
        )

    def _memory(self) -> dict[str, Any]:
        name, seq, chunk = self._deployment.id, self._seq, self._chunk
        note = self._rooms.notes.active_note(name, seq=seq)
        taken = self._rooms.experience.snapshots(name, seq=seq)
        stream = self._rooms.book.stream(name)
        head = next(self._rooms.log.events(stream, after=seq - 1, until=seq), None)
        return {
            "lessons_hash": note.content_hash if note else "",
            "lessons": note_bullets(note.lessons_text) if note else (),
            "snapshots": tuple(each.chunk for each in taken[::-1] if chunk.start < each.ended_at <= chunk.end),
            "situations": self._rooms.experience.situation_count(name, seq=seq),
            "head_seq": seq,
            "head_hash": head.hash if head else "",
        }

    def _parts(self) -> ResultParts:
        chunk, trades = self._chunk, [each.trade for each in self._ended]
        traded = sorted({trade.state.symbol for trade in trades})
        prices = {symbol: (self._price(symbol, chunk.start), self._price(symbol, chunk.end)) for symbol in traded}
        return attribute_result(trades, symbol_paces(trades, prices, start=chunk.start, end=chunk.end))

    def _price(self, symbol: str, moment: int) -> int | None:
        view = View(moment + GRACE_MS, self._plan.tape_seq)
        return TapeQuotes(self._rooms.tape, view).mark_e8(symbol, at=view.as_of)

    def _equity(self, moment: int) -> int:
        """Equity at a moment, before any decision of it is carried out."""
        known = self._rooms.book.seq_as_of(self._deployment.id, max(moment - 1, self._plan.start))
        seq = min(max(known, self._since), self._seq)
        return equity_at(
            self._rooms.book, self._rooms.tape, self._deployment, moment, seq=seq, watermark=self._plan.tape_seq
        )


def _rounded_sharpe(found: Estimate | None) -> Estimate | None:
    return None if found is None else round_estimate(found, SHARPE_DIGITS)
