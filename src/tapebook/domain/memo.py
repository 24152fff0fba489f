"""What was worked out last, kept for whoever asks the same again.

Consecutive ticks show almost the same things. To compare what is asked with what was asked last is
much cheaper than to work it out, above all when both are one object. A function sees nothing but what
is compared, so an answer can never be older than its question.

Equal values must give equal answers: a function that tells 1 from True or 1.0 must not be given both.
Several threads may share what is here: question and answer are one tuple, read and replaced at once.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class Memo(Generic[Given, Made]):
    """A pure function that is not called again for what it was given last."""

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[[Given], Made]) -> None:
        self._make = make
        self._kept: tuple[Given, Made] | None = None

    def __call__(self, given: Given) -> Made:
        kept = self._kept
        if kept is None or not (kept[0] is given or kept[0] == given):
            kept = self._kept = (given, self._make(given))
        return kept[1]


class Window(Generic[Given, Made]):
    """A pure function over the items of a window; when it has moved on by one, it is called for the new item alone."""

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[[Given], Made]) -> None:
        self._make = make
        self._kept: tuple[tuple[Given, ...], tuple[Made, ...]] = ((), ())

    def __call__(self, items: tuple[Given, ...]) -> tuple[Made, ...]:
        before, made = self._kept
        if before is items or before == items:
            return made
        # One item is compared first: most windows that differ have not just moved.
        if len(before) > 1 and items and before[1] == items[0] and before[1:] == items[:-1]:
            made = (*made[1:], self._make(items[-1]))
        else:
            made = tuple(map(self._make, items))
        self._kept = (items, made)
        return made
