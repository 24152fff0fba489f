"""Commands that stop money: `halt`, `resume`, `flatten`."""

from typing import TYPE_CHECKING, Annotated

import typer

from tapebook.domain.text import plural
from tapebook.surfaces.cli.options import Home, Json, opened
from tapebook.surfaces.cli.output import print_json, print_lines

if TYPE_CHECKING:
    from tapebook.app import Flattened

Whom = Annotated[str | None, typer.Argument(metavar="AGENT", help="One agent; else every one.")]
Named = Annotated[str | None, typer.Argument(metavar="AGENT", help="One agent.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the event.")]


def halt(agent: Whom = None, *, reason: Reason = "by hand", home: Home = None, json: Json = False) -> None:
    """Stop an agent, or all of them, from sending orders."""
    with opened(home) as book:
        switched = book.halt(agent, reason=reason)
    if json:
        print_json(switched)
    else:
        who, command = (agent, f"tapebook resume {agent}") if agent else ("the desk", "tapebook resume")
        stands = "is halted" if switched.changed else "was halted already"
        print_lines([f"{who} {stands}: nothing is sent until `{command}`"])


def resume(agent: Whom = None, *, reason: Reason = "by hand", home: Home = None, json: Json = False) -> None:
    """End the halt of an agent, or that of the whole desk."""
    with opened(home) as book:
        switched = book.resume(agent, reason=reason)
    if json:
        print_json(switched)
    else:
        done = "may send orders again" if switched.changed else "was not halted"
        still = ", ".join(name or "the whole desk" for name in switched.halts)
        print_lines([f"{agent or 'the desk'} {done}" + (f"; still halted: {still}" if still else "")])


def flatten(
    agent: Named = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every agent.")] = False,
    symbol: Annotated[str | None, typer.Option(metavar="SYMBOL", help="Only this symbol, such as BTC.")] = None,
    reason: Reason = "by hand",
    home: Home = None,
    json: Json = False,
) -> None:
    """Cancel orders and close positions of an agent, or of all."""
    if (agent is None) != every:
        raise typer.BadParameter("name one agent, or --all for every one", param_hint="AGENT")
    with opened(home) as book:
        found = book.flatten(agent, symbol=symbol, reason=reason)
    if json:
        print_json(found)
    else:
        print_lines(map(_sentence, found) if found else ["nothing was ever traded here"])


def _sentence(done: "Flattened") -> str:
    if done.left_to_desk:
        return f"{done.deployment}: the desk that is running closes it at its next turn"
    ended = [f"closed {', '.join(done.closed)}"] if done.closed else []
    under_way = [f"closing {', '.join(done.closing) or 'no position'}"] if done.closing or not ended else []
    what = ", ".join([*ended, *under_way])
    return f"{done.deployment}: {what}, {plural(done.cancelled, 'order')} cancelled; `tapebook halt` keeps it flat"
