"""How much one client address may ask for: weight and messages per minute of the world, sockets, subscriptions."""

from collections import deque

from tapebook.domain.instants import MINUTE
from tapebook.world.server.requests import WEIGHT_PER_MINUTE

MOST_SOCKETS = 10
MOST_NEW_SOCKETS = 30
MOST_SUBSCRIPTIONS = 1_000
MOST_MESSAGES = 2_000


class Window:
    """What was spent in the minute that ends now."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spent: deque[tuple[int, int]] = deque()
        self._sum = 0

    def fits(self, now: int, amount: int) -> bool:
        """Whether so much more may be spent."""
        while self._spent and self._spent[0][0] <= now - MINUTE:
            self._sum -= self._spent.popleft()[1]
        return self._sum + amount <= self._limit

    def spend(self, now: int, amount: int) -> None:
        """Notes what was spent; rows that were found on the way may pass the limit."""
        self._spent.append((now, amount))
        self._sum += amount

    def take(self, now: int, amount: int = 1) -> bool:
        """Spends if it fits."""
        fits = self.fits(now, amount)
        if fits:
            self.spend(now, amount)
        return fits


class Client:
    """One address with its windows and what it holds open."""

    def __init__(self) -> None:
        self.weight = Window(WEIGHT_PER_MINUTE)
        self.messages = Window(MOST_MESSAGES)
        self.new_sockets = Window(MOST_NEW_SOCKETS)
        self.sockets = 0
        self.subscriptions = 0
