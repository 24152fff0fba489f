"""Commands that bring history into a home and write it to files: `import`, `export`, `download`, `world history`."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tapebook.domain.text import plural
from tapebook.surfaces.cli.options import AsOf, Home, Json, open_home, parse_time
from tapebook.surfaces.cli.output import print_json, print_lines, progress

if TYPE_CHECKING:
    from tapebook.api.app import ExportReport, ImportReport, StreamReport

import_group = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Bring history from a file into the home.")
export_group = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Write history of the tape to a file.")
download_group = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Fetch history from the exchange into the home."
)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="CSV, JSON, JSON lines (each also .gz), Parquet or feather.")
]
Recording = Annotated[Path, typer.Argument(metavar="FILE", help="A line per frame, each with its receive time.")]
Symbol = Annotated[str, typer.Option("--symbol", metavar="S", help="Whose rows they are, such as BTC.")]
AnySymbol = Annotated[str | None, typer.Option("--symbol", metavar="S", help="Only rows of this one; else all.")]
Interval = Annotated[str, typer.Option("--interval", metavar="I", help="The length of a bar: 1m 5m 15m 1h 4h 1d.")]
FoundInterval = Annotated[
    str | None, typer.Option("--interval", metavar="I", help="The length of a bar, 1m 5m 15m 1h 4h 1d; else found.")
]
Spacing = Annotated[
    str | None, typer.Option("--interval", metavar="I", help="How far rows are apart, such as 8h; else not checked.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen and write nothing.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave bad rows out instead of refusing the file.")]
Revise = Annotated[bool, typer.Option("--revise", help="Write rows that differ from the tape's as new revisions.")]
Since = Annotated[str, typer.Option("--from", metavar="TIME", help="Where it begins: ISO-8601 (UTC) or epoch ms.")]
Until = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Where the range ends, itself not in it; else now.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")]
Kind = Literal["candles", "funding", "marks", "stream"]


class ImportFlags:
    """What all imports have in common: flags, the home, and the form of what is said."""

    def __init__(
        self,
        *,
        dry_run: DryRun = False,
        skip_bad: SkipBad = False,
        revise: Revise = False,
        home: Home = None,
        json: Json = False,
    ) -> None:
        self.how = {"dry_run": dry_run, "skip_bad": skip_bad, "revise": revise}
        self.home = home
        self.json = json


def with_import_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command with all flags of an import as options of its own; it is given them as one value."""
    own, flags = inspect.signature(command), inspect.signature(ImportFlags)

    def run(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in flags.parameters}
        command(**given, flags=ImportFlags(**chosen))

    parameters = [parameter for parameter in own.parameters.values() if parameter.name != "flags"]
    parameters += flags.parameters.values()
    functools.update_wrapper(run, command)
    # The command line is made from the signature.
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@import_group.command("candles")
@with_import_flags
def import_candles(file: File, *, symbol: Symbol, interval: FoundInterval = None, flags: ImportFlags) -> None:
    """Import bars."""
    _import("candles", file, flags, symbol=symbol, interval=interval)


@import_group.command("funding")
@with_import_flags
def import_funding(file: File, *, symbol: Symbol, interval: Spacing = None, flags: ImportFlags) -> None:
    """Import funding rates, each one payment at its hour."""
    _import("funding", file, flags, symbol=symbol, interval=interval)


@import_group.command("marks")
@with_import_flags
def import_marks(file: File, *, symbol: Symbol, interval: Spacing = None, flags: ImportFlags) -> None:
    """Import mark prices, kept as midpoints."""
    _import("marks", file, flags, symbol=symbol, interval=interval)


@import_group.command("stream")
@with_import_flags
def import_stream(file: Recording, *, symbol: AnySymbol = None, flags: ImportFlags) -> None:
    """Import a recording of the exchange's frames."""
    _import("stream", file, flags, symbol=symbol, interval=None)


@export_group.command("candles")
def export_candles(
    *,
    symbol: Symbol,
    interval: Interval,
    since: Since,
    until: Until = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="A name in .csv, .json (each also .gz), .parquet.")
    ],
    as_of: AsOf = None,
    overwrite: Overwrite = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write bars to a file, stored or rolled up."""
    with open_home(home) as book, progress("export") as show:
        report = book.export_candles(
            out,
            symbol=symbol,
            interval=interval,
            since=parse_time(since),
            until=None if until is None else parse_time(until),
            as_of=None if as_of is None else parse_time(as_of),
            overwrite=overwrite,
            progress=lambda rows: show(None, plural(rows, "bar")),
        )
    _print_export(report, json=json)


@export_group.command("stream")
def export_stream(
    *,
    since: Since,
    until: Until = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Any name; one in .gz is packed.")],
    overwrite: Overwrite = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write recorded payloads to a file, to be imported again."""
    with open_home(home) as book, progress("export") as show:
        report = book.export_stream(
            out,
            since=parse_time(since),
            until=None if until is None else parse_time(until),
            overwrite=overwrite,
            progress=lambda lines: show(None, plural(lines, "payload")),
        )
    _print_export(report, json=json)


def _print_export(report: "ExportReport | StreamReport", *, json: bool) -> None:
    if json:
        print_json(report)
    else:
        print_lines([report.result_line()])


def _import(kind: Kind, file: Path, flags: ImportFlags, *, symbol: str | None, interval: str | None) -> None:
    found: list[ImportReport] = []

    def print_report(report: "ImportReport") -> None:
        found.append(report)
        if not flags.json:
            print_lines(report.lines())

    report = None
    try:
        with open_home(flags.home) as book, progress("import") as show:
            report = book.import_file(
                kind,
                file,
                symbol=symbol,
                interval=interval,
                tell=print_report,
                progress=lambda rows: show(None, f"{plural(rows, 'row')} read"),
                **flags.how,
            )
    finally:
        # A refused file is still told about; the error itself goes to stderr.
        if flags.json and found:
            print_json(report or found[-1])
    if not flags.json:
        print_lines([report.result_line()])


def import_fills(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or JSON, an exchange's answers too.")],
    *,
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Whose fills they are.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen and write nothing.")] = False,
    bridge: Annotated[
        bool, typer.Option("--bridge", help="Where fills are missing, book the difference as a marked adjustment.")
    ] = False,
    account: Annotated[
        str | None, typer.Option("--account", metavar="A", help="Whose rows, in a file of several accounts.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Import past fills, which become trades of an agent."""
    with open_home(home) as book, progress("import") as show:
        report = book.import_fills(
            file,
            agent=agent,
            dry_run=dry_run,
            bridge=bridge,
            account=account,
            progress=lambda words: show(None, words),
        )
    if json:
        print_json(report)
    else:
        print_lines([*report.lines(), report.result_line()])


Days = Annotated[float, typer.Option("--days", metavar="N", min=0.01, max=3_660, help="How many days back.")]
Coin = Annotated[str, typer.Argument(metavar="SYMBOL", help="A symbol as the exchange writes it, such as BTC.")]
Address = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Whom to ask; else the exchange of the settings.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="The file to write; else one below the home's downloads/.")
]


@download_group.command("candles")
def download_candles(
    symbol: Coin,
    *,
    interval: Interval = "5m",
    days: Days = 30.0,
    url: Address = None,
    out: Out = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Fetch bars, and import them."""
    _download("candles", symbol, interval=interval, days=days, url=url, out=out, home=home, json=json)


@download_group.command("funding")
def download_funding(
    symbol: Coin, *, days: Days = 30.0, url: Address = None, out: Out = None, home: Home = None, json: Json = False
) -> None:
    """Fetch settled funding rates, and import them."""
    _download("funding", symbol, interval="1h", days=days, url=url, out=out, home=home, json=json)


def _download(
    kind: Literal["candles", "funding"], symbol: str, *, home: str | None, json: bool, **options: Any
) -> None:
    with open_home(home) as book, progress("download") as show:
        fetched, imported = book.download(
            kind, symbol, **options, progress=lambda done, rows: show(done, plural(rows, "row"))
        )
    if json:
        print_json({"fetched": fetched, "imported": imported})
    else:
        print_lines([*fetched.lines(), imported.result_line()])
