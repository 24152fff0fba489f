"""Commands on agents: `agents` lists them, `agents add|edit|enable|disable|remove|show` make, change and show one."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tapebook.domain.text import plural
from tapebook.surfaces.cli.options import Home, Json, group_options, open_home
from tapebook.surfaces.cli.output import (
    Column,
    cell,
    money,
    print_json,
    print_lines,
    print_record,
    print_table,
    print_text,
    shorten_on_screen,
    warn,
    whole,
)

if TYPE_CHECKING:
    from tapebook.api.app import SavedAgent

AGENTS = [
    Column("agent", "name"),
    Column("version", "version"),
    Column("on", "enabled"),
    Column("engine", "engine"),
    Column("broker", "broker"),
    Column("every min", "every_minutes", whole),
    Column("watches", "watch", cut=True),
]
# What a text may take of a line that says it changed.
SHOWN_TEXT = 60

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name: letters, digits, . _ and -.")]
Known = Annotated[str, typer.Argument(metavar="NAME", help="The name of an agent; `tapebook agents` lists them.")]
RemovedToo = Annotated[bool, typer.Option("--removed", help="Those too that were removed.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recall finds it with the change.")]
Text = str | None

group = typer.Typer(rich_markup_mode=None, invoke_without_command=True)


@group.callback()
def agents(context: typer.Context, *, removed: RemovedToo = False, home: Home = None, json: Json = False) -> None:
    """List the agents, or add, change, remove and show one."""
    if context.invoked_subcommand is None:
        _list(home, json, removed=removed)


@group.command("list")
def list_agents(context: typer.Context, *, removed: RemovedToo = False, home: Home = None, json: Json = False) -> None:
    """List the agents."""
    _list(*group_options(context, home, json), removed=removed)


@group.command()
def show(
    context: typer.Context,
    name: Known,
    *,
    version: Annotated[int | None, typer.Option(metavar="N", min=1, help="An older version; else the newest.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show an agent, where it runs, and how its trades did."""
    home, json = group_options(context, home, json)
    with open_home(home) as book:
        found = book.agent(name, version=version)
    if json:
        print_json(found)
    else:
        print_record(_record(found))


def save(
    context: typer.Context,
    name: Name,
    *,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file; docs/agents.md has its keys.")] = None,
    watch: Annotated[Text, typer.Option(metavar="A,B", help="The symbols to watch, such as BTC,ETH.")] = None,
    engine: Annotated[Text, typer.Option(metavar="E", help="Who decides; empty for the home's default.")] = None,
    model: Annotated[Text, typer.Option(metavar="M", help="The model, for engines that ask one.")] = None,
    members: Annotated[Text, typer.Option(metavar="A,B", help="The engines of an ensemble.")] = None,
    broker: Annotated[Text, typer.Option(metavar="B", help="Where orders go.")] = None,
    mode: Annotated[Text, typer.Option(metavar="MODE", help="trade, or dry_run: orders are noted, never sent.")] = None,
    every: Annotated[Text, typer.Option(metavar="SPAN", help="How often to decide: 5m, 1h, 1d.")] = None,
    horizon: Annotated[Text, typer.Option(metavar="H", help="scalp, intraday, swing or position.")] = None,
    strategy: Annotated[Text, typer.Option(metavar="TEXT", help="What it trades on; @FILE reads a file.")] = None,
    avoid: Annotated[list[str] | None, typer.Option(metavar="RULE", help="What it must never do; repeatable.")] = None,
    manual: Annotated[Text, typer.Option(metavar="TEXT", help="Its rules; @FILE reads a file.")] = None,
    cash: Annotated[Text, typer.Option(metavar="USD", help="What it begins with.")] = None,
    margin: Annotated[Text, typer.Option(metavar="MODE", help="cross or isolated.")] = None,
    max_position_usd: Annotated[Text, typer.Option(metavar="USD", help="The cap of one position.")] = None,
    max_leverage: Annotated[Text, typer.Option(metavar="N", help="The cap of leverage.")] = None,
    shadow: Annotated[
        Text, typer.Option(metavar="K=V,…", help="Decide twice, the second time with these; costs double.")
    ] = None,
    other: Annotated[
        list[str] | None, typer.Option("--set", metavar="K=V", help="Any other key of docs/agents.md; repeatable.")
    ] = None,
    reason: Reason = "",
    home: Home = None,
    json: Json = False,
) -> None:
    """Saves an agent; `add` and `edit` are both this."""
    flags = {
        **{"watch": watch, "engine": engine, "model": model, "members": members, "broker": broker},
        **{"every_minutes": every, "horizon": horizon, "strategy": strategy, "avoid": avoid, "manual": manual},
        **{"cash_usd": cash, "margin": margin, "max_position_usd": max_position_usd},
        **{"max_leverage": max_leverage, "shadow": shadow, "mode": mode},
    }
    settings = {key: value for key, value in flags.items() if value is not None} | _pairs(other or [])
    home, json = group_options(context, home, json)
    with open_home(home) as book:
        change = book.add_agent if context.info_name == "add" else book.edit_agent
        saved = change(name, settings, file=file, reason=reason)
    _print_saved(saved, json)


group.command("add", help="Add an agent, from flags, a file, or both.")(save)
group.command("edit", help="Change an agent, which makes a new version of it.")(save)


@group.command()
def enable(context: typer.Context, name: Known, *, reason: Reason = "", home: Home = None, json: Json = False) -> None:
    """Let an agent decide again."""
    _switch(name, True, *group_options(context, home, json), reason=reason)


@group.command()
def disable(context: typer.Context, name: Known, *, reason: Reason = "", home: Home = None, json: Json = False) -> None:
    """Keep an agent from deciding; what it holds stays as it is."""
    _switch(name, False, *group_options(context, home, json), reason=reason)


@group.command()
def remove(
    context: typer.Context,
    name: Known,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept with the event.")] = "by hand",
    home: Home = None,
    json: Json = False,
) -> None:
    """Remove an agent that holds nothing; what it did stays."""
    home, json = group_options(context, home, json)
    with open_home(home) as book:
        removed = book.remove_agent(name, reason=reason)
    if json:
        print_json(removed)
    else:
        still = f"`tapebook runs --agent {name}` and `tapebook trades {name}` still show what it did"
        print_lines([f"{name} is removed; {still}"])


def _list(home: str | None, json: bool, *, removed: bool) -> None:
    with open_home(home) as book:
        found = book.agents(removed=True) if removed else book.agents()
    if json:
        print_json(found)
    else:
        print_table([_mark_removed(agent) for agent in found], AGENTS, empty="no agents yet")


def _mark_removed(agent: Mapping[str, Any]) -> Mapping[str, Any]:
    """An agent for the list; one that was removed says so, and one whose orders are never sent."""
    if agent["removed"]:
        agent = {**agent, "enabled": "removed"}
    return {**agent, "broker": f"{agent['broker']} (dry run)"} if agent["mode"] == "dry_run" else agent


def _switch(name: str, on: bool, home: str | None, json: bool, *, reason: str) -> None:
    with open_home(home) as book:
        saved = book.edit_agent(name, {"enabled": on}, reason=reason)
    _print_saved(saved, json)


def _pairs(words: Iterable[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    wrong = next((name for name, equals, _ in pairs if not equals), None)
    if wrong is not None:
        raise typer.BadParameter(f"{wrong!r} has no value: write it like trades=20", param_hint="--set")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _print_saved(saved: "SavedAgent", json: bool) -> None:
    if json:
        print_json(saved)
        return
    what = "is unchanged at" if not saved.changes and not saved.new else "is now"
    changes = [
        f"  {change['key']}: {_brief(change['before'])} -> {_brief(change['after'])}" for change in saved.changes
    ]
    print_lines([f"{saved.name} {what} version {saved.version}"])
    for change in changes:
        # Not through `print_lines`, which would take the indent away.
        print_text(change)
    print_lines(f"note: {note}" for note in saved.notes)
    for warning in saved.warnings:
        warn(warning)


def _record(agent: Mapping[str, Any]) -> dict[str, Any]:
    """An agent for people: texts line by line, what it did at the end."""
    result = f"{agent['closed_trades']:,} closed trades, net {money(agent['net_pnl_usd'])} USD"
    texts = {key: agent[key].split("\n") for key in ("strategy", "manual")}
    begun = {"deployment": agent["deployment"] or "has not begun"}
    noted = agent["dry_orders"]
    dry = {"dry run": f"{plural(noted, 'order')} noted, never sent"} if noted or agent["mode"] == "dry_run" else {}
    pairs = {"shadow": _shadow(agent["shadow"]), "engine_settings": _shadow(agent["engine_settings"] or None)}
    told = ("closed_trades", "net_pnl_usd", "dry_orders")
    kept = {key: value for key, value in agent.items() if key not in told}
    return kept | texts | begun | pairs | {"result": result} | dry


def _shadow(shadow: dict[str, Any] | None) -> str | None:
    return None if shadow is None else ", ".join(f"{key}={cell(value)}" for key, value in shadow.items())


def _brief(value: Any) -> str:
    text = cell(_shadow(value) if isinstance(value, dict) else value)
    return shorten_on_screen(text, SHOWN_TEXT)
