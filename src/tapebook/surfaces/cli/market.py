"""The commands about the market: the invented one as a server, ingestion, and what is known of a symbol."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapebook.domain.instants import iso
from tapebook.domain.text import plural
from tapebook.surfaces.cli.options import AsOf, Home, Json, home_folder, instant, opened
from tapebook.surfaces.cli.output import print_json, print_lines
from tapebook.surfaces.cli.progress import Show, progress

if TYPE_CHECKING:
    from tapebook.app import IngestProgress

Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="Where to listen; else the url of the settings.")]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="N", min=0.1, help="Stop after N seconds; else run until stopped.")
]
Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="A symbol such as BTC.")]


def world(
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Which market to invent.")] = 7,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port to serve on.")] = 3001,
    speed: Annotated[
        float, typer.Option("--speed", metavar="X", min=0.1, max=1000, help="How many times as fast as real time.")
    ] = 1.0,
    storm: Annotated[bool, typer.Option("--storm", help="With every fault a real exchange has.")] = False,
) -> None:
    """Serve an invented market here, in Hyperliquid's wire format."""
    import asyncio

    from tapebook import app

    def told(url: str) -> None:
        print(f"serving at {url} (seed {seed}, speed {speed:g}); stop with Ctrl-C", flush=True)

    asyncio.run(app.serve_world(seed=seed, port=port, speed=speed, storm=storm, told=told))


def ingest(url: Url = None, seconds: Seconds = None, home: Home = None) -> None:
    """Listen to the market and keep it in the tape, until stopped."""
    import asyncio

    from tapebook import app

    with progress("ingest") as show:
        told = _Reporter(show)
        asyncio.run(app.ingest(home_folder(home), url=url, seconds=seconds, report=told))
    print_lines(told.lines())


def market(symbol: Symbol, as_of: AsOf = None, home: Home = None, as_json: Json = False) -> None:
    """Show what is known of a symbol: its price and its features."""
    with opened(home) as book:
        found = book.market(symbol, as_of=None if as_of is None else instant(as_of))
    if as_json:
        print_json(found)
    else:
        print_lines(line for name, value in found.items() for line in _told(name, value))


class _Reporter:
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
        self._show(None, f"{iso(now.market_time)[:19]}  {rows}  {gaps}")

    def lines(self) -> list[str]:
        """What was taken in, by channel."""
        if self._newest is None:
            return ["nothing was received"]
        rows = [f"{channel:12} {plural(count, 'row')}" for channel, count in self._newest.rows.items()]
        return [*rows, plural(self._newest.gaps, 'open gap')]


def _told(name: str, value: Any) -> list[str]:
    """A part of the market as lines: its name, then each of its values."""
    if not isinstance(value, dict):
        return [f"{name}: {'-' if value in (None, []) else value}"]
    return [f"{name}:", *(f"  {key}: {'-' if inner is None else inner}" for key, inner in value.items())]
