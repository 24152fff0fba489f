"""Replies: parsed into actions or refused, described by a schema, written by rules, checked for numbers.

1. `parse_reply` accepts strict JSON and nothing else; any deviation refuses all of it.
2. `REPLY_SCHEMA` is made from the types that `parse_reply` reads: there is one truth about what a reply is.
   Providers take a part of JSON Schema only: every field required, nothing else allowed, no references and no
   bounds. What the bounds are, the system text says and `parse_reply` enforces.
3. `make_answer` and `make_answer_of` write the reply of a rule engine: the same JSON that a language model must write.
4. `unexplained_numbers` lists the numbers of a reason that neither the packet, nor the action itself, nor simple
   arithmetic on them explains. A number counts as explained when it is one of the packet's within the rounding it
   is written with, or the difference, the share or the change in percent (or basis points) between two of them.
   Small whole numbers are counts ("3 of 5 bars") and pass. With hundreds of numbers to combine, a made-up one can
   pass by chance; a flagged one is made up, or computed in a way that a reader should see.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

import msgspec

from tapebook.decision.port import EngineAnswer
from tapebook.domain.canonical import canonical_json, sha256_hex
from tapebook.domain.money import E6, E8, to_units
from tapebook.domain.packet import Packet
from tapebook.domain.run import Action
from tapebook.domain.text import short_line

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


# Not inside a word or a time (EMA20, 5m, 12:05), but with a unit that scales it.
_NUMBER = re.compile(r"(?<![\w.:])[-+$]{0,2}(\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?(%|bps?\b|[kKMB]\b))?(?![\w:]|\.\d)")
_DIGIT = re.compile(r"\d")
_SCALES = {"k": 3, "K": 3, "M": 6, "B": 9}
_RELATIVE = {"%": 100, "bp": 10_000, "bps": 10_000}
_SPILLED = re.compile(r"\n(?:%|bps?\b|[kKMB]\b)")
# So many digits Decimal keeps by default: shorter numbers give the same float either way.
_EXACT_DIGITS = 28
# "3 of 5 bars", "the last 12 trades": counts are not claims about prices.
_LARGEST_COUNT = 20
# A reason has 240 characters; each number is compared with every pair of the packet's.
_MAX_NUMBERS = 12


class _Figure(msgspec.Struct, frozen=True):
    """A number as it is written: its size, half a unit of its last digit, and what a relative one is out of."""

    text: str
    value: float
    slack: float
    out_of: int | None


def unexplained_numbers(action: Action, packet: Packet) -> tuple[str, ...]:
    """The numbers of an action's reason that a reader cannot find or work out, as they are written."""
    figures = _claimed_figures(action)
    if not figures:
        return ()
    # Sorted once: every comparison is a bisection then.
    known = sorted({*_numbers_in(f"{packet.system}\n{packet.text}"), *_numbers_of_action(action)})
    return tuple(figure.text for figure in figures if not _is_explained(figure, known))


def claims_figures(action: Action) -> bool:
    """Whether an action's reason has numbers that a packet must explain."""
    return bool(_claimed_figures(action))


def _claimed_figures(action: Action) -> list[_Figure]:
    if not _DIGIT.search(action.reason):
        return []
    return [figure for figure in _figures_in(action.reason) if not _is_count(figure)][:_MAX_NUMBERS]


def _figures_in(text: str) -> Iterator[_Figure]:
    """Every number of a text without its sign: "down 3" and "-3" are one."""
    for match in _NUMBER.finditer(text):
        unit = match[2] or ""
        exact = Decimal(match[1].replace(",", "")).scaleb(_SCALES.get(unit, 0))
        exponent = exact.as_tuple().exponent
        half = 0.5 * 10.0 ** (exponent if isinstance(exponent, int) else 0)
        yield _Figure(match[0].strip(), float(exact), half, _RELATIVE.get(unit))


def _numbers_in(text: str) -> set[float]:
    """Every number of a text."""
    # Line by line, since most lines of a packet were in the one before.
    # A unit at the beginning of a line belongs to the number before it.
    lines = [text] if _SPILLED.search(text) else text.split("\n")
    return set().union(*map(_numbers_in_line, lines))


@lru_cache(maxsize=20_000)
def _numbers_in_line(line: str) -> tuple[float, ...]:
    return tuple([_number_value(number, unit) for number, unit in _NUMBER.findall(line)])


def _number_value(number: str, unit: str) -> float:
    """The value of a number with its unit; a Decimal is used only where a float would round it twice."""
    digits, scale = number.replace(",", ""), _SCALES.get(unit, 0)
    return float(f"{digits}e{scale}") if len(digits) <= _EXACT_DIGITS else float(Decimal(digits).scaleb(scale))


def _is_count(figure: _Figure) -> bool:
    return figure.out_of is None and figure.value <= _LARGEST_COUNT and figure.value.is_integer()


def _numbers_of_action(action: Action) -> list[float]:
    """What the action itself says: its size, leverage, limit and confidence."""
    limit = action.limit_price_e8 or 0
    confidence = action.confidence_e4
    return [action.notional_usd_e6 / E6, float(action.leverage), limit / E8, confidence / 1e4, confidence / 100]


def _is_explained(figure: _Figure, known: Sequence[float]) -> bool:
    value, slack = figure.value, figure.slack
    if _is_near_any(known, [(value, slack)]) or _is_near_any(known, [(base + value, slack) for base in known]):
        return True
    if figure.out_of is None:
        return False
    part, width = value / figure.out_of, slack / figure.out_of
    # Up by, down by, and a share of: each as the other number it would need.
    factors = (part, 1 + part, 1 - part)
    return any(_is_near_any(known, [(base * factor, base * width) for base in known if base]) for factor in factors)


def _is_near_any(known: Sequence[float], wanted: Iterable[tuple[float, float]]) -> bool:
    """Whether a number lies within the slack of a wanted one."""
    # A little more than the slack, for what floats lose.
    count = len(known)
    for value, slack in wanted:
        slack += 1e-9 * abs(value)
        at = bisect_left(known, value - slack)
        if at < count and known[at] <= value + slack:
            return True
    return False
