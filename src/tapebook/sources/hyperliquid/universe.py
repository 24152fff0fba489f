"""Which names Hyperliquid lists, which of them are watched, and over which connections they are subscribed. Pure.

The names of the main dex are bare (`BTC`), those of a builder dex carry it (`xyz:TSLA`), spot pairs are `@107` or
`PURR/USDC`, sides of outcomes `#1710`. A renamed coin leaves its dead name in every list; only `isDelisted` tells.

A name the exchange does not know makes it drop the whole connection without a word, so only names from its own lists
are ever subscribed. Mids have a connection of their own: they must not wait behind the candles of a busy minute.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tapebook.domain.canonical import canonical_json
from tapebook.domain.market import RegistryRecord, dex_of
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.wire import Perp, SpotPair, SpotToken
from tapebook.tape.registry import ASSETS


class Universe(msgspec.Struct, frozen=True):
    """The live perps of each dex in the exchange's order, and the spot pairs."""

    perps: Mapping[str, tuple[str, ...]]
    spots: frozenset[str] = frozenset()

    def with_perps(self, dex: str, rows: Iterable[Perp | None]) -> "Universe":
        """The universe with one dex as it is now; a row that cannot be read delists nobody."""
        rows = list(rows)
        live = tuple(full_name(dex, row.name) for row in rows if row is not None and not row.is_delisted)
        if None in rows:
            named = {full_name(dex, row.name) for row in rows if row is not None}
            live += tuple(name for name in self.perps.get(dex, ()) if name not in named)
        return self if self.perps.get(dex) == live else Universe({**self.perps, dex: live}, self.spots)

    def with_spots(self, names: Iterable[str]) -> "Universe":
        """The universe with the spot pairs as they are now."""
        return Universe(self.perps, frozenset(names))


class WatchedNames(msgspec.Struct, frozen=True):
    """What the settings choose from a universe."""

    perps: tuple[str, ...]
    candles: tuple[str, ...]
    unknown: tuple[str, ...]


def full_name(dex: str, name: str) -> str:
    """A coin's name with its dex, which some lists leave out."""
    return f"{dex}:{name}" if dex and ":" not in name else name


def choose_watched(settings: HyperliquidSourceSettings, universe: Universe) -> WatchedNames:
    """The perps and bars to follow, in the exchange's order, and the names in the settings nobody knows."""
    live = tuple(name for dex in ("", *settings.dexes) for name in universe.perps.get(dex, ()))
    chosen = frozenset(settings.symbols)
    perps = tuple(name for name in live if not chosen or name in chosen)
    known = universe.spots.union(live)
    candles = tuple(name for name in settings.candle_symbols if name in known) if settings.candle_symbols else perps
    if chosen and not settings.candle_symbols:
        candles += tuple(name for name in settings.symbols if name in universe.spots)
    named = dict.fromkeys((*settings.symbols, *settings.candle_symbols))
    # Sides of outcomes are in no list, only among the mids.
    unknown = tuple(name for name in named if name not in known and not name.startswith("#"))
    return WatchedNames(perps, tuple(dict.fromkeys(candles)), unknown)


class ListedNames:
    """The universe as it is now, and what is watched of it."""

    def __init__(self, settings: HyperliquidSourceSettings) -> None:
        self._settings = settings
        self._universe = Universe({})
        # Its live perps by dex once more: whether a name is one of them is asked for each name of a frame.
        self._live: dict[str, frozenset[str]] = {}
        self._spots_known = False
        self.watched = WatchedNames((), (), ())
        # Grows whenever what is watched may have changed.
        self.version = 0

    @property
    def ready(self) -> bool:
        """Whether the names of the main dex are known; without them nothing can be asked for."""
        return "" in self._universe.perps

    def learn_perps(self, dex: str, rows: Iterable[Perp | None]) -> None:
        """Takes the perps of a dex as they are now."""
        self._learn(self._universe.with_perps(dex, rows))

    def learn_spots(self, names: Iterable[str]) -> None:
        """Takes the spot pairs as they are now."""
        self._spots_known = True
        self._learn(self._universe.with_spots(names))

    def missing_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The dexes whose list has no live perp, and the names in the settings that no list has."""
        empty = tuple(dex for dex, live in self._universe.perps.items() if not live)
        return empty, tuple(name for name in self.watched.unknown if self._could_be_listed(name))

    def _could_be_listed(self, name: str) -> bool:
        """Whether the list is known that a name would be in; that of a dex nobody asks for never will be."""
        if name.startswith("@") or "/" in name:
            return self._spots_known
        dex = dex_of(name)
        return dex in self._universe.perps or dex not in ("", *self._settings.dexes)

    def live_perps(self, dex: str) -> tuple[str, ...]:
        """The perps a dex lists as live."""
        return self._universe.perps.get(dex, ())

    def has_mid(self, name: str) -> bool:
        """Whether a name among the mids is watched; a perp's only while its dex lists it as live."""
        settings = self._settings
        if settings.symbols and name not in settings.symbols:
            return False
        if name.startswith("#"):
            return settings.outcomes or bool(settings.symbols)
        if name.startswith("@") or "/" in name:
            return settings.spot or bool(settings.symbols)
        return name in self._live.get(dex_of(name), ())

    def _learn(self, universe: Universe) -> None:
        if universe != self._universe:
            self._universe = universe
            self._live = {dex: frozenset(live) for dex, live in universe.perps.items()}
            self.watched = choose_watched(self._settings, universe)
            self.version += 1


class ListingRecords:
    """What the exchange's lists say of its markets, as records of the registry; each is given once.

    `listed` are the markets that the registry has as listed. A dex keeps those it delists in its list and says so; one
    that its list does not name is a market elsewhere, which is not listed here: nothing can be held of it.
    """

    def __init__(self, listed: Collection[str] = ()) -> None:
        self._listed = set(listed)
        self._said: dict[str, dict[str, Any]] = {}

    def of_perps(self, dex: str, rows: Sequence[Perp | None], *, at: int) -> list[RegistryRecord]:
        """The news of a dex; while a row of its list cannot be read, nobody is missing in it."""
        said: dict[str, dict[str, Any]] = {}
        for row in rows:
            if row is not None:
                known: dict[str, Any] = _counts(size_decimals=row.sz_decimals, max_leverage=row.max_leverage)
                name = full_name(dex, row.name)
                if not row.is_delisted and name not in self._listed:
                    known["listed"] = True
                said[name] = {"kind": "perp", "live": not row.is_delisted, **known}
        # An empty list is an outage: an exchange does not delist everybody at once.
        if rows and None not in rows:
            mine = {name for name in self._listed if not is_spot(name) and dex_of(name) == dex}
            said |= {name: {"listed": False} for name in sorted(mine - said.keys()) if not name.startswith("#")}
        return self._news(said, at)

    def of_spots(
        self, pairs: Iterable[SpotPair], tokens: Mapping[int, SpotToken], *, watched: Collection[str], at: int
    ) -> list[RegistryRecord]:
        """The news of spot pairs; those that are watched have candles too."""
        said = {}
        for pair in pairs:
            sides = pair.tokens if isinstance(pair.tokens, list) else []
            found = [tokens.get(index) if isinstance(index, int) else None for index in sides[:2]]
            known: dict[str, Any] = {
                name: token.name for name, token in zip(("base", "quote"), found, strict=False) if token
            }
            if found and found[0] is not None:
                known |= _counts(size_decimals=found[0].sz_decimals)
            if pair.name in watched:
                known["candles"] = True
            said[pair.name] = {"kind": "spot", "live": True, **known}
        return self._news(said, at)

    def of_stream(self, names: Iterable[str], *, at: int) -> list[RegistryRecord]:
        """Names that came with prices and are in no list."""
        # Sides of outcomes come and go by the hour; a name of a list is never overruled.
        unheard = {name: {"kind": "unknown", "live": True} for name in names if name not in self._said}
        return self._news(unheard, at)

    def _news(self, said: Mapping[str, dict[str, Any]], at: int) -> list[RegistryRecord]:
        news = {name: values for name, values in said.items() if self._said.get(name) != values}
        self._said |= news
        for name, values in news.items():
            is_listed = values.get("live", True) and values.get("listed", True)
            (self._listed.add if is_listed else self._listed.discard)(name)
        return [RegistryRecord(name, at, canonical_json(values).decode(), ASSETS) for name, values in news.items()]


def _counts(**values: Any) -> dict[str, int]:
    """Those that are whole numbers, as decimals and leverages are."""
    return {name: value for name, value in values.items() if type(value) is int and 0 <= value < 1_000}


def is_spot(name: str) -> bool:
    """Whether a name is that of a spot pair."""
    return name.startswith("@") or "/" in name


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


class ConnectionPlan(msgspec.Struct, frozen=True):
    """The subscriptions of each connection, and those for which there was no room."""

    connections: tuple[tuple[Subscription, ...], ...]
    left_out: tuple[Subscription, ...] = ()


def wanted_subscriptions(settings: HyperliquidSourceSettings, watched: WatchedNames) -> list[Subscription]:
    """All subscriptions, the most important first."""
    mids = [Subscription("mids", dex) for dex in ("", *settings.dexes)]
    return mids + [Subscription("candles", symbol) for symbol in watched.candles]


def plan_connections(subscriptions: Sequence[Subscription], *, per_connection: int) -> ConnectionPlan:
    """Spreads subscriptions over as few connections as hold them, never over the exchange's limits."""
    kept, left_out = subscriptions[:MOST_SUBSCRIPTIONS], subscriptions[MOST_SUBSCRIPTIONS:]
    mids = tuple(one for one in kept if one.channel == "mids")
    candles = [one for one in kept if one.channel != "mids"]
    count = min(MOST_CONNECTIONS - 1, math.ceil(len(candles) / max(1, per_connection)))
    dealt = tuple(tuple(candles[place::count]) for place in range(count))
    return ConnectionPlan((mids, *dealt), tuple(left_out))


def subscription_changes(
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
