"""Commands that write by way of the policy: `recall append`, `propose`, `approve`, `reject`; and what was written."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tapebook.surfaces.cli.options import Agent, Home, Json, Most, opened
from tapebook.surfaces.cli.output import (
    Column,
    minute,
    print_json,
    print_lines,
    print_table,
    print_text,
    shorten_on_screen,
)

if TYPE_CHECKING:
    from tapebook.app_recall import Decided, Proposed

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
    with opened(home) as book:
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
    with opened(home) as book:
        proposed = book.recall.propose(agent, file=file, run=run)
    _print_proposed(proposed, json)


def proposals(*, agent: One = None, most: Most = 20, home: Home = None, json: Json = False) -> None:
    """List proposed manuals, newest first."""
    with opened(home) as book:
        found = book.recall.proposals(agent, most=most)
    if json:
        print_json(found)
    else:
        print_table(found, PROPOSALS, empty="no proposals")


def proposal(proposal_id: Proposal, *, home: Home = None, json: Json = False) -> None:
    """Show what a proposed manual would change."""
    with opened(home) as book:
        proposed = book.recall.proposal(proposal_id)
    _print_proposed(proposed, json)


def approve(proposal_id: Proposal, *, home: Home = None, json: Json = False) -> None:
    """Make a proposed manual the one its agent is given."""
    with opened(home) as book:
        decided = book.recall.approve(proposal_id)
    _print_decided(decided, json)


def reject(proposal_id: Proposal, *, home: Home = None, json: Json = False) -> None:
    """Turn a proposed manual down."""
    with opened(home) as book:
        decided = book.recall.reject(proposal_id)
    _print_decided(decided, json)


def writes(*, agent: One = None, most: Most = 50, home: Home = None, json: Json = False) -> None:
    """List all that was appended, proposed or approved."""
    with opened(home) as book:
        found = book.recall.writes(agent, most=most)
    if json:
        print_json(found)
    else:
        print_table(found, WRITES, empty="nothing was written yet")


def _print_proposed(proposed: "Proposed", json: bool) -> None:
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


def _print_decided(decided: "Decided", json: bool) -> None:
    if json:
        print_json(decided)
    elif decided.version:
        print_lines([f"{decided.agent} has the proposed manual as version {decided.version}"])
    else:
        print_lines([f"proposal {decided.proposal_id} was turned down; the manual of {decided.agent} stays"])


COMMANDS: list[Callable[..., None]] = [append, propose, proposals, proposal, approve, reject, writes]
