"""The layers as ticks use them: rows for packets, and roll-ups when days are over, both at the cost of one lookup.

What a packet is told changes when something of the layers is written, or at midnight; a roll-up can be due when a
trade ended, or at midnight. So both answers are kept until then, and nothing that is kept is ever the reason for a
byte: a process that has just begun gives the same.
"""

from tapebook.domain.instants import DAY, floor
from tapebook.domain.memory import LayerRow
from tapebook.horizons.rollup import Days, catch_up, expire
from tapebook.horizons.rows import layer_rows
from tapebook.horizons.store import Horizons
from tapebook.horizons.values import Terms
from tapebook.log import Draft

# 1970 began on a Thursday.
STEP_DAYS = 93
"""How many days are rolled up at once, so that leases are kept alive in between."""

_FIRST_MONDAY = 4 * DAY

_Known = tuple[int, int, int]
"""All that the rows of a scope depend on: its newest change, the owner's, and the day."""


class Almanac:
    """The layers of one owner, for reading and rolling up again and again."""

    def __init__(self, store: Horizons) -> None:
        self.store = store
        self._rows: dict[str, tuple[_Known, tuple[LayerRow, ...]]] = {}
        self._quiet: dict[str, tuple[int, int]] = {}

    def rows(self, scope: str, *, seq: int, as_of: int, curated: int = 0) -> tuple[LayerRow, ...]:
        """What a decision is told; see `layer_rows`."""
        changed = self.store.changed(scope, seq=seq)
        if not changed and not curated:
            return ()
        known, kept = (changed, curated, as_of // DAY), self._rows.get(scope)
        if kept is None or kept[0] != known:
            kept = self._rows[scope] = known, layer_rows(self.store, scope, seq=seq, as_of=as_of, curated=curated)
        return kept[1]

    def quiet_until(self, scope: str, *, now: int) -> int | None:
        """The sequence number at which there was last nothing to roll up; None when that was on another day.

        As long as no trade ended after it, there still is nothing.
        """
        today, seq = self._quiet.get(scope, (None, 0))
        return seq if today == floor(now, DAY) else None

    def days_over(self, days: Days, scope: str, *, seq: int, now: int, terms: Terms | None = None) -> list[Draft]:
        """The events that roll up days that are over, and late trades of such days; on Mondays a cleanup too.

        They are one step of `STEP_DAYS` at most: the next call goes on behind them.
        """
        today = floor(now, DAY)
        drafts = catch_up(self.store, days, scope, seq=seq, at=today, terms=terms, before=today, most=STEP_DAYS)
        if not drafts:
            self._quiet[scope] = today, seq
        elif today % (7 * DAY) == _FIRST_MONDAY:
            drafts += expire(self.store, scope, seq=seq, now=today)[1]
        return drafts
