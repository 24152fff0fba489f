"""The estimator is fixed for ever, and what is kept is the longest beginning that fits."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.render import TOKEN_SHAPES, count_shape_pieces, line_costs
from tapebook.domain.text import PIECE, line_tokens, text_tokens, truncate_to_tokens

LINES = st.text(st.characters(exclude_characters="\n"), max_size=40)


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        pytest.param("", 1, id="a break alone"),
        pytest.param("   \t ", 1, id="blanks are free"),
        pytest.param("position", 2, id="eight letters are one piece"),
        pytest.param("positions", 3, id="nine are two"),
        pytest.param("R3_POSITION_CAP", 5, id="an underscore belongs to the letters after it"),
        pytest.param("__a_", 4, id="but only one, and not before anything else"),
        pytest.param("123", 2, id="three digits are one piece"),
        pytest.param("65200", 3, id="five are two"),
        pytest.param("BTC 65,200.5", 7, id="signs count one each"),
        pytest.param("→→", 3, id="a sign outside ASCII too"),
        pytest.param("Zürich", 4, id="a letter outside ASCII cuts the word"),
        pytest.param("a1b2", 5, id="letters and digits never share a piece"),
    ],
)
def test_estimate_of_a_line(line: str, tokens: int) -> None:
    assert line_tokens(line) == tokens


@given(st.lists(LINES, min_size=1, max_size=8), st.lists(LINES, min_size=1, max_size=8))
def test_lines_add_up(first: list[str], second: list[str]) -> None:
    above, below = "\n".join(first), "\n".join(second)
    assert text_tokens(above) == sum(line_tokens(line) for line in first)
    assert text_tokens(f"{above}\n{below}") == text_tokens(above) + text_tokens(below)


SPACES = st.text(st.characters(categories=["Z", "Cc"], exclude_characters="\n"), max_size=3)


@given(st.lists(LINES | SPACES, max_size=6).map("".join))
def test_lines_of_one_shape_cost_the_same(line: str) -> None:
    assert line_costs(line) == [line_tokens(line)]
    moved = re.sub("[0-9]", lambda digit: str(9 - int(digit[0])), line).swapcase() if line.isascii() else line
    assert line_costs(moved) == [line_tokens(moved)] == [line_tokens(line)]


@given(st.from_regex(r"[a-z_ ]{0,12}[0-9.,:-]{0,12}[A-Z_ é→]{0,12}[0-9]{0,5}", fullmatch=True))
def test_signs_digits_and_letters(line: str) -> None:
    assert line_costs(line) == [line_tokens(line)]


def test_a_line_without_bytes_is_counted() -> None:
    assert line_costs("a \ud800 1") == [line_tokens("a \ud800 1")] == [4]


@given(st.lists(LINES, max_size=6).map("\n".join))
def test_breaks_are_no_pieces(text: str) -> None:
    shape = text.encode("utf-8", "surrogatepass").translate(TOKEN_SHAPES)
    assert count_shape_pieces(shape) == text_tokens(text) - text.count("\n") - 1


@given(LINES, LINES)
def test_more_text_is_never_less(first: str, second: str) -> None:
    assert max(line_tokens(first), line_tokens(second)) <= line_tokens(first + second)
    assert line_tokens(first + second) <= line_tokens(first) + line_tokens(second)


@given(LINES, st.integers(0, 12))
def test_beginning_of_a_line_that_fits(line: str, tokens: int) -> None:
    cut = truncate_to_tokens(line, tokens)
    assert line.startswith(cut)
    assert line_tokens(cut) <= tokens + 1
    if cut != line:
        # Not one piece more would fit.
        assert line_tokens(cut) == tokens + 1


MIXED = st.text(st.sampled_from("aB_9 1\t→é.\u2003\x1c"), max_size=30)


@given(MIXED, st.integers(0, 12))
def test_beginning_ends_with_a_piece_as_the_estimator_cuts_them(line: str, tokens: int) -> None:
    ends = [0, *(piece.end() for piece in PIECE.finditer(line))]
    assert truncate_to_tokens(line, tokens) == (line if len(ends) <= tokens + 1 else line[: ends[tokens]])
