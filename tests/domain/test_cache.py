"""What was worked out last is what would be worked out now, and is not worked out again for the same question."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.cache import LastCall, SlidingMap


class Counting:
    """Tells its questions apart by their text, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, given: Any) -> str:
        self.asked.append(given)
        return f"<{given}>"


QUESTIONS = st.lists(st.sampled_from(["a", "b", "c"]) | st.text(max_size=2), max_size=12)


@given(QUESTIONS)
def test_answers_are_those_of_the_function(questions: Sequence[str]) -> None:
    memo = LastCall(Counting())
    assert [memo(question) for question in questions] == [f"<{question}>" for question in questions]


@given(QUESTIONS)
def test_the_same_question_is_worked_out_once(questions: Sequence[str]) -> None:
    counting = Counting()
    memo = LastCall(counting)
    for question in questions:
        memo(question)
    changes = [b for a, b in zip([None, *questions], questions, strict=False) if a != b]
    assert counting.asked == changes


def test_a_question_that_equals_nothing_is_known_again_by_itself() -> None:
    counting, nan = Counting(), float("nan")
    memo = LastCall(counting)
    assert memo(nan) == memo(nan) == "<nan>" and len(counting.asked) == 1
    memo(float("nan"))
    assert len(counting.asked) == 2


ITEMS = st.lists(st.integers(0, 3), max_size=6).map(tuple)


def each(make: Callable[[int], str]) -> Callable[[tuple[int, ...]], list[str]]:
    """A function of one item for all of a window."""
    return lambda items: [make(item) for item in items]


@given(st.lists(ITEMS, max_size=8))
def test_any_windows_are_those_of_the_function(windows: list[tuple[int, ...]]) -> None:
    window = SlidingMap(each(Counting()))
    for items in windows:
        assert window(items) == tuple(f"<{item}>" for item in items)


TAPES = st.lists(st.integers(0, 3), min_size=1, max_size=30)


@given(TAPES, st.integers(1, 6), st.lists(st.integers(0, 2), max_size=12))
def test_windows_that_move_on_stand_still_or_jump(tape: list[int], width: int, steps: list[int]) -> None:
    window, at = SlidingMap(each(Counting())), 0
    for step in steps:
        at += step
        items = tuple(tape[at : at + width])
        assert window(items) == tuple(f"<{item}>" for item in items)


def test_a_window_that_moved_on_asks_for_the_new_item_alone() -> None:
    counting = Counting()
    window = SlidingMap(each(counting))
    for start in (0, 0, 1, 2, 2):
        window(tuple(range(start, start + 4)))
    assert counting.asked == [0, 1, 2, 3, 4, 5]
    window(tuple(range(9, 13)))
    assert counting.asked[6:] == [9, 10, 11, 12]
