"""The record of the last days, kept from one decision to the next: what leaves the window is taken off its sums."""

from collections import deque
from collections.abc import Sequence

from tapebook.experience.records import Record

Ended = tuple[int, int, int]
"""An outcome as far as sums need it: its exit, its result in millionths, its money."""


class Recent:
    """The newest outcomes, oldest first, at most so many; as of some moment and every later one."""

    def __init__(self, outcomes: Sequence[Ended], *, name: str, most: int) -> None:
        kept = outcomes[max(0, len(outcomes) - most) :]
        self._outcomes = deque(kept)
        self._name = name
        self._most = most
        self._wins = sum([usd > 0 for _, _, usd in kept])
        self._ppm = sum([ppm for _, ppm, _ in kept])
        self._ppm2 = sum([ppm * ppm for _, ppm, _ in kept])
        self._usd = sum([usd for _, _, usd in kept])
        self._since = -1
        self._made: Record | None = None

    def add(self, ended: Ended) -> bool:
        """Takes in one more; False when it does not come last, and all must be read again."""
        if self._outcomes and ended[0] <= self._outcomes[-1][0]:
            return False
        self._put(ended)
        return True

    def record(self, *, since: int, as_of: int) -> Record | None:
        """The record of the outcomes after a moment; the same object until one comes or leaves.

        None where memory does not reach: before what was asked for so far, or before an exit.
        """
        outcomes = self._outcomes
        if since < self._since or (outcomes and outcomes[-1][0] > as_of):
            return None
        self._since = since
        while outcomes and outcomes[0][0] <= since:
            self._drop()
        if self._made is None:
            self._made = Record("recent", self._name, len(outcomes), self._wins, self._ppm, self._ppm2, self._usd)
        return self._made

    def _put(self, ended: Ended) -> None:
        self._outcomes.append(ended)
        self._count(ended, 1)
        if len(self._outcomes) > self._most:
            self._drop()

    def _drop(self) -> None:
        self._count(self._outcomes.popleft(), -1)

    def _count(self, ended: Ended, sign: int) -> None:
        self._made = None
        _, ppm, usd = ended
        self._wins += sign * (usd > 0)
        self._ppm += sign * ppm
        self._ppm2 += sign * ppm * ppm
        self._usd += sign * usd
