"""Commands on what came of decisions: `orders` and `trades`."""

from typing import Annotated, Literal

import typer

from tapebook.surfaces.cli.options import Agent, AsOf, Before, Home, Json, Most, open_home
from tapebook.surfaces.cli.output import Column, amount, minute, money, price, print_json, print_page, whole

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
ORDERS = [
    Column("intended", "intended_at", minute),
    Column("deployment", "deployment_id"),
    Column("symbol", "symbol"),
    Column("side", "side"),
    Column("size", "size", amount),
    Column("limit", "limit_price", price),
    Column("status", "status"),
    Column("detail", "detail", cut=True),
]


def trades(
    agent: Agent,
    *,
    status: Annotated[Literal["open", "closed"] | None, typer.Option(help="Only trades of this status.")] = None,
    most: Most = 20,
    before: Before = None,
    as_of: AsOf = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """List an agent's trades, open ones first, then the newest."""
    with open_home(home) as book:
        found = book.trades(agent, status=status, most=most, before=before, as_of=as_of)
    if json:
        print_json({"rows": found, "next": found.next})
    else:
        for trade in found:
            if trade.get("lacks"):
                lacks = f"(lacks {', '.join(trade['lacks'])})"
                trade["exit_reason"] = f"{trade['exit_reason']} {lacks}" if trade["exit_reason"] else lacks
        print_page(found, TRADES, following=found.next, empty="no trades yet")


def orders(
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only orders of this agent.")] = None,
    *,
    working: Annotated[bool, typer.Option("--working", help="Only orders that have not ended.")] = False,
    most: Most = 20,
    before: Before = None,
    as_of: AsOf = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """List orders, newest first, with what became of them."""
    with open_home(home) as book:
        found = book.orders(agent, working=working, most=most, before=before, as_of=as_of)
    if json:
        print_json({"rows": found, "next": found.next})
    else:
        empty = "no orders are working" if working else "no orders yet"
        print_page(found, ORDERS, following=found.next, empty=empty)
