"""Forgetting: whatever a module keeps between two calls is let go, so that the next call is like the first."""

import sys
from collections.abc import Callable
from functools import cache, partial
from types import ModuleType

from tapebook.domain.cache import LastCall


def forget() -> None:
    """Empties every cache of every module of the package, also of those that are yet to be written."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tapebook":
            for clear in _clears(module, tuple(map(id, vars(module).values()))):
                clear()


@cache
def _clears(module: ModuleType, _ids: tuple[int, ...]) -> list[Callable[[], None]]:
    """What empties the caches of a module; looked for again whenever one of its names means something else.

    Asking all thirteen thousand names of the package takes ten times as long, and tests forget thousands of times.
    """
    things = vars(module).values()
    found = [getattr(thing, "cache_clear", None) for thing in things]
    memos = [partial(setattr, thing, "_kept", None) for thing in things if isinstance(thing, LastCall)]
    return [*memos, *[clear for clear in found if callable(clear)]]
