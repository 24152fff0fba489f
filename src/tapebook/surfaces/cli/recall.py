"""Commands on documents: search, sync and watch them, append entries, propose and decide manuals."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tapebook.domain.text import plural
from tapebook.surfaces.cli.options import Agent, AsOf, Home, Json, Most, open_home, parse_time
from tapebook.surfaces.cli.output import (
    Column,
    Show,
    minute,
    one_line,
    print_json,
    print_lines,
    print_record,
    print_table,
    print_text,
    progress,
    shorten_on_screen,
    warn,
)

if TYPE_CHECKING:
    from tapebook.api.recall import DecidedProposal, ProposalDiff, SearchResult, SyncReport


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
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND", help="Only documents of this kind, such as trade; repeatable."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="What each score is made of.")] = False,
    as_of: AsOf = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Find places in documents, as known now or at any past moment."""
    moment = None if as_of is None else parse_time(as_of)
    with open_home(home) as book:
        found = book.recall.search(query, agent=agent, limit=limit, as_of=moment, kinds=kind or None)
    if json:
        print_json(found.to_dict())
    else:
        _print_found(found, explain=explain)


@group.command()
def show(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A document, as a citation names it.")],
    *,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="That of this agent.")] = None,
    sha256: Annotated[str | None, typer.Option("--sha256", metavar="HASH", help="The version with this hash.")] = None,
    as_of: AsOf = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Print a document with its line numbers, now or as it was."""
    moment = None if as_of is None else parse_time(as_of)
    with open_home(home) as book:
        found = book.recall.document(path, agent=agent, sha256=sha256, as_of=moment)
    if json:
        print_json(found)
    else:
        lines = found.text.split("\n")
        width = len(str(len(lines)))
        print_text("\n".join(f"{place:>{width}}  {line}" for place, line in enumerate(lines, 1)))


@group.command()
def status(*, home: Home = None, json: Json = False) -> None:
    """Show documents, the index, the last sync, and what was refused."""
    with open_home(home) as book:
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
        "manuals": [
            f"the files of {name} are not its manual yet: run `tapebook recall sync`" for name in found.manuals_differ
        ],
        "refused": [*refused[:SHOWN_REFUSALS], *more],
        "problem": found.problem,
    }
    print_record({key: value for key, value in record.items() if value or key == "refused"})


@group.command()
def sync(*, home: Home = None, json: Json = False) -> None:
    """Take in what changed in files and in the log, and index it."""
    with open_home(home) as book, progress("sync") as show:
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
    with open_home(home) as book, progress("sync") as show:
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
    with open_home(home) as book, progress("sync") as show:
        report = book.recall.remove(folder, progress=_steps(show))
    if not json:
        print_lines([f"{Path(folder).name} is read no more; what it said stays known as of before"])
    _print_report(report, json)


@group.command()
def reindex(*, home: Home = None, json: Json = False) -> None:
    """Build the index anew, and then put it in place of the old one."""
    with open_home(home) as book, progress("reindex") as show:
        report = book.recall.reindex(progress=_steps(show))
    if json:
        print_json(report)
    else:
        print_lines([f"{plural(report.versions, 'version')} indexed, {plural(report.written, 'chunk')} written"])


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
    with open_home(home) as book:
        for report in book.recall.watch(seconds=seconds):
            if json or report.has_changes:
                _print_report(report, json)


def _steps(show: Show) -> Any:
    def step(done: int, of: int) -> None:
        show(done / of if of else None, f"{done:,} of {of:,} versions")

    return step


def _print_found(found: "SearchResult", *, explain: bool) -> None:
    if found.missing:
        warn(found.missing)
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
    counts = [
        (report.kept, f"{plural(report.kept, 'file')} changed"),
        (report.removed, f"{report.removed:,} removed"),
        (report.unchanged, f"{report.unchanged:,} unchanged"),
        (report.derived, f"{plural(report.derived, 'document')} of the log"),
        (report.entries, f"{plural(report.entries, 'entry', 'entries')} written"),
        (report.indexed.written, f"{plural(report.indexed.written, 'chunk')} indexed"),
    ]
    words = ", ".join(text for count, text in counts if count) or "there are no documents"
    print_lines([words])
    print_lines(f"refused {each.path}: {each.why}" for each in report.refused[:SHOWN_REFUSALS])
    if len(report.refused) > SHOWN_REFUSALS:
        print_lines([f"and {len(report.refused) - SHOWN_REFUSALS} more refused; `tapebook recall status` lists them"])


PROPOSALS = [
    Column("proposal", "proposal_id"),
    Column("agent", "agent"),
    Column("status", "status"),
    Column("proposed", "known_at", minute),
    Column("by", "written_by"),
    Column("run", "run_id"),
    Column("decided by", "decided_by"),
]
WRITES = [
    Column("written", "known_at", minute),
    Column("what", "kind"),
    Column("agent", "agent"),
    Column("by", "written_by"),
    Column("run", "run_id"),
    Column("sha256", "sha256", lambda digest: shorten_on_screen(digest, 12)),
    Column("where", "place", cut=True),
]

What = Annotated[
    Literal["journal", "learning", "note"], typer.Argument(metavar="WHAT", help="journal, learning or note.")
]
Run = Annotated[str | None, typer.Option("--run", metavar="RUN", help="The run it comes from, by how its id begins.")]
One = Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="Only of this agent.")]
Proposal = Annotated[str, typer.Argument(metavar="ID", help="A proposal; `tapebook recall proposals` lists them.")]


def append(
    what: What,
    agent: Agent,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to append, up to 2000 characters.")],
    *,
    run: Run = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Append to the journal, the learnings or the notes of an agent."""
    with open_home(home) as book:
        appended = book.recall.append(what, agent, text, run=run)
    if json:
        print_json(appended)
    else:
        print_lines([f"entry {appended.entry_id} is in {appended.path}"])


def propose(
    agent: Agent,
    *,
    file: Annotated[Path, typer.Option("--file", metavar="FILE", help="The whole manual as it should be.")],
    run: Run = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Propose another manual for an agent."""
    with open_home(home) as book:
        proposed = book.recall.propose(agent, file=file, run=run)
    _print_proposed(proposed, json)


def proposals(*, agent: One = None, most: Most = 20, home: Home = None, json: Json = False) -> None:
    """List proposed manuals, newest first."""
    with open_home(home) as book:
        found = book.recall.proposals(agent, most=most)
    if json:
        print_json(found)
    else:
        print_table(found, PROPOSALS, empty="no proposals")


def proposal(proposal_id: Proposal, *, home: Home = None, json: Json = False) -> None:
    """Show what a proposed manual would change."""
    with open_home(home) as book:
        proposed = book.recall.proposal(proposal_id)
    _print_proposed(proposed, json)


def approve(proposal_id: Proposal, *, home: Home = None, json: Json = False) -> None:
    """Make a proposed manual the one its agent is given."""
    with open_home(home) as book:
        proposed = book.recall.proposal(proposal_id)
        decided = book.recall.approve(proposal_id)
    if not json:
        for line in proposed.diff:
            print_text(line)
    _print_decided(decided, json)


def reject(proposal_id: Proposal, *, home: Home = None, json: Json = False) -> None:
    """Turn a proposed manual down."""
    with open_home(home) as book:
        decided = book.recall.reject(proposal_id)
    _print_decided(decided, json)


def writes(*, agent: One = None, most: Most = 50, home: Home = None, json: Json = False) -> None:
    """List all that was appended, proposed or approved."""
    with open_home(home) as book:
        found = book.recall.writes(agent, most=most)
    if json:
        print_json(found)
    else:
        print_table(found, WRITES, empty="nothing was written yet")


def _print_proposed(proposed: "ProposalDiff", json: bool) -> None:
    if json:
        print_json(proposed)
        return
    what = proposed.proposal
    print_lines([f"proposal {what.proposal_id} for {what.agent}, by {what.written_by}: {what.status}"])
    for line in proposed.diff:
        # Not through `print_lines`, which would take the blank away that marks a line as unchanged.
        print_text(line)
    if what.status == "open":
        print_lines([f"`tapebook recall approve {what.proposal_id}` makes it the manual; `reject` ends it"])


def _print_decided(decided: "DecidedProposal", json: bool) -> None:
    if json:
        print_json(decided)
    elif decided.version:
        print_lines([f"{decided.agent} has the proposed manual as version {decided.version}"])
    else:
        print_lines([f"proposal {decided.proposal_id} was turned down; the manual of {decided.agent} stays"])


COMMANDS: list[Callable[..., None]] = [append, propose, proposals, proposal, approve, reject, writes]
