"""The book's tables: what each kind of event writes. Nothing here reads a table or a clock."""

from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from tapebook.book import events as ev
from tapebook.db import Queries, Query, Row
from tapebook.domain.canonical import canonical_json_part
from tapebook.domain.order import Order
from tapebook.domain.position import Position, TradeState
from tapebook.domain.run import Usage
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


class _SavedProfile(msgspec.Struct):
    profile: msgspec.Raw


def _agent_saved(event: Event) -> list[Write]:
    return [_agent_version(event, ev.event_body(event, ev.AgentSaved), removed=0)]


def _agent_removed(event: Event) -> list[Write]:
    return [_agent_version(event, ev.event_body(event, ev.AgentRemoved), removed=1)]


def _agent_version(event: Event, body: ev.AgentSaved | ev.AgentRemoved, *, removed: int) -> Write:
    # The profile as it was written: a field that profiles get later must not change the row of an old one.
    written = msgspec.json.decode(event.body, type=_SavedProfile)
    profile = bytes(written.profile).decode()
    row = {"agent": body.profile.name, "version": body.version, "profile_json": profile, "removed": removed}
    return Write(_QUERIES.agent_version, event.columns() | row)


def _deployment_opened(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.DeploymentOpened)
    return [
        Write(_QUERIES.deployment, event.columns() | msgspec.structs.asdict(body) | {"opened_at": event.happened_at})
    ]


def _desk_halted(event: Event) -> list[Write]:
    return [_desk_control(event, ev.event_body(event, ev.DeskHalted), halted=1)]


def _desk_resumed(event: Event) -> list[Write]:
    return [_desk_control(event, ev.event_body(event, ev.DeskResumed), halted=0)]


def _desk_control(event: Event, body: ev.DeskHalted | ev.DeskResumed, *, halted: int) -> Write:
    row = msgspec.structs.asdict(body) | {"halted": halted, "known_at": event.known_at}
    return Write(_QUERIES.control, event.columns() | row)


def _desk_flattened(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.DeskFlattened)
    row = msgspec.structs.asdict(body) | {"known_at": event.known_at}
    return [Write(_QUERIES.flattening, event.columns() | row)]


def _ledger_posted(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.LedgerPosted)
    balance = body.balance_usd_e6 - sum(line.amount_usd_e6 for line in body.lines)
    writes = []
    for number, line in enumerate(body.lines):
        balance += line.amount_usd_e6
        row = msgspec.structs.asdict(line) | {
            "line": number,
            "balance_usd_e6": balance,
            "happened_at": event.happened_at,
        }
        writes.append(Write(_QUERIES.ledger_line, event.columns() | row))
    return writes


def _run_decided(event: Event) -> list[Write]:
    run = ev.event_body(event, ev.RunDecided).run
    place = (event.stream.owner, event.stream.deployment, event.seq)
    lacked = (_json_texts(run.degraded), _json_texts(run.degraded_causes))
    optional_values = (*lacked, *_usage_values(run.usage))
    writes = [Write(_QUERIES.run, (*place, event.known_at, *optional_values, *_run_values(run)))]
    if run.trigger != "backtest":
        # No table of ours, but the desk's to-do list, which no backtest has: a decision leaves it with its run.
        writes.append(Write(_QUERIES.done, (run.run_id,)))
    for number, (action, verdict) in enumerate(zip(run.actions, run.verdicts, strict=True)):
        verdict_values = (int(verdict.allowed), verdict.rule, verdict.detail, _json_texts(verdict.flags))
        row = (*place, number, run.run_id, _json_texts(action.cites), *verdict_values, *_action_values(action))
        writes.append(Write(_QUERIES.action, row))
    return writes


def _values_of(query: Query, *, first: str, **paths: str) -> Callable[[object], Row]:
    """What reads a statement's values off a struct, from one column on; `paths` are of columns with another name."""
    names = query.params[query.params.index(first) :]
    return attrgetter(*[paths.get(name, name) for name in names])


_run_values = _values_of(
    _QUERIES.run,
    first="run_id",
    run_trigger="trigger",
    tape_seq="watermarks.tape",
    book_seq="watermarks.book",
    docs_seq="watermarks.docs",
    curated_seq="watermarks.curated",
)
_action_values = _values_of(_QUERIES.action, first="action")


@lru_cache(maxsize=1_024)
def _json_texts(texts: tuple[str, ...]) -> str:
    """Cached, since it is none of them as a rule."""
    return canonical_json_part(texts)


def _usage_values(usage: Usage | None) -> Row:
    return msgspec.structs.astuple(usage) if usage else _NO_USAGE


def _run_ended(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.RunEnded)
    return [Write(_QUERIES.end_run, {"run_id": body.run_id, "status": body.status} | event.columns())]


def _order_intended(event: Event) -> list[Write]:
    return [Write(_QUERIES.order, _order_row(ev.event_body(event, ev.OrderIntended).order) | event.columns())]


def _order_dry_run(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.OrderDryRun)
    row = _order_row(body.order) | msgspec.structs.asdict(body) | event.columns() | {"happened_at": event.happened_at}
    return [Write(_QUERIES.dry_order, row), Write(_QUERIES.dry_ledger_line, row)]


def _order_row(order: Order) -> dict[str, Any]:
    return msgspec.structs.asdict(order) | {"order_type": order.type, "reduce_only": int(order.reduce_only)}


def _order_placed(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.OrderPlaced)
    return [Write(_QUERIES.place_order, {"client_id": body.client_id} | event.columns())]


def _order_unanswered(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.OrderUnanswered)
    return [Write(_QUERIES.doubt_order, msgspec.structs.asdict(body) | event.columns())]


def _order_ended(event: Event) -> list[Write]:
    end = ev.event_body(event, ev.OrderEnded).end
    row = {"client_id": end.client_id, "status": end.status, "detail": end.detail}
    return [Write(_QUERIES.end_order, row | event.columns())]


def _fill_observed(event: Event) -> list[Write]:
    fill = ev.event_body(event, ev.FillObserved).fill
    row = msgspec.structs.asdict(fill) | {"maker": int(fill.maker), "liquidation": int(fill.liquidation)}
    return [Write(_QUERIES.fill, row | event.columns())]


def _spot_fill_observed(event: Event) -> list[Write]:
    fill = ev.event_body(event, ev.SpotFillObserved).fill
    return [Write(_QUERIES.spot_fill, msgspec.structs.asdict(fill) | {"maker": int(fill.maker)} | event.columns())]


def _token_fee_observed(event: Event) -> list[Write]:
    return [
        Write(
            _QUERIES.token_fee,
            msgspec.structs.asdict(ev.event_body(event, ev.TokenFeeObserved)) | event.columns(),
        )
    ]


def _fill_bridged(event: Event) -> list[Write]:
    return [Write(_QUERIES.bridge_fill, {"fill_id": ev.event_body(event, ev.FillBridged).fill_id} | event.columns())]


def _trade_marked(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.TradeMarkedIncomplete)
    return [Write(_QUERIES.mark_trade, {"trade_id": body.trade_id, "lacks": ",".join(body.lacks)} | event.columns())]


def _marks_observed(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.MarksObserved)
    place = (event.stream.owner, event.stream.deployment, event.seq)
    worth = (body.cash_usd_e6, body.equity_usd_e6, body.walked_until)
    return [Write(_QUERIES.snapshot, (*place, event.happened_at, canonical_json_part(body.marks), *worth))]


def _trade_opened(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.TradeOpened)
    row = msgspec.structs.asdict(body.trade) | {"agent": body.agent, "agent_version": body.agent_version}
    return [
        Write(_QUERIES.open_trade, row | event.columns()),
        _position_version(event, body.trade, body.position),
    ]


def _trade_updated(event: Event) -> list[Write]:
    body = ev.event_body(event, ev.TradeUpdated)
    return [_position_version(event, body.trade, body.position)]


def _trade_closed(event: Event) -> list[Write]:
    closed = ev.event_body(event, ev.TradeClosed).trade
    row = msgspec.structs.asdict(closed.state) | {
        "exit_tick_at": closed.exit_tick_at,
        "exit_reason": closed.exit_reason,
        "exit_run_id": closed.exit_run_id,
    }
    gone = Position(closed.state.symbol, 0, 0, 0)
    return [Write(_QUERIES.close_trade, row | event.columns()), _position_version(event, closed.state, gone)]


def _position_version(event: Event, trade: TradeState, position: Position) -> Write:
    row = msgspec.structs.asdict(trade) | msgspec.structs.asdict(position)
    return Write(_QUERIES.position, row | event.columns())


PROJECTION = Projection(
    tables=TABLES,
    projectors={
        ev.EVENT_KINDS[ev.AgentSaved]: _agent_saved,
        ev.EVENT_KINDS[ev.AgentRemoved]: _agent_removed,
        ev.EVENT_KINDS[ev.DeploymentOpened]: _deployment_opened,
        ev.EVENT_KINDS[ev.DeskHalted]: _desk_halted,
        ev.EVENT_KINDS[ev.DeskResumed]: _desk_resumed,
        ev.EVENT_KINDS[ev.DeskFlattened]: _desk_flattened,
        ev.EVENT_KINDS[ev.LedgerPosted]: _ledger_posted,
        ev.EVENT_KINDS[ev.RunDecided]: _run_decided,
        ev.EVENT_KINDS[ev.RunEnded]: _run_ended,
        ev.EVENT_KINDS[ev.OrderIntended]: _order_intended,
        ev.EVENT_KINDS[ev.OrderDryRun]: _order_dry_run,
        ev.EVENT_KINDS[ev.OrderPlaced]: _order_placed,
        ev.EVENT_KINDS[ev.OrderUnanswered]: _order_unanswered,
        ev.EVENT_KINDS[ev.OrderEnded]: _order_ended,
        ev.EVENT_KINDS[ev.FillObserved]: _fill_observed,
        ev.EVENT_KINDS[ev.MarksObserved]: _marks_observed,
        ev.EVENT_KINDS[ev.SpotFillObserved]: _spot_fill_observed,
        ev.EVENT_KINDS[ev.TokenFeeObserved]: _token_fee_observed,
        ev.EVENT_KINDS[ev.FillBridged]: _fill_bridged,
        ev.EVENT_KINDS[ev.TradeMarkedIncomplete]: _trade_marked,
        ev.EVENT_KINDS[ev.TradeOpened]: _trade_opened,
        ev.EVENT_KINDS[ev.TradeUpdated]: _trade_updated,
        ev.EVENT_KINDS[ev.TradeClosed]: _trade_closed,
    },
)
