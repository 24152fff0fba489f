"""What the guard must know of the account, read at the moment of judging and once more when an order leaves."""

from collections.abc import Iterable

from tapebook.book.activity import day_start
from tapebook.context import Situation
from tapebook.decision import Limits, Move, move_of
from tapebook.domain.activity import Activity
from tapebook.domain.agent import AgentProfile, Deployment, is_dry
from tapebook.domain.market import Mid
from tapebook.domain.order import Order
from tapebook.domain.position import Portfolio
from tapebook.loop.activity import activity_of
from tapebook.loop.optional_reads import OptionalReads, safe_causes
from tapebook.loop.quotes import TapeQuotes, marks_of
from tapebook.loop.slot import Slot
from tapebook.tape.store import View
from tapebook.wiring import Rooms


def limits_now(rooms: Rooms, slot: Slot, *, before: Situation | None = None) -> Limits:
    """The caps of an agent beside what it holds, what is under way and what it has done lately.

    What was read for the packet is not read again as long as the book has not moved since.
    """
    deployment, now = slot.deployment, rooms.clock.now()
    seq = rooms.book.head(deployment.id)
    working = rooms.book.working_orders(deployment.id)
    portfolio, activity = _account(rooms, deployment, seq=seq, now=now, before=before)
    mid, marks = _prices_since(rooms, portfolio, slot.symbol, now=now, before=before)
    return Limits(
        caps=deployment.agent.caps,
        symbol=slot.symbol,
        watchlist=deployment.agent.watchlist,
        at=now,
        seq=seq,
        portfolio=portfolio,
        marks=marks,
        data_age_ms=None if mid is None else now - mid.bucket_ts,
        working=_moves(rooms, [order for order, _ in working], marks, now=now) if working else (),
        halted=halted(rooms, deployment, newest_profile(rooms, deployment)),
        activity=Activity() if isinstance(activity, str) else activity,
        activity_unread=activity if isinstance(activity, str) else None,
        settled_at_e8=_settled_at_e8(rooms, slot.symbol, now=now),
    )


def limits_at_send(rooms: Rooms, deployment: Deployment, order: Order, *, others: Iterable[Order], seq: int) -> Limits:
    """The same for an order about to leave, by the agent's newest profile; what it did lately was asked before."""
    now, agent = rooms.clock.now(), newest_profile(rooms, deployment)
    portfolio = rooms.book.account(deployment.id, seq=seq).portfolio
    mid, marks = _prices(rooms, portfolio, order.symbol, now=now)
    return Limits(
        caps=agent.caps,
        symbol=order.symbol,
        watchlist=agent.watchlist,
        at=now,
        seq=seq,
        portfolio=portfolio,
        marks=marks,
        data_age_ms=None if mid is None else now - mid.bucket_ts,
        working=_moves(rooms, others, marks, now=now),
        halted=halted(rooms, deployment, agent),
        settled_at_e8=_settled_at_e8(rooms, order.symbol, now=now),
    )


def newest_profile(rooms: Rooms, deployment: Deployment) -> AgentProfile:
    """What the agent is by now: it may have been changed or disabled since the deployment was loaded."""
    found = rooms.book.agent(deployment.agent.name)
    return found[1] if found else deployment.agent


def halted(rooms: Rooms, deployment: Deployment, agent: AgentProfile) -> str | None:
    """Why nothing may leave now, or None."""
    halts = rooms.book.halts()
    if "" in halts:
        return f"the desk is halted: {halts['']}"
    if deployment.id in halts:
        return f"{agent.name} is halted: {halts[deployment.id]}"
    # What was decided before it became dry must not leave any more.
    if agent.mode == "dry_run" and not is_dry(deployment.id):
        return f"{agent.name} is in dry run"
    return None if agent.enabled else f"{agent.name} is not enabled"


def _settled_at_e8(rooms: Rooms, symbol: str, *, now: int) -> int | None:
    found = rooms.tape.delisting(symbol, view=View(now))
    return None if found is None else found.settlement_e8


def _account(
    rooms: Rooms, deployment: Deployment, *, seq: int, now: int, before: Situation | None
) -> tuple[Portfolio, Activity | str]:
    """What is held and what was done, or why that cannot be read; of another day, what was done is another."""
    if (
        before
        and before.activity
        and before.watermarks.book == seq
        and (before.as_of == now or day_start(before.as_of) == day_start(now))
    ):
        return before.portfolio, before.activity
    account = rooms.book.account(deployment.id, seq=seq)
    optional = OptionalReads()
    activity = optional.read("activity", None, activity_of, rooms, deployment, account, view=View(now))
    return account.portfolio, activity or "; ".join(safe_causes(rooms, optional.causes))


def _prices_since(
    rooms: Rooms, portfolio: Portfolio, symbol: str, *, now: int, before: Situation | None
) -> tuple[Mid | None, dict[str, int]]:
    """What `_prices` says; in the moment of the packet it is what the packet was made of."""
    mid = before.market.mid if before and before.as_of == now else None
    if mid is None or portfolio.positions.keys() - {symbol}:
        return _prices(rooms, portfolio, symbol, now=now)
    return mid, {symbol: mid.price_e8}


def _prices(rooms: Rooms, portfolio: Portfolio, symbol: str, *, now: int) -> tuple[Mid | None, dict[str, int]]:
    """The price last observed of a symbol, and the marks of all that is held."""
    mid = rooms.tape.last_price(symbol, view=View(now))
    others = [held for held in portfolio.positions.values() if mid is None or held.symbol != symbol]
    marks = marks_of(TapeQuotes(rooms.tape, View(now)), others, at=now)
    return mid, marks if mid is None else marks | {symbol: mid.price_e8}


def _moves(rooms: Rooms, orders: Iterable[Order], marks: dict[str, int], *, now: int) -> tuple[Move, ...]:
    moves = []
    for order in orders:
        mark = marks.get(order.symbol) or TapeQuotes(rooms.tape, View(now)).mark_e8(order.symbol, at=now)
        moves.append(move_of(order, mark))
    return tuple(moves)
