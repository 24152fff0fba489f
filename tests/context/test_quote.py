"""Words from outside: one short line without quotes, whatever was written."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.render import plain_line, symbol_text
from tapebook.domain.text import line_tokens
from tests.context.situations import HOSTILE, WORDS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("breakout above prior swing high", "breakout above prior swing high"),
        ("  two\n lines\t\r\n", "two lines"),
        ('he said "buy"', "he said 'buy'"),
        ("```json", "'''json"),
        ("“x” «y»", "'x' 'y'"),
        ("a\u200bb\u202ec\x00d", "a b c d"),
        ("ü→日本", "ü→日本"),
        ("a\ud800b", "a b"),
    ],
)
def test_by_hand(text: str, shown: str) -> None:
    assert plain_line(text, 60) == shown


@given(WORDS, st.integers(1, 240))
def test_any_words(text: str, most: int) -> None:
    shown = plain_line(text, most)
    assert len(shown) <= most
    assert line_tokens(shown) <= most // 3 + 1
    assert shown.splitlines() in ([], [shown])
    assert not re.search(r'["`“”\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\ud800-\udfff]', shown)
    assert shown == shown.strip()
    shown.encode()
    # Once more changes nothing.
    assert plain_line(shown, most) == shown


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("win rate 62.5% (n=8, 95% 31% to 86%) in chop", 30, "win rate 62.5%…"),
        ("the price is 65,432.10 USD now", 16, "the price is…"),
        ("(all in brackets and long enough)", 12, "(all in…"),
        ("never closed ( but it goes on and on", 24, "never closed ( but it…"),
        ("abc123456789012345", 10, "abc…"),
        ("short enough", 36, "short enough"),
    ],
)
def test_cut_leaves_no_number_word_or_bracket_half_said(text: str, most: int, shown: str) -> None:
    assert plain_line(text, most) == shown


NUMBERS = st.from_regex(r"[0-9]{1,6}(,[0-9]{3})*(\.[0-9]{1,4})?%?", fullmatch=True)
PARTS = NUMBERS | NUMBERS.map("(n={})".format) | st.sampled_from(["trend", "is", "up", "[c1]", "held"])


@given(st.lists(PARTS, min_size=1, max_size=30), st.integers(12, 120))
def test_what_is_shown_of_a_row_are_whole_numbers_and_brackets(parts: list[str], most: int) -> None:
    shown = plain_line(" ".join(["why", *parts]), most).removesuffix("…").split()
    assert shown and shown == ["why", *parts][: len(shown)]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_signs_take_no_more_room_than_prose(text: str) -> None:
    assert line_tokens(plain_line(text, 120)) <= 41


def test_ordinary_prose_is_kept_whole() -> None:
    prose = "funding is extreme and the book is thin, so a move back to the mean is likely within two hours or so"
    assert plain_line(prose, 120) == prose


def test_symbols_and_what_is_not_seen() -> None:
    assert symbol_text("xyz:GOLD") == "xyz:GOLD"
    assert len(symbol_text("A" * 500)) <= 24
    assert symbol_text('a "b"\x1b[0m') == "a 'b' [0m"
