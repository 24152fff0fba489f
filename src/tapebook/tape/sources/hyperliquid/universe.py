"""Which names there are, which of them are dead, and which are watched.

The names of the main dex are bare (`BTC`), those of a builder dex carry it (`xyz:TSLA`), spot
pairs are `@107` or `PURR/USDC`, sides of outcomes `#1710`. A renamed coin leaves its dead name
in every list; only `isDelisted` tells.
"""

from collections.abc import Iterable, Mapping

import msgspec

from tapebook.tape.sources.hyperliquid.answers import Perp
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings


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


class Watched(msgspec.Struct, frozen=True):
    """What the settings choose from a universe."""

    perps: tuple[str, ...]
    candles: tuple[str, ...]
    unknown: tuple[str, ...]


def full_name(dex: str, name: str) -> str:
    """A coin's name with its dex, which some lists leave out."""
    return f"{dex}:{name}" if dex and ":" not in name else name


def dex_of(name: str) -> str:
    """The dex in a coin's name; empty for the main one."""
    return name.partition(":")[0] if ":" in name else ""


def watched(settings: HyperliquidSettings, universe: Universe) -> Watched:
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
    return Watched(perps, tuple(dict.fromkeys(candles)), unknown)


class Names:
    """The universe as it is now, and what is watched of it."""

    def __init__(self, settings: HyperliquidSettings) -> None:
        self._settings = settings
        self._universe = Universe({})
        self._spots_known = False
        self.watched = Watched((), (), ())
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

    def missing(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The dexes whose list has no live perp, and the names in the settings that no list has."""
        empty = tuple(dex for dex, live in self._universe.perps.items() if not live)
        return empty, tuple(name for name in self.watched.unknown if self._could_be_listed(name))

    def _could_be_listed(self, name: str) -> bool:
        """Whether the list is known that a name would be in; that of a dex nobody asks for never will be."""
        if name.startswith("@") or "/" in name:
            return self._spots_known
        dex = dex_of(name)
        return dex in self._universe.perps or dex not in ("", *self._settings.dexes)

    def live(self, dex: str) -> tuple[str, ...]:
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
        return name in self.live(dex_of(name))

    def _learn(self, universe: Universe) -> None:
        if universe != self._universe:
            self._universe = universe
            self.watched = watched(self._settings, universe)
            self.version += 1
