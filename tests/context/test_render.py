"""Sections as text: a heading that says what was left out, then the lines that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.budget import line_tokens, text_tokens
from tapebook.context.render import draw, heading, user_text
from tapebook.context.sections import Layout, fact_line
from tapebook.domain.canonical import canonical
from tapebook.domain.packet import Section

LINES = st.text(st.characters(exclude_characters="\n"), max_size=40)
WHOLE = Section("s", "Title", ("name", "value"), (("a", "1"), ("b", "2")))


def layout(cap: int, *, oldest_first: bool = False) -> Layout[None]:
    """A layout of plain lines."""
    return Layout("s", cap, build=lambda _: None, line=" ".join, oldest_first=oldest_first)


def numbered(count: int) -> Section:
    """Rows `r0` … that cost three tokens each with their break."""
    return Section("s", "Title", ("c",), tuple((f"r{number}",) for number in range(count)))


def test_heading_says_how_many_rows_are_shown() -> None:
    assert heading(WHOLE) == "## Title"
    assert heading(Section("s", "Title", ("c",), (("a",),) * 8, dropped=1)) == "## Title (8 of 9 shown)"
    assert heading(Section("s", "Title", ("c",), (), dropped=3)) == "## Title (0 of 3 shown)"


def test_section_is_a_heading_and_its_lines() -> None:
    drawn = draw(WHOLE, Layout("s", 100, build=lambda _: None, line=fact_line))
    assert drawn.text == "## Title\n- a: 1\n- b: 2"
    assert (drawn.section, drawn.tokens, drawn.content) == (WHOLE, text_tokens(drawn.text), canonical(WHOLE))


def test_sections_stand_apart_by_an_empty_line() -> None:
    assert user_text(["## A\n- a: 1", "## B"]) == "## A\n- a: 1\n\n## B"
    assert user_text([]) == ""


# The heading alone costs 4, with how many are shown 10; a row costs 3.
@pytest.mark.parametrize(("cap", "kept"), [(100, 5), (19, 5), (18, 2), (13, 1), (12, 0), (0, 0)])
@pytest.mark.parametrize("oldest_first", [False, True])
def test_rows_that_fit(cap: int, kept: int, oldest_first: bool) -> None:
    section = numbered(5)
    fitted = draw(section, layout(cap, oldest_first=oldest_first)).section
    assert fitted.rows == (section.rows[5 - kept :] if oldest_first else section.rows[:kept])
    assert fitted.dropped == 5 - kept
    assert (fitted.name, fitted.title, fitted.columns) == (section.name, section.title, section.columns)


def test_smaller_cap_of_the_caller_holds() -> None:
    assert draw(numbered(5), layout(100), cap=13).section.dropped == 4
    assert draw(numbered(5), layout(13), cap=100).section.dropped == 4


@given(st.lists(LINES, max_size=12), st.integers(0, 80), st.booleans())
def test_what_is_kept_fits_and_what_is_dropped_is_counted(lines: list[str], cap: int, oldest_first: bool) -> None:
    section = Section("s", "t", ("c",), tuple((line,) for line in lines))
    drawn = draw(section, layout(cap, oldest_first=oldest_first))
    newest = lines[::-1] if oldest_first else lines
    assert len(drawn.section.rows) + drawn.section.dropped == len(lines)
    assert drawn.tokens == text_tokens(drawn.text)
    assert drawn.tokens <= cap or not drawn.section.rows
    if drawn.section.dropped:
        assert line_tokens("## t") + sum(map(line_tokens, lines)) > cap
        shown = drawn.tokens + line_tokens(newest[len(drawn.section.rows)])
        # The heading is counted at its longest, which is two tokens at most above what it comes to.
        assert shown + 2 > cap
