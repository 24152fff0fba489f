"""What was worked out last is what would be worked out now, and is not worked out again for the same question."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.cache import LastCall


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
