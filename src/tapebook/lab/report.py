"""A backtest as one page that needs nothing else: no network, no library, and no text that is taken for markup.

1. every table is plain HTML, so that the page says all it has to say without its script (`report_tables`);
2. what is drawn goes along as numbers (`drawing`), thinned so that a year stays below three megabytes;
3. the page's own script draws it: equity and drawdown beside the baselines, trades on candles.
"""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND
from tapebook.domain.money import E6, E8
from tapebook.lab.bars_of import Bars
from tapebook.lab.chronicle import Ended
from tapebook.lab.curve import Point, thinned
from tapebook.lab.report_tables import escaped, sections
from tapebook.lab.result import ChunkResult
from tapebook.lab.story import Story

MOST_POINTS = 2_000
MOST_CANDLES = 30_000
MOST_TRADES = 8_000

_STEPS = (MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, DAY, 7 * DAY)


def report_html(told: Story, bars: Sequence[Bars]) -> str:
    """The page."""
    result = told.result
    data = msgspec.json.encode(drawing(told, bars)).decode()
    parts = sections(result, stale=told.stale, spent=told.spent) | {
        "title": escaped(f"{result.agent}, backtest {result.id}"),
        "left_out": _left_out(told),
        "style": _file("page.css"),
        "script": _file("page.js"),
        # Inside a script element only this would end it.
        "data": data.replace("<", "\\u003c"),
    }
    return _filled(_file("page.html"), parts)


def drawing(told: Story, bars: Sequence[Bars]) -> dict[str, Any]:
    """What the page draws: seconds for time, dollars for money, six digits for prices."""
    result, days = told.result, [day // SECOND for day, _ in told.result.total.daily]
    luck = next((each.luck for each in result.baselines if each.luck), None)
    symbols = [each.symbol for each in bars]
    most = MOST_CANDLES // max(1, len(bars))
    return {
        "start": result.start // SECOND,
        "end": result.end // SECOND,
        "agent": result.agent,
        "equity": [_point(point) for point in thinned(told.points, MOST_POINTS)],
        "days": days,
        "baselines": [{"name": each.name, "usd": list(map(_cents, each.daily))} for each in result.baselines],
        "low": list(map(_cents, luck.daily_low_usd_e6)) if luck else [],
        "high": list(map(_cents, luck.daily_high_usd_e6)) if luck else [],
        "chunks": [_span(chunk) for chunk in result.chunks],
        "markets": [_market(each, most) for each in bars],
        "trades": [_trade(each, symbols) for each in told.trades[-MOST_TRADES:] if each.outcome.symbol in symbols],
    }


def coarser(bars: Bars, most: int) -> Bars:
    """Bars of a length at which there are at most so many."""
    span = int(bars.end[-1] - bars.at[0])
    step = next((step for step in _STEPS if step >= bars.step_ms and span // step + 1 <= most), _STEPS[-1])
    if step <= bars.step_ms:
        return bars
    first = np.flatnonzero(np.diff(bars.at // step, prepend=-1))
    last = np.append(first[1:], len(bars)) - 1
    return Bars(
        symbol=bars.symbol,
        step_ms=step,
        at=bars.at[first] // step * step,
        open=bars.open[first],
        high=np.maximum.reduceat(bars.high, first),
        low=np.minimum.reduceat(bars.low, first),
        close=bars.close[last],
    )


def _market(bars: Bars, most: int) -> dict[str, Any]:
    """Rows of open, high, low and close; each row's place is counted in steps from the first."""
    few = coarser(bars, most)
    places = ((few.at - few.at[0]) // few.step_ms).tolist()
    prices = zip(*(map(_price, column.tolist()) for column in (few.open, few.high, few.low, few.close)), strict=True)
    rows = [[place, *each] for place, each in zip(places, prices, strict=True)]
    return {"symbol": few.symbol, "step": few.step_ms // SECOND, "at": int(few.at[0]) // SECOND, "rows": rows}


def _point(point: Point) -> list[float]:
    """When, equity, and what of it would be left without an insurance."""
    return [point.at // SECOND, _cents(point.usd_e6), _cents(point.own_usd_e6)]


def _span(chunk: ChunkResult) -> dict[str, Any]:
    return {"name": chunk.name, "start": chunk.start // SECOND, "end": chunk.end // SECOND}


def _left_out(told: Story) -> str:
    """What the drawing does not show, as a sentence."""
    more = len(told.trades) - MOST_TRADES
    return f"The newest {MOST_TRADES:,} trades are drawn; {more:,} earlier ones are in the CSV." if more > 0 else ""


def _trade(each: Ended, symbols: Sequence[str]) -> list[Any]:
    trade, outcome = each.trade, each.outcome
    return [
        symbols.index(outcome.symbol),
        outcome.entered_at // SECOND,
        _price(outcome.entry_price_e8 / E8),
        outcome.exited_at // SECOND,
        _price(outcome.exit_price_e8 / E8),
        1 if outcome.side == "long" else -1,
        _cents(outcome.net_usd_e6),
        round(outcome.notional_usd_e6 / E6),
        trade.exit_reason[:80],
    ]


def _cents(usd_e6: int) -> float:
    return round(usd_e6 / E6, 2)


def _price(value: float) -> float:
    return float(f"{value:.6g}")


def _file(name: str) -> str:
    return resources.files("tapebook.lab").joinpath("page", name).read_text("utf-8")


def _filled(page: str, parts: Mapping[str, str]) -> str:
    """The template with its parts in place; what a part says is never looked at again."""
    pieces = page.split("{{")
    found = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        found += [parts[name], rest]
    return "".join(found)
