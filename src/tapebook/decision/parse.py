"""A reply becomes actions, or a refusal that says why. Strict JSON, nothing else is accepted."""

import json
import re
from typing import Literal

import msgspec

from tapebook.domain.money import E6, E8, scaled
from tapebook.domain.run import Action

MAX_REPLY_CHARS = 20_000
MAX_ACTIONS = 8
MAX_NOTIONAL_USD = 1e9
# Control characters, and what is not seen: line separators, zero widths, directions, soft hyphens and tags.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]+"
)


class _WireAction(msgspec.Struct, forbid_unknown_fields=True):
    action: Literal["open", "adjust", "close", "hold"]
    symbol: str
    side: Literal["long", "short"] | None = None
    notional_usd: float = 0.0
    leverage: int = 1
    order_type: Literal["market", "limit"] = "market"
    limit_price: float | None = None
    confidence: float = 0.0
    reason: str = ""
    cites: list[str] = []


class _WireReply(msgspec.Struct, forbid_unknown_fields=True):
    actions: list[_WireAction]
    note: str = ""


class Reply(msgspec.Struct, frozen=True):
    """What the engine proposed."""

    actions: tuple[Action, ...]
    note: str


class Refusal(msgspec.Struct, frozen=True):
    """Why a reply was not understood; nothing of it is traded."""

    why: str


def parse(text: str) -> Reply | Refusal:
    """Reads a reply; any deviation refuses all of it."""
    if len(text) > MAX_REPLY_CHARS:
        return Refusal(f"the reply has {len(text)} characters; at most {MAX_REPLY_CHARS} are read")
    try:
        wire = msgspec.json.decode(text.encode(), type=_WireReply)
        json.loads(text, object_pairs_hook=_refuse_repeated_keys)
    except (msgspec.DecodeError, ValueError) as error:
        return Refusal(f"not the JSON that was asked for: {clean(str(error), 200)}")
    if len(wire.actions) > MAX_ACTIONS:
        return Refusal(f"{len(wire.actions)} actions; at most {MAX_ACTIONS} are read")
    problems = [problem for each in wire.actions if (problem := _problem(each))]
    if problems:
        return Refusal(problems[0])
    return Reply(tuple(_action(each) for each in wire.actions), clean(wire.note, 500))


def clean(text: str, most: int) -> str:
    """Outside text as one capped line without control characters."""
    return _CONTROL.sub(" ", text).strip()[:most]


def _problem(wire: _WireAction) -> str | None:
    """What makes an action meaningless, or None. `not 0 <= x` also catches NaN, which compares false to everything."""
    what = f"{wire.action} {clean(wire.symbol, 20)}"
    if not 0 <= wire.notional_usd <= MAX_NOTIONAL_USD:
        return f"{what}: notional_usd is out of range"
    if not 0 <= wire.confidence <= 1:
        return f"{what}: confidence must lie between 0 and 1"
    if not 1 <= wire.leverage <= 100:
        return f"{what}: leverage is out of range"
    # Asked of the integers that will be traded: a price of 1e-9 is a positive number and a price of nothing.
    if wire.action in ("open", "adjust") and (wire.side is None or scaled(wire.notional_usd, E6) <= 0):
        return f"{what}: side and a positive notional_usd are needed"
    limit = wire.limit_price or 0.0
    if wire.order_type == "limit" and not (0 < limit <= MAX_NOTIONAL_USD and scaled(limit, E8) > 0):
        return f"{what}: a limit order needs a positive limit_price"
    return None


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> None:
    """Two readers of one object must not see two values: the guard one of them, a person the other."""
    names = [name for name, _ in pairs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{repeated[0]} stands twice in one object")


def _action(wire: _WireAction) -> Action:
    limit = wire.limit_price if wire.order_type == "limit" else None
    return Action(
        action=wire.action,
        symbol=clean(wire.symbol, 40),
        side=wire.side,
        notional_usd_e6=scaled(wire.notional_usd, E6),
        leverage=wire.leverage,
        order_type=wire.order_type,
        limit_price_e8=None if limit is None else scaled(limit, E8),
        confidence_e4=scaled(wire.confidence, 10_000),
        reason=clean(wire.reason, 240),
        cites=tuple(clean(cite, 40) for cite in wire.cites[:16]),
    )
