"""Budgets: how much may be sent in any window of time. Pure; the caller says what time it is.

The exchange allows an address 1,200 weight a minute over REST, 2,000 messages a minute over all
sockets, 30 new connections a minute. Every window of the span is kept, not only those that begin
on the minute, so it does not matter where the exchange's own windows begin.
"""

import math
from collections import deque

REST_WEIGHT_PER_MINUTE = 1_200
MESSAGES_PER_MINUTE = 2_000
MESSAGES_PER_SECOND = 30
CONNECTIONS_PER_MINUTE = 30


class Window:
    """At most `limit` within any `span_s` seconds."""

    def __init__(self, limit: float, *, span_s: float = 60.0) -> None:
        self._limit = limit
        self._span = span_s
        self._spent: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def delay(self, amount: float, now: float) -> float:
        """Seconds until `amount` may be spent; 0 when it may be spent now, infinite when it never may."""
        self._forget(now)
        if amount > self._limit:
            return math.inf
        over = self._sum + amount - self._limit
        for at, spent in self._spent:
            if over <= 0:
                break
            over -= spent
            if over <= 0:
                return at + self._span - now
        return 0.0

    def spend(self, amount: float, now: float) -> None:
        """Takes note of what was sent."""
        self._spent.append((now, amount))
        self._sum += amount

    def spent(self, now: float) -> float:
        """What the window up to now holds."""
        self._forget(now)
        return self._sum

    def _forget(self, now: float) -> None:
        while self._spent and self._spent[0][0] + self._span <= now:
            self._sum -= self._spent.popleft()[1]


class Windows:
    """Several windows that all must allow."""

    def __init__(self, *windows: Window) -> None:
        self._windows = windows

    def delay(self, amount: float, now: float) -> float:
        """Seconds until all of them allow it."""
        return max((window.delay(amount, now) for window in self._windows), default=0.0)

    def spend(self, amount: float, now: float) -> None:
        """Takes note of what was sent."""
        for window in self._windows:
            window.spend(amount, now)


def rest_weight(share: float) -> int:
    """A share of the weight that an address has in a minute."""
    return math.floor(REST_WEIGHT_PER_MINUTE * share)


def rest_budget(share: float) -> Window:
    """The weight this source may use of what the address has."""
    return Window(rest_weight(share))


def message_budget(*, stepped: bool = False) -> Windows:
    """Messages over all sockets; none is counted when a step of market time takes no time on the wire."""
    return Windows() if stepped else Windows(Window(MESSAGES_PER_MINUTE), Window(MESSAGES_PER_SECOND, span_s=1.0))


def connection_budget() -> Window:
    """New connections."""
    return Window(CONNECTIONS_PER_MINUTE)
