"""A backtest drawn once: every table of it with its columns, for a terminal and for a page; and the whole as JSON.

A `ReportTable` has typed rows (`ChunkResult`, `Baseline`, `ResultRow`) and says of each column what it is called in a
terminal and on a page, which value it shows and of what kind that is. `text_lines` and `html` are its two renderings.
`summary_lines` and `chunk_lines` are what a terminal shows, `html_page` what a browser does, `result_view` what
programs get.
"""

from collections.abc import Callable, Sequence
from html import escape
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from tapebook.backtest.formats import (
    NO_VALUE,
    interval_text,
    percent_text,
    plain_text,
    share_interval_text,
    signed_text,
    text_record,
    text_table,
    trend_text,
    usd_text,
    weight_text,
)
from tapebook.backtest.result import BacktestResult, Baseline, ChunkResult, ResultRow
from tapebook.backtest.spending import SpendingTotals
from tapebook.backtest.summary import (
    figure_rows,
    fill_sentence,
    input_rows,
    memory_sentences,
    memory_text,
    random_turnover_sentences,
    span_text,
    spending_text,
    stale_sentences,
)
from tapebook.domain.estimate import Estimate
from tapebook.domain.units import E6, iso_text

SHOWN_CHUNKS = 4
"""Columns of a table over chunks that fit a terminal: the newest of them, and the rest is in the JSON."""

_HASH_SHOWN = 16


def escape_text(text: str) -> str:
    """A text as it may stand in a page."""
    return escape(plain_text(text))


def html_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already; it scrolls by itself where the screen is narrow."""
    if not rows:
        return '<p class="muted">none</p>'
    head = "".join(f'<th scope="col">{escape_text(heading)}</th>' for heading in headings)
    body = "".join(f"<tr>{''.join(_html_cells(row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _html_cells(row: Sequence[str]) -> list[str]:
    first, *others = row
    return [f'<th scope="row">{first}</th>', *(f"<td>{cell}</td>" for cell in others)]


def _share_html(share: Estimate) -> str:
    if not share.n:
        return NO_VALUE
    return f"{share.value:.0%}<small>{100 * share.low:.0f}–{100 * share.high:.0f}%, n={share.n:,}</small>"


def _ratio_html(found: Estimate | None) -> str:
    if found is None:
        return NO_VALUE
    return f"{found.value:.2f}<small>{found.low:.1f} to {found.high:.1f}, n={found.n:,}d</small>"


def _mean_html(mean: Estimate | None) -> str:
    return NO_VALUE if mean is None else f"{signed_text(mean.value)}<small>{mean.low:.0f} to {mean.high:.0f}</small>"


def _money_html(value_e6: int) -> str:
    tone = "up" if value_e6 >= E6 // 200 else "down" if value_e6 <= -E6 // 200 else "flat"
    return f'<span class="{tone}">{usd_text(value_e6, signed=True)}</span>'


def _code_html(text: str) -> str:
    return f"<code>{escape_text(text)}</code>"


class CellKind(NamedTuple):
    """How values of a kind are written in a terminal and on a page."""

    text: Callable[[Any], str]
    html: Callable[[Any], str]


def _same(write: Callable[[Any], str]) -> CellKind:
    return CellKind(write, lambda value: escape_text(write(value)))


TEXT = CellKind(str, escape_text)
CODE = CellKind(str, _code_html)
COUNT = _same("{:,}".format)
SHARE_HELD = _same("{:.0%}".format)
WEIGHT = _same(lambda weight: NO_VALUE if weight is None else f"{weight:.2f}")
WEIGHT_CHANGE = _same(weight_text)
TREND = _same(trend_text)
LAST_TREND = _same(lambda row: trend_text(row.trend) if row else NO_VALUE)
DIRECTION = _same(lambda row: row.trend.direction if row and row.trend else NO_VALUE)
PERCENT = _same(lambda ppm: NO_VALUE if ppm is None else percent_text(ppm))
MONEY = CellKind(lambda value_e6: usd_text(value_e6, signed=True), _money_html)
SHARE = CellKind(share_interval_text, _share_html)
RATIO = CellKind(interval_text, _ratio_html)
DAYS = _same(lambda ratio: NO_VALUE if ratio is None else f"{ratio.n:,}")
MEAN = CellKind(lambda mean: interval_text(mean, digits=1, edges=0), _mean_html)
# In a terminal n has no column beside each chunk.
WON_OF_N = CellKind(lambda share: f"{share_interval_text(share)} n={share.n:,}", _share_html)
SHARPE_OF_N = CellKind(
    lambda ratio: NO_VALUE if ratio is None else f"{interval_text(ratio, digits=1)} n={ratio.n:,}d", _ratio_html
)


class ReportColumn(NamedTuple):
    """A column: its heading in a terminal and on a page, None where it is not shown; a row's value, and its kind."""

    terminal: str | None
    page: str | None
    value: Callable[[Any], Any]
    kind: CellKind


class ReportTable(NamedTuple):
    """A table of a report, to be drawn in either way."""

    columns: Sequence[ReportColumn]
    rows: Sequence[Any]

    def text_lines(self) -> list[str]:
        """Aligned lines for a terminal; none without rows."""
        shown = [(plain_text(each.terminal), each) for each in self.columns if each.terminal is not None]
        rows = [[each.kind.text(each.value(row)) for _, each in shown] for row in self.rows]
        return text_table([heading for heading, _ in shown], rows)

    def html(self) -> str:
        """The table of a page."""
        shown = [(each.page, each) for each in self.columns if each.page is not None]
        rows = [[each.kind.html(each.value(row)) for _, each in shown] for row in self.rows]
        return html_table([heading for heading, _ in shown], rows)


def chunk_table(chunks: Sequence[ChunkResult]) -> ReportTable:
    """The chunks side by side."""
    columns = (
        ReportColumn("chunk", "chunk", attrgetter("name"), TEXT),
        ReportColumn(None, "ticks", attrgetter("ticks"), COUNT),
        ReportColumn("trades", "trades", attrgetter("trades"), COUNT),
        ReportColumn("won", "won", attrgetter("win_rate"), SHARE),
        ReportColumn("net usd", "net USD", attrgetter("net_usd_e6"), MONEY),
        ReportColumn("equity", "equity change", attrgetter("change_usd_e6"), MONEY),
        ReportColumn("Sharpe", "Sharpe", attrgetter("sharpe"), RATIO),
        ReportColumn("days", None, attrgetter("sharpe"), DAYS),
        ReportColumn("drawdown", "drawdown", attrgetter("drawdown_ppm"), PERCENT),
        ReportColumn(None, "held", attrgetter("exposure"), SHARE_HELD),
    )
    return ReportTable(columns, chunks)


def parts_table(chunks: Sequence[ChunkResult]) -> ReportTable:
    """Where the result of each chunk came from."""
    names = ("market", "timing", "sizing", "fees", "funding")
    parts = (ReportColumn(name, name, attrgetter(f"parts.{name}_usd_e6"), MONEY) for name in names)
    name = ReportColumn("chunk", "chunk", attrgetter("name"), TEXT)
    return ReportTable((name, *parts, ReportColumn("net usd", "net USD", attrgetter("net_usd_e6"), MONEY)), chunks)


def baseline_table(result: BacktestResult) -> ReportTable:
    """The result beside those of somebody who knows nothing."""
    total = result.total
    own = Baseline(result.agent, total.trades, total.change_usd_e6, total.sharpe, total.drawdown_ppm, (), ())
    columns = (
        ReportColumn("beside", "", attrgetter("name"), TEXT),
        ReportColumn("trades", "trades", attrgetter("trades"), COUNT),
        ReportColumn("change usd", "equity change USD", attrgetter("net_usd_e6"), MONEY),
        ReportColumn("Sharpe", "Sharpe", attrgetter("sharpe"), RATIO),
        ReportColumn("days", None, attrgetter("sharpe"), DAYS),
        ReportColumn("drawdown", "drawdown", attrgetter("drawdown_ppm"), PERCENT),
    )
    return ReportTable(columns, (own, *result.baselines))


def detail_table(heading: str, rows: Sequence[ResultRow], *, weighs: bool) -> ReportTable:
    """How each provider, regime or asset of a chunk did, and its weight if it has one."""
    columns = (
        ReportColumn(heading, "", attrgetter("name"), TEXT),
        ReportColumn("n", "n", attrgetter("n"), COUNT),
        ReportColumn("won", "won", attrgetter("win_rate"), SHARE),
        ReportColumn("bps a trade", "bps a trade", attrgetter("mean_bps"), MEAN),
        ReportColumn("net usd", "net USD", attrgetter("net_usd_e6"), MONEY),
        ReportColumn("weight" if weighs else None, "weight", lambda row: row, WEIGHT_CHANGE),
        ReportColumn("change (bps)", "change vs earlier chunks, bps a trade", attrgetter("trend"), TREND),
    )
    return ReportTable(columns, rows)


def table_over_chunks(result: BacktestResult, kind: str) -> ReportTable:
    """How each of a kind did from chunk to chunk, and whether the last differs from those before.

    `kind` is `providers`, which have a weight, `regimes` or `assets`, whose Sharpe ratio counts.
    """
    one, figure = kind.removesuffix("s"), "sharpe" if kind == "assets" else "win_rate"
    cell = SHARPE_OF_N if kind == "assets" else WON_OF_N
    known = [{row.name: row for row in getattr(chunk, kind)} for chunk in result.chunks]
    first_shown = len(known) - SHOWN_CHUNKS
    # A chunk in which it had no trade has no figure.
    absent = CellKind(
        lambda row: cell.text(getattr(row, figure)) if row else NO_VALUE,
        lambda row: cell.html(getattr(row, figure)) if row else NO_VALUE,
    )
    chunks = (
        ReportColumn(chunk.name if place >= first_shown else None, chunk.name, _looked_up(known[place]), absent)
        for place, chunk in enumerate(result.chunks)
    )
    last = _looked_up(known[-1])
    columns = (
        ReportColumn(f"{'Sharpe' if kind == 'assets' else 'won'} by {one}", one, attrgetter("name"), TEXT),
        *chunks,
        ReportColumn(None, "all", attrgetter(figure), cell),
        ReportColumn(None, "weight" if kind == "providers" else None, attrgetter("weight"), WEIGHT),
        ReportColumn("trend", None, last, DIRECTION),
        ReportColumn(None, "change vs earlier chunks, bps a trade", last, LAST_TREND),
    )
    return ReportTable(columns, getattr(result.total, kind))


def _looked_up(rows: dict[str, ResultRow]) -> Callable[[ResultRow], ResultRow | None]:
    return lambda row: rows.get(row.name)


def hash_table(chunks: Sequence[ChunkResult]) -> ReportTable:
    """What proves each chunk: the hash of all packets, and of the log where it ended."""
    columns = (
        ReportColumn("chunk", "chunk", attrgetter("name"), TEXT),
        ReportColumn("packets", "sha256 of all packets", attrgetter("packets_sha256"), CODE),
        ReportColumn("head", "head", attrgetter("head_seq"), COUNT),
        ReportColumn("hash", "hash of the log there", attrgetter("head_hash"), CODE),
    )
    return ReportTable(columns, chunks)


def chunk_lines(result: ChunkResult) -> list[str]:
    """A chunk for a terminal: its figures, then what was learned in it."""
    said = [("lessons", f"{len(result.lessons)} in note {result.lessons_hash[:_HASH_SHOWN]}")] if result.lessons else []
    return [
        f"{plain_text(result.name)}  {span_text(result)}, {result.ticks:,} ticks",
        *text_record(figure_rows(result)),
        *detail_table("by provider", result.providers, weighs=True).text_lines(),
        *detail_table("by regime", result.regimes, weighs=False).text_lines(),
        *detail_table("by asset", result.assets, weighs=False).text_lines(),
        *text_record(said),
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
    total, left = result.total, len(result.chunks) - SHOWN_CHUNKS
    more = [f"  ({left} earlier chunks are in --json)"] if left > 0 else []
    by_kind = [table_over_chunks(result, kind).text_lines() for kind in ("providers", "regimes", "assets")]
    return [
        *(f"STALE: {sentence}" for sentence in stale_sentences(result.agent, stale)),
        f"{result.id}  {plain_text(result.agent)} version {result.agent_version}, {result.engine}, "
        f"memory {memory_text(result)}",
        f"  {', '.join(result.symbols)}  {span_text(total)}, {total.ticks:,} ticks",
        f"  {fill_sentence(result)}",
        *(f"  {sentence}" for sentence in memory_sentences(result)),
        *text_record([*figure_rows(total), ("models", spending_text(spent))]),
        *_after_blank_line(chunk_table(result.chunks).text_lines()),
        *(line for lines in by_kind for line in _after_blank_line([*lines, *(more if lines else [])])),
        *_after_blank_line(baseline_table(result).text_lines()),
        *_after_blank_line([f"  {sentence}" for sentence in random_turnover_sentences(result)]),
        *(f"  note: {plain_text(note)}" for note in result.notes),
        f"  packets sha256 {result.packets_sha256}",
        *text_record(input_rows(result)),
    ]


def _after_blank_line(lines: list[str]) -> list[str]:
    return ["", *lines] if lines else []


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
    said: dict[str, Any] = msgspec.to_builtins(result)
    del said["exposures"]
    moments = {"start": iso_text(result.start), "end": iso_text(result.end)}
    freeze = {"freeze_at": None if result.freeze_at is None else iso_text(result.freeze_at)}
    return (
        said
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
    said: dict[str, Any] = msgspec.to_builtins(result)
    kept = {name: value for name, value in said.items() if not name.endswith("_usd_e6") and name != "drawdown_ppm"}
    money = ("gross", "fees", "funding", "net", "open")
    return kept | {
        "start": iso_text(result.start),
        "end": iso_text(result.end),
        "pnl": {f"{name}_usd": said[f"{name}_usd_e6"] / E6 for name in money},
        "equity": {"start_usd": result.equity_start_usd_e6 / E6, "end_usd": result.equity_end_usd_e6 / E6},
        "drawdown": {"usd": result.drawdown_usd_e6 / E6, "share": result.drawdown_ppm / E6},
        "insurance_usd": result.insurance_usd_e6 / E6,
        "parts": {name.removesuffix("_e6"): value / E6 for name, value in said["parts"].items()},
        "daily": [[iso_text(at), equity / E6] for at, equity in result.daily],
        **{name: [_row_view(row) for row in getattr(result, name)] for name in ("providers", "regimes", "assets")},
    }


def _row_view(row: ResultRow) -> dict[str, Any]:
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
