"""Subscriptions: what is asked for, over which connections. Pure.

A name the exchange does not know makes it drop the whole connection without a word, so only names
from its own lists are ever asked for. Mids have a connection of their own: they must not wait
behind the candles of a busy minute.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec

from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.universe import Watched

MOST_CONNECTIONS = 10
MOST_SUBSCRIPTIONS = 1_000


class Subscription(msgspec.Struct, frozen=True):
    """The mids of a dex, or the candles of a symbol."""

    channel: str
    name: str

    def message(self, method: str = "subscribe") -> bytes:
        """The message that asks for it, or that calls it off."""
        if self.channel == "mids":
            subscription = {"type": "allMids", **({"dex": self.name} if self.name else {})}
        else:
            subscription = {"type": "candle", "coin": self.name, "interval": "1m"}
        return msgspec.json.encode({"method": method, "subscription": subscription})


class Plan(msgspec.Struct, frozen=True):
    """The subscriptions of each connection, and those for which there was no room."""

    connections: tuple[tuple[Subscription, ...], ...]
    left_out: tuple[Subscription, ...] = ()


def wanted(settings: HyperliquidSettings, watched: Watched) -> list[Subscription]:
    """All subscriptions, the most important first."""
    mids = [Subscription("mids", dex) for dex in ("", *settings.dexes)]
    return mids + [Subscription("candles", symbol) for symbol in watched.candles]


def plan(subscriptions: Sequence[Subscription], *, per_connection: int) -> Plan:
    """Spreads subscriptions over as few connections as hold them, never over the exchange's limits."""
    kept, left_out = subscriptions[:MOST_SUBSCRIPTIONS], subscriptions[MOST_SUBSCRIPTIONS:]
    mids = tuple(one for one in kept if one.channel == "mids")
    candles = [one for one in kept if one.channel != "mids"]
    count = min(MOST_CONNECTIONS - 1, math.ceil(len(candles) / max(1, per_connection)))
    dealt = tuple(tuple(candles[place::count]) for place in range(count))
    return Plan((mids, *dealt), tuple(left_out))


def changes(
    before: Sequence[Sequence[Subscription]], subscriptions: Iterable[Subscription]
) -> tuple[list[tuple[int, Subscription]], list[tuple[int, Subscription]]]:
    """What to add and what to call off, each with its connection, when a symbol is listed or delisted."""
    now = dict.fromkeys(list(subscriptions)[:MOST_SUBSCRIPTIONS])
    there = {one: place for place, held in enumerate(before) for one in held}
    gone = [(place, one) for one, place in there.items() if one not in now]
    sizes = [len(held) for held in before]
    added = []
    for one in now:
        if one not in there:
            # The first connection is for mids, unless there is no other.
            place = min(range(min(1, len(sizes) - 1), len(sizes)), key=lambda place: sizes[place])
            sizes[place] += 1
            added.append((place, one))
    return added, gone
