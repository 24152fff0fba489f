"""When it is time to reflect: a pure function of what was closed since the last note.

Counting since the note, and not modulo the total, means that two trades closed in one tick cannot skip it.
"""

import msgspec

from tapebook.domain.instants import DAY
from tapebook.domain.note import Reflection


class ReflectionState(msgspec.Struct, frozen=True):
    """How many trades were closed since the last note, when that was (None: never), and when the first one closed."""

    closed_since_note: int
    last_note_at: int | None
    first_close_at: int | None


def should_run_reflection(state: ReflectionState, reflection: Reflection, *, as_of: int) -> bool:
    """Whether a note is due. A daily one needs a day with a closed trade to be over."""
    if reflection.cadence == "off" or not state.closed_since_note:
        return False
    if reflection.cadence == "per_n_trades":
        return state.closed_since_note >= reflection.every_n_trades
    since = state.first_close_at if state.last_note_at is None else state.last_note_at
    return since is not None and as_of // DAY > since // DAY
