"""One decision (what was known, what the engine said, what the guard allowed), and recent activity of a deployment.

Activity covers the last hour and the day since 00:00 UTC.
"""

from typing import Literal

import msgspec

Trigger = Literal["schedule", "manual", "shadow", "backtest"]
RunStatus = Literal["pending", "running", "held", "rejected", "placed", "done", "failed", "expired"]
ActionKind = Literal["open", "adjust", "close", "hold"]


class Watermarks(msgspec.Struct, frozen=True):
    """How far each store was read; replay reads no further. `curated` is of the owner's stream: what holds for all."""

    tape: int
    book: int
    docs: int = 0
    curated: int = 0


class Action(msgspec.Struct, frozen=True):
    """One proposal of an engine, after parsing: numbers are integers of a unit."""

    action: ActionKind
    symbol: str
    side: Literal["long", "short"] | None
    notional_usd_e6: int
    leverage: int
    order_type: Literal["market", "limit"]
    limit_price_e8: int | None
    confidence_e4: int
    reason: str
    cites: tuple[str, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """What the guard says of one action: allowed, or the code of the rule that refused it and why.

    `flags` are the numbers of its reason that nothing in the packet explains; they refuse nothing.
    """

    allowed: bool
    rule: str | None = None
    detail: str = ""
    flags: tuple[str, ...] = ()


class Vote(msgspec.Struct, frozen=True):
    """What one member of an ensemble proposed, and how much its word counted.

    `target_e4` is the position it wants, from -10,000 (all short) to 10,000 (all long), whatever is held. It is left
    out where the member has no voice, and in votes of before there were targets.
    """

    engine: str
    action: ActionKind
    side: Literal["long", "short"] | None
    confidence_e4: int
    weight_e4: int
    reason: str
    target_e4: int | msgspec.UnsetType = msgspec.UNSET


class SlotMark(msgspec.Struct, frozen=True, array_like=True):
    """What the twins of an ensemble's members are valued by at a decision, and how quickly they are believed.

    A trade costs `cost_ppm` of what is traded, fee and half the spread; `funding_e12` is the hourly rate that longs
    pay. The last three are the settings of the agent's experience.
    """

    mark_e8: int
    cost_ppm: int
    funding_e12: int
    regime: str
    rate_e4: int
    window_days: int
    memory_size: int


class Usage(msgspec.Struct, frozen=True):
    """What asking a model cost, over all attempts of one decision."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd_e6: int
    attempts: int


class DecisionRun(msgspec.Struct, frozen=True):
    """A run as it is stored: everything needed to rebuild its packet and explain its outcome.

    `degraded` names what the packet lacks because it could not be read. `degraded_causes` say why, as
    `name: ErrorType: message`; they also tell of trouble the packet does not know of, such as of the archive.
    `reason_key` is where the archive has what a model reasoned beside its reply. `mark` values the members of an
    ensemble; it is left out where nobody voted or no price was known.
    """

    run_id: str
    owner: str
    deployment: str
    agent: str
    agent_version: int
    symbol: str
    scheduled_for: int
    trigger: Trigger
    branch: str
    as_of: int
    watermarks: Watermarks
    renderer: int
    inputs_sha256: str
    packet_sha256: str
    tokens: int
    engine: str
    packet_key: str | None
    reply_key: str | None
    status: RunStatus
    actions: tuple[Action, ...]
    verdicts: tuple[Verdict, ...]
    degraded: tuple[str, ...] = ()
    note: str = ""
    error: str | None = None
    votes: tuple[Vote, ...] = ()
    usage: Usage | None = None
    degraded_causes: tuple[str, ...] = ()
    reason_key: str | None = None
    mark: SlotMark | msgspec.UnsetType = msgspec.UNSET


LONGEST_STREAK = 50
"""As far back as a run of losses is counted, so that counting it costs the same for ever."""


class Activity(msgspec.Struct, frozen=True):
    """Counts and sums as of one moment.

    `rejections` are the codes of the guard's rules that refused something within the hour, oldest first; `refusals` are
    all that was refused: by the guard, at the send gate, by the broker, or as no readable reply. What was realised
    today is net of fees and funding. The day's start equity is that of 00:00 UTC with the transfers since then: equity
    less it is the day's result, whatever was paid in or out. A symbol's last close is its last loss too, if it lost.
    """

    rejections: tuple[str, ...] = ()
    executed_today: int = 0
    orders_last_hour: int = 0
    realised_today_usd_e6: int = 0
    day_start_equity_usd_e6: int = 0
    losing_streak: int = 0
    last_close_at: dict[str, int] = {}
    last_loss_at: dict[str, int] = {}
    refusals: tuple[str, ...] = ()
