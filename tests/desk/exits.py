"""Trades that ended as a test says, written into a book as a desk would have: a run, a round trip, its postings."""

from collections.abc import Iterable

import msgspec

from tapebook.book import events as ev
from tapebook.book.events import Posting
from tapebook.domain.agent import Deployment
from tapebook.domain.position import ClosedTrade, Position, TradeState
from tapebook.domain.run import Action, DecisionRun, Verdict, Watermarks
from tapebook.domain.units import E8
from tapebook.horizons.aggregate import EXTERNAL, TradeExit
from tapebook.log import Draft
from tapebook.wiring import Rooms


def booked(rooms: Rooms, deployment: Deployment, exits: Iterable[TradeExit]) -> None:
    """Writes trades that ended, in the order they became known; what each came to is posted when it ended."""
    seq = rooms.book.head(deployment.id)
    cash, drafts = rooms.book.account(deployment.id, seq=seq).portfolio.cash_usd_e6, list[Draft]()
    for each in exits:
        cash += each.net_usd_e6
        drafts += _drafts(deployment, each, cash=cash)
    if drafts:
        rooms.book.append(deployment.id, drafts, expected_seq=seq)


def as_booked(each: TradeExit, deployment: Deployment) -> TradeExit:
    """The exit as the book gives it back: names are the deployment's own, and without a run nobody was confident."""
    name = f"{deployment.id}-{each.trade_id}"
    if each.strategy == EXTERNAL:
        return msgspec.structs.replace(each, trade_id=name, confidence_e4=None)
    return msgspec.structs.replace(each, trade_id=name)


def _drafts(deployment: Deployment, said: TradeExit, *, cash: int) -> list[Draft]:
    each = as_booked(said, deployment)
    closed, held = _closed(each), Position(each.symbol, E8, each.entered_usd_e6)
    decided = [ev.RunDecided(_run(deployment, each))] if closed.state.entry_run_id else []
    opened = ev.TradeOpened(deployment.agent.name, deployment.version, closed.state, held)
    posted = ev.LedgerPosted("result", (Posting("realised_pnl", each.symbol, each.net_usd_e6),), cash)
    return [ev.draft_event(each.exited_at, body) for body in (*decided, opened, posted, ev.TradeClosed(closed))]


def _closed(each: TradeExit) -> ClosedTrade:
    state = TradeState(
        trade_id=each.trade_id,
        symbol=each.symbol,
        side=each.side,
        entry_tick_at=each.exited_at - each.held_ms,
        entry_mark_e8=E8,
        entry_leverage=1,
        entry_reason="test",
        entry_run_id=None if each.strategy == EXTERNAL else f"r{each.trade_id}",
        entry_regime_tag=each.regime,
        entry_lessons_hash=None,
        entered_e8=E8,
        entered_usd_e6=each.entered_usd_e6 * (1 if each.side == "long" else -1),
        funded_until=each.exited_at,
        exited_e8=E8,
        realised_usd_e6=each.gross_usd_e6,
        fees_usd_e6=each.fees_usd_e6,
        funding_usd_e6=each.funding_usd_e6,
    )
    return ClosedTrade(state, each.exited_at, each.reason, None)


def _run(deployment: Deployment, each: TradeExit) -> DecisionRun:
    at, sure = each.exited_at - each.held_ms, each.confidence_e4
    action = Action("open", each.symbol, each.side, each.entered_usd_e6, 1, "market", None, sure or 0, "test")
    return DecisionRun(
        run_id=f"r{each.trade_id}",
        owner=deployment.owner,
        deployment=deployment.id,
        agent=deployment.agent.name,
        agent_version=deployment.version,
        symbol=each.symbol,
        scheduled_for=at,
        trigger="manual",
        branch="main",
        as_of=at,
        watermarks=Watermarks(0, 0),
        renderer=1,
        inputs_sha256="",
        packet_sha256="",
        tokens=0,
        engine=each.strategy,
        packet_key=None,
        reply_key=None,
        status="done",
        actions=(action,),
        verdicts=(Verdict(sure is not None),),
    )
