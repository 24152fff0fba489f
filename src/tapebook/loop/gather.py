"""Reads every room for one decision. The only reader across rooms; replay calls it with stored watermarks.

1. the market, which agents that are due together share (`_market`): bars must be read, features may fail;
2. the account with its orders and marks, without which there is no decision;
3. the memories (`_memory`), each by itself: one that fails, whatever it raises, is empty, and its name goes into
   `degraded` (`optional_reads`).

A replay names what had failed then, and it is left out again (`skip`); it reads by the rules of the packet's version.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tapebook.book.settle import Account
from tapebook.book.store import Book
from tapebook.context import RENDERER, Market, MarketKey, MarketShelf, PacketVersion, Situation, version_of
from tapebook.domain.agent import MOST_TRADES_SHOWN, Deployment
from tapebook.domain.instants import MINUTE
from tapebook.domain.market import Mid
from tapebook.domain.order import Order, OrderOutcome
from tapebook.domain.position import Position
from tapebook.domain.run import DecisionRun, Watermarks
from tapebook.errors import TapebookError
from tapebook.log.set_back import StreamSetBack
from tapebook.loop.activity import activity_of
from tapebook.loop.experience import told
from tapebook.loop.horizons import curated_until
from tapebook.loop.market import read_market, with_features
from tapebook.loop.optional_reads import OptionalReads
from tapebook.loop.quotes import TapeQuotes, marks_of
from tapebook.loop.recall import Remembered, citations, docs_head
from tapebook.loop.skills import lessons_of
from tapebook.tape.features import regime_of
from tapebook.tape.finality import finished_bars
from tapebook.tape.store import Tape, View
from tapebook.wiring import Rooms


def watermarks_now(
    rooms: Rooms, deployment: Deployment, *, tape: int | None = None, optional: OptionalReads | None = None
) -> Watermarks:
    """How far each store reaches at this moment, or reached the tape when it was looked at.

    Documents or layers that cannot be asked reach nowhere, and their sections are not read either.
    """
    tape = rooms.tape.head()[0] if tape is None else tape
    read = (optional or OptionalReads()).read
    docs, curated = read("citations", 0, docs_head, rooms), read("horizons", 0, curated_until, rooms)
    if docs or curated:
        # Documents and layers that a clock which was ahead has dated are not seen before that moment has come.
        own = rooms.book.set_back("", seq=max(docs, curated), as_of=rooms.clock.now())
        docs, curated = (min(seq, own.first_seq - 1) if own else seq for seq in (docs, curated))
    return Watermarks(tape, rooms.book.head(deployment.id), docs, curated)


def gather(
    rooms: Rooms,
    deployment: Deployment,
    symbol: str,
    *,
    as_of: int,
    watermarks: Watermarks,
    skip: Iterable[str] = (),
    shelf: MarketShelf | None = None,
    renderer: int = RENDERER,
    optional: OptionalReads | None = None,
) -> Situation:
    """Everything one decision may know, and nothing beyond its watermarks; a shelf offers markets read before.

    `optional` has what failed already, and is told what fails here and why; without it, `skip` says what is left out.
    """
    view, version = View(as_of, watermarks.tape), version_of(renderer)
    optional = optional or OptionalReads(skip)
    market = _market(rooms.tape, deployment, symbol, view=view, optional=optional, shelf=shelf, version=version)
    account = rooms.book.account(deployment.id, seq=watermarks.book)
    if not watermarks.book:
        # No decision is made before the deposit; a preview shows the account as it will begin.
        begins = msgspec.structs.replace(account.portfolio, cash_usd_e6=deployment.agent.starting_cash_usd_e6)
        account = msgspec.structs.replace(account, portfolio=begins)
    ahead = rooms.book.set_back(deployment.id, seq=watermarks.book, as_of=as_of)
    if ahead is not None:
        account = not_later(account, as_of)
    working = rooms.book.orders_under_way(deployment.id, seq=watermarks.book, as_of=as_of)
    memory = _memory(
        rooms,
        deployment,
        market,
        account=account,
        watermarks=watermarks,
        optional=optional,
        version=version,
        ahead=ahead,
    )
    return Situation(
        deployment=deployment,
        as_of=as_of,
        watermarks=watermarks,
        market=market,
        portfolio=account.portfolio,
        marks=_marks(rooms.tape, market, account.portfolio.positions, working=working, view=view),
        open_trades=account.open_trades,
        working=working,
        degraded=optional.degraded,
        renderer=renderer,
        **memory,
    )


def not_later(account: Account, moment: int) -> Account:
    """The account with nothing of a later moment: what a clock that was ahead has dated is dated now."""
    if not any(held.moved_at > moment for held in account.portfolio.positions.values()) and not any(
        trade.entry_tick_at > moment for trade in account.open_trades.values()
    ):
        return account
    replace, positions = msgspec.structs.replace, account.portfolio.positions
    held = {symbol: replace(each, moved_at=min(each.moved_at, moment)) for symbol, each in positions.items()}
    trades = {
        symbol: replace(trade, entry_tick_at=min(trade.entry_tick_at, moment))
        for symbol, trade in account.open_trades.items()
    }
    return replace(account, portfolio=replace(account.portfolio, positions=held), open_trades=trades)


def marks(tape: Tape, positions: Mapping[str, Position], *, view: View) -> dict[str, int]:
    """What each position is valued at: the price last observed, or its cost where none is known."""
    return marks_of(TapeQuotes(tape, view), positions.values(), at=view.as_of)


def regime(tape: Tape, deployment: Deployment, symbol: str, *, view: View) -> str | None:
    """The regime tag of the bars an agent would have seen at a moment; None when it could not be found out.

    A trade is booked either way: the tag says something about it and is no part of it.
    """
    profile = deployment.agent.context
    try:
        seen = finished_bars(tape, symbol, minutes=profile.bar_minutes, count=profile.bar_count, view=view)
    except TapebookError:
        return None
    return regime_of(seen.bars)


def _market(
    tape: Tape,
    deployment: Deployment,
    symbol: str,
    *,
    view: View,
    optional: OptionalReads,
    shelf: MarketShelf | None,
    version: PacketVersion,
) -> Market:
    profile = deployment.agent.context
    minutes, count = profile.bar_minutes, profile.bar_count
    if shelf is None or "features" in optional.degraded:
        market = read_market(tape, symbol, minutes=minutes, count=count, view=view, version=version)
        return optional.read("features", market, with_features, tape, market, view=view, version=version)
    key = MarketKey(symbol, minutes, count, view.as_of, view.watermark)
    found = shelf.get(key)
    if found is None:
        found = _market(tape, deployment, symbol, view=view, optional=optional, shelf=None, version=version)
        # Only what was read whole is for others.
        if "features" not in optional.degraded:
            shelf.put(key, found)
    return found


def _memory(
    rooms: Rooms,
    deployment: Deployment,
    market: Market,
    *,
    account: Account,
    watermarks: Watermarks,
    optional: OptionalReads,
    version: PacketVersion,
    ahead: StreamSetBack | None,
) -> dict[str, Any]:
    """The fields of a situation that come from memory; without any, what the caps are weighed against is still read.

    Where the clock was `ahead`, trades and decisions of later moments are left out one by one. What was learned is
    that of before, until the moment has come that the clock had shown.
    """
    book, own, seq, profile = rooms.book, deployment.id, account.seq, deployment.agent.context
    view, read = View(market.as_of, watermarks.tape), optional.read
    doing = read("activity", None, activity_of, rooms, deployment, account, view=view)
    if not profile.memory:
        return {"activity": doing}
    most = min(profile.recent_trades_k, MOST_TRADES_SHOWN)
    if ahead is None:
        closed = read("recent_trades", [], book.closed_trades, own, seq=seq, most=most)
    else:
        until = {"seq": seq, "most": most, "until": view.as_of}
        closed = read("recent_trades", [], book.closed_trades_until, own, **until)
    learned = seq if ahead is None else ahead.first_seq - 1
    known = {"seq": learned, "as_of": view.as_of, "curated": watermarks.curated}
    portfolio, docs = account.portfolio, watermarks.docs
    last, outcomes = read(
        "last_decision",
        (None, ()),
        _last_decision,
        book,
        own,
        market.symbol,
        seq=seq,
        version=version,
        until=None if ahead is None else view.as_of,
    )
    lessons = read("lessons", None, lessons_of, rooms, deployment, seq=learned)
    experience = read("experience", (), told, rooms, deployment, market, portfolio, seq=learned, version=version)
    layers = read("horizons", (), rooms.horizons.rows, own, **known)
    return {
        "activity": doing,
        "closed_trades": tuple(closed),
        "last_run": last,
        "last_orders": outcomes,
        "lessons": lessons,
        "experience": experience,
        "horizons": layers,
        "citations": read(
            "citations",
            (),
            citations,
            rooms,
            deployment,
            market,
            portfolio=portfolio,
            remembered=Remembered(closed, lessons, layers),
            version=version,
            seq=docs,
        ),
    }


def _last_decision(
    book: Book, deployment: str, symbol: str, *, seq: int, version: PacketVersion, until: int | None
) -> tuple[DecisionRun | None, tuple[OrderOutcome, ...]]:
    """The newest decision on a symbol, made by a moment if one is given, and how far its orders had come."""
    if until is None:
        run = book.last_run(deployment, symbol, seq=seq, expired_orders=version.expired_orders)
    else:
        run = book.last_run_until(deployment, symbol, seq=seq, until=until)
    # Most decisions are to hold, or refused, and have no orders to ask for.
    if run is None or not any(
        [verdict.allowed and action.action != "hold" for action, verdict in zip(run.actions, run.verdicts, strict=True)]
    ):
        return run, ()
    return run, book.order_outcomes(run.run_id, seq=seq)


def _marks(
    tape: Tape, market: Market, positions: Mapping[str, Position], *, working: Iterable[Order], view: View
) -> dict[str, int]:
    """What is held, at its marks, and what is being traded, where there is a price; the market has its own already."""
    own = _fresh(market.mid, view)
    found = {} if own is None else {market.symbol: own}
    if not working and positions.keys() <= found.keys():
        return found
    found |= marks(tape, {symbol: held for symbol, held in positions.items() if symbol not in found}, view=view)
    for symbol in sorted({order.symbol for order in working} - found.keys()):
        price = TapeQuotes(tape, view).mark_e8(symbol, at=view.as_of)
        found |= {} if price is None else {symbol: price}
    return found


def _fresh(mid: Mid | None, view: View) -> int | None:
    """A price of the last minute is the mark as it is; an older one is looked for again for what is at stake."""
    return mid.price_e8 if mid is not None and view.as_of - mid.bucket_ts < MINUTE else None
