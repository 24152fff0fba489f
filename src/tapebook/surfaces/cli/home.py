"""Commands on the home as a whole: `init`, `verify`, `doctor`."""

from typing import Annotated

import typer

from tapebook.errors import Stop
from tapebook.surfaces.cli.options import Home, Json, home_folder, opened
from tapebook.surfaces.cli.output import Column, complain, print_json, print_lines, print_table


def init(home: Home = None) -> None:
    """Make a new home with its settings and empty databases."""
    from tapebook import app

    print_lines(app.init(home_folder(home)))


def verify(home: Home = None, json: Json = False) -> None:
    """Check that nothing stored was changed, lost or reordered."""
    with opened(home) as book:
        findings = book.verify()
    if json:
        print_json(findings)
    else:
        rows = [{"where": found.where, "problem": found.problem} for found in findings]
        print_table(rows, [Column("where", "where"), Column("problem", "problem")], empty="clean")
    if findings:
        complain(f"{len(findings)} contradictions in what is stored; keep this home as it is and restore a copy")
        raise typer.Exit(Stop.exit_code)


def doctor(
    *,
    fix: Annotated[bool, typer.Option("--fix", help="First move what waits in the spool to the archive.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Check what this home needs to run."""
    with opened(home) as book:
        checks = book.doctor(fix=True) if fix else book.doctor()
    if json:
        print_json(checks)
    else:
        rows = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks]
        columns = [Column("check", "name"), Column("ok", "ok"), Column("detail", "detail")]
        print_table(rows, columns, empty="nothing to check")
    failed = [check.name for check in checks if not check.ok]
    if failed:
        complain(f"not well: {', '.join(failed)}; the details say what to do")
        raise typer.Exit(Stop.exit_code)
