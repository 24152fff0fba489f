"""Forgetting: whatever a module keeps between two calls is let go, so that the next call is like the first."""

import sys


def forget() -> None:
    """Empties every cache of every module of the package, also of those that are yet to be written."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "tapebook":
            for thing in list(vars(module).values()):
                if callable(clear := getattr(thing, "cache_clear", None)):
                    clear()
