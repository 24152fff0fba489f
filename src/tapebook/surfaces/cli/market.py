"""The commands about the market: the invented one as a server, ingestion, and what is known of a symbol."""

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tapebook.domain.text import plural
from tapebook.domain.units import iso_text
from tapebook.errors import BadInput
from tapebook.surfaces.cli.options import AsOf, Home, Json, home_folder, open_home, parse_time
from tapebook.surfaces.cli.output import (
    Column,
    Show,
    minute,
    price,
    print_json,
    print_lines,
    print_record,
    print_table,
    progress,
    whole,
)

if TYPE_CHECKING:
    from tapebook.api.app import IngestProgress
    from tapebook.api.market import MarketSource

Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="Where to listen; else the url of the settings.")]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="N", min=0.1, help="Stop after N seconds; else run until stopped.")
]
Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="A symbol such as BTC.")]


_ASSET_COLUMNS = (
    Column("symbol", "symbol"),
    Column("kind", "kind"),
    Column("name", "displayName", cut=True),
    Column("tick", "tick"),
    Column("lot", "lot"),
    Column("leverage", "maxLeverage"),
    Column("categories", "categories", cut=True),
    Column("search terms", "terms", cut=True),
    Column("state", "state"),
)


world_group = typer.Typer(rich_markup_mode=None, invoke_without_command=True, help="An invented market.")


@world_group.callback()
def world(
    context: typer.Context,
    *,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Which market to invent.")] = 7,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port to serve on.")] = 3001,
    speed: Annotated[
        float, typer.Option("--speed", metavar="X", min=0.1, max=1000, help="How many times as fast as real time.")
    ] = 1.0,
    storm: Annotated[bool, typer.Option("--storm", help="With every fault a real exchange has.")] = False,
) -> None:
    """Serve an invented market here, as the three sources do."""
    if context.invoked_subcommand is not None:
        return
    import asyncio

    from tapebook.api import app

    def print_url(url: str) -> None:
        print(f"serving at {url} (seed {seed}, speed {speed:g}); stop with Ctrl-C", flush=True)

    asyncio.run(app.serve_world(seed=seed, port=port, speed=speed, storm=storm, on_ready=print_url))


@world_group.command("history")
def world_history(
    *,
    symbols: Annotated[
        str, typer.Option("--symbols", metavar="S,S", help="Which of BTC, ETH, SOL, HYPE, DOGE, kPEPE.")
    ] = "BTC",
    interval: Annotated[
        str, typer.Option("--interval", metavar="I", help="The length of a bar: 1m 5m 15m 1h 4h 1d.")
    ] = "5m",
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, max=3_660, help="How many days.")] = 365,
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="Where it begins.")] = "2025-01-01T00:00:00Z",
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Which market to invent.")] = 7,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="The folder for the files.")] = "history",
    json: Json = False,
) -> None:
    """Write the past of an invented market to files."""
    from tapebook.api import app

    names = [name.strip() for name in symbols.split(",") if name.strip()]
    with progress("history") as show:
        found = app.write_world_history(
            Path(out), names, interval=interval, start=parse_time(since), days=days, seed=seed, progress=show
        )
    if json:
        print_json({"files": found})
    else:
        print_lines([each.line() for each in found])


def ingest(url: Url = None, seconds: Seconds = None, home: Home = None) -> None:
    """Listen to the market and keep it in the tape, until stopped."""
    import asyncio

    from tapebook.api import app

    with progress("ingest") as show:
        reporter = _IngestReporter(show)
        asyncio.run(app.ingest(home_folder(home), url=url, seconds=seconds, report=reporter))
    print_lines(reporter.lines())


def assets(
    *,
    category: Annotated[
        str | None, typer.Option("--category", metavar="NAME", help='One category alone, such as "Layer 2".')
    ] = None,
    delisted: Annotated[bool, typer.Option("--delisted", help="With markets that are not listed any more.")] = False,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", metavar="FILE", help="Write the registry as a seed to FILE instead.")
    ] = None,
    as_of: AsOf = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the markets there are, with categories, tick and lot."""
    moment = None if as_of is None else parse_time(as_of)
    with open_home(home) as book:
        if snapshot is not None:
            count = book.write_asset_snapshot(snapshot, as_of=moment)
            line = f"{plural(count, 'market')} written to {snapshot}: keep it as the next migration of the tape"
            if as_json:
                print_json({"file": snapshot, "markets": count})
            else:
                print_lines([line])
            return
        found = book.assets(category, delisted=delisted, as_of=moment)
    if as_json:
        print_json(found)
        return
    rows = [
        {
            **asset,
            "categories": ", ".join(asset["categories"]),
            "terms": ", ".join(asset["searchTerms"]),
            "state": "delisted" if not asset["live"] else "" if asset["listed"] else "not listed here",
        }
        # What can be traded here comes first: a demo's exchange lists six of hundreds that are known.
        for asset in sorted(found, key=lambda asset: (not asset["listed"], asset["kind"] != "perp"))
    ]
    empty = "no market of this category is live; --delisted shows those that were"
    if category is not None and category.casefold() == "trending":
        empty = "nothing was traded in the last day, as far as the tape knows: run `tapebook ingest`"
    print_table(rows, _ASSET_COLUMNS, empty=empty)
    if unlisted := sum(asset["live"] and not asset["listed"] for asset in found):
        said = "not listed by the exchange that this home listens to, and known from the snapshot alone"
        print(f"{plural(unlisted, 'market')} {said}", file=sys.stderr)
    if any(asset["assumed"] for asset in found):
        day = max(asset["knownAt"] for asset in found if asset["assumed"])[:10]
        print(f"markets are those of the snapshot of {day}, assumed to have been the same before it", file=sys.stderr)


CANDLES = [
    Column("begins", "at", minute),
    *(Column(name, name, price) for name in ("open", "high", "low", "close")),
    Column("volume", "volume", whole),
]


def candles(
    symbol: Annotated[str, typer.Argument(metavar="SYMBOL", help="A symbol of the tape, such as BTC.")],
    *,
    minutes: Annotated[int, typer.Option(metavar="N", min=1, max=1_440, help="How long a bar is.")] = 5,
    most: Annotated[int, typer.Option(metavar="N", min=1, max=8_760, help="The newest N bars.")] = 20,
    as_of: AsOf = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """List the newest finished bars of a symbol, oldest first."""
    with open_home(home) as book:
        found = book.candles(symbol, minutes=minutes, most=most, as_of=as_of)
    if json:
        print_json(found)
    else:
        print_table(found, CANDLES, empty="no bar has ended yet")


def market(
    symbols: Annotated[list[str], typer.Argument(metavar="SYMBOLS", help="Symbols such as BTC.")],
    *,
    horizon: Annotated[
        Literal["scalp", "intraday", "swing", "position"] | None,
        typer.Option(
            "--horizon",
            help="The compact context for decisions of this horizon; of several symbols it is shown anyway.",
        ),
    ] = None,
    sources: Annotated[
        str | None,
        typer.Option("--sources", metavar="A,B", help="The compact context of these sources alone: hyperliquid, …"),
    ] = None,
    as_of: AsOf = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show what is known of symbols: prices, features, context."""
    moment = None if as_of is None else parse_time(as_of)
    with open_home(home) as book:
        if horizon is not None or sources is not None or len(symbols) > 1:
            contexts = book.market_context(symbols, horizon=horizon, sources=_chosen_sources(sources), as_of=moment)
            if as_json:
                print_json(contexts)
            for symbol in () if as_json else symbols:
                print_record({"symbol": symbol, **_context_record(contexts[symbol])})
            return
        found = book.market(symbols[0], as_of=moment)
    if as_json:
        print_json(found)
    else:
        print_record(_record(found))


def _chosen_sources(words: str | None) -> "Collection[MarketSource]":
    from tapebook.api.market import ALL_SOURCES

    wanted = ALL_SOURCES if words is None else tuple(word.strip() for word in words.split(","))
    for word in wanted:
        if word not in ALL_SOURCES:
            raise BadInput(f"there is no source {word!r}; choose from: {', '.join(ALL_SOURCES)}")
    return [name for name in ALL_SOURCES if name in wanted]


def _context_record(found: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of a context for people, as far as its sources were asked for; --json has every figure."""
    known: dict[str, Any] = {}
    if "midPrice" in found:
        known = _price_lines({**found, **{name: found[block] for name, block in _BLOCKS.items()}})
    if "predictionMarkets" in found:
        known["prediction markets"] = found["predictionMarkets"] and _predictions(found["predictionMarkets"])
    if "macro" in found:
        known["capital"] = found["macro"] and _macro(found["macro"])
    return {name: words or _UNKNOWN for name, words in known.items()}


_BLOCKS = {
    "fundingPressure": "funding",
    "liquidityProfile": "liquidity",
    "volatilityProfile": "volatility",
    "positioningPressure": "positioning",
}
_SHOWN_MARKETS = 3


def _predictions(found: Mapping[str, Any], about: str = "") -> list[str]:
    """The bias, the markets with the most money, and those of other symbols that are subscribed to."""
    lines = []
    if "immediateBias" in found:
        bias = (found["immediateBias"] or "no direction").replace("_", " ")
        shift = f", {_percent(found, 'probabilityShift1h', 1, sign=True)} in 1 h"
        lines.append(f"{about}{bias}{shift if found['probabilityShift1h'] is not None else ''}; {_age(found)}")
    for row in found.get("immediate", {}).get("top", ())[:_SHOWN_MARKETS]:
        ends = f", ends {row['endsAt'][:16]}" if row["endsAt"] else ""
        lines.append(f"{_percent(row, 'probability', 0)} {row['outcome']}: {row['question']}{ends}")
    for symbol, block in found.get("subscribed", {}).items():
        lines += _predictions(block, about=f"of {symbol}: ")
    return lines


def _macro(found: Mapping[str, Any]) -> list[str]:
    """The newest row of each subject and channel, with the figures that are known."""
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in found["rows"]:
        newest.setdefault((row["subject"], row["channel"]), row)
    lines = []
    for (subject, channel), row in newest.items():
        hidden = ("subject", "channel", "name", "tokenSymbol", "symbol", "category", "at", "ageSeconds", "stale")
        figures = [_figure(name, value) for name, value in row.items() if name not in hidden and value is not None]
        if figures:
            lines.append(f"{subject} {channel.replace('_', ' ')}: {', '.join(figures)}; {_age(row)}")
    return lines


class _IngestReporter:
    """Shows progress, and says a problem once, when it begins."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._problem: str | None = None
        self._unlisted: set[str] = set()
        self._newest: IngestProgress | None = None

    def __call__(self, now: "IngestProgress") -> None:
        for line in now.unlisted:
            if line not in self._unlisted:
                print(f"warning: {line}", file=sys.stderr, flush=True)
        self._unlisted.update(now.unlisted)
        # What stands in brackets counts up while a problem lasts.
        kind = now.problem.partition(" (")[0] if now.problem else None
        if kind and kind != self._problem:
            print(f"warning: {now.problem}", file=sys.stderr, flush=True)
        if now.notice:
            print(now.notice, file=sys.stderr, flush=True)
        self._problem, self._newest = kind, now
        rows, gaps = plural(sum(now.rows.values()), "row"), plural(now.gaps, "open gap")
        self._show(None, f"{iso_text(now.market_time)[:19]}  {rows}  {gaps}")

    def lines(self) -> list[str]:
        """What was taken in, by channel."""
        if self._newest is None:
            return ["nothing was received"]
        width = max([12, *map(len, self._newest.rows)])
        rows = [f"{channel:{width}} {plural(count, 'row')}" for channel, count in self._newest.rows.items()]
        return [*rows, plural(self._newest.gaps, "open gap")]


_UNKNOWN = "not known"
_VENUES = {"BinPerp": "Binance", "BybitPerp": "Bybit", "HlPerp": "Hyperliquid"}
_VENUE_RATE = "fundingRate8h"
_DEPTHS = {"01": "0.1", "05": "0.5", "1": "1"}


def _record(found: Mapping[str, Any]) -> dict[str, Any]:
    """A market for people: a line or two for each thing, with its unit and its age; --json has every figure."""
    gaps = [
        f"{gap['channel']} from {gap['from'][11:19]} to {gap['to'][11:19]}, {'filled' if gap['filled'] else 'open'}"
        for gap in found["gaps"]
    ]
    head, tail = f"{found['symbol']} as of {found['asOf']}", {"gaps": gaps or "none in the last hour"}
    said = {name: _metrics_text(metrics) for name, metrics in found.get("channels", {}).items()}
    if "kind" in found:
        return {"symbol": head, "kind": found["kind"].replace("_", " "), **said, **tail}
    regime = found["regime"]
    told = regime and f"{regime['tag']} ({plural(regime['bars'], 'bar')} of {regime['barMinutes']} min)"
    lines = _price_lines(found)
    known = {"price": lines.pop("price"), "regime": told, **lines}
    return {"symbol": head, **{name: words or _UNKNOWN for name, words in known.items()}, **said, **tail}


def _price_lines(found: Mapping[str, Any]) -> dict[str, Any]:
    """The price of a market and its features, a line or two each; what is not known is None."""
    mid = found["midPrice"]
    return {
        "price": mid and f"{_group_digits(price(mid['price']))} USD, {_age(mid)}",
        **_funding(found["fundingPressure"]),
        "liquidity": found["liquidityProfile"] and _liquidity(found["liquidityProfile"]),
        "volatility": found["volatilityProfile"] and _volatility(found["volatilityProfile"]),
        "positioning": found["positioningPressure"] and _positioning(found["positioningPressure"]),
    }


def _metrics_text(metrics: dict[str, Any]) -> str:
    """What a source said last of a subject, and when."""
    told = ", ".join(f"{name} {value}" for name, value in metrics.items() if name not in ("at", "ageSeconds"))
    return f"{told}; {metrics['ageSeconds']} s ago"


def _funding(found: dict[str, Any] | None) -> dict[str, Any]:
    if found is None:
        return {"funding": None}
    rate = float(found.get("fundingRate1h") or 0)
    paid = "longs pay" if rate > 0 else "shorts pay" if rate < 0 else "nobody pays"
    sentence = (
        f"{_percent(found, 'fundingRate1h', 5)} per hour, {_percent(found, 'fundingRateAnnual', 2)} a year: {paid}"
    )
    venues = [
        f"{_VENUES.get(name.removeprefix(_VENUE_RATE), name.removeprefix(_VENUE_RATE))} {_percent(found, name, 4)}"
        for name in sorted(found)
        if name.startswith(_VENUE_RATE) and name != _VENUE_RATE and found[name] is not None
    ]
    above = float(found.get("aboveOtherVenues8h") or 0)
    beside = f"; {abs(100 * above):.4f} % {'above' if above > 0 else 'below'} the others" if above else ""
    changes = [
        f"{_percent(found, f'openInterestChange{span}hPct', 2, scale=1, sign=True)} in {span} h" for span in (1, 24)
    ]
    premium = found.get("premium")
    side = "under" if float(premium or 0) < 0 else "over"
    return {
        "funding": [
            f"{sentence}, {found.get('regime') or 'regime not known'}; {_age(found)}",
            *([f"8 hours: {', '.join(venues)}{beside}"] if venues else []),
        ],
        "open interest": f"change {', '.join(changes)}",
        "premium": None if premium is None else f"{abs(100 * float(premium)):.4f} % {side} the oracle's price",
    }


def _liquidity(found: dict[str, Any]) -> list[str]:
    lean = float(found["imbalance"])
    heavier = "bids weigh more" if lean > 0 else "asks weigh more" if lean < 0 else "even"
    usual = f"{found['regime']} for the day, " if found["regime"] else ""
    depths = [f"{_usd(float(found[f'depthUsd{key}Pct']))} within {share} %" for key, share in _DEPTHS.items()]
    return [
        f"{usual}spread {float(found['spreadBps']):.2f} bps, imbalance {100 * lean:+.0f} % ({heavier}); {_age(found)}",
        f"depth {', '.join(depths)}",
    ]


def _volatility(found: dict[str, Any]) -> str:
    spans = []
    for span, minutes in ((1, 60), (24, 1_440)):
        if found.get(f"realizedVol{span}h") is None:
            spans.append(f"{_UNKNOWN} in {span} h ({found.get(f'minutesUsed{span}h') or 0:,} of {minutes:,} minutes)")
        else:
            yearly = _percent(found, f"annualizedVol{span}h", 1)
            spans.append(f"{_percent(found, f'realizedVol{span}h', 2)} in {span} h ({yearly} a year)")
    tag = f"{found['regime']}: " if found.get("regime") else ""
    return f"{tag}{', '.join(spans)}; {_age(found)}"


def _positioning(found: dict[str, Any]) -> str:
    # Zero has no sign.
    score = round(float(found["score"]), 2) or 0.0
    sure = _percent(found, "confidence", 0)
    return f"{found['direction'].replace('_', ' ')}: score {score:+.2f} of 1, confidence {sure}; {_age(found)}"


def _percent(found: Mapping[str, Any], name: str, digits: int, *, scale: int = 100, sign: bool = False) -> str:
    value = found.get(name)
    return _UNKNOWN if value is None else f"{scale * float(value):{'+' if sign else ''}.{digits}f} %"


def _figure(name: str, value: str) -> str:
    """A figure by its name, with the unit that the name ends with."""
    if name.endswith("Usd"):
        amount = float(value)
        return f"{name.removesuffix('Usd')} {'-' if amount < 0 else ''}{_usd(abs(amount))}"
    return f"{name.removesuffix('Pct')} {value} %" if name.endswith("Pct") else f"{name} {value}"


def _usd(value: float) -> str:
    for unit, name in ((1e9, "bn"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:,.1f} {name} USD"
    return f"{value:,.0f} USD"


def _group_digits(number: str) -> str:
    whole, point, rest = number.partition(".")
    return f"{int(whole):,}{point}{rest}"


def _age(found: Mapping[str, Any]) -> str:
    """`0 s old`, or `stale, 90 min old`."""
    seconds = found["ageSeconds"]
    spans = ((172_800, 86_400, "days"), (7_200, 3_600, "h"), (120, 60, "min"), (0, 1, "s"))
    number, unit = next((seconds // size, unit) for least, size, unit in spans if seconds >= least)
    return f"{'stale, ' if found['stale'] else ''}{number} {unit} old"
