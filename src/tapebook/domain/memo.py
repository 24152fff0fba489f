"""The last answer of a pure function, kept for whoever asks the same again.

Consecutive ticks show almost the same things. To compare what is asked with what was asked last is
much cheaper than to work it out, above all when both are one object. The function sees nothing but
what is compared, so an answer can never be older than the question.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class Memo(Generic[Given, Made]):
    """A pure function that is not called again for what it was given last; several threads may share it.

    Equal values must give equal answers: a function that tells 1 from True or 1.0 must not be given both.
    """

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[[Given], Made]) -> None:
        self._make = make
        self._kept: tuple[Given, Made] | None = None

    def __call__(self, given: Given) -> Made:
        # Question and answer are one tuple, read and replaced at once, so that no thread sees a wrong pair.
        kept = self._kept
        if kept is None or not (kept[0] is given or kept[0] == given):
            kept = self._kept = (given, self._make(given))
        return kept[1]
