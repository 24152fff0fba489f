"""Forgetting: whatever a module keeps between two calls is let go, so that the next call is like the first."""

import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType


def forget() -> None:
    """Empties every cache of every module of the package, also of those that are yet to be written."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tapebook":
            for clear in _clears(module, tuple(map(id, vars(module).values()))):
                clear()


@cache
def _clears(module: ModuleType, things: tuple[int, ...]) -> list[Callable[[], None]]:
    """What empties the caches of a module; looked for again whenever one of its names means something else.

    Asking all thirteen thousand names of the package takes ten times as long, and tests forget thousands of times.
    """
    found = [getattr(thing, "cache_clear", None) for thing in vars(module).values()]
    return [clear for clear in found if callable(clear)]
