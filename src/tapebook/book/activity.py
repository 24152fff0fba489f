"""What a deployment did lately, from rows: a pure function.

    session    the rows of the last hour and of the day so far, as the store reads them
    marks      what the positions of 00:00 UTC were worth then, which only the market can say

The day starts at 00:00 UTC. Its equity is computed from the ledger, never remembered by a process:
cash now, less all that was posted today, plus what the positions held at midnight had not realised.
Transfers are left where they are, so a deposit at noon is no gain.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile

import msgspec

from tapebook.domain.activity import Activity
from tapebook.domain.instants import DAY, floor
from tapebook.domain.position import Position

UNREADABLE = "UNREADABLE_REPLY"
BROKER = "BROKER_REFUSED"
AT_SEND = " at send: "
"""Between the rule and the detail of an order that the send gate refused."""


def refusal_code(detail: str) -> str:
    """The code of an order that was refused: the rule of the send gate, or the broker."""
    rule, at_send, _ = detail.partition(AT_SEND)
    return rule if at_send else BROKER


class LastClose(msgspec.Struct, frozen=True):
    """How a symbol's newest round trip ended."""

    symbol: str
    at: int
    net_usd_e6: int


class Session(msgspec.Struct, frozen=True):
    """What the tables say as of one moment; `held` are the positions of the day's start, `nets` newest first."""

    cash_usd_e6: int
    results_usd_e6: int
    held: dict[str, Position]
    rejections: tuple[str, ...]
    executed: int
    orders: int
    nets: tuple[int, ...]
    closes: tuple[LastClose, ...]
    refusals: tuple[str, ...] = ()


def day_start(as_of: int) -> int:
    """00:00 UTC of a moment's day."""
    return floor(as_of, DAY)


def activity(session: Session, marks: Mapping[str, int]) -> Activity:
    """The activity of a session, with the marks of the day's start."""
    return Activity(
        rejections=session.rejections,
        executed_today=session.executed,
        orders_last_hour=session.orders,
        realised_today_usd_e6=session.results_usd_e6,
        day_start_equity_usd_e6=day_start_equity(session, marks),
        losing_streak=losing_streak(session.nets),
        last_close_at={close.symbol: close.at for close in session.closes},
        last_loss_at={close.symbol: close.at for close in session.closes if close.net_usd_e6 < 0},
        refusals=session.refusals,
    )


def day_start_equity(session: Session, marks: Mapping[str, int]) -> int:
    """Equity at 00:00 UTC, as if all transfers of the day had been made before."""
    unrealised = sum(held.unrealised_usd_e6(marks[symbol]) for symbol, held in session.held.items())
    return session.cash_usd_e6 - session.results_usd_e6 + unrealised


def losing_streak(nets: Iterable[int]) -> int:
    """How many of the newest results in a row were losses; breaking even ends a row."""
    return sum(1 for _ in takewhile(lambda net: net < 0, nets))
