"""What one process remembers from one decision to the next: one object, opened with the rooms and passed in.

- `last_call` keeps the last argument and result of pure functions, one per symbol and kind of window. Consecutive
  ticks mostly ask the same; a result is used again only while its argument is equal, so nothing has to invalidate it.
- `packets` keeps what was rendered for the packet before; `PacketCaches` says when it is used again.
- `nothing_to_learn_at` and `failed_reflection_trades` belong to `tick.learn`. The first is compared with the state it
  was noted at, which every event that could teach changes; the second, with the number of trades closed since.

Nothing here is needed to decide: a process that has just begun decides the same.
"""

from tapebook.context import PacketCaches
from tapebook.domain.cache import LastCalls


class TickMemory:
    """The caches of a process's ticks."""

    def __init__(self) -> None:
        self.last_call = LastCalls()
        self.packets = PacketCaches()
        # For each deployment the last state in which nothing was to be learned.
        self.nothing_to_learn_at: dict[str, tuple[object, ...]] = {}
        # For each deployment how many trades a reflection was for that could not be written.
        self.failed_reflection_trades: dict[str, int] = {}
