"""One perp dex at the step the world has reached: the listed coins, the spot pairs that follow them, settled funding.

Time moves only by `play`. History before the first step is walked at once: funding of every hour,
bars of the newest minutes only, because drawing a year of bars for all coins would take minutes.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.domain.market import FundingRate
from tapebook.world.assets import asset_of
from tapebook.world.cadence import STEP
from tapebook.world.listings import Listing, Turn
from tapebook.world.market import World
from tapebook.world.server.bars import NEWEST_BARS
from tapebook.world.server.coins import Coin
from tapebook.world.server.levels import Grid
from tapebook.world.server.spots import VOLUME_SHARE, Spot, follow


class Venue:
    """The coins of one dex, moved on step by step."""

    def __init__(self, world: World, *, at: int, spots: tuple[Spot, ...] = ()) -> None:
        self.at = at
        self.seed = world.seed
        self.perps = {symbol: _perp(symbol, world.seed) for symbol in world.symbols}
        self._spots = [_Follower(spot, self.leader(spot.follows), world.seed) for spot in spots]
        self.spots = {follower.coin.symbol: follower.coin for follower in self._spots}
        self.coins = self.perps | self.spots
        self.settled: dict[str, list[FundingRate]] = {symbol: [] for symbol in world.symbols}
        self._drawn_from = floor(at, MINUTE) - NEWEST_BARS * MINUTE
        self._minutes = self._walk(world)
        self._minute = next(self._minutes)
        self.play(at)

    def leader(self, symbol: str) -> Coin:
        """The perp something follows: the one named, or the first there is when it is not listed."""
        return self.perps.get(symbol) or next(iter(self.perps.values()))

    def play(self, at: int) -> None:
        """Moves on to a step."""
        while self._minute < floor(at, MINUTE):
            self._minute = next(self._minutes)
        self.at = at
        index = at % MINUTE // STEP
        for coin in self.coins.values():
            coin.step(index)

    def _walk(self, world: World) -> Iterator[int]:
        """Opens minute after minute and gives their beginnings."""
        for number, at, moves in world.walk():
            if number and at % HOUR == 0:
                self._settle(moves, at)
            if at >= self._drawn_from:
                for listing, turn in moves:
                    self.perps[listing.asset.symbol].open(listing.draw(turn, number=number, at=at))
                for follower in self._spots:
                    follower.open()
            yield at

    def _settle(self, moves: list[tuple[Listing, Turn]], at: int) -> None:
        for listing, turn in moves:
            self.settled[listing.asset.symbol].append(listing.settled(turn, at=at))


class _Follower:
    """A spot pair behind its perp."""

    def __init__(self, spot: Spot, perp: Coin, seed: int) -> None:
        self._perp = perp
        leader, own = asset_of(perp.symbol), asset_of(spot.follows)
        # A pair whose own perp is not listed follows another one, at its own price.
        self._spot = replace(spot, scale=spot.scale * own.start_price_usd / leader.start_price_usd)
        volume = leader.daily_volume_usd * VOLUME_SHARE
        self.coin = Coin(spot.name, seed, grid=spot.grid, daily_volume_usd=volume)

    def open(self) -> None:
        """Begins the minute the perp is in."""
        self.coin.open(follow(self._spot, self._perp.drawn))


def _perp(symbol: str, seed: int) -> Coin:
    asset = asset_of(symbol)
    grid = Grid(asset.price_decimals, asset.size_decimals)
    return Coin(symbol, seed, grid=grid, daily_volume_usd=asset.daily_volume_usd)
