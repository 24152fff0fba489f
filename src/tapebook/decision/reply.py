"""Replies: parsed into actions or refused, described by a schema, written by rules.

1. `parse_reply` accepts strict JSON and nothing else; any deviation refuses all of it.
2. `REPLY_SCHEMA` is made from the types that `parse_reply` reads: there is one truth about what a reply is.
   Providers take a part of JSON Schema only: every field required, nothing else allowed, no references and no
   bounds. What the bounds are, the system text says and `parse_reply` enforces.
3. `make_answer` and `make_answer_of` write the reply of a rule engine: the same JSON that a language model must write.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from tapebook.decision.port import EngineAnswer
from tapebook.domain.canonical import canonical_json, sha256_hex
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action
from tapebook.domain.text import short_line
from tapebook.domain.units import E6, E8, to_units

# A reply of eight actions with full reasons has a fifth of it.
MAX_REPLY_CHARS = 20_000
MAX_ACTIONS = 8
MAX_SYMBOL_CHARS = 100
MAX_CITES = 16
# Beyond any account; integers of e6 and e8 still hold it.
MAX_NOTIONAL_USD = 1e9


class _WireAction(msgspec.Struct, forbid_unknown_fields=True):
    """An action as it is written: null stands where a field does not apply."""

    action: Literal["open", "adjust", "close", "hold"]
    symbol: str
    side: Literal["long", "short"] | None = None
    notional_usd: float | None = None
    leverage: int | None = None
    order_type: Literal["market", "limit"] | None = None
    limit_price: float | None = None
    confidence: float | None = None
    reason: str | None = None
    cites: list[str] | None = None


class _WireReply(msgspec.Struct, forbid_unknown_fields=True):
    actions: list[_WireAction]
    note: str | None = None


_WIRE_DECODER = msgspec.json.Decoder(_WireReply)
_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder()


class Reply(msgspec.Struct, frozen=True):
    """What the engine proposed."""

    actions: tuple[Action, ...]
    note: str


class ReplyRefusal(msgspec.Struct, frozen=True):
    """Why a reply was not understood; nothing of it is traded."""

    why: str


@lru_cache(maxsize=512)
def parse_reply(text: str) -> Reply | ReplyRefusal:
    """Reads a reply; any deviation refuses all of it."""
    # Cached, since rules say the same for as long as the bars stay.
    if len(text) > MAX_REPLY_CHARS:
        return ReplyRefusal(f"the reply has {len(text)} characters; at most {MAX_REPLY_CHARS} are read")
    try:
        content = text.encode()
        wire = _WIRE_DECODER.decode(content)
        # Only the slow reader sees keys that stand twice, and only foreign replies can have them.
        if not _is_compact(content):
            json.loads(text, object_pairs_hook=_refuse_repeated_keys)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return ReplyRefusal(f"not the JSON that was asked for: {short_line(str(error), 200)}")
    if len(wire.actions) > MAX_ACTIONS:
        return ReplyRefusal(f"{len(wire.actions)} actions; at most {MAX_ACTIONS} are read")
    problems = [problem for each in wire.actions if (problem := _action_problem(each))]
    actions = () if problems else tuple([_parsed_action(each) for each in wire.actions])
    problem = problems[0] if problems else _contradiction(actions)
    return ReplyRefusal(problem) if problem else Reply(actions, short_line(wire.note or "", 500))


def _action_problem(wire: _WireAction) -> str | None:
    """What makes an action meaningless, or None."""
    # `not 0 <= x` also catches NaN, which compares false to everything.
    what = f"{wire.action} {short_line(wire.symbol, 20)}"
    # Refused and not cut: the beginning of a name can be the name of something else.
    cites, notional, leverage = wire.cites or (), wire.notional_usd or 0.0, wire.leverage
    if max(map(len, (wire.symbol, *cites))) > MAX_SYMBOL_CHARS:
        return f"{what}: a name is longer than {MAX_SYMBOL_CHARS} characters"
    if len(cites) > MAX_CITES:
        return f"{what}: {len(cites)} citations; at most {MAX_CITES} are read"
    if not 0 <= notional <= MAX_NOTIONAL_USD:
        return f"{what}: notional_usd is out of range"
    if not 0 <= (wire.confidence or 0.0) <= 1:
        return f"{what}: confidence must lie between 0 and 1"
    if leverage is not None and not 1 <= leverage <= 100:
        return f"{what}: leverage is out of range"
    # Asked of the integers that will be traded: a price of 1e-9 is a positive number and a price of nothing.
    if wire.action in ("open", "adjust") and (wire.side is None or to_units(notional, E6) <= 0):
        return f"{what}: side and a positive notional_usd are needed"
    limit = wire.limit_price or 0.0
    if wire.order_type == "limit" and not (0 < limit <= MAX_NOTIONAL_USD and to_units(limit, E8) > 0):
        return f"{what}: a limit order needs a positive limit_price"
    return None


def _contradiction(actions: Sequence[Action]) -> str | None:
    """Which symbol is wanted long and short, or closed and opened, in one reply."""
    # Whichever was meant, the other was not: nothing of it is traded.
    if len(actions) < 2:
        return None
    wanted: dict[str, set[str]] = {}
    for action in actions:
        if action.action != "hold":
            wanted.setdefault(action.symbol, set()).add("closed" if action.action == "close" else action.side or "")
    torn = [f"{symbol} is to be {' and '.join(sorted(ends))}" for symbol, ends in wanted.items() if len(ends) > 1]
    return f"{torn[0]} in one reply" if torn else None


def _is_compact(content: bytes) -> bool:
    """Whether a text is what its own value is written as, so that every key stands once; engines of ours write so."""
    try:
        return _ENCODER.encode(_DECODER.decode(content)) == content
    except (msgspec.DecodeError, ValueError):
        return False


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> None:
    """Raises ValueError when a key stands twice in one object."""
    # Two readers of one object must not see two values: the guard one of them, a person the other.
    names = [name for name, _ in pairs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{repeated[0]} stands twice in one object")


def _parsed_action(wire: _WireAction) -> Action:
    limit = wire.limit_price if wire.order_type == "limit" else None
    return Action(
        action=wire.action,
        symbol=short_line(wire.symbol, MAX_SYMBOL_CHARS),
        side=wire.side,
        notional_usd_e6=to_units(wire.notional_usd or 0.0, E6),
        leverage=1 if wire.leverage is None else wire.leverage,
        order_type=wire.order_type or "market",
        limit_price_e8=None if limit is None else to_units(limit, E8),
        confidence_e4=to_units(wire.confidence or 0.0, 10_000),
        reason=short_line(wire.reason or "", 240),
        cites=tuple([short_line(cite, MAX_SYMBOL_CHARS) for cite in wire.cites or ()]),
    )


def _strict_schema(node: Any, definitions: dict[str, Any]) -> Any:
    """A schema with references written out, defaults and titles left out, and all fields required."""
    if isinstance(node, list):
        return [_strict_schema(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _strict_schema(definitions[node["$ref"].rpartition("/")[2]], definitions)
    kept = {
        name: _strict_schema(value, definitions) for name, value in node.items() if name not in ("default", "title")
    }
    if "properties" in kept:
        kept["required"] = list(kept["properties"])
    # Providers refuse an enum without its type.
    if "enum" in kept:
        kept["type"] = "string"
    return kept


def _reply_schema() -> dict[str, Any]:
    whole = msgspec.json.schema(_WireReply)
    schema: dict[str, Any] = _strict_schema({"$ref": whole["$ref"]}, whole["$defs"])
    return schema


REPLY_SCHEMA = _reply_schema()
REPLY_SCHEMA_SHA256 = sha256_hex(canonical_json(REPLY_SCHEMA))


MAX_REASON_CHARS = 240

_ANSWER_ENCODER = msgspec.json.Encoder()


def make_answer(packet: Packet, action: str, *, reason: str, confidence: float = 0.5, **fields: object) -> EngineAnswer:
    """A reply with one action on the packet's symbol."""
    body = {"action": action, "symbol": packet.symbol, "confidence": round(confidence, 4)}
    return EngineAnswer(_encode_reply({**body, "reason": short_line(reason, MAX_REASON_CHARS), **fields}))


# Cached, since a rule holds for the same reason for as long as the bars stay.
@lru_cache(maxsize=1_024)
def make_answer_of(action: Action) -> EngineAnswer:
    """A reply with one typed action, which nobody has to parse again; its text reads as the same action."""
    reason = short_line(action.reason, MAX_REASON_CHARS)
    action = action if reason == action.reason else msgspec.structs.replace(action, reason=reason)
    body: dict[str, object] = {
        "action": action.action,
        "symbol": action.symbol,
        "confidence": action.confidence_e4 / 10_000,
        "reason": reason,
    }
    if action.action in ("open", "adjust"):
        limit = None if action.limit_price_e8 is None else action.limit_price_e8 / E8
        body |= {"side": action.side, "notional_usd": action.notional_usd_e6 / E6, "leverage": action.leverage}
        body |= {"order_type": action.order_type, "limit_price": limit, "cites": list(action.cites)}
    return EngineAnswer(_encode_reply(body), actions=(action,))


def _encode_reply(body: dict[str, object]) -> str:
    return _ANSWER_ENCODER.encode({"actions": [body]}).decode()
