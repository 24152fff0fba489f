"""A backtest as one HTML page that needs nothing else: no network, no library, no text that is taken for markup.

1. Every table is plain HTML, so that the page says all it has to say without its script (`page_sections`); every text
   is escaped, every rate has n and interval.
2. What is drawn goes along as numbers (`chart_values`), thinned so that a year stays below three megabytes.
3. The page's own script draws it: equity and drawdown beside the baselines, trades on candles.
"""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from tapebook.backtest.book_range import TradeOutcome
from tapebook.backtest.equity import EquityPoint, thin_points
from tapebook.backtest.formats import (
    NO_VALUE,
    day_text,
    percent_text,
    share_text,
    sharpe_text,
    signed_text,
    usd_text,
)
from tapebook.backtest.price_series import BarColumns
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.backtest.spending import SpendingTotals
from tapebook.backtest.summary import (
    FIRST_RANDOM_BASELINE,
    fill_sentence,
    input_rows,
    memory_sentences,
    memory_text,
    random_turnover_sentences,
    spending_text,
    stale_sentences,
)
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, E6, E8, HOUR, MINUTE, SECOND
from tapebook.report.backtest import (
    CODE,
    baseline_table,
    chunk_table,
    detail_table,
    escape_text,
    hash_table,
    html_table,
    parts_table,
    table_over_chunks,
)
from tapebook.report.export import ReportData


def page_sections(
    result: BacktestResult, *, stale: Sequence[str] = (), spent: SpendingTotals | None = None
) -> dict[str, str]:
    """The parts of the page by the name of their place."""
    measured = (*result.chunks, result.total)
    return {
        "head": _head_html(result, stale),
        "figures": _figure_cards(result, spent or SpendingTotals()),
        "chunks": chunk_table(measured).html(),
        "sources": parts_table(measured).html(),
        "baselines": baseline_table(result).html() + _turnover_html(result),
        **{kind: table_over_chunks(result, kind).html() for kind in ("providers", "regimes", "assets")},
        "details": "\n".join(_chunk_details(chunk) for chunk in result.chunks),
        "notes": _notes_list(result),
        "hashes": _hash_tables(result),
    }


def _head_html(result: BacktestResult, stale: Sequence[str]) -> str:
    says = (
        f"{result.agent}, version {result.agent_version}, engine {result.engine}, memory {memory_text(result)}; "
        f"{', '.join(result.symbols)}; {day_text(result.start)} to {day_text(result.end)} UTC; "
        f"{plural(result.total.ticks, 'decision')}"
    )
    strategy = f'<p class="muted">{escape_text(result.strategy)}</p>' if result.strategy else ""
    warned = "".join(
        f'<p class="stale"><b>Stale:</b> {escape_text(sentence)}.</p>'
        for sentence in stale_sentences(result.agent, stale)
    )
    return f"{warned}<p>{escape_text(says)}</p>{strategy}"


def _figure_cards(result: BacktestResult, spent: SpendingTotals) -> str:
    total = result.total
    start = total.equity_start_usd_e6
    grown = signed_text(total.change_usd_e6 / start * 100, 2) if start else "0.00"
    cards = [
        ("equity", usd_text(total.equity_end_usd_e6), f"USD, {grown}% from {usd_text(start)}"),
        ("closed trades", f"{total.trades:,}", f"net {usd_text(total.net_usd_e6, signed=True)} USD"),
        ("won", *_headline(f"{total.win_rate.value:.0%}", share_text(total.win_rate))),
        ("Sharpe", *_headline(f"{total.sharpe.value:.2f}" if total.sharpe else NO_VALUE, sharpe_text(total.sharpe))),
        (
            "drawdown",
            percent_text(total.drawdown_ppm),
            f"{usd_text(total.drawdown_usd_e6)} USD at most{_insured_text(total)}",
        ),
        ("in the market", f"{total.exposure:.0%}", "of the time"),
        *([("models", usd_text(spent.cost_usd_e6), spending_text(spent).partition(" ")[2])] if spent else []),
    ]
    return "".join(
        f'<div class="card"><span>{escape_text(name)}</span><b>{escape_text(value)}</b>'
        f"<small>{escape_text(more)}</small></div>"
        for name, value, more in cards
    )


def _insured_text(total: ChunkResult) -> str:
    paid = total.insurance_usd_e6
    return f", {usd_text(paid)} of it paid by the insurance" if paid else ""


def _headline(value: str, text: str) -> tuple[str, str]:
    """A value by itself, and what stands behind it in its text: n and interval."""
    if not text.startswith(value):
        return NO_VALUE, text
    return value, text.removeprefix(value).strip(" ()")


def _turnover_html(result: BacktestResult) -> str:
    said = " ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in random_turnover_sentences(result))
    return f"<p>{escape_text(said)}</p>" if said else ""


def _chunk_details(chunk: ChunkResult) -> str:
    tables = (("provider", chunk.providers), ("regime", chunk.regimes), ("asset", chunk.assets))
    rows = [msgspec.structs.replace(row, name=f"{kind}: {row.name}") for kind, rows in tables for row in rows]
    lessons = "".join(f"<li>{escape_text(lesson)}</li>" for lesson in chunk.lessons) or "<li>none yet</li>"
    note = f" (note {escape_text(chunk.lessons_hash)})" if chunk.lessons_hash else ""
    change = usd_text(chunk.change_usd_e6, signed=True)
    summary = f"{chunk.name}: {day_text(chunk.start)} to {day_text(chunk.end)}, {change} USD"
    kept = ", ".join(chunk.snapshots) or "none"
    return (
        f"<details><summary>{escape_text(summary)}</summary>{detail_table('', rows, weighs=True).html()}"
        f"<h4>Lessons at its end{note}</h4><ul>{lessons}</ul>"
        f'<p class="muted">snapshot {escape_text(kept)}; {plural(chunk.situations, "situation")} known</p></details>'
    )


def _notes_list(result: BacktestResult) -> str:
    rules = [
        "Baselines pay the paper broker's taker fee and half its spread on every order, whatever its size.",
        _replay_sentence(result),
        "Buy and hold at the same exposure holds what the agent had of each symbol on average over all of the time.",
        "Sharpe ratios are of daily equity at 00:00 UTC, times the root of 365; intervals take days as independent.",
        "Trends are FDR-controlled at 5 %: of those called up or down, at most 1 in 20 is expected to be luck.",
    ]
    said = [f"{sentence[0].upper()}{sentence[1:]}." for sentence in (fill_sentence(result), *memory_sentences(result))]
    return "<ul>" + "".join(f"<li>{escape_text(note)}</li>" for note in (*said, *result.notes, *rules)) + "</ul>"


def _replay_sentence(result: BacktestResult) -> str:
    thrown = (
        "moment and side are"
        if any(each.name == FIRST_RANDOM_BASELINE for each in result.baselines)
        else "the moment is"
    )
    kept = "symbol, notional" if "side" in thrown else "symbol, side, notional"
    return f"Random replays keep each closed trade's {kept}, holding time and chunk; {thrown} random."


def _hash_tables(result: BacktestResult) -> str:
    made = [[escape_text(name), CODE.html(value)] for name, value in input_rows(result) if value]
    of = html_table(("made of", ""), made) if made else ""
    return hash_table((*result.chunks, result.total)).html() + of


# As many as a wide screen has pixels; a page stays below a few megabytes.
MOST_POINTS = 2_000
MOST_CANDLES = 30_000
MOST_TRADES = 8_000

_STEPS = (MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, DAY, 7 * DAY)


def report_html(told: ReportData, bars: Sequence[BarColumns]) -> str:
    """The page."""
    result = told.result
    data = msgspec.json.encode(chart_values(told, bars)).decode()
    parts = page_sections(result, stale=told.stale, spent=told.spent) | {
        "title": escape_text(f"{result.agent}, backtest {result.id}"),
        "left_out": _left_out_sentence(told),
        "style": _page_file("page.css"),
        "script": _page_file("page.js"),
        # Inside a script element only this would end it.
        "data": data.replace("<", "\\u003c"),
    }
    return _fill_template(_page_file("page.html"), parts)


def chart_values(told: ReportData, bars: Sequence[BarColumns]) -> dict[str, Any]:
    """What the page draws: seconds for time, dollars for money, six digits for prices."""
    result, days = told.result, [day // SECOND for day, _ in told.result.total.daily]
    luck = next((each.luck for each in result.baselines if each.luck), None)
    symbols = [each.symbol for each in bars]
    # Shared among the symbols: the page as a whole has to stay small.
    most = MOST_CANDLES // max(1, len(bars))
    return {
        "start": result.start // SECOND,
        "end": result.end // SECOND,
        "agent": result.agent,
        "equity": [_point_values(point) for point in thin_points(told.points, MOST_POINTS)],
        "days": days,
        "baselines": [{"name": each.name, "usd": list(map(_cents, each.daily))} for each in result.baselines],
        "low": list(map(_cents, luck.daily_low_usd_e6)) if luck else [],
        "high": list(map(_cents, luck.daily_high_usd_e6)) if luck else [],
        "chunks": [_chunk_span(chunk) for chunk in result.chunks],
        "markets": [_market_values(each, most) for each in bars],
        "trades": [
            _trade_values(each, symbols) for each in told.trades[-MOST_TRADES:] if each.outcome.symbol in symbols
        ],
    }


def coarser_bars(bars: BarColumns, most: int) -> BarColumns:
    """Bars of a length at which there are at most so many."""
    span = int(bars.end[-1] - bars.at[0])
    step = next((step for step in _STEPS if step >= bars.step_ms and span // step + 1 <= most), _STEPS[-1])
    if step <= bars.step_ms:
        return bars
    first = np.flatnonzero(np.diff(bars.at // step, prepend=-1))
    last = np.append(first[1:], len(bars)) - 1
    return BarColumns(
        symbol=bars.symbol,
        step_ms=step,
        at=bars.at[first] // step * step,
        open=bars.open[first],
        high=np.maximum.reduceat(bars.high, first),
        low=np.minimum.reduceat(bars.low, first),
        close=bars.close[last],
    )


def _market_values(bars: BarColumns, most: int) -> dict[str, Any]:
    """Rows of open, high, low and close; each row's place is counted in steps from the first."""
    few = coarser_bars(bars, most)
    # Counts of steps instead of times: half the bytes of a row.
    places = ((few.at - few.at[0]) // few.step_ms).tolist()
    prices = zip(
        *(map(_six_digits, column.tolist()) for column in (few.open, few.high, few.low, few.close)), strict=True
    )
    rows = [[place, *each] for place, each in zip(places, prices, strict=True)]
    return {"symbol": few.symbol, "step": few.step_ms // SECOND, "at": int(few.at[0]) // SECOND, "rows": rows}


def _point_values(point: EquityPoint) -> list[float]:
    """When, equity, and what of it would be left without an insurance."""
    return [point.at // SECOND, _cents(point.usd_e6), _cents(point.own_usd_e6)]


def _chunk_span(chunk: ChunkResult) -> dict[str, Any]:
    return {"name": chunk.name, "start": chunk.start // SECOND, "end": chunk.end // SECOND}


def _left_out_sentence(told: ReportData) -> str:
    """What the drawing does not show, as a sentence."""
    more = len(told.trades) - MOST_TRADES
    return f"The newest {MOST_TRADES:,} trades are drawn; {more:,} earlier ones are in the CSV." if more > 0 else ""


def _trade_values(each: TradeOutcome, symbols: Sequence[str]) -> list[Any]:
    trade, outcome = each.trade, each.outcome
    return [
        symbols.index(outcome.symbol),
        outcome.entered_at // SECOND,
        _six_digits(outcome.entry_price_e8 / E8),
        outcome.exited_at // SECOND,
        _six_digits(outcome.exit_price_e8 / E8),
        1 if outcome.side == "long" else -1,
        _cents(outcome.net_usd_e6),
        round(outcome.notional_usd_e6 / E6),
        trade.exit_reason[:80],
    ]


def _cents(usd_e6: int) -> float:
    return round(usd_e6 / E6, 2)


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")


def _page_file(name: str) -> str:
    return resources.files("tapebook.report").joinpath("page", name).read_text("utf-8")


def _fill_template(page: str, parts: Mapping[str, str]) -> str:
    """The template with its parts in place; what a part says is never looked at again."""
    # Not str.format: the page's style and script are full of braces, and no text is filled in twice.
    pieces = page.split("{{")
    found = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        found += [parts[name], rest]
    return "".join(found)
