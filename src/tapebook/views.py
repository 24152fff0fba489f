"""What surfaces show: stored values as plain mappings in people's units."""

from typing import Any

import msgspec

from tapebook.domain.agent import AgentProfile, StoredNote, is_dry_run
from tapebook.domain.instants import MINUTE, iso_text
from tapebook.domain.money import E6, E8, notional_usd_e6
from tapebook.domain.order import Fill, Order
from tapebook.domain.packet import Packet, Section
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.run import Action, DecisionRun, Usage, Verdict, Vote
from tapebook.settings.profiles import profile_by_keys

View = dict[str, Any]


def agent_view(version: int, profile: AgentProfile, *, removed_at: int | None = None) -> View:
    """An agent as `tapebook agents` lists it: the keys of docs/agents.md, with its name, version and end, if any."""
    end = None if removed_at is None else iso_text(removed_at)
    return {"name": profile.name, "version": version, **profile_by_keys(profile), "removed": end}


def packet_view(packet: Packet) -> View:
    """A packet as `tapebook context` shows it."""
    return {
        "agent": packet.agent,
        "symbol": packet.symbol,
        "as_of": iso_text(packet.as_of),
        "tokens": packet.tokens,
        "sha256": packet.sha256,
        "inputs_sha256": packet.inputs_sha256,
        "renderer": packet.renderer,
        "system": packet.system,
        "text": packet.text,
        "sections": [_section_view(section, packet) for section in packet.sections],
    }


def run_view(run: DecisionRun) -> View:
    """A run as `tapebook runs` lists it."""
    moments = {"scheduled_for": iso_text(run.scheduled_for), "as_of": iso_text(run.as_of)}
    judged = [_action_view(action, verdict) for action, verdict in zip(run.actions, run.verdicts, strict=True)]
    labels = {
        "actions": judged,
        "dry": is_dry_run(run.deployment),
        "late_ms": run.as_of - run.scheduled_for,
        "votes": [_vote_view(vote) for vote in run.votes],
        "usage": None if run.usage is None else _usage_view(run.usage) | {"reused": _is_reused(run)},
    }
    return msgspec.to_builtins(run) | moments | labels  # type: ignore[no-any-return]


def order_view(order: Order, *, deployment: str, status: str, detail: str) -> View:
    """An order as `tapebook orders` lists it."""
    limit = order.limit_price_e8
    return {
        "client_id": order.client_id,
        "run_id": order.run_id,
        "deployment_id": deployment,
        "symbol": order.symbol,
        "side": order.side,
        "size": order.size_e8 / E8,
        "order_type": order.type,
        "limit_price": None if limit is None else limit / E8,
        "reduce_only": order.reduce_only,
        "leverage": order.leverage,
        "intended_at": iso_text(order.intended_at),
        "status": status,
        "detail": detail,
        "dry": is_dry_run(deployment),
    }


def fill_view(fill: Fill) -> View:
    """A part of an order that was executed."""
    return {
        "fill_id": fill.fill_id,
        "client_id": fill.client_id,
        "symbol": fill.symbol,
        "happened_at": iso_text(fill.happened_at),
        "side": "buy" if fill.signed_size_e8 > 0 else "sell",
        "size": abs(fill.signed_size_e8) / E8,
        "price": fill.price_e8 / E8,
        "value_usd": notional_usd_e6(abs(fill.signed_size_e8), fill.price_e8) / E6,
        "fee_usd": fill.fee_usd_e6 / E6,
        "maker": fill.maker,
        "liquidation": fill.liquidation,
    }


def note_view(kept: StoredNote) -> View:
    """A reflection: its note, whether it stands, and why it came to nothing if it did."""
    note = kept.note
    moments = {name: iso_text(getattr(note, name)) for name in ("generated_at", "window_start", "window_end")}
    used = {"usage": _usage_view(note.usage) if note.usage else None}
    return msgspec.structs.asdict(note) | moments | used | {"status": kept.status, "problem": kept.problem}


def trade_view(trade: TradeState | ClosedTrade, *, deployment: str, maker: tuple[str, int]) -> View:
    """A round trip, open or ended."""
    if isinstance(trade, ClosedTrade):
        return closed_trade_view(trade, deployment=deployment, maker=maker)
    return open_trade_view(trade, deployment=deployment, maker=maker)


def closed_trade_view(trade: ClosedTrade, *, deployment: str, maker: tuple[str, int]) -> View:
    """A round trip that has ended."""
    return _trade_view(trade.state, deployment, maker) | {
        "status": "closed",
        "exit_tick_at": iso_text(trade.exit_tick_at),
        "exit_price": trade.exit_price_e8 / E8,
        "exit_reason": trade.exit_reason,
        "exit_snapshot_id": trade.exit_run_id,
        "holding_minutes": trade.holding_ms / MINUTE,
    }


def open_trade_view(trade: TradeState, *, deployment: str, maker: tuple[str, int]) -> View:
    """A round trip that is still open: everything about its exit is null."""
    # Null rather than absent: open and closed trades have the same columns in every table and export.
    missing = ("exit_tick_at", "exit_price", "exit_reason", "exit_snapshot_id", "holding_minutes")
    return _trade_view(trade, deployment, maker) | {"status": "open"} | dict.fromkeys(missing)


def _trade_view(state: TradeState, deployment: str, maker: tuple[str, int]) -> View:
    return {
        "id": state.trade_id,
        "deployment_id": deployment,
        "skill_id": maker[0],
        "skill_version": maker[1],
        "symbol": state.symbol,
        "side": state.side,
        "entry_tick_at": iso_text(state.entry_tick_at),
        "entry_price": state.entry_price_e8 / E8,
        "entry_mark": state.entry_mark_e8 / E8,
        "entry_size_usd": state.entry_notional_usd_e6 / E6,
        "turnover_usd": state.turnover_usd_e6 / E6,
        "entry_leverage": state.entry_leverage,
        "entry_reason": state.entry_reason,
        "entry_snapshot_id": state.entry_run_id,
        "entry_lessons_hash": state.entry_lessons_hash,
        "entry_regime_tag": state.entry_regime_tag,
        "realized_pnl_usd": state.realised_usd_e6 / E6,
        "fees_usd": state.fees_usd_e6 / E6,
        "funding_usd": state.funding_usd_e6 / E6,
        "net_pnl_usd": state.net_usd_e6 / E6,
        "mfe_usd": state.mfe_usd_e6 / E6,
        "mae_usd": state.mae_usd_e6 / E6,
    }


def _section_view(section: Section, packet: Packet) -> View:
    return {
        "name": section.name,
        "title": section.title,
        "columns": list(section.columns),
        "rows": [list(row) for row in section.rows],
        "dropped": section.dropped,
        "tokens": packet.section_tokens[section.name],
    }


def _vote_view(vote: Vote) -> View:
    plain = {"engine": vote.engine, "action": vote.action, "side": vote.side, "reason": vote.reason}
    return plain | {"confidence": vote.confidence_e4 / 10_000, "weight": vote.weight_e4 / 10_000}


# A model that was asked has at least one attempt; a stored answer that was used again has none.
def _is_reused(run: DecisionRun) -> bool:
    """Whether the answer had been paid for before, by another run."""
    return run.usage is not None and not run.usage.attempts and run.status != "failed"


def _usage_view(usage: Usage) -> View:
    view: View = msgspec.to_builtins(usage)
    return view | {"cost_usd": view.pop("cost_usd_e6") / E6}


def _action_view(action: Action, verdict: Verdict) -> View:
    limit = action.limit_price_e8
    return {
        "action": action.action,
        "symbol": action.symbol,
        "side": action.side,
        "notional_usd": action.notional_usd_e6 / E6,
        "leverage": action.leverage,
        "order_type": action.order_type,
        "limit_price": None if limit is None else limit / E8,
        "confidence": action.confidence_e4 / 10_000,
        "reason": action.reason,
        "cites": list(action.cites),
        "verdict": "allowed" if verdict.allowed else "refused",
        "rule": verdict.rule,
        "detail": verdict.detail,
        "flags": list(verdict.flags),
    }
