"""Commands on documents: `recall search`, `status`, `sync`, `reindex`, `add`, `remove`, `watch`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapebook.domain.text import plural
from tapebook.surfaces.cli.options import AsOf, Home, Json, instant, opened
from tapebook.surfaces.cli.output import minute, one_line, print_json, print_lines, print_record
from tapebook.surfaces.cli.progress import Show, progress

if TYPE_CHECKING:
    from tapebook.app_recall import Recollection, SyncReport

SHOWN_REFUSALS = 10

group = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Search documents, keep them up to date, append to them."
)


@group.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for, in words.")],
    *,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="Only what this agent may see; else all.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="K", min=1, max=100, help="At most K places.")] = 10,
    explain: Annotated[bool, typer.Option("--explain", help="What each score is made of.")] = False,
    as_of: AsOf = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Find places in documents, as known now or at any past moment."""
    moment = None if as_of is None else instant(as_of)
    with opened(home) as book:
        found = book.recall.search(query, agent=agent, limit=limit, as_of=moment)
    if json:
        print_json(found.to_dict())
    else:
        _print_found(found, explain=explain)


@group.command()
def status(*, home: Home = None, json: Json = False) -> None:
    """Show documents, the index, the last sync, and what was refused."""
    with opened(home) as book:
        found = book.recall.status()
    if json:
        print_json(found)
        return
    behind = "" if found.head == found.documents_head else ", behind: run `tapebook recall sync`"
    refused = [f"{each.path}: {each.why}" for each in found.refused]
    more = [f"and {len(refused) - SHOWN_REFUSALS} more (--json lists all)"] if len(refused) > SHOWN_REFUSALS else []
    record: dict[str, Any] = {
        "slot": f"{found.slot}, embedder {found.embedder}" if found.embedder else found.slot,
        "workspace": found.workspace,
        "folders": [f"{name}: {place}" for name, place in found.folders.items()],
        "last sync": minute(found.synced_at) if found.synced_at else "never",
        "documents": f"{found.documents:,}",
        "kinds": ", ".join(f"{kind} {count:,}" for kind, count in found.kinds.items()),
        "chunks": f"{found.chunks:,}",
        "index": f"{found.index_bytes / 2**20:.1f} MB, at {found.head} of {found.documents_head}{behind}",
        "proposals": found.open_proposals,
        "manuals": [f"TRADING_MANUAL.md of {name} is not its manual: propose it" for name in found.manuals_differ],
        "refused": [*refused[:SHOWN_REFUSALS], *more],
        "problem": found.problem,
    }
    print_record({key: value for key, value in record.items() if value or key == "refused"})


@group.command()
def sync(*, home: Home = None, json: Json = False) -> None:
    """Take in what changed in files and in the log, and index it."""
    with opened(home) as book, progress("sync") as show:
        report = book.recall.sync(progress=_steps(show))
    _print_report(report, json)


@group.command()
def add(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of texts, for every agent to find.")],
    *,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make the texts of a folder documents."""
    with opened(home) as book, progress("sync") as show:
        report = book.recall.add(folder, progress=_steps(show))
    _print_report(report, json)


@group.command()
def remove(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A folder that was added; its name is enough.")],
    *,
    home: Home = None,
    json: Json = False,
) -> None:
    """Take the texts of a folder out of the documents again."""
    with opened(home) as book, progress("sync") as show:
        report = book.recall.remove(folder, progress=_steps(show))
    if not json:
        print_lines([f"{Path(folder).name} is read no more; what it said stays known as of before"])
    _print_report(report, json)


@group.command()
def reindex(*, home: Home = None, json: Json = False) -> None:
    """Build the index anew, and then put it in place of the old one."""
    with opened(home) as book, progress("reindex") as show:
        report = book.recall.reindex(progress=_steps(show))
    if json:
        print_json(report)
    else:
        print_lines([f"{plural(report['versions'], 'version')} indexed, {plural(report['written'], 'chunk')} written"])


@group.command()
def watch(
    *,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="N", min=0.1, help="Stop after N seconds; else run on.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Sync whenever a file changes, until stopped."""
    with opened(home) as book:
        for report in book.recall.watch(seconds=seconds):
            if json or report.changed:
                _print_report(report, json)


def _steps(show: Show) -> Any:
    def step(done: int, of: int) -> None:
        show(done / of if of else None, f"{done:,} of {of:,} versions")

    return step


def _print_found(found: "Recollection", *, explain: bool) -> None:
    if not found.citations:
        print_lines([found.why or "nothing was found"])
    for number, each in enumerate(found.citations):
        print_lines([f"{each.path}:{each.start_line}-{each.end_line}  {each.score:.2f}  {each.source}"])
        # Not through `print_lines`, which would take the indent away.
        print(f"    {one_line(each.snippet)}")
        if explain and number < len(found.explained):
            parts = ", ".join(f"{name} {value:.4g}" for name, value in found.explained[number].items())
            print(f"    {parts}")


def _print_report(report: "SyncReport", json: bool) -> None:
    if json:
        print_json(report)
        return
    told = [
        (report.kept, f"{plural(report.kept, 'file')} changed"),
        (report.removed, f"{report.removed:,} removed"),
        (report.unchanged, f"{report.unchanged:,} unchanged"),
        (report.derived, f"{plural(report.derived, 'document')} of the log"),
        (report.entries, f"{plural(report.entries, 'entry', 'entries')} written"),
        (report.indexed.written, f"{plural(report.indexed.written, 'chunk')} indexed"),
    ]
    words = ", ".join(text for count, text in told if count) or "there are no documents"
    print_lines([words])
    print_lines(f"refused {each.path}: {each.why}" for each in report.refused[:SHOWN_REFUSALS])
    if len(report.refused) > SHOWN_REFUSALS:
        print_lines([f"and {len(report.refused) - SHOWN_REFUSALS} more refused; `tapebook recall status` lists them"])
