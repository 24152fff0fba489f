"""What one process remembers from one decision to the next: one object, opened with the rooms and passed in.

- `regimes`, `activity` and `history_features` keep the last argument and result of pure functions, the first and the
  last for each symbol (and kind of window). Consecutive ticks mostly ask the same; a result is used again only while
  its argument is equal, so nothing has to invalidate it.
- `packets` keeps what was rendered for the packet before; `PacketCaches` says when it is used again.
- `nothing_to_learn_at` and `failed_reflection_trades` belong to `tick.learn`. The first is compared with the state it
  was noted at, which every event that could teach changes; the second, with the number of trades closed since.

Nothing here is needed to decide: a process that has just begun decides the same.
"""

from collections import defaultdict
from functools import partial

import msgspec

from tapebook.book.materializer import Session, activity_of_session
from tapebook.context import Feature, PacketCaches
from tapebook.domain.cache import LastCall
from tapebook.domain.run import Activity
from tapebook.tape.bars import RegimeClassifier
from tapebook.tape.history_features import HistoryFeatures


def _activity_of_seen(seen: tuple[Session, dict[str, int]]) -> Activity:
    return activity_of_session(*seen)


class TickMemory(msgspec.Struct, eq=False):
    """The caches of a process's ticks."""

    regimes: defaultdict[tuple[str, int, int], RegimeClassifier] = msgspec.field(
        default_factory=partial(defaultdict, RegimeClassifier)
    )
    activity: LastCall[tuple[Session, dict[str, int]], Activity] = msgspec.field(
        default_factory=partial(LastCall, _activity_of_seen)
    )
    history_features: dict[str, LastCall[HistoryFeatures, tuple[Feature, ...]]] = {}
    packets: PacketCaches = msgspec.field(default_factory=PacketCaches)
    # For each deployment the last state in which nothing was to be learned.
    nothing_to_learn_at: dict[str, tuple[object, ...]] = {}
    # For each deployment how many trades a reflection was for that could not be written.
    failed_reflection_trades: dict[str, int] = {}
