"""The schema and the parser agree: what one lets through, the other does, ranges apart."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tapebook.decision import Reply, ReplyRefusal, parse_reply
from tapebook.decision.reply import REPLY_SCHEMA, REPLY_SCHEMA_SHA256, _WireReply

VALIDATOR = Draft202012Validator(REPLY_SCHEMA)
ACTION: dict[str, Any] = {
    **{"action": "open", "symbol": "BTC", "side": "long", "notional_usd": 250.0, "leverage": 2},
    **{"order_type": "market", "limit_price": None, "confidence": 0.64, "reason": "up", "cites": ["c1"]},
}
REPLY: dict[str, Any] = {"actions": [ACTION], "note": ""}

ACTIONS = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["open", "adjust", "close", "hold"]),
        "symbol": st.text(max_size=10),
        "side": st.sampled_from(["long", "short"]),
        "notional_usd": st.floats(1, 1e9),
        "leverage": st.integers(1, 100),
        "order_type": st.sampled_from(["market", "limit"]),
        "limit_price": st.floats(0.01, 1e6),
        "confidence": st.floats(0, 1),
        "reason": st.text(max_size=10),
        "cites": st.lists(st.text(max_size=5), max_size=3),
    },
)
# One action: whether several go together is not a matter of their shape.
REPLIES = st.fixed_dictionaries({"actions": st.lists(ACTIONS, max_size=1), "note": st.text(max_size=10)})
MISSING = st.sets(st.sampled_from(["side", "limit_price", "reason", "cites", "confidence", "leverage", "order_type"]))


def written_out(text: str) -> Any:
    """A reply with its defaults written out, as the schema wants it."""
    return msgspec.to_builtins(msgspec.json.decode(text, type=_WireReply))


def test_the_schema_is_one_and_is_a_schema() -> None:
    Draft202012Validator.check_schema(REPLY_SCHEMA)
    assert len(REPLY_SCHEMA_SHA256) == 64


def test_the_schema_is_in_the_part_that_providers_take() -> None:
    text = msgspec.json.encode(REPLY_SCHEMA).decode()
    assert not any(f'"{word}"' in text for word in ("$ref", "$defs", "default", "minimum", "maximum", "maxLength"))

    def check(node: Any) -> None:
        if isinstance(node, dict) and node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
        for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            check(below)

    check(REPLY_SCHEMA)


@given(REPLIES)
def test_what_the_schema_accepts_is_parsed(reply: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(reply)
    assert isinstance(parse_reply(msgspec.json.encode(reply).decode()), Reply)


@given(REPLIES, MISSING)
def test_what_is_parsed_the_schema_accepts_once_defaults_are_written_out(reply: Any, missing: set[str]) -> None:
    for action in reply["actions"]:
        for name in missing:
            del action[name]
    text = msgspec.json.encode(reply).decode()
    if isinstance(parse_reply(text), Reply):
        assert VALIDATOR.is_valid(written_out(text))


@pytest.mark.parametrize(
    "change",
    [
        {"action": "buy"},
        {"side": "both"},
        {"symbol": 5},
        {"notional_usd": "250"},
        {"leverage": 1.5},
        {"order_type": "stop"},
        {"limit_price": "1"},
        {"cites": "c1"},
        {"cites": [1]},
        {"extra": 1},
    ],
)
def test_what_the_schema_refuses_is_refused(change: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(REPLY)
    wrong = {"actions": [{**ACTION, **change}], "note": ""}
    assert not VALIDATOR.is_valid(wrong)
    assert isinstance(parse_reply(msgspec.json.encode(wrong).decode()), ReplyRefusal)
