"""Sections as text: a heading that says what was left out, then one line per row."""

from tapebook.context.render import heading, section_text, user_text
from tapebook.context.sections import Layout, fact_line
from tapebook.domain.packet import Section

LAYOUT = Layout(cap=100, build=lambda situation: None, line=fact_line)
WHOLE = Section("s", "Title", ("name", "value"), (("a", "1"), ("b", "2")))


def test_heading_of_a_whole_section_is_its_title() -> None:
    assert heading(WHOLE, 2) == "## Title"


def test_heading_says_how_many_rows_are_shown() -> None:
    assert heading(Section("s", "Title", ("c",), (("a",),) * 8, dropped=1), 9) == "## Title (8 of 9 shown)"
    assert heading(Section("s", "Title", ("c",), (), dropped=3), 3) == "## Title (0 of 3 shown)"


def test_section_is_a_heading_and_its_lines() -> None:
    assert section_text(WHOLE, LAYOUT) == "## Title\n- a: 1\n- b: 2"
    cut = Section("s", "Title", ("name", "value"), (("a", "1"),), dropped=1)
    assert section_text(cut, LAYOUT) == "## Title (1 of 2 shown)\n- a: 1"


def test_sections_stand_apart_by_an_empty_line() -> None:
    assert user_text(["## A\n- a: 1", "## B"]) == "## A\n- a: 1\n\n## B"
    assert user_text([]) == ""
