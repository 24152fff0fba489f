"""Commands on finished backtests: `backtests` lists them, `backtests show|compare|export|remove` are of one or two."""

from pathlib import Path
from typing import Annotated

import typer

from tapebook.surfaces.cli.options import Home, Json, inherited, opened
from tapebook.surfaces.cli.output import Column, minute, money, print_json, print_lines, print_table

BACKTESTS = [
    Column("backtest", "id"),
    Column("agent", "agent", cut=True),
    Column("from", "start", lambda text: minute(text)[:10]),
    Column("to", "end", lambda text: minute(text)[:10]),
    Column("memory", "memory"),
    Column("trades", "trades"),
    Column("change usd", "change_usd", money),
    Column("fill", "fill"),
    Column("current", "stale", lambda stale: f"no: other {', '.join(stale)}" if stale else "yes"),
    Column("status", "status", cut=True),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="A backtest, or the beginning of its id.")]
Place = Path | None

group = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@group.callback()
def backtests(context: typer.Context, *, home: Home = None, json: Json = False) -> None:
    """List backtests, or show, compare, export and remove them."""
    if context.invoked_subcommand is None:
        _list(home, json)


@group.command("list")
def list_backtests(context: typer.Context, *, home: Home = None, json: Json = False) -> None:
    """List the backtests of a home."""
    _list(*inherited(context, home, json))


@group.command()
def show(
    context: typer.Context,
    name: Id,
    *,
    chunks: Annotated[bool, typer.Option("--chunks", help="What each chunk taught, too.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show what a backtest came to, beside its baselines."""
    home, json = inherited(context, home, json)
    with opened(home) as book:
        if json:
            print_json(book.backtests.show(name))
        else:
            _print(book.backtests.lines(name, chunks=chunks))


@group.command()
def compare(context: typer.Context, first: Id, second: Id, *, home: Home = None, json: Json = False) -> None:
    """Compare two backtests day by day, and say if one did better."""
    home, json = inherited(context, home, json)
    with opened(home) as book:
        found = book.backtests.compare(first, second)
    if json:
        print_json(found.to_dict())
    else:
        _print(found.lines())


@group.command()
def export(
    context: typer.Context,
    name: Id,
    *,
    csv: Annotated[Place, typer.Option(metavar="PATH", help="A folder, or a .zip, for three tables.")] = None,
    html: Annotated[Place, typer.Option(metavar="FILE", help="The report as one page.")] = None,
    json: Annotated[Place, typer.Option(metavar="FILE", help="Everything, for programs.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    home: Home = None,
) -> None:
    """Write a backtest to files: tables, a report, JSON."""
    home, _ = inherited(context, home, False)
    with opened(home) as book:
        places = book.backtests.export(name, csv=csv, html=html, json=json, overwrite=overwrite)
    print_lines([f"written: {place}" for place in places])


@group.command()
def remove(context: typer.Context, name: Id, *, home: Home = None) -> None:
    """Delete a backtest; the same plan can be run again."""
    home, _ = inherited(context, home, False)
    with opened(home) as book:
        print_lines([f"removed {book.backtests.remove(name)}"])


def _list(home: str | None, json: bool) -> None:
    with opened(home) as book:
        found = book.backtests.all()
    if json:
        print_json(found)
    else:
        print_table(found, BACKTESTS, empty="no backtests yet; `tapebook backtest AGENT` makes one")


def _print(lines: list[str]) -> None:
    # They are clean already, and their indents are part of them.
    print(*lines, sep="\n")
