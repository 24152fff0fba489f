"""Reads that may fail without stopping a tick: the memories, and what is written beside a decision.

Whatever such a read raises becomes an empty default, a name and a cause (`OptionalReads`). A cause is kept with the
run, logged, and shown by `runs show` and `doctor`, so it is one capped line without a key of this home (`safe_causes`).
Errors of what a decision cannot do without, such as the account, are not caught here.
"""

import logging
import traceback
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from tapebook.domain.text import short_line
from tapebook.errors import DatabaseAway, SpendLimit
from tapebook.wiring import Rooms

MOST_CAUSES = 16
MOST_CAUSE_CHARS = 300

LEARNING = "learning"
"""The name under which a run says that not all could be learned before it."""

_LOG = logging.getLogger("tapebook.loop")
# Who runs tapebook says where its log goes; the commands print warnings themselves.
logging.getLogger("tapebook").addHandler(logging.NullHandler())

Found = TypeVar("Found")
Terms = ParamSpec("Terms")


class OptionalReads:
    """Reads that may fail: what comes instead is the empty default; the name and the cause are remembered."""

    def __init__(self, skip: Iterable[str] = (), *, causes: Iterable[str] = ()) -> None:
        self._degraded = list(skip)
        self._causes = list(causes)

    @property
    def degraded(self) -> tuple[str, ...]:
        """What was not read, and what could not be."""
        return tuple(self._degraded)

    @property
    def causes(self) -> tuple[str, ...]:
        """Why, as far as it was tried: `name: ErrorType: message`."""
        return tuple(self._causes)

    def read(
        self, name: str, empty: Found, read: Callable[Terms, Found], *given: Terms.args, **terms: Terms.kwargs
    ) -> Found:
        """What a read gives, or the empty default."""
        if name in self._degraded:
            return empty
        try:
            return read(*given, **terms)
        except DatabaseAway:
            # No memory can be read, and in a moment all can: the whole decision is made then.
            raise
        except SpendLimit:
            # Going on without it would be another decision than the one that is made when the limit is raised.
            raise
        except Exception as error:
            # Everything, also what nobody thought of: a memory that is broken must not stop who trades with it.
            self._degraded.append(name)
            self.add_cause(name, error)
            return empty

    def add_cause(self, name: str, error: Exception) -> None:
        """Remembers why something did not work."""
        self._causes.append(cause_of(name, error))


def cause_of(name: str, error: Exception) -> str:
    """What went wrong where. The text may be long and may hold anything: `safe_causes` makes it fit to be kept."""
    # It copes with errors that cannot say what they are.
    said = " ".join(traceback.format_exception_only(error)).partition(": ")[2]
    return f"{name}: {type(error).__name__}: {said}" if said.strip() else f"{name}: {type(error).__name__}"


def safe_causes(rooms: Rooms, causes: Iterable[str]) -> tuple[str, ...]:
    """Causes as they may be kept and shown: each a capped line without control characters and without a key."""
    lines = [short_line(rooms.without_keys(cause), MOST_CAUSE_CHARS) for cause in causes]
    return tuple(dict.fromkeys(lines))[:MOST_CAUSES]


def log_causes(what: str, causes: Iterable[str]) -> None:
    """Writes causes, which must be safe ones, to the log of the process."""
    for cause in causes:
        _LOG.warning("%s: %s", what, cause)
