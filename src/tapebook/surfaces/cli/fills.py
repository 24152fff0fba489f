"""The command `import fills`: what an account traded before tapebook knew it."""

from pathlib import Path
from typing import Annotated

import typer

from tapebook.surfaces.cli.options import Home, Json, opened
from tapebook.surfaces.cli.output import print_json, print_lines


def import_fills(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or JSON: time, symbol, side, size, price, fee.")],
    *,
    agent: Annotated[str, typer.Option("--agent", metavar="NAME", help="Whose fills they are.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen and write nothing.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Import past fills, which become trades of an agent."""
    with opened(home) as book:
        report = book.import_fills(file, agent=agent, dry_run=dry_run)
    if json:
        print_json(report)
    else:
        print_lines([report.result()])
