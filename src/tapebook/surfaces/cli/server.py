"""Commands that serve homes to other programs: `api`, and `tokens` for who may call."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from tapebook.surfaces.cli.options import Home, Json, group_options, home_folder, open_home
from tapebook.surfaces.cli.output import Column, minute, print_json, print_lines, print_table

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; else this machine alone.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535, help="The port to listen on.")]
AllowHost = Annotated[
    list[str] | None, typer.Option("--allow-host", metavar="NAME", help="One more name it is called by.")
]
Also = Annotated[
    list[str] | None, typer.Option("--also", metavar="DIR", help="One more home, of another owner; tokens tell them.")
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="N", min=0.1, help="Stop after N seconds; else run until stopped.")
]
Parent = Annotated[
    int | None, typer.Option("--parent", metavar="PID", help="The process that started it, with which it ends.")
]
Scopes = Annotated[
    list[str] | None, typer.Option("--scope", metavar="SCOPE", help="read, record, trade or admin; else read.")
]
TokenName = Annotated[str, typer.Argument(metavar="NAME", help="The name of a token.")]


def api(
    *,
    host: Host = "127.0.0.1",
    port: Port = 8017,
    allow_host: AllowHost = None,
    also: Also = None,
    seconds: Seconds = None,
    parent: Parent = None,
    home: Home = None,
) -> None:
    """Serve the home over HTTP, below /api/v1."""
    with ExitStack() as opened:
        books = [opened.enter_context(open_home(each)) for each in [home, *(also or ())]]
        # FastAPI takes longer to load than most commands run.
        from tapebook.surfaces.http.server import ListenTerms, serve

        serve(books, ListenTerms(host, port, tuple(allow_host or ()), seconds, parent))


TOKENS = [
    Column("name", "name"),
    Column("id", "token_id"),
    Column("owner", "owner", cut=True),
    Column("scopes", "scopes"),
    Column("made", "created_at", minute),
    Column("revoked", "revoked_at", minute),
]
group = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@group.callback()
def tokens(context: typer.Context, *, home: Home = None, json: Json = False) -> None:
    """Tokens for programs that call the servers of a home."""
    if context.invoked_subcommand is None:
        _print_tokens(home, json)


@group.command("list")
def list_tokens(context: typer.Context, *, home: Home = None, json: Json = False) -> None:
    """List the tokens there are and were."""
    _print_tokens(*group_options(context, home, json))


@group.command()
def add(
    context: typer.Context, name: TokenName, *, scope: Scopes = None, home: Home = None, json: Json = False
) -> None:
    """Make a token and print it, once."""
    from tapebook.api.access import AccessStore

    home, json = group_options(context, home, json)
    with AccessStore(home_folder(home)) as store:
        made = store.add(name, scopes=scope or ["read"])
    if json:
        print_json(made)
    else:
        may = ", ".join(made.token.scopes)
        print_lines([made.text, f"{name} may {may}; keep it now: it is stored as a hash, and is not shown again"])


@group.command()
def revoke(context: typer.Context, name: TokenName, *, home: Home = None, json: Json = False) -> None:
    """End a token at once."""
    from tapebook.api.access import AccessStore

    home, json = group_options(context, home, json)
    with AccessStore(home_folder(home)) as store:
        token_id = store.revoke(name)
    if json:
        print_json({"token_id": token_id, "name": name})
    else:
        print_lines([f"{name} is revoked: whoever has it is refused from now on"])


def _print_tokens(home: str | None, json: bool) -> None:
    import msgspec

    from tapebook.api.access import AccessStore

    with AccessStore(home_folder(home)) as store:
        found: list[Mapping[str, Any]] = [msgspec.to_builtins(each) for each in store.tokens()]
    if json:
        print_json(found)
    else:
        print_table(found, TOKENS, empty="no tokens: whoever is on this machine may read; `tapebook tokens add NAME`")
