"""Keys hide, lines are clean, estimates are high."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import elapsed_seconds
from tapebook.llm import Key, ModelTerms
from tapebook.llm.port import estimate_tokens, short_error_line


def test_a_key_shows_itself_on_request_alone() -> None:
    key = Key("sk-secret")
    assert key.reveal() == "sk-secret"
    assert "secret" not in f"{key} {key!r} {[key]} {ModelTerms('m', 'u', key, elapsed_seconds)}"
    assert bool(key) and not Key()
    assert key.redact("a sk-secret b") == "a … b"
    assert Key().redact("a b") == "a b"


def test_a_key_has_no_place_in_json() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode(ModelTerms("m", "u", Key("sk-secret"), elapsed_seconds))


@given(st.text())
def test_lines_are_short_and_can_be_seen(text: str) -> None:
    line = short_error_line(text)
    assert len(line) <= 160 and (line.isprintable() or not line)
    assert short_error_line(line) == line.strip()


def test_estimate_is_above_what_tokenizers_make_of_a_packet() -> None:
    # A bar of a packet: about 20 tokens for tokenizers that cut figures into single digits and signs.
    assert estimate_tokens("12:25 65123 65011 65050 12.5\n") >= 15
    assert estimate_tokens("a" * 100, "é" * 100) == 151
