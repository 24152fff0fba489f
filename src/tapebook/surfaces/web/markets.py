"""The market: one symbol with its features, the registry by category, prediction markets, capital, and gaps."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tapebook.api.app import Tapebook
from tapebook.domain.text import plural
from tapebook.errors import TapebookError
from tapebook.surfaces.web.charts import candle_options
from tapebook.surfaces.web.frame import PageFrame, chart, draw_or_say, page, page_frame, query_of, sheet_of
from tapebook.surfaces.web.markup import (
    Cells,
    Child,
    Markup,
    badge,
    bar,
    compact,
    empty,
    figures,
    key_values,
    label,
    length_text,
    link,
    moment,
    number,
    picks,
    plain_value,
    price,
    share,
    sheet,
    signed_share,
    sparkline,
    table,
    tag,
)

_BARS_SHOWN = 200
_DECIMAL = re.compile(r"-?\d+(\.\d+)?")
# The rest of the registry is found by its category.
_LISTED = 200
_ASSETS = [
    *(Cells("symbol", "tb-fit"), Cells("name"), Cells("kind", "tb-fit"), Cells("categories", "long")),
    *(Cells("tick", "num"), Cells("lot", "num"), Cells("max leverage", "num"), Cells("sources")),
]
_BLOCKS = {
    "liquidityProfile": "Liquidity",
    "fundingPressure": "Funding",
    "volatilityProfile": "Volatility",
    "positioningPressure": "Positioning",
}
_HIDDEN = ("at", "ageSeconds", "stale")
_BAR_CHOICES = (1, 5, 15, 60, 240)


def register(book: Tapebook) -> None:
    """Adds the page."""

    @page("/market")
    async def market(symbol: str = "", minutes: int = 5, category: str = "") -> None:
        with page_frame(book, "/market", title="Market", lead="What is on the tape, and how old it is") as frame:
            await draw_or_say(lambda: _market(frame, symbol, minutes, category))


async def _market(frame: PageFrame, wanted: str, minutes: int, category: str) -> None:
    watched = sorted({each for agent in await frame.read(frame.book.agents) for each in agent["watch"]})
    # A symbol from the registry may be one that nobody watches.
    symbol = wanted or (watched[0] if watched else "")
    if symbol:
        others = [] if symbol in watched else [symbol]
        choices = [(each, f"/market?{query_of(symbol=each)}", each == symbol) for each in [*watched, *others]]
        length = minutes if minutes in _BAR_CHOICES else 5
        lengths = [
            (length_text(each), f"/market?{query_of(symbol=symbol, minutes=each)}", each == length)
            for each in _BAR_CHOICES
        ]
        frame.html(tag("div", picks("Symbol", choices), picks("Bar", lengths), cls="tb-controls"))
        # Less often than the market moves: whoever zooms into the chart wants it to stay.
        await frame.live(lambda: _symbol(frame, symbol, length), streams=lambda stream: stream == "tape", every=10.0)
    await _registry(frame, category)


async def _symbol(frame: PageFrame, symbol: str, minutes: int) -> None:
    try:
        found: Mapping[str, Any] = await frame.read(frame.book.market, symbol)
        bars = await frame.read(frame.book.candles, symbol, minutes=minutes, most=_BARS_SHOWN)
    except TapebookError as error:
        frame.html(sheet(symbol, empty("Nothing of it is on the tape", str(error), "tapebook ingest", "tapebook demo")))
        return
    # The longest horizon, so that nothing known is left out.
    context = (await frame.read(frame.book.market_context, [symbol], horizon="position")).get(symbol, {})
    frame.html(_figures(found))
    with sheet_of(f"{symbol}, bars of {length_text(minutes)}", found["asOf"][:16].replace("T", " ") + " UTC"):
        if bars:
            chart(candle_options(bars, []), f"Candles of {symbol}")
        else:
            frame.html(empty("No bars yet", "A bar appears when its minutes have ended."))
    frame.html(
        tag("div", [_block(title, found.get(name)) for name, title in _BLOCKS.items()], cls="tb-quarters"),
        tag("div", _predictions(context.get("predictionMarkets")), _macro(context.get("macro")), cls="tb-columns"),
        _gaps(found.get("gaps") or []),
    )


def _figures(found: Mapping[str, Any]) -> Markup:
    mid, regime = found.get("midPrice"), found.get("regime")
    # On a laptop there is no room for `trend up lowvol` in one line.
    *ways, band = regime["tag"].split("_") if regime else ("–",)
    way, known = (" ".join(ways), f"{band}, ") if ways else (band, "")
    funding, volatility = found.get("fundingPressure") or {}, found.get("volatilityProfile") or {}
    # Figures of features are decimal text, as they are stored.
    spread = (found.get("liquidityProfile") or {}).get("spreadBps")
    return figures(
        [
            ("Price", price(mid["price"]) if mid else "–", _age(mid) if mid else "not known"),
            ("Regime", way, f"{known}{plural(regime['bars'], 'bar')}" if regime else ""),
            ("Funding, annual", _percent(funding.get("fundingRateAnnual")), funding.get("regime", "")),
            ("Volatility, annual", _percent(volatility.get("annualizedVol24h")), volatility.get("regime", "")),
            ("Spread, bps", f"{float(spread):.2f}" if spread else "–", "newest order book"),
            ("Open gaps", number(sum(not gap["filled"] for gap in found.get("gaps") or [])), "in the past hour"),
        ]
    )


def _percent(text: str | None) -> str:
    return "–" if text is None else f"{float(text):.1%}"


def _age(block: Mapping[str, Any]) -> str:
    old = f"{number(block['ageSeconds'])} s old"
    return f"stale, {old}" if block["stale"] else old


def _block(title: str, block: Mapping[str, Any] | None) -> Markup:
    if block is None:
        return sheet(title, empty("Not known yet", "Features are computed every five minutes of market time."))
    values = {label(name): _feature_text(name, value) for name, value in block.items() if name not in _HIDDEN}
    return sheet(title, key_values(values, numbers=True), note=_age_badge(block))


def _feature_text(name: str, value: Any) -> str:
    """A feature as people read it: dollars in short, and no zeros that say nothing."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        if "Usd" in name:
            return compact(float(value))
        whole, point, rest = value.partition(".")
        return whole + (point + rest).rstrip("0").rstrip(".") if point else whole
    return label(value) if isinstance(value, str) else plain_value(value)


def _age_badge(block: Mapping[str, Any]) -> Markup:
    return badge(_age(block), "warn" if block["stale"] else "")


def _predictions(block: Mapping[str, Any] | None) -> Markup:
    """What prediction markets expect; their titles are text of others."""
    if block is None:
        return sheet(
            "Prediction markets",
            empty("None is known", "Add the source to tapebook.toml:", 'sources = ["hyperliquid", "polymarket"]'),
        )
    rows: list[list[Child]] = [
        [
            each.get("question", ""),
            share(float(each["probability"])) if each.get("probability") else "–",
            bar(float(each.get("probability") or 0), 1.0),
            signed_points(each.get("shift24h")),
            (each.get("endsAt") or each.get("end") or "–")[:10],
        ]
        for part in ("immediate", "later", "recentlyClosed")
        for each in (block.get(part) or {}).get("top", ())
    ]
    columns = [
        Cells("question", "long"),
        Cells("chance", "num"),
        Cells(""),
        Cells("24 h", "num"),
        Cells("ends", "tb-fit"),
    ]
    shift = block.get("probabilityShift1h")
    lead = {"bias": label(plain_value(block.get("immediateBias"))), "shift in the past hour": signed_points(shift)}
    listed = table(columns, rows, label="Prediction markets") if rows else None
    return sheet(
        "Prediction markets", tag("div", key_values(lead), cls="tb-body"), listed, note=_age_badge(block), flush=True
    )


def signed_points(text: str | None) -> Markup:
    """A change of a probability, in percentage points."""
    return signed_share(None if text is None else float(text), 1)


def _macro(block: Mapping[str, Any] | None) -> Markup:
    """Capital: the newest value of each measure, and how it went before."""
    if block is None:
        return sheet(
            "Capital and macro",
            empty("None is known", "Add the source to tapebook.toml:", 'sources = ["hyperliquid", "defillama"]'),
        )
    # Rows come newest first; each has every measure of its channel.
    series: dict[tuple[str, str], list[Any]] = {}
    for each in block["rows"]:
        for name, value in each.items():
            if name not in (*_HIDDEN, "channel", "subject"):
                series.setdefault((each["subject"], name), []).append(value)
    rows = [
        [subject, label(name), _feature_text(name, values[0]), _history(name, values)]
        for (subject, name), values in series.items()
    ]
    columns = [Cells("of", "tb-fit"), Cells("measure", "long"), Cells("newest", "num"), Cells("before")]
    return sheet(
        "Capital and macro", table(columns, rows, label="Measures of capital"), note=_age_badge(block), flush=True
    )


def _history(name: str, values: Sequence[Any]) -> Markup:
    numbers = [float(each) for each in values if isinstance(each, str) and _DECIMAL.fullmatch(each)]
    return sparkline(numbers[::-1], name=label(name))


def _gaps(gaps: Sequence[Mapping[str, Any]]) -> Markup:
    if not gaps:
        return sheet(
            "Gaps",
            empty(
                "No gap in the past hour", "Stretches without data are recorded here, and backfilled where possible."
            ),
        )
    rows: list[list[Child]] = [
        [
            gap["channel"],
            moment(gap["from"], seconds=True),
            moment(gap["to"], seconds=True),
            badge("filled", "good") if gap["filled"] else badge("open", "warn"),
        ]
        for gap in gaps
    ]
    columns = [Cells("channel"), Cells("from", "tb-fit"), Cells("to", "tb-fit"), Cells("state")]
    return sheet("Gaps", table(columns, rows, label="Gaps of the market"), flush=True)


async def _registry(frame: PageFrame, category: str) -> None:
    found = await frame.read(frame.book.assets)

    def place(asset: Mapping[str, Any]) -> tuple[Any, ...]:
        # What the tape has first, then what can be traded with leverage: it is what agents watch.
        is_spot = asset["symbol"].startswith("@")
        return not _covering(asset), asset["maxLeverage"] is None, is_spot, asset["symbol"]

    every = sorted(found, key=place)
    # A market has several categories and counts in each.
    counts: dict[str, int] = {}
    for asset in every:
        for name in asset["categories"]:
            counts[name] = counts.get(name, 0) + 1
    names = sorted(counts, key=lambda name: (-counts[name], name))[:14]
    chosen = [asset for asset in every if not category or category in asset["categories"]]
    choices = [(f"all {len(every)}", "/market", not category)]
    choices += [(f"{name} {counts[name]}", f"/market?{query_of(category=name)}", name == category) for name in names]
    rows = [_asset_row(asset) for asset in chosen[:_LISTED]]
    frame.html(tag("div", picks("Category", choices), cls="tb-scroll"))
    more = (
        f"{plural(len(chosen), 'market')}, the first {_LISTED} are shown"
        if len(chosen) > _LISTED
        else plural(len(chosen), "market")
    )
    body = (
        table(_ASSETS, rows, label="Registry of markets")
        if rows
        else empty("No market is known yet", "Follow a source:", "tapebook ingest")
    )
    frame.html(sheet("Registry", tag("div", body, cls="tb-limited", tabindex="0"), note=more, flush=True))


def _covering(asset: Mapping[str, Any]) -> list[str]:
    """The sources from which the tape has something of a market."""
    return [name for name, covered in asset["coverage"].items() if covered]


def _asset_row(asset: Mapping[str, Any]) -> list[Child]:
    return [
        link(asset["symbol"], "market", query=query_of(symbol=asset["symbol"])),
        asset["displayName"],
        asset["kind"],
        ", ".join(asset["categories"]),
        asset["tick"] or "–",
        asset["lot"] or "–",
        f"{asset['maxLeverage']}x" if asset["maxLeverage"] else "–",
        ", ".join(_covering(asset)) or "–",
    ]
