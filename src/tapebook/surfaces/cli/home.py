"""Commands on a home as a whole: `init`, `demo`, `verify`, `doctor`, `backup`, `events` and others; `completion`."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tapebook.domain.text import plural
from tapebook.domain.units import minute_text
from tapebook.errors import Stop
from tapebook.surfaces.cli.desk import web
from tapebook.surfaces.cli.options import Home, Json, Most, home_folder, open_home, parse_time
from tapebook.surfaces.cli.output import (
    Column,
    cell,
    complain,
    minute,
    print_json,
    print_lines,
    print_table,
    progress,
    whole,
)

if TYPE_CHECKING:
    from tapebook.api.app import DemoProgress


# All words are in it, so that a shell asks nobody while somebody types.
_SCRIPT = """\
_tapebook() {{
    local at path="" words=""
    for ((at = 1; at < COMP_CWORD; at++)); do
        case "$path ${{COMP_WORDS[at]}}" in
            {paths}) path="$path ${{COMP_WORDS[at]}}" ;;
        esac
    done
    case "$path" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _tapebook tapebook
"""
# zsh runs completions of bash behind this.
_BEFORE = {"bash": "", "zsh": "autoload -Uz compinit bashcompinit\ncompinit\nbashcompinit\n"}


EVENTS = [
    Column("at", "at", minute),
    Column("agent", "agent"),
    Column("symbol", "symbol"),
    Column("kind", "event"),
    Column("what happened", "text", cut=True),
]


def init(
    *,
    production: Annotated[
        bool, typer.Option("--production", help="Also write units of systemd and files for containers.")
    ] = False,
    home: Home = None,
) -> None:
    """Make a new home with its settings and empty databases."""
    from tapebook.api import app

    place = home_folder(home)
    print_lines(app.init_production(place) if production else app.init(place))


def verify(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also read every row of the tape and the archive.")] = False,
    tape: Annotated[bool, typer.Option("--tape", help="Also compare every row of the tape with its checksum.")] = False,
    archive: Annotated[bool, typer.Option("--archive", help="Also read every object of the archive.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Check that nothing stored was changed, lost or rolled back."""
    with open_home(home) as book, progress("verify") as show:
        findings = book.verify(
            tape=tape or everything,
            archive=archive or everything,
            progress=lambda words: show(None, words),
            notice=lambda words: print(f"note: {words}", file=sys.stderr),
        )
    if json:
        print_json(findings)
    else:
        rows = [{"where": found.where, "problem": found.problem} for found in findings]
        print_table(rows, [Column("where", "where"), Column("problem", "problem")], empty="clean")
        print_lines(dict.fromkeys(f"{found.where}: {found.remedy}" for found in findings if found.remedy))
    if findings:
        tables = all("`tapebook rebuild`" in found.remedy for found in findings)
        remedy = "stop what runs here and run `tapebook rebuild`" if tables else "keep this home and restore a copy"
        complain(f"{plural(len(findings), 'contradiction')} in what is stored; {remedy}")
        raise typer.Exit(Stop.exit_code)


def rebuild(*, home: Home = None, json: Json = False) -> None:
    """Compute damaged tables of the book again from its log."""
    with open_home(home) as book, progress("rebuild") as show:
        done = book.rebuild(progress=lambda words: show(None, words))
    if json:
        print_json(done)
    elif done.tables:
        written = f"{plural(len(done.tables), 'table')} written again from {plural(done.events, 'event')}"
        print_lines([f"{written}: {', '.join(done.tables)}"])
    else:
        print_lines(["nothing to rebuild: every table says what the log says"])


def doctor(
    *,
    fix: Annotated[
        bool, typer.Option("--fix", help="First pack the spool and bring back what the archive lost.")
    ] = False,
    archive: Annotated[bool, typer.Option("--archive", help="With --fix: read every object, find torn ones.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Check what this home needs to run."""
    with open_home(home) as book:
        say = partial(print, file=sys.stderr)
        checks = book.doctor(fix=True, archive=archive, notice=say) if fix else book.doctor()
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


def backup(
    place: Annotated[
        str | None, typer.Argument(metavar="PLACE", help="A folder or s3://…; else that of the settings.")
    ] = None,
    *,
    shows: Annotated[bool, typer.Option("--list", help="List the backups there; make none.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make a backup of this home, which may be in use."""
    with open_home(home) as book:
        if shows:
            found = book.backups(place)
        else:
            with progress("backup") as show:
                done = book.backup(place, progress=lambda words: show(None, words))
    if shows:
        rows = [
            {"id": each.id, "owner": each.owner, "events": sum(head[2] for head in each.heads), "bytes": each.size}
            for each in found
        ]
        columns = [Column("backup", "id"), Column("owner", "owner"), Column("events", "events", whole)]
        print_json(found) if json else print_table(
            rows, [*columns, Column("bytes", "bytes", whole)], empty="no backup yet"
        )
    elif json:
        print_json(done)
    else:
        kept = f"{plural(done.files, 'file')}, {done.bytes / 1e6:,.1f} MB"
        copied = f", {plural(done.archive_objects, 'object')} of the archive copied" if done.archive_objects else ""
        dropped = f", {plural(done.dropped, 'old backup')} deleted" if done.dropped else ""
        print_lines([f"backup {done.id} in {done.place}: {kept}{copied}{dropped}"])


def restore(
    place: Annotated[str, typer.Argument(metavar="PLACE", help="Where the backups are: a folder, or s3://…")],
    new_home: Annotated[str, typer.Argument(metavar="DIR", help="The home to make; it must not be there yet.")],
    *,
    name: Annotated[str | None, typer.Option("--backup", metavar="ID", help="Which backup; else the newest.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Read every object and replay every decision.")] = False,
    book: Annotated[str | None, typer.Option("--book", metavar="URL", help="An empty PostgreSQL for the book.")] = None,
    tape: Annotated[str | None, typer.Option("--tape", metavar="URL", help="An empty PostgreSQL for the tape.")] = None,
    archive: Annotated[
        str | None, typer.Option("--archive", metavar="PLACE", help="Another archive; a folder of the home is filled.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a home from a backup, and prove it before it is one."""
    from tapebook.api import app

    terms = app.RestoreTerms(name, everything, book, tape, archive)
    with progress("restore") as show:
        done = app.restore(place, new_home, terms=terms, progress=lambda words: show(None, words))
    if json:
        print_json(done)
        return
    proven = f"{plural(done.streams, 'stream')} and {plural(done.events, 'event')} verified"
    lines = [
        f"{done.home} is the home of {done.id}: {plural(done.files, 'file')}, {done.bytes / 1e6:,.1f} MB",
        f"proven: {proven}, {plural(done.replayed, 'packet')} made again byte for byte",
    ]
    if done.lost_anchors:
        lines.append(f"lost: what was written after the backup; {plural(done.lost_anchors, 'anchor')} of it")
    print_lines(lines)


def events(
    *,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on, ISO-8601 (UTC) or epoch ms; else six hours ago.")
    ] = None,
    most: Most = 50,
    home: Home = None,
    json: Json = False,
) -> None:
    """List what happened: decisions, orders, fills, troubles."""
    begin = None if since is None else parse_time(since)
    with open_home(home) as book:
        found = book.events(since=begin, most=most)
    if json:
        print_json(found)
    else:
        print_table(found, EVENTS, empty="nothing happened in that time")


def settings(*, home: Home = None, json: Json = False) -> None:
    """Show the settings as they are read, without passwords."""
    with open_home(home) as book:
        found = book.settings()
    if json:
        print_json(found)
        return
    for name, value in found.items():
        if isinstance(value, dict):
            print_lines([f"[{name}]", *(f"  {key} = {cell(each)}" for key, each in value.items())])
        else:
            print_lines([f"{name} = {cell(value)}"])


# A second is twenty minutes of market: this is three years of it, and infinity would never end.
MAX_DEMO_SECONDS = 86_400.0


def demo(
    *,
    seconds: Annotated[
        float,
        typer.Option(metavar="N", min=0.1, max=MAX_DEMO_SECONDS, help="Seconds to run; each is 20 minutes of market."),
    ] = 12.0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Which market to invent.")] = 7,
    weeks: Annotated[
        float, typer.Option(metavar="N", min=0, max=52, help="Weeks a new home has lived through before it begins.")
    ] = 4.0,
    home: Home = None,
    fast: Annotated[bool, typer.Option("--fast", help="As fast as the machine can, not at an even pace.")] = False,
    no_web: Annotated[
        bool, typer.Option("--no-web", help="Do not serve the page after the report, which a terminal gets.")
    ] = False,
    json: Json = False,
) -> None:
    """Run agents on an invented market, offline, and print a report."""
    from tapebook.api import app

    with progress("demo") as show:
        report = app.demo(
            home_folder(home),
            seconds=seconds,
            seed=seed,
            weeks=weeks,
            paced=not fast,
            progress=lambda step: show(step.done, _demo_words(step)),
        )
    if json:
        print_json(report.to_dict())
        return
    print_lines(report.lines())
    if no_web:
        return
    # Whoever reads a file or a pipe waits for the end.
    if sys.stdout.isatty():
        web(str(home_folder(home)))
    else:
        print_lines([f"page          tapebook web {home_folder(home)}"])


def _demo_words(step: "DemoProgress") -> str:
    doing = f"  {step.doing}" if step.doing else ""
    return f"{minute_text(step.market_time)}  rows {step.rows:,}  ticks {step.ticks:,}  trades {step.trades:,}{doing}"


def completion(
    shell: Annotated[Literal["bash", "zsh"], typer.Argument(metavar="SHELL", help="bash or zsh.")],
) -> None:
    """Print what makes a shell complete commands and options."""
    from tapebook.surfaces.cli import root

    print(_BEFORE[shell] + completion_script(typer.main.get_command(root)), end="")


def completion_script(command: Any) -> str:
    """The script of a command with all its groups."""
    words = _words_by_path(command, "")
    cases = [f'        "{path}") words="{" ".join(found)}" ;;' for path, found in words.items()]
    return _SCRIPT.format(paths="|".join(f'"{path}"' for path in words if path), cases="\n".join(cases))


def _words_by_path(command: Any, path: str) -> dict[str, list[str]]:
    """What may follow after each path of commands: those below it, and options."""
    below = getattr(command, "commands", {})
    options = [name for each in command.params for name in (*each.opts, *each.secondary_opts) if name.startswith("--")]
    found = {path: [*below, *options, "--help"]}
    for name, child in below.items():
        found |= _words_by_path(child, f"{path} {name}")
    return found
