"""Commands on decisions: `runs`, `runs show`, `replay`."""

from typing import Annotated, Any

import typer

from tapebook.errors import Stop
from tapebook.surfaces.cli.options import Home, Json, Most, opened
from tapebook.surfaces.cli.output import (
    Column,
    cell,
    complain,
    minute,
    money,
    print_json,
    print_lines,
    print_record,
    print_table,
    whole,
)
from tapebook.surfaces.cli.progress import progress

RUNS = [
    Column("run", "run_id"),
    Column("as of", "as_of", minute),
    Column("agent", "agent", cut=True),
    Column("symbol", "symbol"),
    Column("status", "status"),
    Column("decided", "actions", lambda actions: cell([_short(action) for action in actions]), cut=True),
]
SHOWN_DIFFERENCES = 10
Run = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run; `tapebook runs` lists them.")]

group = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@group.callback()
def runs(
    context: typer.Context,
    *,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Only runs of this agent.")] = None,
    most: Most = 20,
    home: Home = None,
    json: Json = False,
) -> None:
    """List decisions, newest first, or show one."""
    if context.invoked_subcommand is not None:
        return
    with opened(home) as book:
        found = book.runs(agent, most=most)
    if json:
        print_json(found)
    else:
        print_table(found, RUNS, empty="no runs yet")


@group.command()
def show(context: typer.Context, run: Run, *, home: Home = None, json: Json = False) -> None:
    """Show everything about one decision."""
    # `tapebook runs --home DIR show RUN` gives the flags to the group.
    before = context.parent.params if context.parent else {}
    with opened(before.get("home") if home is None else home) as book:
        found = book.run(run)
    if json or before.get("json"):
        print_json(found)
    else:
        print_run(found)


def replay(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="The id of a run.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run of the home.")] = False,
    *,
    home: Home = None,
    json: Json = False,
) -> None:
    """Build what a decision was given again, and compare the bytes."""
    if (run is None) != every:
        raise typer.BadParameter("name one run, or --all for every one", param_hint="RUN")
    with opened(home) as book, progress("replay") as step:
        report = book.replay(run, progress=lambda done: step(None, f"{done:,} runs"))
    if json:
        print_json(report)
    else:
        print(f"{report.equal:,} of {report.checked:,} packets are equal byte for byte")
        print_lines(report.different[:SHOWN_DIFFERENCES])
    if report.different:
        complain(
            f"{len(report.different):,} of {report.checked:,} runs differ (--json lists all): the book or the code "
            "that builds packets has changed; `tapebook verify` tells which"
        )
        raise typer.Exit(Stop.exit_code)


def print_run(run: dict[str, Any]) -> None:
    """One decision for people: what was known, what was decided, what the guard said."""
    actions = run["actions"]
    print_record(
        {
            "run": run["run_id"],
            "agent": f"{run['agent']}, version {run['agent_version']}",
            "symbol": run["symbol"],
            "as of": run["as_of"],
            "trigger": run["trigger"],
            "engine": run["engine"],
            "told": f"{run['tokens']:,} tokens, sha256 {run['packet_sha256'][:16]}…",
            "status": run["status"],
            "decided": [_sentence(action) for action in actions],
            "because": [action["reason"] for action in actions],
            "degraded": run["degraded"],
            "note": run["note"],
            "error": run["error"],
        }
    )


def _short(action: dict[str, Any]) -> str:
    """`long 250` for opening one, beside a column that has the symbol."""
    if action["action"] in ("hold", "close"):
        return str(action["action"])
    verb = "" if action["action"] == "open" else f"{action['action']} "
    return f"{verb}{action['side']} {whole(action['notional_usd'])}"


def _sentence(action: dict[str, Any]) -> str:
    words = [action["action"], action["side"], action["symbol"]]
    if action["action"] in ("open", "adjust"):
        words += [f"{money(action['notional_usd'])} USD at {action['leverage']}x,", action["order_type"]]
    verdict = f"refused by {action['rule']}, {action['detail']}" if action["rule"] else "allowed"
    return f"{' '.join(word for word in words if word)}: {verdict}"
