"""Stored values as surfaces and programs get them: plain mappings in people's units, with the types of their keys.

Instants are ISO-8601 text, money is dollars, sizes and prices are numbers. The order of the keys is that of the JSON.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, TypeVar, cast

import msgspec

from tapebook.domain.agent import StoredNote, is_dry_run
from tapebook.domain.order import Fill, Order
from tapebook.domain.packet import Packet, Section
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.run import Action, ActionKind, DecisionRun, RunStatus, Trigger, Usage, Verdict, Vote
from tapebook.domain.units import E6, E8, MINUTE, iso_text, notional_usd_e6

if TYPE_CHECKING:
    import pyarrow as pa

ViewRow = TypeVar("ViewRow")


class Page(list[ViewRow]):
    """A part of a list, newest first. `next` is the `before=` with which it goes on; None when that was all.

    `exact` has beside each row the integers that are stored, such as `net_usd_e6`; a float has about 15 digits.
    """

    next: str | None = None
    exact: Sequence[Mapping[str, int]] = ()

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[ViewRow],
        *,
        most: int,
        cursor: Callable[[ViewRow], str],
        exact: Sequence[Mapping[str, int]] = (),
    ) -> "Page[ViewRow]":
        """The first `most` of rows that were asked for with one more, which tells whether there are any behind."""
        page = cls(rows[:most])
        page.exact = exact[:most]
        if len(rows) > most:
            page.next = cursor(page[-1])
        return page

    def frame(self) -> "pa.Table":
        """The rows as an Arrow table, for pandas, polars and duckdb; stored integers are columns of their own."""
        import pyarrow as pa

        beside = self.exact or [{}] * len(self)
        return pa.Table.from_pylist(
            [{**cast(dict[str, Any], row), **more} for row, more in zip(self, beside, strict=True)]
        )

    def _repr_html_(self) -> str:
        """The rows as notebooks show them."""
        rows = [cast(dict[str, Any], row) for row in self]
        shown = [name for name in (rows[0] if rows else {}) if not isinstance(rows[0][name], list | tuple | dict)]
        head = "".join(f"<th>{escape(name)}</th>" for name in shown)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(row.get(name, '')))}</td>" for name in shown) + "</tr>" for row in rows
        )
        more = "<p>… more: <code>before=page.next</code></p>" if self.next else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def stored_integers(*values: msgspec.Struct) -> dict[str, int]:
    """The fields of stored values that are whole units: those whose names end in `_e6` or `_e8`."""
    found = {name: number for each in values for name, number in msgspec.structs.asdict(each).items()}
    return {name: number for name, number in found.items() if name.endswith(("_e6", "_e8")) and isinstance(number, int)}


class SectionView(TypedDict):
    """A section of a packet."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[str]]
    dropped: int
    tokens: int


class PacketView(TypedDict):
    """A packet as `tapebook context` shows it."""

    agent: str
    symbol: str
    as_of: str
    tokens: int
    sha256: str
    inputs_sha256: str
    renderer: int
    system: str
    text: str
    sections: list[SectionView]


class WatermarksView(TypedDict):
    """How far each store was read."""

    tape: int
    book: int
    docs: int
    curated: int


class ActionView(TypedDict):
    """An action with its verdict; the last three say what became of it, where that is asked."""

    action: ActionKind
    symbol: str
    side: Literal["long", "short"] | None
    notional_usd: float
    leverage: int
    order_type: str
    limit_price: float | None
    confidence: float
    reason: str
    cites: list[str]
    verdict: Literal["allowed", "refused"]
    rule: str | None
    detail: str
    flags: list[str]
    status: NotRequired[str]
    order_id: NotRequired[str | None]
    quantity: NotRequired[float | None]


class VerdictView(TypedDict):
    """What the guard said of one action."""

    allowed: bool
    rule: str | None
    detail: str
    flags: Sequence[str]


class VoteView(TypedDict):
    """What one member of an ensemble proposed."""

    engine: str
    action: ActionKind
    side: Literal["long", "short"] | None
    reason: str
    confidence: float
    weight: float


class UsageView(TypedDict):
    """What asking a model cost; `reused` says of a run that its answer had been paid for before."""

    model: str
    input_tokens: int
    output_tokens: int
    attempts: int
    cost_usd: float
    reused: NotRequired[bool]


class RunView(TypedDict):
    """A decision as it was recorded."""

    run_id: str
    owner: str
    deployment: str
    agent: str
    agent_version: int
    symbol: str
    scheduled_for: str
    trigger: Trigger
    branch: str
    as_of: str
    watermarks: WatermarksView
    renderer: int
    inputs_sha256: str
    packet_sha256: str
    tokens: int
    engine: str
    packet_key: str | None
    reply_key: str | None
    status: RunStatus
    actions: list[ActionView]
    verdicts: Sequence[VerdictView]
    degraded: Sequence[str]
    note: str
    error: str | None
    votes: list[VoteView]
    usage: UsageView | None
    degraded_causes: Sequence[str]
    reason_key: str | None
    dry: bool
    late_ms: int


class RecordedRunView(RunView):
    """A decision with its times, as `tapebook runs` lists it."""

    candidate_symbols: list[str]
    prompt_key: str | None
    context_key: str | None
    response_key: str | None
    started_at: str | None
    completed_at: str | None
    created_at: str
    updated_at: str


class OrderView(TypedDict):
    """An order with the newest word on it, as `tapebook orders` lists it."""

    client_id: str
    run_id: str
    deployment_id: str
    symbol: str
    side: Literal["buy", "sell"]
    size: float
    order_type: Literal["market", "limit"]
    limit_price: float | None
    reduce_only: bool
    leverage: int
    intended_at: str
    status: str
    detail: str
    dry: bool
    created_at: str
    updated_at: str


class FillView(TypedDict):
    """A part of an order that was executed."""

    fill_id: str
    client_id: str | None
    symbol: str
    happened_at: str
    side: Literal["buy", "sell"]
    size: float
    price: float
    value_usd: float
    fee_usd: float
    maker: bool
    liquidation: bool


class TradeStateView(TypedDict):
    """A round trip; everything about the exit of an open one is null."""

    id: str
    deployment_id: str
    skill_id: str
    skill_version: int
    symbol: str
    side: Literal["long", "short"]
    entry_tick_at: str
    entry_price: float
    entry_mark: float
    entry_size_usd: float
    turnover_usd: float
    entry_leverage: int | None
    entry_reason: str
    entry_snapshot_id: str | None
    entry_lessons_hash: str | None
    entry_regime_tag: str | None
    realized_pnl_usd: float
    fees_usd: float
    funding_usd: float
    net_pnl_usd: float
    mfe_usd: float
    mae_usd: float
    status: Literal["open", "closed"]
    exit_tick_at: str | None
    exit_price: float | None
    exit_reason: str | None
    exit_snapshot_id: str | None
    holding_minutes: float | None


class TradeView(TradeStateView):
    """A round trip with when it was written and changed last, as `tapebook trades` lists it."""

    created_at: str
    updated_at: str
    lacks: list[str]


class RunTradeView(TradeView):
    """A round trip, and what one decision did to it."""

    role: Literal["entry", "exit", "change"]


class LessonView(TypedDict):
    """Which note a decision was told."""

    agent: str
    note_id: str
    content_hash: str


class PartView(TypedDict):
    """A part of a packet against its cap."""

    name: str
    place: str
    tokens: int
    cap: int | None
    shown: int
    dropped: int


class CitedPassageView(TypedDict):
    """Lines of a document as a decision was told them; `text` is null where the archive has lost it.

    `cited` says whether an action of the decision names it.
    """

    id: str
    path: str
    startLine: int
    endLine: int
    score: float
    snippet: str
    source: str
    contentSha256: str
    text: str | None
    cited: bool


class ExplainedRunView(RecordedRunView):
    """A decision and everything about it; what is not kept any more is null, and `problems` says why."""

    lessons_hash: str | None
    lessons: list[LessonView] | None
    sections: list[PartView] | None
    citations: list[CitedPassageView] | None
    packet: str | None
    reply: str | None
    reasoning: str | None
    orders: list[OrderView]
    fills: list[FillView]
    trades: list[RunTradeView]
    problems: list[str]


class RunComparison(TypedDict):
    """Two decisions, and how their packets differ; `diff` is null where a text is not kept any more."""

    first: RunView
    second: RunView
    diff: list[str] | None


class NoteView(TypedDict):
    """A reflection: its note, whether it stands, and why it came to nothing if it did."""

    note_id: str
    agent: str
    agent_version: int
    generated_at: str
    window_start: str
    window_end: str
    trades_considered: int
    lessons_text: str
    content_hash: str
    written_by: str
    usage: UsageView | None
    status: Literal["active", "superseded", "refused"]
    problem: str


def packet_view(packet: Packet) -> PacketView:
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


def run_view(run: DecisionRun) -> RunView:
    """A run as `tapebook runs` lists it."""
    moments = {"scheduled_for": iso_text(run.scheduled_for), "as_of": iso_text(run.as_of)}
    judged = [_action_view(action, verdict) for action, verdict in zip(run.actions, run.verdicts, strict=True)]
    said = {
        "actions": judged,
        "dry": is_dry_run(run.deployment),
        "late_ms": run.as_of - run.scheduled_for,
        "votes": [_vote_view(vote) for vote in run.votes],
        "usage": None if run.usage is None else {**_usage_view(run.usage), "reused": _is_reused(run)},
    }
    return cast(RunView, msgspec.to_builtins(run) | moments | said)


def order_view(order: Order, *, deployment: str, status: str, detail: str, times: tuple[int, int]) -> OrderView:
    """An order; `times` are when it was written and when it was changed last."""
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
        "created_at": iso_text(times[0]),
        "updated_at": iso_text(times[1]),
    }


def fill_view(fill: Fill) -> FillView:
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


def note_view(kept: StoredNote) -> NoteView:
    """A reflection."""
    note = kept.note
    moments = {name: iso_text(getattr(note, name)) for name in ("generated_at", "window_start", "window_end")}
    used = {"usage": _usage_view(note.usage) if note.usage else None}
    state = {"status": kept.status, "problem": kept.problem}
    return cast(NoteView, msgspec.structs.asdict(note) | moments | used | state)


def trade_view(trade: TradeState | ClosedTrade, *, deployment: str, maker: tuple[str, int]) -> TradeStateView:
    """A round trip, open or ended."""
    closed = trade if isinstance(trade, ClosedTrade) else None
    state = trade.state if isinstance(trade, ClosedTrade) else trade
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
        "status": "closed" if closed else "open",
        "exit_tick_at": iso_text(closed.exit_tick_at) if closed else None,
        "exit_price": closed.exit_price_e8 / E8 if closed else None,
        "exit_reason": closed.exit_reason if closed else None,
        "exit_snapshot_id": closed.exit_run_id if closed else None,
        "holding_minutes": closed.holding_ms / MINUTE if closed else None,
    }


def _section_view(section: Section, packet: Packet) -> SectionView:
    return {
        "name": section.name,
        "title": section.title,
        "columns": list(section.columns),
        "rows": [list(row) for row in section.rows],
        "dropped": section.dropped,
        "tokens": packet.section_tokens[section.name],
    }


def _vote_view(vote: Vote) -> VoteView:
    return {
        "engine": vote.engine,
        "action": vote.action,
        "side": vote.side,
        "reason": vote.reason,
        "confidence": vote.confidence_e4 / 10_000,
        "weight": vote.weight_e4 / 10_000,
    }


def _is_reused(run: DecisionRun) -> bool:
    """Whether the answer had been paid for before, by another run."""
    return run.usage is not None and not run.usage.attempts and run.status != "failed"


def _usage_view(usage: Usage) -> UsageView:
    return {
        "model": usage.model,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "attempts": usage.attempts,
        "cost_usd": usage.cost_usd_e6 / E6,
    }


def _action_view(action: Action, verdict: Verdict) -> ActionView:
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
