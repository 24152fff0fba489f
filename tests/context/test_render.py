"""Sections as text: a heading that says what was left out, then the lines that fit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.render import (
    SHORT_TEXT,
    RenderedSection,
    Rows,
    SectionLayout,
    line_costs,
    make_heading,
    render_rows,
    render_written,
)
from tapebook.domain.canonical import canonical_json
from tapebook.domain.packet import Section
from tapebook.domain.text import line_tokens, text_tokens

LINES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=40)
WHOLE = Section("s", "Title", ("name", "value"), (("a", "1"), ("b", "2")))


def layout_of(section: Section, **fields: Any) -> SectionLayout[None, None]:
    """A layout whose sections are like this one, in plain lines."""
    return SectionLayout(
        section.name, 0, section.title, section.columns, look=lambda _: None, rows=lambda _: section.rows, text=text_of,
        **fields,
    )  # fmt: skip


def text_of(rows: Rows) -> str:
    """Rows as plain lines."""
    return "\n".join(" ".join(row) for row in rows)


def drawn_in(room: int, section: Section, *, oldest_first: bool = False) -> RenderedSection:
    """A section of plain lines."""
    layout = layout_of(section, oldest_first=oldest_first)
    return render_rows(layout, make_heading(section.title), section.rows, room)


def drawn_by_line(room: int, section: Section, *, oldest_first: bool = False) -> RenderedSection:
    """The same, each line counted by itself."""
    layout, rows = layout_of(section, oldest_first=oldest_first), section.rows
    texts = tuple(" ".join(row) for row in rows)
    written = list(zip(rows, texts, map(line_tokens, texts), strict=True))
    return render_written(layout, make_heading(section.title), written, room)


def numbered(count: int) -> Section:
    """Rows `r0` … that cost three tokens each with their break."""
    return Section("s", "Title", ("c",), tuple((f"r{number}",) for number in range(count)))


def test_heading_says_how_many_rows_are_shown() -> None:
    assert make_heading("Title").text == "## Title"
    assert make_heading("Title", 8, 9).text == "## Title (8 of 9 shown)"
    assert make_heading("Title", 0, 3).text == "## Title (0 of 3 shown)"


@given(st.lists(LINES, min_size=1, max_size=5))
def test_lines_cost_together_what_each_does(lines: list[str]) -> None:
    assert line_costs("\n".join(lines)) == [line_tokens(line) for line in lines]


def test_section_is_a_heading_and_its_lines() -> None:
    drawn = drawn_in(100, WHOLE)
    assert drawn.text == "## Title\na 1\nb 2"
    assert (drawn.section, drawn.tokens, drawn.content) == (WHOLE, text_tokens(drawn.text), canonical_json(WHOLE))


@given(st.lists(LINES, max_size=5), st.integers(1, 9), st.integers(0, 80) | st.just(10_000), st.booleans())
def test_a_section_is_the_same_drawn_at_once_or_line_by_line(
    texts: list[str], times: int, room: int, oldest_first: bool
) -> None:
    for blanks in ("", " " * SHORT_TEXT):
        section = Section("s", "Title", ("c",), tuple((text * times + blanks,) for text in texts))
        at_once = drawn_in(room, section, oldest_first=oldest_first)
        by_line = drawn_by_line(room, section, oldest_first=oldest_first)
        assert by_line == at_once and by_line.tokens == text_tokens(by_line.text)


# The heading alone costs 4, with how many are shown 10; a row costs 3.
@pytest.mark.parametrize(("cap", "kept"), [(100, 5), (19, 5), (18, 2), (13, 1), (12, 0), (0, 0)])
@pytest.mark.parametrize("oldest_first", [False, True])
def test_rows_that_fit(cap: int, kept: int, oldest_first: bool) -> None:
    section = numbered(5)
    fitted = drawn_in(cap, section, oldest_first=oldest_first).section
    assert fitted.rows == (section.rows[5 - kept :] if oldest_first else section.rows[:kept])
    assert fitted.dropped == 5 - kept
    assert (fitted.name, fitted.title, fitted.columns) == (section.name, section.title, section.columns)


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(CELLS, st.lists(CELLS, max_size=3), st.lists(st.lists(CELLS, max_size=3), max_size=6), st.data())
def test_bytes_put_together_are_those_of_the_section(
    name: str, columns: list[str], cells: list[list[str]], data: st.DataObject
) -> None:
    section = Section(name, data.draw(CELLS), tuple(columns), tuple(tuple(row) for row in cells))
    drawn = drawn_in(data.draw(st.integers(0, 60)), section, oldest_first=data.draw(st.booleans()))
    assert drawn.content == canonical_json(drawn.section)


@given(st.lists(LINES, max_size=12), st.integers(0, 80), st.booleans())
def test_what_is_kept_fits_and_what_is_dropped_is_counted(lines: list[str], cap: int, oldest_first: bool) -> None:
    section = Section("s", "t", ("c",), tuple((line,) for line in lines))
    drawn = drawn_in(cap, section, oldest_first=oldest_first)
    newest = lines[::-1] if oldest_first else lines
    assert len(drawn.section.rows) + drawn.section.dropped == len(lines)
    assert drawn.tokens == text_tokens(drawn.text)
    assert drawn.tokens <= cap or not drawn.section.rows
    if drawn.section.dropped:
        assert line_tokens("## t") + sum(map(line_tokens, lines)) > cap
        shown = drawn.tokens + line_tokens(newest[len(drawn.section.rows)])
        # The heading is counted at its longest, which is two tokens at most above what it comes to.
        assert shown + 2 > cap
