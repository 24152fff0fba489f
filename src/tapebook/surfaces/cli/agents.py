"""Commands on agents: who there is, what they are told, what they decide, what they traded."""

from typing import Annotated, Literal

import typer

from tapebook.surfaces.cli.options import Agent, AsOf, Home, Json, Most, Symbol, instant, opened
from tapebook.surfaces.cli.output import Column, minute, money, price, print_json, print_table, whole
from tapebook.surfaces.cli.runs import print_run

AGENTS = [
    Column("agent", "name"),
    Column("version", "version"),
    Column("engine", "engine"),
    Column("broker", "broker"),
    Column("every min", "cadence_minutes", whole),
    Column("watches", "watchlist", cut=True),
]
TRADES = [
    Column("entry", "entry_tick_at", minute),
    Column("symbol", "symbol"),
    Column("side", "side"),
    Column("in", "entry_price", price),
    Column("out", "exit_price", price),
    Column("min", "holding_minutes", whole),
    Column("net usd", "net_pnl_usd", money),
    Column("why", "exit_reason", cut=True),
]


def agents(home: Home = None, json: Json = False) -> None:
    """List the agents."""
    with opened(home) as book:
        found = book.agents()
    if json:
        print_json(found)
    else:
        print_table(found, AGENTS, empty="no agents yet")


def context(agent: Agent, symbol: Symbol, *, as_of: AsOf = None, home: Home = None, json: Json = False) -> None:
    """Show what an agent is told about a symbol."""
    with opened(home) as book:
        packet = book.context(agent, symbol, as_of=None if as_of is None else instant(as_of))
    if json:
        from tapebook import views

        print_json(views.packet_view(packet))
    else:
        print(packet.system, packet.text, sep="\n\n")


def tick(agent: Agent, symbol: Symbol, *, home: Home = None, json: Json = False) -> None:
    """Let an agent decide on a symbol once, now."""
    with opened(home) as book:
        run = book.run(book.tick(agent, symbol).run_id)
    if json:
        print_json(run)
    else:
        print_run(run)


def trades(
    agent: Agent,
    *,
    status: Annotated[Literal["open", "closed"] | None, typer.Option(help="Only trades of this status.")] = None,
    most: Most = 20,
    home: Home = None,
    json: Json = False,
) -> None:
    """List an agent's trades, open ones first, then the newest."""
    with opened(home) as book:
        found = book.trades(agent, status=status, most=most)
    if json:
        print_json(found)
    else:
        print_table(found, TRADES, empty="no trades yet")
