"""The written part of a report: figures and tables as HTML, every text escaped, every rate with n and interval."""

from collections.abc import Callable, Sequence
from html import escape

from tapebook.domain.estimate import Estimate
from tapebook.domain.money import E6
from tapebook.domain.text import plural
from tapebook.lab.backtest_view import (
    FIRST_RANDOM,
    fill_sentence,
    inputs_of,
    luck_sentences,
    spent_text,
    stale_sentences,
)
from tapebook.lab.result import BacktestResult, Baseline, ChunkResult, Row
from tapebook.lab.spending import Spent
from tapebook.lab.words import (
    NOTHING,
    day,
    percent,
    plain,
    share_text,
    sharpe_text,
    signed,
    trend_text,
    usd,
    weight_text,
)

Cell = Callable[[Row], str]


def escaped(text: str) -> str:
    """A text as it may stand in a page."""
    return escape(plain(text))


def sections(result: BacktestResult, *, stale: Sequence[str] = (), spent: Spent | None = None) -> dict[str, str]:
    """The parts of the page by the name of their place."""
    return {
        "head": _head(result, stale),
        "figures": _figures(result, spent or Spent()),
        "chunks": _chunks(result),
        "sources": _sources(result),
        "baselines": _baselines(result),
        "providers": _over_chunks(result, "providers", "provider", _won_cell),
        "regimes": _over_chunks(result, "regimes", "regime", _won_cell),
        "assets": _over_chunks(result, "assets", "asset", _sharpe_cell),
        "details": "\n".join(_details(chunk) for chunk in result.chunks),
        "notes": _notes(result),
        "hashes": _hashes(result),
    }


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already; it scrolls by itself where the screen is narrow."""
    if not rows:
        return '<p class="muted">none</p>'
    head = "".join(f'<th scope="col">{escaped(heading)}</th>' for heading in headings)
    body = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(row: Sequence[str]) -> list[str]:
    first, *others = row
    return [f'<th scope="row">{first}</th>', *(f"<td>{cell}</td>" for cell in others)]


def _head(result: BacktestResult, stale: Sequence[str]) -> str:
    frozen = f", frozen at {day(result.freeze_at)}" if result.freeze_at is not None else ""
    says = (
        f"{result.agent}, version {result.agent_version}, engine {result.engine}, memory {result.memory}{frozen}; "
        f"{', '.join(result.symbols)}; {day(result.start)} to {day(result.end)} UTC; "
        f"{plural(result.total.ticks, 'decision')}"
    )
    strategy = f'<p class="muted">{escaped(result.strategy)}</p>' if result.strategy else ""
    warned = "".join(
        f'<p class="stale"><b>Stale:</b> {escaped(sentence)}.</p>' for sentence in stale_sentences(result.agent, stale)
    )
    return f"{warned}<p>{escaped(says)}</p>{strategy}"


def _figures(result: BacktestResult, spent: Spent) -> str:
    total = result.total
    start = total.equity_start_usd_e6
    grown = signed(total.change_usd_e6 / start * 100, 2) if start else "0.00"
    cards = [
        ("equity", usd(total.equity_end_usd_e6), f"USD, {grown}% from {usd(start)}"),
        ("closed trades", f"{total.trades:,}", f"net {usd(total.net_usd_e6, signed=True)} USD"),
        ("won", *_headline(f"{total.win_rate.value:.0%}", share_text(total.win_rate))),
        ("Sharpe", *_headline(f"{total.sharpe.value:.2f}" if total.sharpe else NOTHING, sharpe_text(total.sharpe))),
        ("drawdown", percent(total.drawdown_ppm), f"{usd(total.drawdown_usd_e6)} USD at most{_insured(total)}"),
        ("in the market", f"{total.exposure:.0%}", "of the time"),
        *([("models", usd(spent.cost_usd_e6), spent_text(spent).partition(" ")[2])] if spent else []),
    ]
    return "".join(
        f'<div class="card"><span>{escaped(name)}</span><b>{escaped(value)}</b><small>{escaped(more)}</small></div>'
        for name, value, more in cards
    )


def _insured(total: ChunkResult) -> str:
    paid = total.insurance_usd_e6
    return f", {usd(paid)} of it paid by the insurance" if paid else ""


def _headline(value: str, text: str) -> tuple[str, str]:
    """A value by itself, and what stands behind it in its text: n and interval."""
    if not text.startswith(value):
        return NOTHING, text
    return value, text.removeprefix(value).strip(" ()")


def _chunks(result: BacktestResult) -> str:
    headings = ("chunk", "ticks", "trades", "won", "net USD", "equity change", "Sharpe", "drawdown", "held")
    rows = [
        [
            escaped(each.name),
            f"{each.ticks:,}",
            f"{each.trades:,}",
            _rate(each.win_rate),
            _money(each.net_usd_e6),
            _money(each.change_usd_e6),
            _ratio(each.sharpe),
            percent(each.drawdown_ppm),
            f"{each.exposure:.0%}",
        ]
        for each in (*result.chunks, result.total)
    ]
    return table(headings, rows)


def _sources(result: BacktestResult) -> str:
    parts = ("market", "timing", "sizing", "fees", "funding")
    rows = [
        [
            escaped(each.name),
            *(_money(getattr(each.parts, f"{part}_usd_e6")) for part in parts),
            _money(each.net_usd_e6),
        ]
        for each in (*result.chunks, result.total)
    ]
    return table(("chunk", *parts, "net USD"), rows)


def _baselines(result: BacktestResult) -> str:
    total = result.total
    own = Baseline(result.agent, total.trades, total.change_usd_e6, total.sharpe, total.drawdown_ppm, (), ())
    rows = [
        [
            escaped(each.name),
            f"{each.trades:,}",
            _money(each.net_usd_e6),
            _ratio(each.sharpe),
            NOTHING if each.drawdown_ppm is None else percent(each.drawdown_ppm),
        ]
        for each in (own, *result.baselines)
    ]
    said = " ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in luck_sentences(result))
    luck = f"<p>{escaped(said)}</p>" if said else ""
    return table(("", "trades", "equity change USD", "Sharpe", "drawdown"), rows) + luck


def _over_chunks(result: BacktestResult, kind: str, heading: str, cell: Cell) -> str:
    """How each of a kind did from chunk to chunk, its weight if it has one, and the last against those before."""
    columns: list[dict[str, Row]] = [{row.name: row for row in getattr(chunk, kind)} for chunk in result.chunks]
    weighs = kind == "providers"
    rows = []
    for row in getattr(result.total, kind):
        known = [column.get(row.name) for column in columns]
        weight = [f"{row.weight:.2f}" if row.weight is not None else NOTHING] if weighs else []
        trend = trend_text(known[-1].trend) if known[-1] else NOTHING
        cells = [cell(each) if each else NOTHING for each in known]
        rows.append([escaped(row.name), *cells, cell(row), *weight, escaped(trend)])
    names = (chunk.name for chunk in result.chunks)
    return table((heading, *names, "all", *(("weight",) if weighs else ()), "last against before, bps a trade"), rows)


def _details(chunk: ChunkResult) -> str:
    tables = (("provider", chunk.providers), ("regime", chunk.regimes), ("asset", chunk.assets))
    rows = [_detail(kind, row) for kind, rows in tables for row in rows]
    lessons = "".join(f"<li>{escaped(lesson)}</li>" for lesson in chunk.lessons) or "<li>none yet</li>"
    note = f" (note {escaped(chunk.lessons_hash)})" if chunk.lessons_hash else ""
    summary = f"{chunk.name}: {day(chunk.start)} to {day(chunk.end)}, {usd(chunk.change_usd_e6, signed=True)} USD"
    headings = ("", "n", "won", "bps a trade", "net USD", "weight", "against before, bps a trade")
    kept = ", ".join(chunk.snapshots) or "none"
    return (
        f"<details><summary>{escaped(summary)}</summary>{table(headings, rows)}"
        f"<h4>Lessons at its end{note}</h4><ul>{lessons}</ul>"
        f'<p class="muted">snapshot {escaped(kept)}; {plural(chunk.situations, "situation")} known</p></details>'
    )


def _detail(kind: str, row: Row) -> list[str]:
    counted = [f"{row.n:,}", _rate(row.win_rate), _mean(row), _money(row.net_usd_e6)]
    return [escaped(f"{kind}: {row.name}"), *counted, escaped(weight_text(row)), escaped(trend_text(row.trend))]


def _notes(result: BacktestResult) -> str:
    rules = [
        "Baselines pay the paper broker's taker fee and half its spread on every order, whatever its size.",
        _replays(result),
        "Buy and hold at the same exposure holds what the agent had of each symbol on average over all of the time.",
        "Sharpe ratios are of daily equity at 00:00 UTC, times the root of 365; intervals take days as independent.",
        "Trends say up or down only where at most 1 in 20 of what a chunk calls so is expected to be luck.",
    ]
    filled = f"{fill_sentence(result).capitalize()}."
    return "<ul>" + "".join(f"<li>{escaped(note)}</li>" for note in (filled, *result.notes, *rules)) + "</ul>"


def _replays(result: BacktestResult) -> str:
    thrown = "moment and side are" if any(each.name == FIRST_RANDOM for each in result.baselines) else "the moment is"
    kept = "symbol, notional" if "side" in thrown else "symbol, side, notional"
    return f"Random replays keep each closed trade's {kept}, holding time and chunk; {thrown} random."


def _hashes(result: BacktestResult) -> str:
    rows = [
        [escaped(each.name), _code(each.packets_sha256), f"{each.head_seq:,}", _code(each.head_hash)]
        for each in (*result.chunks, result.total)
    ]
    made = [[escaped(name), _code(value)] for name, value in inputs_of(result) if value]
    of = table(("made of", ""), made) if made else ""
    return table(("chunk", "sha256 of all packets", "head", "hash of the log there"), rows) + of


def _code(text: str) -> str:
    return f"<code>{escaped(text)}</code>"


def _won_cell(row: Row) -> str:
    return _rate(row.win_rate)


def _sharpe_cell(row: Row) -> str:
    return _ratio(row.sharpe)


def _rate(share: Estimate) -> str:
    if not share.n:
        return NOTHING
    return f"{share.value:.0%}<small>{100 * share.low:.0f}–{100 * share.high:.0f}%, n={share.n:,}</small>"


def _ratio(found: Estimate | None) -> str:
    if found is None:
        return NOTHING
    return f"{found.value:.2f}<small>{found.low:.1f} to {found.high:.1f}, n={found.n:,}d</small>"


def _mean(row: Row) -> str:
    mean = row.mean_bps
    return NOTHING if mean is None else f"{signed(mean.value)}<small>{mean.low:.0f} to {mean.high:.0f}</small>"


def _money(value_e6: int) -> str:
    tone = "up" if value_e6 >= E6 // 200 else "down" if value_e6 <= -E6 // 200 else "flat"
    return f'<span class="{tone}">{usd(value_e6, signed=True)}</span>'
