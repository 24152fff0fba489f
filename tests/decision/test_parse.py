"""Strict JSON becomes actions; any deviation refuses the whole reply, with a reason and never an exception."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tapebook.context.assemble import FOOTER
from tapebook.decision.reply import MAX_ACTIONS, MAX_REPLY_CHARS, Reply, ReplyRefusal, parse_reply
from tapebook.domain.run import Action
from tapebook.domain.text import short_line
from tapebook.domain.units import E6, E8
from tests.decision.hostile_replies import GOOD, HOSTILE, reply
from tests.matrix import examples

DOCUMENTED = """{"actions":[{"action":"open","symbol":"BTC","side":"long","notional_usd":250.0,"leverage":2,
"order_type":"market","limit_price":null,"confidence":0.64,"reason":"at most 240 characters","cites":["c1"]}],
"note":"optional journal entry"}"""


def accepted(text: str) -> Reply:
    """The reply, which must be a good one."""
    parsed = parse_reply(text)
    assert isinstance(parsed, Reply), parsed
    return parsed


def test_documented_example() -> None:
    assert accepted(DOCUMENTED) == Reply(
        (Action("open", "BTC", "long", 250 * E6, 2, "market", None, 6_400, "at most 240 characters", ("c1",)),),
        "optional journal entry",
    )


def test_example_in_the_prompt_is_accepted_for_every_choice() -> None:
    shape = FOOTER[FOOTER.index("{") : FOOTER.rindex("}") + 1]
    assert json.loads(shape)["actions"][0].keys() == GOOD.keys()
    for kind in ("open", "adjust", "close", "hold"):
        for side in ("long", "short", "null"):
            for order_type, price in (("market", "null"), ("limit", "65000.5")):
                text = shape.replace("open|adjust|close|hold", kind).replace("market|limit", order_type)
                text = text.replace('"limit_price":null', f'"limit_price":{price}')
                text = text.replace('"long|short|null"', "null" if side == "null" else f'"{side}"')
                parsed = parse_reply(text)
                needs_side = kind in ("open", "adjust") and side == "null"
                assert isinstance(parsed, ReplyRefusal if needs_side else Reply)


def test_least_that_is_accepted() -> None:
    parsed = accepted('{"actions":[{"action":"hold","symbol":"BTC"}]}')
    assert parsed == Reply((Action("hold", "BTC", None, 0, 1, "market", None, 0, ""),), "")
    assert accepted('{"actions":[]}') == Reply((), "")
    fields = ("side", "notional_usd", "leverage", "order_type", "limit_price", "confidence", "reason", "cites")
    empty = ",".join(f'"{field}":null' for field in fields)
    assert accepted(f'{{"actions":[{{"action":"hold","symbol":"BTC",{empty}}}],"note":null}}') == parsed
    assert accepted('\n {"note":"","actions":[]} \n') == Reply((), "")


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"notional_usd": 1_000_000_000}, "notional_usd_e6", 10**15),
        ({"notional_usd": 0.000001}, "notional_usd_e6", 1),
        ({"notional_usd": 0.1 + 0.2}, "notional_usd_e6", 300_000),
        ({"leverage": 1}, "leverage", 1),
        ({"leverage": 100}, "leverage", 100),
        ({"order_type": "limit", "limit_price": 65_000.5}, "limit_price_e8", 6_500_050_000_000),
        ({"order_type": "limit", "limit_price": 1e-8}, "limit_price_e8", 1),
        ({"order_type": "limit", "limit_price": 1e9}, "limit_price_e8", 10**9 * E8),
        ({"order_type": "market", "limit_price": 65_000.5}, "limit_price_e8", None),
        ({"confidence": 0}, "confidence_e4", 0),
        ({"confidence": 1}, "confidence_e4", 10_000),
        ({"confidence": 0.33335}, "confidence_e4", 3_334),
        ({"reason": "r" * 241}, "reason", "r" * 240),
        ({"reason": "a\nb\t\x00c"}, "reason", "a b c"),
        ({"symbol": " BTC\n"}, "symbol", "BTC"),
        ({"cites": ["c1", "c\n2"]}, "cites", ("c1", "c 2")),
        ({"cites": []}, "cites", ()),
    ],
)
def test_values_at_their_bounds(changes: dict[str, Any], field: str, value: object) -> None:
    assert getattr(accepted(reply(**changes)).actions[0], field) == value


def test_most_actions_and_longest_reply() -> None:
    assert len(accepted(json.dumps({"actions": [GOOD] * MAX_ACTIONS})).actions) == MAX_ACTIONS
    padded = reply().ljust(MAX_REPLY_CHARS)
    assert len(accepted(padded).actions) == 1
    assert isinstance(parse_reply(padded + " "), ReplyRefusal)


def test_note_is_one_capped_line() -> None:
    assert accepted(json.dumps({"actions": [], "note": "a\r\nb " + "n" * 600})).note == f"a b {'n' * 496}"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_reply_is_refused_with_a_reason(text: str) -> None:
    refused = parse_reply(text)
    assert isinstance(refused, ReplyRefusal)
    assert 5 < len(refused.why) <= 300
    assert refused.why.splitlines() == [refused.why]


def test_table_is_long_enough() -> None:
    assert len(set(HOSTILE.values())) >= 60


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NUMBERS: list[object] = [True, 0, -1, 2**80, 1e308, float("nan"), float("inf")]
ODD = st.sampled_from([*NUMBERS, None, "", "long", [], {}, "\x00", "\ud800"])


@given(st.text(max_size=200) | st.text(st.characters(), max_size=50))
@example("\ud800")
@example("{" * 20_000)
def test_any_text_is_understood_or_refused(text: str) -> None:
    assert isinstance(parse_reply(text), Reply | ReplyRefusal)


@given(JSON)
def test_any_json_is_understood_or_refused(value: object) -> None:
    assert isinstance(parse_reply(json.dumps(value)), Reply | ReplyRefusal)
    assert isinstance(parse_reply(json.dumps({"actions": value})), Reply | ReplyRefusal)
    assert isinstance(parse_reply(json.dumps({"actions": [value]})), Reply | ReplyRefusal)


def compact(value: object) -> str:
    """JSON as our own engines write it."""
    return msgspec.json.encode(value).decode()


@given(JSON | st.dictionaries(st.sampled_from(sorted(GOOD)), ODD | JSON, max_size=3).map(lambda odd: {**GOOD, **odd}))
def test_how_a_reply_is_spaced_makes_no_difference(value: Any) -> None:
    try:
        dense = compact({"actions": [value]})
    except UnicodeEncodeError:
        return
    wide = re.sub(r"^\{", "{ ", dense)
    narrow, spaced = parse_reply(dense), parse_reply(wide)
    if isinstance(narrow, Reply) or isinstance(spaced, Reply):
        assert narrow == spaced


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_key_that_stands_twice_is_refused_however_it_is_written(name: str) -> None:
    body = compact(GOOD)
    twice = f'{{"actions":[{body[:-1]},{compact({name: GOOD[name]})[1:]}]}}'
    for text in (twice, json.dumps({"actions": []})[:-1] + ', "actions": []}', '{"actions":[],"actions":[]}'):
        refused = parse_reply(text)
        assert isinstance(refused, ReplyRefusal) and "stands twice in one object" in refused.why
    assert name in parse_reply(twice).why  # type: ignore[union-attr]


@settings(max_examples=examples(200))
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), ODD | JSON, max_size=3))
def test_any_change_of_a_good_reply_is_understood_or_refused(changes: dict[str, Any]) -> None:
    parsed = parse_reply(reply(**changes))
    assert isinstance(parsed, Reply | ReplyRefusal)
    if isinstance(parsed, Reply):
        check_action(parsed.actions[0])


def check_action(action: Action) -> None:
    """What every accepted action can be relied upon for."""
    assert 0 <= action.notional_usd_e6 <= 10**15 and 1 <= action.leverage <= 100
    assert 0 <= action.confidence_e4 <= 10_000
    assert action.action not in ("open", "adjust") or (action.side is not None and action.notional_usd_e6 > 0)
    assert (action.limit_price_e8 is None) == (action.order_type == "market")
    assert action.limit_price_e8 is None or 0 < action.limit_price_e8 <= 10**17
    for words, most in [(action.reason, 240), (action.symbol, 100), *((cite, 100) for cite in action.cites)]:
        assert words == short_line(words, most)


OPEN_LONG, OPEN_SHORT = GOOD | {"cites": []}, GOOD | {"cites": [], "side": "short"}
CLOSED, HELD = {"action": "close", "symbol": "BTC"}, {"action": "hold", "symbol": "BTC"}


@pytest.mark.parametrize(
    ("actions", "why"),
    [
        ([OPEN_LONG, OPEN_SHORT], "BTC is to be long and short in one reply"),
        ([OPEN_SHORT, HELD, OPEN_LONG], "BTC is to be long and short in one reply"),
        ([OPEN_LONG, OPEN_SHORT | {"action": "adjust"}], "BTC is to be long and short in one reply"),
        ([CLOSED, OPEN_LONG], "BTC is to be closed and long in one reply"),
        ([OPEN_SHORT, CLOSED], "BTC is to be closed and short in one reply"),
        ([CLOSED, OPEN_LONG | {"symbol": " BTC\u200b"}], "BTC is to be closed and long in one reply"),
        ([OPEN_LONG, OPEN_LONG, HELD], None),
        ([OPEN_LONG, OPEN_SHORT | {"symbol": "ETH"}], None),
        ([CLOSED, CLOSED], None),
    ],
)
def test_reply_that_contradicts_itself_is_refused(actions: list[dict[str, Any]], why: str | None) -> None:
    parsed = parse_reply(json.dumps({"actions": actions}))
    assert (parsed.why if isinstance(parsed, ReplyRefusal) else None) == why
