"""The book's tables: what each kind of event writes. Nothing here reads a table or a clock."""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from tapebook.book import events as ev
from tapebook.db import Queries, Query, Row
from tapebook.domain.canonical import canonical_part
from tapebook.domain.order import Order
from tapebook.domain.position import Position
from tapebook.domain.run import Usage
from tapebook.domain.trade import TradeState
from tapebook.log import Event, Projection, Write

_QUERIES = Queries.load("tapebook.book", "projections.sql")

TABLES = (
    "agent_versions",
    "deployments",
    "desk_controls",
    "desk_flattenings",
    "decision_runs",
    "decision_actions",
    "orders",
    "fills",
    "spot_fills",
    "wallet_ledger",
    "positions",
    "portfolio_snapshots",
    "trade_history",
)


# A run that asked no model.
_NO_USAGE: Row = ("", 0, 0, 0, 0)


def _place(event: Event) -> dict[str, Any]:
    stream = event.stream
    return {"owner": stream.owner, "deployment": stream.deployment, "seq": event.seq, "known_at": event.known_at}


class _Written(msgspec.Struct):
    profile: msgspec.Raw


def _agent_saved(event: Event) -> list[Write]:
    return [_agent_version(event, ev.body_of(event, ev.AgentSaved), removed=0)]


def _agent_removed(event: Event) -> list[Write]:
    return [_agent_version(event, ev.body_of(event, ev.AgentRemoved), removed=1)]


def _agent_version(event: Event, body: ev.AgentSaved | ev.AgentRemoved, *, removed: int) -> Write:
    # The profile as it was written: a field that profiles get later must not change the row of an old one.
    written = msgspec.json.decode(event.body, type=_Written)
    profile = bytes(written.profile).decode()
    row = {"agent": body.profile.name, "version": body.version, "profile_json": profile, "removed": removed}
    return Write(_QUERIES.agent_version, _place(event) | row)


def _deployment_opened(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.DeploymentOpened)
    return [Write(_QUERIES.deployment, _place(event) | msgspec.structs.asdict(body) | {"opened_at": event.happened_at})]


def _desk_halted(event: Event) -> list[Write]:
    return [_control(event, ev.body_of(event, ev.DeskHalted), halted=1)]


def _desk_resumed(event: Event) -> list[Write]:
    return [_control(event, ev.body_of(event, ev.DeskResumed), halted=0)]


def _control(event: Event, body: ev.DeskHalted | ev.DeskResumed, *, halted: int) -> Write:
    row = msgspec.structs.asdict(body) | {"halted": halted, "known_at": event.known_at}
    return Write(_QUERIES.control, _place(event) | row)


def _desk_flattened(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.DeskFlattened)
    row = msgspec.structs.asdict(body) | {"known_at": event.known_at}
    return [Write(_QUERIES.flattening, _place(event) | row)]


def _ledger_posted(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.LedgerPosted)
    balance = body.balance_usd_e6 - sum(line.amount_usd_e6 for line in body.lines)
    writes = []
    for number, line in enumerate(body.lines):
        balance += line.amount_usd_e6
        row = msgspec.structs.asdict(line) | {
            "line": number,
            "balance_usd_e6": balance,
            "happened_at": event.happened_at,
        }
        writes.append(Write(_QUERIES.ledger_line, _place(event) | row))
    return writes


def _run_decided(event: Event) -> list[Write]:
    run = ev.body_of(event, ev.RunDecided).run
    place = (event.stream.owner, event.stream.deployment, event.seq)
    lacked = (_texts(run.degraded), _texts(run.degraded_causes))
    told = (*lacked, *_usage(run.usage))
    writes = [Write(_QUERIES.run, (*place, event.known_at, *told, *_of_run(run)))]
    if run.trigger != "backtest":
        # No table of ours, but the desk's to-do list, which no backtest has: a decision leaves it with its run.
        writes.append(Write(_QUERIES.done, (run.run_id,)))
    for number, (action, verdict) in enumerate(zip(run.actions, run.verdicts, strict=True)):
        said = (int(verdict.allowed), verdict.rule, verdict.detail, _texts(verdict.flags))
        row = (*place, number, run.run_id, _texts(action.cites), *said, *_of_action(action))
        writes.append(Write(_QUERIES.action, row))
    return writes


def _columns(query: Query, *, first: str, **paths: str) -> Callable[[object], Row]:
    """What reads a statement's values off a struct, from one column on; `paths` are of columns with another name."""
    names = query.params[query.params.index(first) :]
    return attrgetter(*[paths.get(name, name) for name in names])


_of_run = _columns(
    _QUERIES.run,
    first="run_id",
    run_trigger="trigger",
    tape_seq="watermarks.tape",
    book_seq="watermarks.book",
    docs_seq="watermarks.docs",
    curated_seq="watermarks.curated",
)
_of_action = _columns(_QUERIES.action, first="action")


@lru_cache(maxsize=1_024)
def _texts(texts: tuple[str, ...]) -> str:
    """Cached, since it is none of them as a rule."""
    return canonical_part(texts)


def _usage(usage: Usage | None) -> Row:
    return msgspec.structs.astuple(usage) if usage else _NO_USAGE


def _run_ended(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.RunEnded)
    return [Write(_QUERIES.end_run, {"run_id": body.run_id, "status": body.status} | _place(event))]


def _order_intended(event: Event) -> list[Write]:
    return [Write(_QUERIES.order, _order_row(ev.body_of(event, ev.OrderIntended).order) | _place(event))]


def _order_dry_run(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.OrderDryRun)
    row = _order_row(body.order) | msgspec.structs.asdict(body) | _place(event) | {"happened_at": event.happened_at}
    return [Write(_QUERIES.dry_order, row), Write(_QUERIES.dry_ledger_line, row)]


def _order_row(order: Order) -> dict[str, Any]:
    return msgspec.structs.asdict(order) | {"order_type": order.type, "reduce_only": int(order.reduce_only)}


def _order_placed(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.OrderPlaced)
    return [Write(_QUERIES.place_order, {"client_id": body.client_id} | _place(event))]


def _order_unanswered(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.OrderUnanswered)
    return [Write(_QUERIES.doubt_order, msgspec.structs.asdict(body) | _place(event))]


def _order_ended(event: Event) -> list[Write]:
    end = ev.body_of(event, ev.OrderEnded).end
    row = {"client_id": end.client_id, "status": end.status, "detail": end.detail}
    return [Write(_QUERIES.end_order, row | _place(event))]


def _fill_observed(event: Event) -> list[Write]:
    fill = ev.body_of(event, ev.FillObserved).fill
    row = msgspec.structs.asdict(fill) | {"maker": int(fill.maker), "liquidation": int(fill.liquidation)}
    return [Write(_QUERIES.fill, row | _place(event))]


def _spot_fill_observed(event: Event) -> list[Write]:
    fill = ev.body_of(event, ev.SpotFillObserved).fill
    return [Write(_QUERIES.spot_fill, msgspec.structs.asdict(fill) | {"maker": int(fill.maker)} | _place(event))]


def _token_fee_observed(event: Event) -> list[Write]:
    return [Write(_QUERIES.token_fee, msgspec.structs.asdict(ev.body_of(event, ev.TokenFeeObserved)) | _place(event))]


def _fill_bridged(event: Event) -> list[Write]:
    return [Write(_QUERIES.bridge_fill, {"fill_id": ev.body_of(event, ev.FillBridged).fill_id} | _place(event))]


def _trade_marked(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.TradeMarked)
    return [Write(_QUERIES.mark_trade, {"trade_id": body.trade_id, "lacks": ",".join(body.lacks)} | _place(event))]


def _marks_observed(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.MarksObserved)
    place = (event.stream.owner, event.stream.deployment, event.seq)
    worth = (body.cash_usd_e6, body.equity_usd_e6, body.walked_until)
    return [Write(_QUERIES.snapshot, (*place, event.happened_at, canonical_part(body.marks), *worth))]


def _trade_opened(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.TradeOpened)
    row = msgspec.structs.asdict(body.trade) | {"agent": body.agent, "agent_version": body.agent_version}
    return [Write(_QUERIES.open_trade, row | _place(event)), _version(event, body.trade, body.position)]


def _trade_updated(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.TradeUpdated)
    return [_version(event, body.trade, body.position)]


def _trade_closed(event: Event) -> list[Write]:
    closed = ev.body_of(event, ev.TradeClosed).trade
    row = msgspec.structs.asdict(closed.state) | {
        "exit_tick_at": closed.exit_tick_at,
        "exit_reason": closed.exit_reason,
        "exit_run_id": closed.exit_run_id,
    }
    gone = Position(closed.state.symbol, 0, 0, 0)
    return [Write(_QUERIES.close_trade, row | _place(event)), _version(event, closed.state, gone)]


def _version(event: Event, trade: TradeState, position: Position) -> Write:
    row = msgspec.structs.asdict(trade) | msgspec.structs.asdict(position)
    return Write(_QUERIES.position, row | _place(event))


PROJECTION = Projection(
    tables=TABLES,
    projectors={
        ev.KINDS[ev.AgentSaved]: _agent_saved,
        ev.KINDS[ev.AgentRemoved]: _agent_removed,
        ev.KINDS[ev.DeploymentOpened]: _deployment_opened,
        ev.KINDS[ev.DeskHalted]: _desk_halted,
        ev.KINDS[ev.DeskResumed]: _desk_resumed,
        ev.KINDS[ev.DeskFlattened]: _desk_flattened,
        ev.KINDS[ev.LedgerPosted]: _ledger_posted,
        ev.KINDS[ev.RunDecided]: _run_decided,
        ev.KINDS[ev.RunEnded]: _run_ended,
        ev.KINDS[ev.OrderIntended]: _order_intended,
        ev.KINDS[ev.OrderDryRun]: _order_dry_run,
        ev.KINDS[ev.OrderPlaced]: _order_placed,
        ev.KINDS[ev.OrderUnanswered]: _order_unanswered,
        ev.KINDS[ev.OrderEnded]: _order_ended,
        ev.KINDS[ev.FillObserved]: _fill_observed,
        ev.KINDS[ev.MarksObserved]: _marks_observed,
        ev.KINDS[ev.SpotFillObserved]: _spot_fill_observed,
        ev.KINDS[ev.TokenFeeObserved]: _token_fee_observed,
        ev.KINDS[ev.FillBridged]: _fill_bridged,
        ev.KINDS[ev.TradeMarked]: _trade_marked,
        ev.KINDS[ev.TradeOpened]: _trade_opened,
        ev.KINDS[ev.TradeUpdated]: _trade_updated,
        ev.KINDS[ev.TradeClosed]: _trade_closed,
    },
)
