"""Commands on how a home goes: `status`, `portfolio` and `equity`."""

import shutil
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from tapebook.domain.text import plural
from tapebook.errors import BadInput
from tapebook.surfaces.cli.options import AsOf, Home, Json, open_home, parse_time
from tapebook.surfaces.cli.output import (
    Column,
    amount,
    minute,
    money,
    price,
    print_json,
    print_lines,
    print_record,
    print_table,
    result,
    share,
    whole,
)

ACCOUNTS = [
    Column("agent", "agent", cut=True),
    Column("equity", "equity_usd", money),
    Column("day", "day_usd", result, result=True),
    Column("exposure", "exposure_usd", money),
    Column("held", "held"),
    Column("trades", "closed_trades", whole),
    Column("net usd", "net_pnl_usd", result, result=True),
    Column("last decision", "last_run_at", minute),
    Column("state", "state", cut=True),
]
POSITIONS = [
    Column("agent", "agent", cut=True),
    Column("symbol", "symbol"),
    Column("side", "side"),
    Column("size", "size", amount),
    Column("in", "entry_price", price),
    Column("now", "mark", price),
    Column("value usd", "value_usd", money),
    Column("open usd", "unrealised_usd", result, result=True),
    Column("since", "opened_at", minute),
]
_BARS = "▁▂▃▄▅▆▇█"
# Without a terminal a line of this many blocks is printed.
_PLAIN_WIDTH = 60
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_DAY_MS = 86_400_000

OneAgent = Annotated[str | None, typer.Argument(metavar="AGENT", help="One agent; else all together.")]


def status(*, home: Home = None, json: Json = False) -> None:
    """Show equity, the day, positions, orders, health and cost."""
    with open_home(home) as book:
        found = book.status()
    if json:
        print_json(found)
        return
    bad = found["incidents"]
    print_record(
        {
            "as of": found["as_of"],
            "equity": f"{money(found['equity_usd'])} USD",
            "today": f"{result(found['day_usd'])} USD",
            "exposure": f"{money(found['exposure_usd'])} USD, {_held_text(found['accounts'])}",
            "orders": f"{len(found['orders'])} working",
            "models": f"{found['model_usd_today']:.4f} USD today",
            "desk": f"halted: {found['halted']}" if found["halted"] is not None else "may send orders",
            "health": f"{found['checks'] - len(bad)} of {found['checks']} checks are well",
            "incidents": [f"{each['name']}: {each['detail']}" for each in bad],
        },
        results=("today",),
    )
    print()
    _print_accounts(found["accounts"])


def portfolio(agent: OneAgent = None, *, as_of: AsOf = None, home: Home = None, json: Json = False) -> None:
    """Show accounts and open positions, now or as of a moment."""
    with open_home(home) as book:
        found = book.portfolio(agent, as_of=as_of)
    if json:
        print_json(found)
        return
    _print_accounts(found["accounts"])
    held = [position for account in found["accounts"] for position in account["positions"]]
    print()
    print_table(held, POSITIONS, empty="nothing is held")


def equity(
    agent: OneAgent = None,
    *,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: a time, or day, week, month, year; else all.")
    ] = None,
    as_of: AsOf = None,
    most: Annotated[int, typer.Option(metavar="N", min=2, max=100_000, help="At most N points.")] = 600,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show equity over time, with its deepest fall."""
    with open_home(home) as book:
        found = book.equity(agent, since=_beginning(since, book.now(as_of)), until=as_of, most=most)
    if json:
        print_json(found)
        return
    if not found["points"]:
        raise BadInput("no account has begun yet: `tapebook up` lets agents trade")
    width = min(shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns - 2, 120)
    print_lines([sparkline([(parse_time(each["at"]), each["equity_usd"]) for each in found["points"]], width)])
    print_record(
        {
            "from": f"{minute(found['since'])}  {money(found['start_usd'])} USD",
            "to": f"{minute(found['until'])}  {money(found['end_usd'])} USD",
            "change": f"{result(found['change_usd'])} USD, {share(found['change_share'])}",
            "deepest fall": f"{money(found['drawdown_usd'])} USD, {found['drawdown_share']:.2%}",
        },
        results=("change",),
    )


def sparkline(points: Sequence[tuple[int, float]], width: int) -> str:
    """A line of blocks over equal stretches of time, each as high as the value at its end."""
    times, (start, end) = [at for at, _ in points], (points[0][0], points[-1][0])
    ends = [start + (end - start) * (place + 1) // width for place in range(width)]
    values = [points[bisect_right(times, at) - 1][1] for at in ends]
    low, span = min(values), max(values) - min(values)
    return "".join(_BARS[round((value - low) / span * (len(_BARS) - 1)) if span else 0] for value in values)


def _beginning(since: str | None, until: int) -> int | None:
    if since is None:
        return None
    return until - _DAYS[since] * _DAY_MS if since in _DAYS else parse_time(since)


def _print_accounts(accounts: Iterable[Mapping[str, Any]]) -> None:
    rows = [{**each, "held": len(each["positions"]), "state": _state(each)} for each in accounts]
    print_table(rows, ACCOUNTS, empty="no account has begun yet: `tapebook up` lets agents trade")


def _state(account: Mapping[str, Any]) -> str:
    if account["halted"] is not None:
        return f"halted: {account['halted']}"
    return "enabled" if account["enabled"] else "disabled"


def _held_text(accounts: Iterable[Mapping[str, Any]]) -> str:
    return plural(sum(len(each["positions"]) for each in accounts), "position")
