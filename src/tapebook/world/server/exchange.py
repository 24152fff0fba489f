"""The exchange at one instant: the main dex, a builder's dex, and everything that has a name there.

It knows no sockets. `play` moves it to a step; all else reads it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from tapebook.domain.market import Candle
from tapebook.world.assets import BUILDER_ASSETS, asset_of
from tapebook.world.cadence import STEP
from tapebook.world.market import World
from tapebook.world.server import wire
from tapebook.world.server.catalog import BUILDER_DEX
from tapebook.world.server.coins import Coin
from tapebook.world.server.spots import DELISTED, OUTCOMES, SPOTS, Delisted, outcome_mids
from tapebook.world.server.venue import Venue

# Changes rows before they are answered: a fault's way in. Takes the rows and the time.
Amend = Callable[[list[Candle], int], list[Candle]]

_NONE: Mapping[str, int] = MappingProxyType({})


def dex_of(name: str) -> str:
    """The dex of a coin, by its name."""
    return name.partition(":")[0] if ":" in name else ""


class Exchange:
    """Both dexes and their clock."""

    def __init__(self, world: World, *, now: int, amend: Amend, delistings: Mapping[str, int] = _NONE) -> None:
        self.now = now
        self.speed = 0.0
        self.amend = amend
        self.seed = world.seed
        self.main = Venue(world, at=now - now % STEP, spots=SPOTS)
        self._world = world
        self._builder: Venue | None = None
        # Perps of the main dex that are to be delisted, and when; those that are, with the prices they froze at.
        self._delistings = dict(delistings)
        self.delisted = {each.name: each for each in DELISTED}
        self._mids: dict[str, str] = {}
        self._delist()

    def play(self, at: int) -> None:
        """Moves on to a step. The builder's dex is walked only once someone has asked for it."""
        self.now = at
        self.main.play(at)
        if self._builder is not None:
            self._builder.play(at)
        self._delist()
        self._mids.clear()

    def _delist(self) -> None:
        """Freezes the perps whose last moment has come, at their prices of now."""
        for name in [name for name, moment in self._delistings.items() if moment <= self.now]:
            del self._delistings[name]
            asset, shown = asset_of(name), self.main.perps[name].context()
            self.delisted[name] = Delisted(
                name, asset.size_decimals, asset.max_leverage, shown["markPx"], shown["oraclePx"]
            )

    def venue(self, dex: str) -> Venue | None:
        """A dex by its name; the main one has none."""
        if dex == BUILDER_DEX:
            return self._builder or self._open_builder()
        return None if dex else self.main

    def _open_builder(self) -> Venue:
        world = World(self.seed, start=self._world.start, symbols=tuple(BUILDER_ASSETS))
        self._builder = Venue(world, at=self.main.at)
        return self._builder

    def coin(self, name: str) -> Coin | None:
        """A coin that is traded, of whichever dex."""
        venue = self.venue(dex_of(name))
        return venue.coins.get(name) if venue and name not in self.delisted else None

    def perp(self, name: str) -> Coin | None:
        """A coin that is a perp."""
        venue = self.venue(dex_of(name))
        return venue.perps.get(name) if venue and name not in self.delisted else None

    def stands_still(self, name: str) -> bool:
        """Whether a name has a price but no market here: a delisted perp or an outcome."""
        return name in self.delisted or name in self._outcomes()

    def mids(self, dex: str) -> dict[str, str] | None:
        """Every mid of a dex by name; the main one carries spot pairs, outcomes and the delisted too."""
        venue = self.venue(dex)
        if venue is None:
            return None
        mids = {symbol: wire.price(coin.mid_e8) for symbol, coin in venue.coins.items()}
        still = {name: each.mark for name, each in self.delisted.items()}
        return mids if dex else {**mids, **still, **self._outcomes()}

    def mids_text(self, dex: str) -> str:
        """The same as JSON, made once a step."""
        if dex not in self._mids:
            self._mids[dex] = msgspec.json.encode(self.mids(dex)).decode()
        return self._mids[dex]

    def _outcomes(self) -> dict[str, str]:
        odds: dict[str, str] = {}
        for number, symbol in OUTCOMES.items():
            perp = self.main.leader(symbol)
            odds |= outcome_mids(number, asset_of(perp.symbol), perp.mid_e8)
        return odds
