"""A section that stays drawn: the same as one drawn anew, and drawn anew only when it must be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.assemble import MOST_WRITTEN, SectionCache
from tapebook.context.render import Rows, SectionLayout, fact_text

View = tuple[str, tuple[tuple[str, str], ...]]


class Counted:
    """A layout of a title and facts that remembers what rows it was asked for, and which of them it wrote."""

    def __init__(self, **fields: Any) -> None:
        self.rows: list[object] = []
        self.written: list[object] = []
        self.layout: SectionLayout[View, Rows] = SectionLayout(
            "s", 60, lambda view: view[0], ("name", "value"), look=lambda view: view[1], rows=self._rows,
            text=self._text, **fields
        )  # fmt: skip

    def _rows(self, seen: Rows) -> Rows:
        self.rows.append(seen)
        return seen

    def _text(self, rows: Rows) -> str:
        self.written.extend(rows)
        return fact_text(rows)


def each(row: tuple[str, ...]) -> tuple[str, ...]:
    """A row as it is."""
    return row


FACTS = (("a", "1"), ("b", "2"))


def test_what_has_not_changed_is_not_drawn_again() -> None:
    counted = Counted()
    panel = SectionCache(counted.layout)
    first = panel.render(("Title", FACTS))
    assert first is not None and first.text == "## Title\n- a: 1\n- b: 2"
    # Equal is enough; it need not be the same object.
    assert panel.render(("Title", (("a", "1"), ("b", "2")))) is first
    assert len(counted.rows) == 1


def test_rows_stay_while_the_heading_or_the_room_changes() -> None:
    counted = Counted()
    panel = SectionCache(counted.layout)
    asked = (("12:00", None), ("12:05", None), ("12:05", 15))
    shown = [panel.render((title, FACTS), cap=cap) for title, cap in asked]
    heads = [drawn.text.split("\n")[0] for drawn in shown if drawn]
    assert heads == ["## 12:00", "## 12:05", "## 12:05 (0 of 2 shown)"]
    assert len(counted.rows) == 1


def test_of_a_window_that_moves_on_one_line_is_written() -> None:
    counted = Counted(by_item=True, oldest_first=True)
    panel = SectionCache(counted.layout)
    for start in range(3):
        panel.render(("t", tuple((str(number), "") for number in range(start, start + 5))))
    assert counted.written == [(str(number), "") for number in range(7)]


def test_of_items_that_come_and_go_those_that_were_there_lately_are_not_written_again() -> None:
    counted = Counted(by_item=True)
    panel = SectionCache(counted.layout)
    for names in ("abc", "xabc", "cb", "a"):
        panel.render(("t", tuple((name, "") for name in names)))
    assert counted.written == [(name, "") for name in "abcx"]


def test_lines_of_items_are_kept_up_to_a_number() -> None:
    counted = Counted(by_item=True)
    panel = SectionCache(counted.layout)
    for number in (*range(MOST_WRITTEN + 2), 0):
        drawn = panel.render(("t", ((str(number), ""),)))
        assert drawn is not None and drawn.text == f"## t\n- {number}: "
    assert counted.written.count(("0", "")) == 2 and len(counted.written) == MOST_WRITTEN + 3


def test_a_section_that_was_cut_gets_a_heading_that_says_so_whatever_stood_before() -> None:
    panel = SectionCache(Counted(by_item=True).layout)
    asked = (("12:00", None), ("12:05", 13), ("12:10", 13), ("12:15", None), ("12:20", None))
    shown = [panel.render((title, FACTS), cap=cap) for title, cap in asked]
    heads = [(drawn.text.split("\n")[0], drawn.section.title, len(drawn.section.rows)) for drawn in shown if drawn]
    assert heads == [
        ("## 12:00", "12:00", 2),
        ("## 12:05 (0 of 2 shown)", "12:05", 0),
        ("## 12:10 (0 of 2 shown)", "12:10", 0),
        ("## 12:15", "12:15", 2),
        ("## 12:20", "12:20", 2),
    ]


@pytest.mark.parametrize("bare", [False, True])
def test_nothing_to_say(bare: bool) -> None:
    panel = SectionCache(Counted(bare=bare).layout)
    empty, full, again = panel.render(("t", ())), panel.render(("t", FACTS)), panel.render(("t", ()))
    assert (empty is not None) == (again is not None) == bare and full is not None
    assert empty is None or empty.text == "## t"


WORDS = st.sampled_from(["", "a", "b", "%", "12", "word " * 9])
VIEWS = st.tuples(WORDS, st.lists(st.tuples(WORDS, WORDS), max_size=4).map(tuple))
ASKED = st.lists(st.tuples(VIEWS, st.none() | st.integers(-5, 70)), max_size=10)


@given(ASKED, st.booleans(), st.booleans())
def test_whatever_was_drawn_before_leaves_no_trace(asked: list[Any], moves: bool, oldest_first: bool) -> None:
    layout = Counted(oldest_first=oldest_first, by_item=moves).layout
    panel = SectionCache(layout)
    for view, cap in asked:
        assert panel.render(view, cap=cap) == SectionCache(layout).render(view, cap=cap)


TAPES = st.lists(st.sampled_from([("a", "1"), ("b", "2"), ("a", "2")]), min_size=1, max_size=20)


@given(TAPES, st.integers(1, 6), st.lists(st.integers(0, 2), max_size=12))
def test_windows_that_move_on_stand_still_or_jump_are_drawn_as_anew(
    tape: list[Any], width: int, steps: list[int]
) -> None:
    layout = Counted(oldest_first=True, by_item=True).layout
    panel, at = SectionCache(layout), 0
    for step in steps:
        at += step
        view = ("t", tuple(tape[at : at + width]))
        assert panel.render(view) == SectionCache(layout).render(view)
