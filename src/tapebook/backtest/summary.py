"""A backtest for people and programs: each chunk and the whole as lines, as a short document and as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tapebook.backtest.formats import (
    NO_VALUE,
    day_text,
    interval_text,
    percent_text,
    plain_text,
    share_interval_text,
    share_text,
    sharpe_text,
    signed_text,
    text_record,
    text_table,
    trend_text,
    usd_text,
    weight_text,
)
from tapebook.backtest.result import BacktestResult, Baseline, ChunkResult, RandomTurnover, ResultParts, ResultRow
from tapebook.backtest.spending import SpendingTotals
from tapebook.domain.estimate import Estimate
from tapebook.domain.instants import iso_text
from tapebook.domain.money import E6, divide_half_even
from tapebook.domain.text import plural

FIRST_RANDOM_BASELINE = "random, same turnover"
"""The baseline of the first build, whose sides were random."""

SHOWN_CHUNKS = 4
"""Columns of a table over chunks that fit a terminal: the newest of them, and the rest is in the JSON."""

_HASH_SHOWN = 16

FILL_SENTENCES = {
    "next_open": "at the open of the bar that begins at the slot",
    "bar_close": "at the close of the bar that begins at the slot",
    "worst": "at the worst price of the bar that begins at the slot: its high for a buy, its low for a sell",
}
"""What each fill rule says, where bars are all there is."""


def chunk_lines(result: ChunkResult) -> list[str]:
    """A chunk for a terminal: its figures, then what was learned in it."""
    providers = [[row.name, *_count_cells(row), weight_text(row), trend_text(row.trend)] for row in result.providers]
    regimes, assets = (
        [[row.name, *_count_cells(row), trend_text(row.trend)] for row in rows]
        for rows in (result.regimes, result.assets)
    )
    counted, before = ("n", "won", "bps a trade", "net usd"), "bps against before"
    lessons = (
        [("lessons", f"{len(result.lessons)} in note {result.lessons_hash[:_HASH_SHOWN]}")] if result.lessons else []
    )
    return [
        f"{plain_text(result.name)}  {_span_text(result)}, {result.ticks:,} ticks",
        *text_record(_figure_rows(result)),
        *text_table(("by provider", *counted, "weight", before), providers),
        *text_table(("by regime", *counted, before), regimes),
        *text_table(("by asset", *counted, before), assets),
        *text_record(lessons),
        *(f"    {plain_text(lesson)}" for lesson in result.lessons),
        *text_record([("snapshot", ", ".join(result.snapshots)), ("situations", f"{result.situations:,} known")]),
    ]


def summary_lines(
    result: BacktestResult, *, stale: Sequence[str] = (), spent: SpendingTotals | None = None
) -> list[str]:
    """The whole for a terminal: figures, chunks side by side, baselines, and what a reader must know.

    `stale` names inputs that are others by now: then the first line says that this is no current result. `spent` is
    what its models cost.
    """
    total = result.total
    chunks = [_chunk_row(chunk) for chunk in result.chunks]
    rivals = [_baseline_row(each) for each in _result_and_baselines(result)]
    return [
        *(f"STALE: {sentence}" for sentence in stale_sentences(result.agent, stale)),
        f"{result.id}  {plain_text(result.agent)} version {result.agent_version}, {result.engine}, "
        f"memory {_memory_text(result)}",
        f"  {', '.join(result.symbols)}  {_span_text(total)}, {total.ticks:,} ticks",
        f"  {fill_sentence(result)}",
        *text_record([*_figure_rows(total), ("models", spending_text(spent))]),
        *_after_blank_line(
            text_table(("chunk", "trades", "won", "net usd", "equity", "Sharpe", "days", "drawdown"), chunks)
        ),
        *_chunk_table(result, "providers", "won by provider", _won_cell),
        *_chunk_table(result, "regimes", "won by regime", _won_cell),
        *_chunk_table(result, "assets", "Sharpe by asset", _sharpe_cell),
        *_after_blank_line(text_table(("beside", "trades", "change usd", "Sharpe", "days", "drawdown"), rivals)),
        *_after_blank_line([f"  {sentence}" for sentence in random_turnover_sentences(result)]),
        *(f"  note: {plain_text(note)}" for note in result.notes),
        f"  packets sha256 {result.packets_sha256}",
        *text_record(input_rows(result)),
    ]


def fill_sentence(result: BacktestResult) -> str:
    """Where orders filled; this depends on the rule only where no midpoints were recorded."""
    return f"fill {result.fill}: on bars alone, orders filled {FILL_SENTENCES[result.fill]}"


def stale_sentences(agent: str, stale: Sequence[str]) -> list[str]:
    """What a reader must know of an agent's backtest whose inputs are others by now; nothing of a current one."""
    if not stale:
        return []
    again = f"run `tapebook backtest {plain_text(agent)}` again for a current result"
    return [f"made with other {' and '.join(stale)} than now; {again}"]


def input_rows(result: BacktestResult) -> list[tuple[str, str]]:
    """What it was made of, by name."""
    made = result.inputs
    if made is None:
        return []
    digests = [("data sha256", made.data_sha256), ("code sha256", made.code_sha256)]
    return [*digests, ("version", f"tapebook {made.version}"), ("model", made.model)]


def random_turnover_sentences(result: BacktestResult) -> list[str]:
    """Where the closed trades stand among the same trades at random moments, and what was held on average."""
    sentences = [
        sentence
        for each in result.baselines
        if each.luck is not None
        for sentence in _turnover_sentences(each, each.luck)
    ]
    held = ", ".join(f"{plain_text(symbol)} {usd_text(value, signed=True)}" for symbol, value in result.exposures)
    return [*sentences, *([f"on average over all of the time it held {held} USD"] if held else [])]


def summary_text(result: BacktestResult) -> str:
    """The whole as a short document, for those who look for backtests like this one later; at most sixty lines."""
    total, last = result.total, result.chunks[-1]
    head = [
        f"# Backtest {result.id}: {plain_text(result.agent)}",
        "",
        f"- agent: {plain_text(result.agent)} version {result.agent_version}, engine {result.engine}",
        f"- strategy: {plain_text(result.strategy)[:400] or 'none written'}",
        f"- range: {_span_text(total)}; symbols {', '.join(result.symbols)}; memory {_memory_text(result)}",
        f"- {fill_sentence(result)}",
        *(f"- {name}: {value}" for name, value in _figure_rows(total) if value),
        *(f"- {sentence}" for sentence in random_turnover_sentences(result)),
        *(
            f"- {each.name}: net {usd_text(each.net_usd_e6, signed=True)} USD"
            for each in result.baselines
            if not each.luck
        ),
    ]
    chunks = [f"- {plain_text(each.name)}: {_chunk_sentence(each)}" for each in result.chunks[-12:]]
    lessons = [f"- {plain_text(lesson)}" for lesson in last.lessons] or ["- none yet"]
    notes = [f"- {plain_text(note)}" for note in result.notes]
    body = [*head, "", "## Chunks", *chunks, "", f"## Lessons at the end ({last.lessons_hash or 'no note'})", *lessons]
    return "\n".join([*body, "", "## Notes", *notes][:60]) + "\n"


def spending_text(spent: SpendingTotals | None) -> str:
    """What models cost, in one line; empty when none was asked."""
    if not spent:
        return ""
    calls, tokens = plural(spent.calls, "call"), plural(spent.input_tokens, "token")
    text = f"{usd_text(spent.cost_usd_e6)} USD for {calls}, {tokens} in, {spent.output_tokens:,} out"
    if not spent.reused:
        return text
    return (
        f"{text}; {plural(spent.reused, 'answer')} of other backtests reused, saving {usd_text(spent.saved_usd_e6)} USD"
    )


def spending_view(spent: SpendingTotals) -> dict[str, Any] | None:
    """What models cost, for programs; None when none was asked."""
    if not spent:
        return None
    counted = {"calls": spent.calls, "input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
    saved = {"reused_answers": spent.reused, "saved_usd": spent.saved_usd_e6 / E6}
    return counted | {"usd": spent.cost_usd_e6 / E6} | saved


def result_view(
    result: BacktestResult,
    *,
    ticks_per_second: float | None,
    stale: Sequence[str] = (),
    spent: SpendingTotals | None = None,
) -> dict[str, Any]:
    """The whole for programs, in people's units: chunks, total, baselines, how fast it ran and what models cost.

    `stale` names the inputs that are others by now; it is empty for a current result.
    """
    view: dict[str, Any] = msgspec.to_builtins(result)
    del view["exposures"]
    moments = {"start": iso_text(result.start), "end": iso_text(result.end)}
    freeze = {"freeze_at": None if result.freeze_at is None else iso_text(result.freeze_at)}
    return (
        view
        | moments
        | freeze
        | {
            "ticks_per_second": ticks_per_second,
            "stale": list(stale),
            "spent": spending_view(spent or SpendingTotals()),
            "stopped": None,
            "exposures_usd": {symbol: value / E6 for symbol, value in result.exposures},
            "chunks": [chunk_view(chunk) for chunk in result.chunks],
            "total": chunk_view(result.total),
            "baselines": [_baseline_view(each) for each in result.baselines],
        }
    )


def chunk_view(result: ChunkResult) -> dict[str, Any]:
    """A chunk for programs."""
    fields: dict[str, Any] = msgspec.to_builtins(result)
    kept = {name: value for name, value in fields.items() if not name.endswith("_usd_e6") and name != "drawdown_ppm"}
    money = ("gross", "fees", "funding", "net", "open")
    return kept | {
        "start": iso_text(result.start),
        "end": iso_text(result.end),
        "pnl": {f"{name}_usd": fields[f"{name}_usd_e6"] / E6 for name in money},
        "equity": {"start_usd": result.equity_start_usd_e6 / E6, "end_usd": result.equity_end_usd_e6 / E6},
        "drawdown": {"usd": result.drawdown_usd_e6 / E6, "share": result.drawdown_ppm / E6},
        "insurance_usd": result.insurance_usd_e6 / E6,
        "parts": {name.removesuffix("_e6"): value / E6 for name, value in fields["parts"].items()},
        "daily": [[iso_text(at), equity / E6] for at, equity in result.daily],
        **{name: [_row_view(row) for row in getattr(result, name)] for name in ("providers", "regimes", "assets")},
    }


def _turnover_sentences(each: Baseline, luck: RandomTurnover) -> list[str]:
    # The first build threw the sides too.
    of = (
        "of the same turnover" if each.name == FIRST_RANDOM_BASELINE else "with the same sides, sizes and holding times"
    )
    low, high = usd_text(luck.low_usd_e6, signed=True), usd_text(luck.high_usd_e6, signed=True)
    return [
        f"the closed trades beat {share_text(luck.beaten)} of the random replays {of}",
        f"90 of 100 replays end between {low} and {high} USD",
    ]


def _figure_rows(result: ChunkResult) -> list[tuple[str, str]]:
    start, end = result.equity_start_usd_e6, result.equity_end_usd_e6
    grown = signed_text((end - start) / start * 100, 2) if start else "0.00"
    net, still = (usd_text(value, signed=True) for value in (result.net_usd_e6, result.open_usd_e6))
    return [
        ("equity", f"{usd_text(start)} to {usd_text(end)} USD ({grown}%)"),
        ("closed", f"{plural(result.trades, 'trade')}, net {net} USD"),
        ("from", _parts_text(result.parts) if result.trades else ""),
        ("open", f"{still} USD on what was open at either end" if result.open_usd_e6 else ""),
        ("won", share_text(result.win_rate) if result.trades else ""),
        ("Sharpe", sharpe_text(result.sharpe)),
        ("drawdown", f"{usd_text(result.drawdown_usd_e6)} USD, {percent_text(result.drawdown_ppm)} of a peak"),
        ("insured", _insured_text(result)),
        ("held", f"something {result.exposure:.0%} of the time"),
    ]


def _insured_text(result: ChunkResult) -> str:
    paid = result.insurance_usd_e6
    return f"{usd_text(paid)} USD of losses beyond the margin, which the drawdown counts" if paid else ""


def _parts_text(parts: ResultParts) -> str:
    named = msgspec.structs.asdict(parts).items()
    return ", ".join(f"{name.removesuffix('_usd_e6')} {usd_text(value, signed=True)}" for name, value in named)


def _after_blank_line(lines: list[str]) -> list[str]:
    return ["", *lines] if lines else []


def _span_text(result: ChunkResult) -> str:
    return f"{day_text(result.start)} to {day_text(result.end)}"


def _memory_text(result: BacktestResult) -> str:
    return result.memory if result.freeze_at is None else f"{result.memory} at {day_text(result.freeze_at)}"


def _count_cells(row: ResultRow) -> list[str]:
    mean = interval_text(row.mean_bps, digits=1, edges=0)
    return [f"{row.n:,}", share_interval_text(row.win_rate), mean, usd_text(row.net_usd_e6, signed=True)]


def _won_cell(row: ResultRow) -> str:
    return f"{share_interval_text(row.win_rate)} n={row.n:,}"


def _sharpe_cell(row: ResultRow) -> str:
    return NO_VALUE if row.sharpe is None else f"{interval_text(row.sharpe, digits=1)} n={row.sharpe.n:,}d"


def _chunk_row(chunk: ChunkResult) -> list[str]:
    net, change = usd_text(chunk.net_usd_e6, signed=True), usd_text(chunk.change_usd_e6, signed=True)
    won = share_interval_text(chunk.win_rate)
    return [
        chunk.name,
        f"{chunk.trades:,}",
        won,
        net,
        change,
        *_ratio_cells(chunk.sharpe),
        percent_text(chunk.drawdown_ppm),
    ]


def _ratio_cells(found: Estimate | None) -> list[str]:
    """A Sharpe ratio and its days, for two columns."""
    return [interval_text(found), NO_VALUE if found is None else f"{found.n:,}"]


def _chunk_sentence(chunk: ChunkResult) -> str:
    change = divide_half_even(chunk.change_usd_e6 * E6, chunk.equity_start_usd_e6) if chunk.equity_start_usd_e6 else 0
    return (
        f"equity {signed_text(change / 10_000, 2)}%, {plural(chunk.trades, 'trade')}, won {share_text(chunk.win_rate)}"
    )


def _chunk_table(result: BacktestResult, kind: str, heading: str, cell: Callable[[ResultRow], str]) -> list[str]:
    """How each of a kind did from chunk to chunk, and whether the last differs from those before."""
    shown = result.chunks[-SHOWN_CHUNKS:]
    columns: list[dict[str, ResultRow]] = [{row.name: row for row in getattr(chunk, kind)} for chunk in shown]
    total: Sequence[ResultRow] = getattr(result.total, kind)
    rows = []
    for row in total:
        known = [column.get(row.name) for column in columns]
        trend = known[-1].trend if known[-1] else None
        cells = [cell(each) if each else NO_VALUE for each in known]
        rows.append([row.name, *cells, trend.direction if trend else NO_VALUE])
    left = len(result.chunks) - len(shown)
    more = [f"  ({left} earlier chunks are in --json)"] if left and rows else []
    return _after_blank_line(
        [*text_table((heading, *(plain_text(chunk.name) for chunk in shown), "trend"), rows), *more]
    )


def _result_and_baselines(result: BacktestResult) -> list[Baseline]:
    total = result.total
    own = Baseline(result.agent, total.trades, total.change_usd_e6, total.sharpe, total.drawdown_ppm, (), ())
    return [own, *result.baselines]


def _baseline_row(each: Baseline) -> list[str]:
    fall = NO_VALUE if each.drawdown_ppm is None else percent_text(each.drawdown_ppm)
    return [each.name, f"{each.trades:,}", usd_text(each.net_usd_e6, signed=True), *_ratio_cells(each.sharpe), fall]


def _row_view(row: ResultRow) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(row)
    return view | {"net_usd": view.pop("net_usd_e6") / E6}


def _baseline_view(each: Baseline) -> dict[str, Any]:
    found: Estimate | None = each.sharpe
    view: dict[str, Any] = {
        "name": each.name,
        "trades": each.trades,
        "net_usd": each.net_usd_e6 / E6,
        "sharpe": None if found is None else msgspec.to_builtins(found),
        "drawdown": None if each.drawdown_ppm is None else each.drawdown_ppm / E6,
        "chunks_usd": [value / E6 for value in each.chunks],
        "daily_usd": [value / E6 for value in each.daily],
    }
    if each.luck is None:
        return view
    luck: dict[str, Any] = msgspec.to_builtins(each.luck)
    view["luck"] = {
        "replications": luck["replications"],
        "beaten": luck["beaten"],
        "beaten_by_chunk": luck["beaten_by_chunk"],
        "low_usd": each.luck.low_usd_e6 / E6,
        "high_usd": each.luck.high_usd_e6 / E6,
    }
    return view
