"""The command `context`: what an agent is told about a symbol, now or at any past moment, and what that takes."""

from typing import TYPE_CHECKING, Annotated

import typer

from tapebook.surfaces.cli.options import Agent, AsOf, Home, Json, Symbol, open_home, parse_time
from tapebook.surfaces.cli.output import Column, print_json, print_lines, print_table, print_text, whole

if TYPE_CHECKING:
    from tapebook.api.app import Preview

PARTS = [
    Column("part", "name"),
    Column("message", "place"),
    Column("tokens", "tokens", whole),
    Column("cap", "cap", whole),
    Column("rows", "shown", whole),
    Column("dropped", "dropped", whole),
]


def context(
    agent: Agent,
    symbol: Symbol,
    *,
    preview: Annotated[bool, typer.Option("--preview", help="Only what each part takes, and warnings.")] = False,
    as_of: AsOf = None,
    version: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="A version of the agent; else the one of then.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show what an agent is told about a symbol."""
    moment = None if as_of is None else parse_time(as_of)
    with open_home(home) as book:
        if preview:
            _print_preview(book.preview(agent, symbol, as_of=moment, version=version), json)
            return
        packet = book.context(agent, symbol, as_of=moment, version=version)
    if json:
        from tapebook.domain import views

        print_json(views.packet_view(packet))
    else:
        print_text(f"{packet.system}\n\n{packet.text}")


def _print_preview(found: "Preview", json: bool) -> None:
    if json:
        print_json(found)
        return
    rows = [{column.key: getattr(part, column.key) for column in PARTS} for part in found.parts]
    print_table(rows, PARTS, empty="nothing to tell")
    print_lines(
        [
            f"{found.tokens:,} tokens in all; the memory takes {found.memory_tokens:,} of {found.memory_cap:,}",
            *(f"warning: {warning}" for warning in found.warnings),
        ]
    )
