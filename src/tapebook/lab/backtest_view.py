"""A backtest for people and programs: what each chunk taught, the whole in a screen, the same as JSON."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tapebook.domain.estimate import Estimate
from tapebook.domain.instants import iso
from tapebook.domain.money import E6, divide
from tapebook.domain.text import plural
from tapebook.lab.result import BacktestResult, Baseline, ChunkResult, Luck, Parts, Row
from tapebook.lab.spending import Spent
from tapebook.lab.words import (
    NOTHING,
    day,
    percent,
    plain,
    record,
    share_text,
    share_within,
    sharpe_text,
    signed,
    table,
    trend_text,
    usd,
    weight_text,
    within,
)

FIRST_RANDOM = "random, same turnover"
"""The baseline of the first build, whose sides were random."""

SHOWN_CHUNKS = 4
"""Columns of a table over chunks that fit a terminal: the newest of them, and the rest is in the JSON."""

_HASH_SHOWN = 16

FILLS = {
    "next_open": "at the open of the bar that begins at the slot",
    "bar_close": "at the close of the bar that begins at the slot",
    "worst": "at the worst price of the bar that begins at the slot: its high for a buy, its low for a sell",
}
"""What each fill rule says, where bars are all there is."""


def chunk_lines(result: ChunkResult) -> list[str]:
    """A chunk for a terminal: its figures, then what was learned in it."""
    providers = [[row.name, *_counted(row), weight_text(row), trend_text(row.trend)] for row in result.providers]
    regimes, assets = (
        [[row.name, *_counted(row), trend_text(row.trend)] for row in rows] for rows in (result.regimes, result.assets)
    )
    counted, before = ("n", "won", "bps a trade", "net usd"), "bps against before"
    said = [("lessons", f"{len(result.lessons)} in note {result.lessons_hash[:_HASH_SHOWN]}")] if result.lessons else []
    return [
        f"{plain(result.name)}  {_span(result)}, {result.ticks:,} ticks",
        *record(_figures(result)),
        *table(("by provider", *counted, "weight", before), providers),
        *table(("by regime", *counted, before), regimes),
        *table(("by asset", *counted, before), assets),
        *record(said),
        *(f"    {plain(lesson)}" for lesson in result.lessons),
        *record([("snapshot", ", ".join(result.snapshots)), ("situations", f"{result.situations:,} known")]),
    ]


def summary_lines(result: BacktestResult, *, stale: Sequence[str] = (), spent: Spent | None = None) -> list[str]:
    """The whole for a terminal: figures, chunks side by side, baselines, and what a reader must know.

    `stale` names inputs that are others by now: then the first line says that this is no current result. `spent` is
    what its models cost.
    """
    total = result.total
    chunks = [_chunk_row(chunk) for chunk in result.chunks]
    rivals = [_baseline_row(each) for each in _rivals(result)]
    return [
        *(f"STALE: {sentence}" for sentence in stale_sentences(result.agent, stale)),
        f"{result.id}  {plain(result.agent)} version {result.agent_version}, {result.engine}, memory {_memory(result)}",
        f"  {', '.join(result.symbols)}  {_span(total)}, {total.ticks:,} ticks",
        f"  {fill_sentence(result)}",
        *record([*_figures(total), ("models", spent_text(spent))]),
        *_spaced(table(("chunk", "trades", "won", "net usd", "equity", "Sharpe", "days", "drawdown"), chunks)),
        *_over_chunks(result, "providers", "won by provider", _won),
        *_over_chunks(result, "regimes", "won by regime", _won),
        *_over_chunks(result, "assets", "Sharpe by asset", _daily_sharpe),
        *_spaced(table(("beside", "trades", "change usd", "Sharpe", "days", "drawdown"), rivals)),
        *_spaced([f"  {sentence}" for sentence in luck_sentences(result)]),
        *(f"  note: {plain(note)}" for note in result.notes),
        f"  packets sha256 {result.packets_sha256}",
        *record(inputs_of(result)),
    ]


def fill_sentence(result: BacktestResult) -> str:
    """Where orders filled; this depends on the rule only where no midpoints were recorded."""
    return f"fill {result.fill}: on bars alone, orders filled {FILLS[result.fill]}"


def stale_sentences(agent: str, stale: Sequence[str]) -> list[str]:
    """What a reader must know of an agent's backtest whose inputs are others by now; nothing of a current one."""
    if not stale:
        return []
    again = f"run `tapebook backtest {plain(agent)}` again for a current result"
    return [f"made with other {' and '.join(stale)} than now; {again}"]


def inputs_of(result: BacktestResult) -> list[tuple[str, str]]:
    """What it was made of, by name."""
    made = result.inputs
    if made is None:
        return []
    digests = [("data sha256", made.data_sha256), ("code sha256", made.code_sha256)]
    return [*digests, ("version", f"tapebook {made.version}"), ("model", made.model)]


def luck_sentences(result: BacktestResult) -> list[str]:
    """Where the closed trades stand among the same trades at random moments, and what was held on average."""
    said = [
        sentence for each in result.baselines if each.luck is not None for sentence in _luck_sentences(each, each.luck)
    ]
    held = ", ".join(f"{plain(symbol)} {usd(value, signed=True)}" for symbol, value in result.exposures)
    return [*said, *([f"on average over all of the time it held {held} USD"] if held else [])]


def summary_text(result: BacktestResult) -> str:
    """The whole as a short document, for those who look for backtests like this one later; at most sixty lines."""
    total, last = result.total, result.chunks[-1]
    head = [
        f"# Backtest {result.id}: {plain(result.agent)}",
        "",
        f"- agent: {plain(result.agent)} version {result.agent_version}, engine {result.engine}",
        f"- strategy: {plain(result.strategy)[:400] or 'none written'}",
        f"- range: {_span(total)}; symbols {', '.join(result.symbols)}; memory {_memory(result)}",
        f"- {fill_sentence(result)}",
        *(f"- {name}: {value}" for name, value in _figures(total) if value),
        *(f"- {sentence}" for sentence in luck_sentences(result)),
        *(f"- {each.name}: net {usd(each.net_usd_e6, signed=True)} USD" for each in result.baselines if not each.luck),
    ]
    chunks = [f"- {plain(each.name)}: {_chunk_sentence(each)}" for each in result.chunks[-12:]]
    lessons = [f"- {plain(lesson)}" for lesson in last.lessons] or ["- none yet"]
    notes = [f"- {plain(note)}" for note in result.notes]
    body = [*head, "", "## Chunks", *chunks, "", f"## Lessons at the end ({last.lessons_hash or 'no note'})", *lessons]
    return "\n".join([*body, "", "## Notes", *notes][:60]) + "\n"


def spent_text(spent: Spent | None) -> str:
    """What models cost, in one line; empty when none was asked."""
    if not spent:
        return ""
    calls, tokens = plural(spent.calls, "call"), plural(spent.input_tokens, "token")
    told = f"{usd(spent.cost_usd_e6)} USD for {calls}, {tokens} in, {spent.output_tokens:,} out"
    if not spent.reused:
        return told
    return f"{told}; {plural(spent.reused, 'answer')} of other backtests reused, saving {usd(spent.saved_usd_e6)} USD"


def spent_view(spent: Spent) -> dict[str, Any] | None:
    """What models cost, for programs; None when none was asked."""
    if not spent:
        return None
    counted = {"calls": spent.calls, "input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
    saved = {"reused_answers": spent.reused, "saved_usd": spent.saved_usd_e6 / E6}
    return counted | {"usd": spent.cost_usd_e6 / E6} | saved


def result_view(
    result: BacktestResult, *, ticks_per_second: float | None, stale: Sequence[str] = (), spent: Spent | None = None
) -> dict[str, Any]:
    """The whole for programs, in people's units: chunks, total, baselines, how fast it ran and what models cost.

    `stale` names the inputs that are others by now; it is empty for a current result.
    """
    said: dict[str, Any] = msgspec.to_builtins(result)
    del said["exposures"]
    moments = {"start": iso(result.start), "end": iso(result.end)}
    freeze = {"freeze_at": None if result.freeze_at is None else iso(result.freeze_at)}
    return said | moments | freeze | {
        "ticks_per_second": ticks_per_second,
        "stale": list(stale),
        "spent": spent_view(spent or Spent()),
        "stopped": None,
        "exposures_usd": {symbol: value / E6 for symbol, value in result.exposures},
        "chunks": [chunk_view(chunk) for chunk in result.chunks],
        "total": chunk_view(result.total),
        "baselines": [_baseline_view(each) for each in result.baselines],
    }


def chunk_view(result: ChunkResult) -> dict[str, Any]:
    """A chunk for programs."""
    said: dict[str, Any] = msgspec.to_builtins(result)
    kept = {name: value for name, value in said.items() if not name.endswith("_usd_e6") and name != "drawdown_ppm"}
    money = ("gross", "fees", "funding", "net", "open")
    return kept | {
        "start": iso(result.start),
        "end": iso(result.end),
        "pnl": {f"{name}_usd": said[f"{name}_usd_e6"] / E6 for name in money},
        "equity": {"start_usd": result.equity_start_usd_e6 / E6, "end_usd": result.equity_end_usd_e6 / E6},
        "drawdown": {"usd": result.drawdown_usd_e6 / E6, "share": result.drawdown_ppm / E6},
        "insurance_usd": result.insurance_usd_e6 / E6,
        "parts": {name.removesuffix("_e6"): value / E6 for name, value in said["parts"].items()},
        "daily": [[iso(at), equity / E6] for at, equity in result.daily],
        **{name: [_row_view(row) for row in getattr(result, name)] for name in ("providers", "regimes", "assets")},
    }


def _luck_sentences(each: Baseline, luck: Luck) -> list[str]:
    # The first build threw the sides too.
    of = "of the same turnover" if each.name == FIRST_RANDOM else "with the same sides, sizes and holding times"
    low, high = usd(luck.low_usd_e6, signed=True), usd(luck.high_usd_e6, signed=True)
    return [
        f"the closed trades beat {share_text(luck.beaten)} of the random replays {of}",
        f"90 of 100 replays end between {low} and {high} USD",
    ]


def _figures(result: ChunkResult) -> list[tuple[str, str]]:
    start, end = result.equity_start_usd_e6, result.equity_end_usd_e6
    grown = signed((end - start) / start * 100, 2) if start else "0.00"
    net, still = (usd(value, signed=True) for value in (result.net_usd_e6, result.open_usd_e6))
    return [
        ("equity", f"{usd(start)} to {usd(end)} USD ({grown}%)"),
        ("closed", f"{plural(result.trades, 'trade')}, net {net} USD"),
        ("from", _parts(result.parts) if result.trades else ""),
        ("open", f"{still} USD on what was open at either end" if result.open_usd_e6 else ""),
        ("won", share_text(result.win_rate) if result.trades else ""),
        ("Sharpe", sharpe_text(result.sharpe)),
        ("drawdown", f"{usd(result.drawdown_usd_e6)} USD, {percent(result.drawdown_ppm)} of a peak"),
        ("insured", _insured(result)),
        ("held", f"something {result.exposure:.0%} of the time"),
    ]


def _insured(result: ChunkResult) -> str:
    paid = result.insurance_usd_e6
    return f"{usd(paid)} USD of losses beyond the margin, which the drawdown counts" if paid else ""


def _parts(parts: Parts) -> str:
    named = msgspec.structs.asdict(parts).items()
    return ", ".join(f"{name.removesuffix('_usd_e6')} {usd(value, signed=True)}" for name, value in named)


def _spaced(lines: list[str]) -> list[str]:
    return ["", *lines] if lines else []


def _span(result: ChunkResult) -> str:
    return f"{day(result.start)} to {day(result.end)}"


def _memory(result: BacktestResult) -> str:
    return result.memory if result.freeze_at is None else f"{result.memory} at {day(result.freeze_at)}"


def _counted(row: Row) -> list[str]:
    mean = within(row.mean_bps, digits=1, edges=0)
    return [f"{row.n:,}", share_within(row.win_rate), mean, usd(row.net_usd_e6, signed=True)]


def _won(row: Row) -> str:
    return f"{share_within(row.win_rate)} n={row.n:,}"


def _daily_sharpe(row: Row) -> str:
    return NOTHING if row.sharpe is None else f"{within(row.sharpe, digits=1)} n={row.sharpe.n:,}d"


def _chunk_row(chunk: ChunkResult) -> list[str]:
    net, change = usd(chunk.net_usd_e6, signed=True), usd(chunk.change_usd_e6, signed=True)
    won = share_within(chunk.win_rate)
    return [chunk.name, f"{chunk.trades:,}", won, net, change, *_ratio(chunk.sharpe), percent(chunk.drawdown_ppm)]


def _ratio(found: Estimate | None) -> list[str]:
    """A Sharpe ratio and its days, for two columns."""
    return [within(found), NOTHING if found is None else f"{found.n:,}"]


def _chunk_sentence(chunk: ChunkResult) -> str:
    change = divide(chunk.change_usd_e6 * E6, chunk.equity_start_usd_e6) if chunk.equity_start_usd_e6 else 0
    return f"equity {signed(change / 10_000, 2)}%, {plural(chunk.trades, 'trade')}, won {share_text(chunk.win_rate)}"


def _over_chunks(result: BacktestResult, kind: str, heading: str, cell: Callable[[Row], str]) -> list[str]:
    """How each of a kind did from chunk to chunk, and whether the last differs from those before."""
    shown = result.chunks[-SHOWN_CHUNKS:]
    columns: list[dict[str, Row]] = [{row.name: row for row in getattr(chunk, kind)} for chunk in shown]
    total: Sequence[Row] = getattr(result.total, kind)
    rows = []
    for row in total:
        known = [column.get(row.name) for column in columns]
        trend = known[-1].trend if known[-1] else None
        cells = [cell(each) if each else NOTHING for each in known]
        rows.append([row.name, *cells, trend.direction if trend else NOTHING])
    left = len(result.chunks) - len(shown)
    more = [f"  ({left} earlier chunks are in --json)"] if left and rows else []
    return _spaced([*table((heading, *(plain(chunk.name) for chunk in shown), "trend"), rows), *more])


def _rivals(result: BacktestResult) -> list[Baseline]:
    total = result.total
    own = Baseline(result.agent, total.trades, total.change_usd_e6, total.sharpe, total.drawdown_ppm, (), ())
    return [own, *result.baselines]


def _baseline_row(each: Baseline) -> list[str]:
    fall = NOTHING if each.drawdown_ppm is None else percent(each.drawdown_ppm)
    return [each.name, f"{each.trades:,}", usd(each.net_usd_e6, signed=True), *_ratio(each.sharpe), fall]


def _row_view(row: Row) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(row)
    return said | {"net_usd": said.pop("net_usd_e6") / E6}


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
