"""The estimator is fixed for ever, and the allocator keeps the newest rows that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.budget import fit, line_tokens, text_tokens
from tapebook.domain.packet import Section

LINES = st.text(st.characters(exclude_characters="\n"), max_size=40)


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        pytest.param("", 1, id="a break alone"),
        pytest.param("   \t ", 1, id="blanks are free"),
        pytest.param("market", 2, id="six letters are one piece"),
        pytest.param("markets", 3, id="seven are two"),
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


@given(LINES, LINES)
def test_more_text_is_never_less(first: str, second: str) -> None:
    assert max(line_tokens(first), line_tokens(second)) <= line_tokens(first + second)
    assert line_tokens(first + second) <= line_tokens(first) + line_tokens(second)


def one_token_lines(count: int) -> Section:
    """Rows `r0` … that cost two tokens each with their break: a letter, a digit, the break."""
    return Section("s", "Title", ("c",), tuple((f"r{number}",) for number in range(count)))


@pytest.mark.parametrize(
    ("cap", "kept"),
    [(100, 5), (25, 5), (24, 4), (13, 1), (12, 0), (10, 0), (0, 0)],
)
@pytest.mark.parametrize("oldest_first", [False, True])
def test_rows_that_fit(cap: int, kept: int, oldest_first: bool) -> None:
    section = one_token_lines(5)
    fitted = fit(section, cap=cap, line=" ".join, head=10, oldest_first=oldest_first)
    rows = section.rows
    assert fitted.rows == (rows[5 - kept :] if oldest_first else rows[:kept])
    assert fitted.dropped == 5 - kept
    assert (fitted.name, fitted.title, fitted.columns) == (section.name, section.title, section.columns)


@given(st.lists(LINES, max_size=12), st.integers(0, 80), st.integers(0, 20), st.booleans())
def test_what_is_kept_fits_and_one_more_would_not(lines: list[str], cap: int, head: int, oldest_first: bool) -> None:
    section = Section("s", "t", ("c",), tuple((line,) for line in lines))
    fitted = fit(section, cap=cap, line=" ".join, head=head, oldest_first=oldest_first)
    newest = lines[::-1] if oldest_first else lines
    used = head + sum(line_tokens(row[0]) for row in fitted.rows)
    assert len(fitted.rows) + fitted.dropped == len(lines)
    assert used <= cap or not fitted.rows
    if fitted.dropped:
        assert used + line_tokens(newest[len(fitted.rows)]) > cap
