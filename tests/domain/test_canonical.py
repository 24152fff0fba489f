"""One value, one sequence of bytes."""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.canonical import canonical_json, sha256_hex, short_id
from tapebook.domain.market import Candle
from tapebook.domain.position import Portfolio, Position

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


class Unsorted(msgspec.Struct, frozen=True):
    """A value whose fields are not in alphabetical order."""

    symbol: str
    at: int


def shuffled(value: Any) -> Any:
    """The same value with every mapping built the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(value=VALUES)
def test_order_of_keys_leaves_no_trace(value: Any) -> None:
    assert canonical_json(shuffled(value)) == canonical_json(value)


@given(value=VALUES)
def test_bytes_are_plain_json_and_say_the_value(value: Any) -> None:
    content = canonical_json(value)
    assert json.loads(content) == value
    assert canonical_json(json.loads(content)) == content


@given(value=VALUES)
def test_bytes_have_sorted_keys_and_no_spaces(value: Any) -> None:
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert json.dumps(json.loads(canonical_json(value)), separators=(",", ":"), ensure_ascii=False) == expected


def test_bytes_by_hand() -> None:
    assert canonical_json({"b": [1, None, True], "a": "é"}) == '{"a":"é","b":[1,null,true]}'.encode()
    assert canonical_json((1, 2)) == canonical_json([1, 2]) == b"[1,2]"


def test_a_struct_has_the_bytes_of_its_mapping() -> None:
    assert (
        canonical_json(Unsorted("BTC", 1)) == canonical_json({"symbol": "BTC", "at": 1}) == b'{"at":1,"symbol":"BTC"}'
    )


def test_positions_in_any_order_are_the_same_portfolio() -> None:
    bitcoin, ether = Position("BTC", 1, 2), Position("ETH", 3, 4)
    assert canonical_json(Portfolio({"BTC": bitcoin, "ETH": ether})) == canonical_json(
        Portfolio({"ETH": ether, "BTC": bitcoin})
    )


@pytest.mark.parametrize(
    ("value", "path"),
    [(1.0, r"\$ "), ({"a": [1, 2.5]}, r"\$\.a\[1\] "), ((0, {"x": float("nan")}), r"\$\[1\]\.x ")],
)
def test_a_float_is_refused_and_found(value: Any, path: str) -> None:
    with pytest.raises(TypeError, match=f"a float at {path}has no canonical bytes"):
        canonical_json(value)


# The byte that begins a float in MessagePack stands in text and in integers too.
ODD = st.sampled_from([None, "ˀ", "\u02ff", "null", 0xCB, 0xCB00CB, 2**63 + 0xCB, 10**40, -(10**30), True])
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1.0, 1e16, 1e300, float("nan"), float("inf"), -float("inf")])
MIXED = st.recursive(SCALARS | ODD | FLOATS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner))


def holds_a_float(value: Any) -> bool:
    """Whether a walk through all of a value meets a float."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return isinstance(value, float) or any(holds_a_float(item) for item in items)


@given(value=MIXED)
def test_no_float_gets_past_and_nothing_else_is_stopped(value: Any) -> None:
    if holds_a_float(value):
        with pytest.raises(TypeError, match="a float at"):
            canonical_json(value)
    else:
        assert json.loads(canonical_json(value)) == value


@given(number=st.integers(0, 2**56 - 1), other=FLOATS)
def test_an_integer_that_looks_like_a_float_hides_none(number: int, other: float) -> None:
    # In MessagePack this is the byte of an integer of 64 bits, then that of a float, then seven bytes of anything.
    looks_alike = (0xCB << 56) | number
    assert canonical_json([looks_alike, 1, None]) == f"[{looks_alike},1,null]".encode()
    with pytest.raises(TypeError, match=r"a float at \$\[1\]"):
        canonical_json([looks_alike, other])


def test_a_float_inside_a_struct_is_refused() -> None:
    bar = Candle("BTC", 60, 0, 1, 1, 1, 1, volume_base=0.5, volume_quote_usd=1.0, sample_count=1)
    with pytest.raises(TypeError, match=r"a float at \$\.volume_base"):
        canonical_json(bar)


@pytest.mark.parametrize("value", [{1: "a"}, {1.5: "a"}, {None: "a"}])
def test_only_text_is_a_key(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_integers_of_any_length_keep_every_digit() -> None:
    assert canonical_json(10**40 + 1) == str(10**40 + 1).encode()


@given(content=st.binary())
def test_hash_is_sha256(content: bytes) -> None:
    assert sha256_hex(content) == hashlib.sha256(content).hexdigest()


def test_short_id_is_a_function_of_its_parts() -> None:
    assert short_id("trade", "BTC", 7) == short_id("trade", "BTC", 7)
    assert len(short_id("x")) == 20
    # The parts are told apart, and so are text and number.
    alike: list[tuple[str | int, ...]] = [("a", "bc"), ("ab", "c"), ("abc",), ("a", "b", "c"), ("1",), (1,)]
    assert len({short_id(*parts) for parts in alike}) == len(alike)
