"""The command `import fills`: what an account traded before tapebook knew it."""

from pathlib import Path
from typing import Annotated

import typer

from tapebook.surfaces.cli.options import Home, Json, opened
from tapebook.surfaces.cli.output import print_json, print_lines
from tapebook.surfaces.cli.progress import progress


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
    with opened(home) as book, progress("import") as show:
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
        print_lines([*report.lines(), report.result()])
