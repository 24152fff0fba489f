"""Caches of one pure function each: the result of the last call.

Consecutive ticks show almost the same values, and comparing an argument with the last one is much cheaper than
computing the result again, above all when both are one object. A cache is invalidated by any argument that differs
from the last; the function sees nothing else, so a result can never be older than its argument.

Equal arguments must give equal results: a function that tells 1 from True or 1.0 must not get both. Several threads
may share a cache, since argument and result are one tuple that is read and replaced at once.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class LastCall(Generic[Argument, Result]):
    """A pure function that is not called again for what it was given last."""

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[[Argument], Result]) -> None:
        self._make = make
        self._kept: tuple[Argument, Result] | None = None

    def __call__(self, given: Argument) -> Result:
        kept = self._kept
        if kept is None or not (kept[0] is given or kept[0] == given):
            kept = self._kept = (given, self._make(given))
        return kept[1]


class LastCalls:
    """The last calls of many pure functions: of each that a maker gives, one for each key."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[Hashable, LastCall[Any, Any]] = {}

    def __call__(self, make: Callable[[], Callable[[Argument], Result]], *key: Hashable) -> LastCall[Argument, Result]:
        """The cache of the function that `make` gives for a key: a symbol, say, and a kind of window."""
        found = self._calls.get((make, *key))
        if found is None:
            found = self._calls[make, *key] = LastCall(make())
        return found
