"""The measures of a backtest, as functions of its book and tape: asked again, they give the same bytes.

A chunk lies between two sequence numbers of the book (`measure_chunk`):

1. the trades that ended in it, their money, and where it came from (`attribution`);
2. equity at its ends, at every midnight and whenever the book knows it (`curve`);
3. how providers, regimes and assets did, against all chunks before (`learned`);
4. what the memory held at its end: the note, the snapshots, the situations;
5. what was told to the engine, as one hash, and the head of the log.

The whole is measured the same way, over all chunks as one, with the baselines beside it (`measure_all`).
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tapebook.domain.agent import Deployment
from tapebook.domain.estimate import Estimate, rate
from tapebook.domain.instants import DAY, floor
from tapebook.experience.records import ASSET, PROVIDER, REGIME
from tapebook.lab.attribution import attribution, paces
from tapebook.lab.chronicle import chronicle
from tapebook.lab.curve import drawdown, equity_at, equity_points, midnights, returns, share_held, sharpe
from tapebook.lab.exposure import average_exposures
from tapebook.lab.learned import records_of, rows, settled, weights_of
from tapebook.lab.plan import Chunk, Plan
from tapebook.lab.result import (
    RATE_DIGITS,
    SHARPE_DIGITS,
    BacktestResult,
    ChunkResult,
    Parts,
    cents_e6,
    fixed,
    rounded,
)
from tapebook.lessons import bullets
from tapebook.loop.quotes import TapeQuotes
from tapebook.tape.importer import GRACE_MS
from tapebook.tape.store import View
from tapebook.wiring import Rooms

WHOLE = "total"

Daily = tuple[tuple[int, int], ...]


def measure_chunk(
    rooms: Rooms, deployment: Deployment, plan: Plan, chunk: Chunk, *, since_seq: int, seq: int
) -> ChunkResult:
    """What a chunk came to, which lies in the book behind one sequence number and up to another."""
    return _Measure(rooms, deployment, plan, chunk=chunk, since_seq=since_seq, seq=seq).result()


def measure_all(rooms: Rooms, deployment: Deployment, plan: Plan, chunks: Sequence[ChunkResult]) -> BacktestResult:
    """What a backtest came to, from its measured chunks."""
    # It brings numpy, which the commands that only read a result have no use for.
    from tapebook.lab.baselines import baselines

    whole, seq = Chunk(WHOLE, plan.start, plan.end), chunks[-1].head_seq
    total = measure_chunk(rooms, deployment, plan, whole, since_seq=0, seq=seq)
    book = chronicle(rooms, deployment, after=0, until=seq)
    ended, exposures = book.ended(), average_exposures(book.fills(), start=plan.start, end=plan.end)
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
        baselines=baselines(
            rooms, plan, total, chunks=chunks, trades=[each.trade for each in ended], exposures=exposures
        ),
        packets_sha256=total.packets_sha256,
        fill=plan.fill,
        inputs=plan.inputs,
        exposures=tuple((symbol, cents_e6(usd)) for symbol, usd in exposures.items()),
    )


class _Measure:
    """One chunk on its way to a result."""

    def __init__(
        self, rooms: Rooms, deployment: Deployment, plan: Plan, *, chunk: Chunk, since_seq: int, seq: int
    ) -> None:
        self._rooms, self._deployment, self._plan, self._chunk = rooms, deployment, plan, chunk
        self._since, self._seq = since_seq, seq
        self._book = chronicle(rooms, deployment, after=since_seq, until=seq)
        self._ended = self._book.ended()

    def result(self) -> ChunkResult:
        """All measures."""
        chunk = self._chunk
        daily = tuple((day, self._equity(day)) for day in midnights(chunk.start, chunk.end))
        ticks, told = self._book.told()
        return ChunkResult(
            name=chunk.name,
            start=chunk.start,
            end=chunk.end,
            ticks=ticks,
            sharpe=_kept(sharpe(returns([equity for _, equity in daily]))),
            exposure=fixed(share_held(self._book, chunk.start, chunk.end), RATE_DIGITS),
            parts=self._parts(),
            daily=daily,
            packets_sha256=told,
            **self._money(),
            **self._tables(daily),
            **self._memory(),
        )

    def _money(self) -> dict[str, Any]:
        states = [each.trade.state for each in self._ended]
        won = sum(state.net_usd_e6 > 0 for state in states)
        net = sum(state.net_usd_e6 for state in states)
        first, last = self._equity(self._chunk.start), self._equity(self._chunk.end)
        insured = sum(each.usd_e6 for each in self._book.insurance())
        fall = drawdown([first, *(point.own_usd_e6 for point in equity_points(self._book)), last - insured])
        return {
            "trades": len(states),
            "won": won,
            "win_rate": rounded(rate(won, len(states)), RATE_DIGITS),
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

    def _tables(self, daily: Daily) -> dict[str, Any]:
        rooms, deployment = self._rooms, self._deployment
        now = records_of(self._ended)
        before = records_of(chronicle(rooms, deployment, after=0, until=self._since).ended())
        trusted = weights_of(rooms, deployment, since_seq=self._since, seq=self._seq)
        assets = [replace(row, sharpe=self._asset_sharpe(row.name, daily)) for row in rows(ASSET, now, before)]
        tables = rows(PROVIDER, now, before, trusted=trusted), rows(REGIME, now, before), assets
        return dict(zip(("providers", "regimes", "assets"), settled(*tables), strict=True))

    def _asset_sharpe(self, symbol: str, daily: Daily) -> Estimate | None:
        """Of what the asset's trades realised each day, as a share of equity at its start; other days are zero."""
        realised: dict[int, int] = {}
        for each in self._ended:
            if each.outcome.symbol == symbol:
                day = floor(each.outcome.exited_at, DAY)
                realised[day] = realised.get(day, 0) + each.outcome.net_usd_e6
        return _kept(sharpe([realised.get(day, 0) / equity for day, equity in daily[:-1] if equity > 0]))

    def _memory(self) -> dict[str, Any]:
        rooms, name, seq, chunk = self._rooms, self._deployment.id, self._seq, self._chunk
        note = rooms.notes.active(name, seq=seq)
        taken = rooms.experience.snapshots(name, seq=seq)
        stream = rooms.book.stream(name)
        head = next(rooms.log.events(stream, after=seq - 1, until=seq), None)
        return {
            "lessons_hash": note.content_hash if note else "",
            "lessons": bullets(note.lessons_text) if note else (),
            "snapshots": tuple(each.chunk for each in taken[::-1] if chunk.start < each.ended_at <= chunk.end),
            "situations": rooms.experience.standing(name, seq=seq).situations,
            "head_seq": seq,
            "head_hash": head.hash if head else "",
        }

    def _parts(self) -> Parts:
        chunk, trades = self._chunk, [each.trade for each in self._ended]
        traded = sorted({trade.state.symbol for trade in trades})
        prices = {symbol: (self._price(symbol, chunk.start), self._price(symbol, chunk.end)) for symbol in traded}
        return attribution(trades, paces(trades, prices, start=chunk.start, end=chunk.end))

    def _price(self, symbol: str, moment: int) -> int | None:
        view = View(moment + GRACE_MS, self._plan.tape_seq)
        return TapeQuotes(self._rooms.tape, view).mark_e8(symbol, at=view.as_of)

    def _equity(self, moment: int) -> int:
        """Equity at a moment, before any decision of it is carried out."""
        known = self._rooms.book.seq_as_of(self._deployment.id, max(moment - 1, self._plan.start))
        seq = min(max(known, self._since), self._seq)
        return equity_at(self._rooms, self._deployment, moment, seq=seq, watermark=self._plan.tape_seq)


def _kept(found: Estimate | None) -> Estimate | None:
    return None if found is None else rounded(found, SHARPE_DIGITS)
