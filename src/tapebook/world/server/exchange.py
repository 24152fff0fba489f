"""The exchange at one instant: its coins, the main dex and a builder's dex, and everything that has a name there.

It knows no sockets. `play_to` moves it to a step; all else reads it. A coin shows mid, bars, book and context of that
step; a venue is one perp dex with its coins, the spot pairs that follow them, and settled funding. History before the
first step is walked at once: funding of every hour, bars of the newest minutes only, because drawing a year of bars
for all coins would take minutes.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from random import Random
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.units import E8, HOUR, MINUTE, floor_to_step
from tapebook.world.assets import BUILDER_ASSETS, asset_of, quote_e8
from tapebook.world.cadence import MINUTES_PER_DAY, STEP
from tapebook.world.listings import Listing, ListingMinute, MinuteDetails
from tapebook.world.market import World
from tapebook.world.random_streams import stream_seed
from tapebook.world.server import levels, wire
from tapebook.world.server.bars import NEWEST_BARS, CoinBars, forming_states
from tapebook.world.server.catalog import (
    BUILDER_DEX,
    DELISTED,
    OUTCOMES,
    SPOTS,
    VOLUME_SHARE,
    DelistedPerp,
    SimulatedSpot,
    outcome_mids,
    spot_minute,
)
from tapebook.world.server.levels import Grid, SimulatedBook

_MONEY_DECIMALS = 6


class Coin:
    """The state of one coin; `open` and `step` move it on, the rest reads it."""

    def __init__(self, symbol: str, seed: int, *, grid: Grid, daily_volume_usd: float) -> None:
        self.symbol = symbol
        self.grid = grid
        self.bars = CoinBars()
        self.index = 0
        self._seed = seed
        self._usual_volume_usd = daily_volume_usd
        self._draw: Callable[[], MinuteDetails] | None = None
        self._drawn: MinuteDetails | None = None
        self._states: list[Candle | None] | None = None
        self._book: SimulatedBook | None = None
        self._day_base = self._day_usd = 0.0

    @property
    def current_minute(self) -> MinuteDetails:
        """The minute that is being played, drawn when somebody looks at it: of most of a long past nobody does."""
        if self._drawn is None:
            assert self._draw is not None, "a coin shows nothing before its first minute"
            self._drawn = self._draw()
        return self._drawn

    @property
    def mid_e8(self) -> int:
        """The mid of this step."""
        return self.current_minute.mids_e8[self.index]

    def open_minute(self, draw: Callable[[], MinuteDetails], *, ended: Candle | None = None) -> None:
        """Begins a minute; the one before is over and its bar, where somebody has drawn it already, is `ended`."""
        if self._draw is not None:
            self._close_minute(ended or self.current_minute.candle)
        self._draw, self._drawn, self._states = draw, None, None
        self.move_to_step(0)

    def move_to_step(self, index: int) -> None:
        """Moves to a step of the minute."""
        self.index, self._book = index, None

    def forming_bar(self, *, back: int = 0) -> Candle | None:
        """The bar of this minute as it stands, or stood so many steps before; None before its first trade."""
        if self._states is None:
            chance = Random(
                stream_seed(self._seed, "forming", self.symbol, minute=self.current_minute.candle.bucket_ts)
            )
            decimals = self.grid.size_decimals
            self._states = forming_states(
                self.current_minute.candle, self.current_minute.mids_e8, chance, size_decimals=decimals
            )
        return self._states[self.index - back] if self.index >= back else None

    def has_traded(self) -> bool:
        """Whether the step changed the bar."""
        return self.forming_bar() != self.forming_bar(back=1)

    def book(self, at: int) -> SimulatedBook:
        """The order book of this step."""
        if self._book is None:
            chance = Random(stream_seed(self._seed, "levels", self.symbol, minute=at))
            self._book = levels.build_book(self.current_minute.book, self.grid, chance, mid_e8=self.mid_e8)
        return self._book

    def context(self) -> dict[str, Any]:
        """The exchange's view of a perp, as a row of `metaAndAssetCtxs`."""
        context, mid = self.current_minute.context, self.mid_e8
        oracle = context.oracle_e8
        if self.index:
            oracle = quote_e8(oracle / E8 * mid / self.current_minute.mids_e8[0], self.grid.price_decimals)
        bid, ask = levels.best_prices(self.current_minute.book, self.grid, mid_e8=mid)
        return {
            "funding": wire.rate_text(context.funding_e12),
            "openInterest": wire.amount_text(context.open_interest_base, self.grid.size_decimals),
            **self.day_statistics(),
            "premium": wire.rate_text(context.premium_e12),
            "oraclePx": wire.price_text(oracle),
            "markPx": wire.price_text(mid),
            "midPx": wire.price_text(mid),
            "impactPxs": [wire.price_text(bid), wire.price_text(ask)],
        }

    def day_statistics(self) -> dict[str, Any]:
        """The last 24 hours; what the world has not told yet is taken to have been a usual day."""
        minutes = self.bars.minutes
        untold = max(0, MINUTES_PER_DAY - len(minutes)) / MINUTES_PER_DAY * self._usual_volume_usd
        before = minutes[-min(len(minutes), MINUTES_PER_DAY)] if minutes else self.current_minute.candle
        base = self._day_base + untold / (self.mid_e8 / E8)
        return {
            "prevDayPx": wire.price_text(before.open_e8),
            "dayNtlVlm": wire.amount_text(self._day_usd + untold, _MONEY_DECIMALS),
            "dayBaseVlm": wire.amount_text(base, self.grid.size_decimals),
        }

    def _close_minute(self, minute: Candle) -> None:
        self.bars.close_minute(minute)
        self._day_base += minute.volume_base
        self._day_usd += minute.volume_quote_usd
        if len(self.bars.minutes) > MINUTES_PER_DAY:
            gone = self.bars.minutes[-MINUTES_PER_DAY - 1]
            self._day_base -= gone.volume_base
            self._day_usd -= gone.volume_quote_usd


class Venue:
    """The coins of one dex, moved on step by step."""

    def __init__(self, world: World, *, at: int, spots: tuple[SimulatedSpot, ...] = ()) -> None:
        self.at = at
        self.seed = world.seed
        self.perps = {symbol: _perp_coin(symbol, world.seed) for symbol in world.symbols}
        self._spots = [_SpotFollower(spot, self.leader(spot.follows), world.seed) for spot in spots]
        self.spots = {follower.coin.symbol: follower.coin for follower in self._spots}
        self.coins = self.perps | self.spots
        self.settled: dict[str, list[FundingRate]] = {symbol: [] for symbol in world.symbols}
        self._drawn_from = floor_to_step(at, MINUTE) - NEWEST_BARS * MINUTE
        self._given: dict[tuple[str, int], Candle] = {}
        self._minutes = self._play_minutes(world)
        self._minute = next(self._minutes)
        self.play_to(at)

    def leader(self, symbol: str) -> Coin:
        """The perp something follows: the one named, or the first there is when it is not listed."""
        return self.perps.get(symbol) or next(iter(self.perps.values()))

    def play_to(self, at: int, *, bars: Iterable[Candle] = ()) -> None:
        """Moves on to a step; `bars` are those on the way that somebody has drawn already."""
        self._given = {(bar.symbol, bar.bucket_ts): bar for bar in bars}
        while self._minute < floor_to_step(at, MINUTE):
            self._minute = next(self._minutes)
        self.at = at
        index = at % MINUTE // STEP
        for coin in self.coins.values():
            coin.move_to_step(index)

    def rows_between(self, since: int, until: int) -> list[Candle | FundingRate]:
        """The minutes of all perps that ended, and the rates settled, later than `since` and no later than `until`."""
        rows: list[Candle | FundingRate] = []
        for symbol, perp in self.perps.items():
            minutes, rates = perp.bars.minutes, self.settled[symbol]
            first = bisect_right(minutes, since - MINUTE, key=attrgetter("bucket_ts"))
            rows += minutes[first : bisect_right(minutes, until - MINUTE, key=attrgetter("bucket_ts"))]
            first = bisect_right(rates, since, key=attrgetter("bucket_ts"))
            rows += rates[first : bisect_right(rates, until, key=attrgetter("bucket_ts"))]
        return rows

    def _play_minutes(self, world: World) -> Iterator[int]:
        """Opens minute after minute and gives their beginnings."""
        for number, at, moves in world.walk_minutes():
            if number and at % HOUR == 0:
                self._settle_funding(moves, at)
            if at >= self._drawn_from:
                for listing, turn in moves:
                    symbol = listing.asset.symbol
                    draw = partial(listing.minute_details, turn, number=number, at=at)
                    self.perps[symbol].open_minute(draw, ended=self._given.get((symbol, at - MINUTE)))
                for follower in self._spots:
                    follower.open_minute()
            yield at

    def _settle_funding(self, moves: list[tuple[Listing, ListingMinute]], at: int) -> None:
        for listing, turn in moves:
            self.settled[listing.asset.symbol].append(listing.settled_funding(turn, at=at))


class _SpotFollower:
    """A spot pair behind its perp."""

    def __init__(self, spot: SimulatedSpot, perp: Coin, seed: int) -> None:
        self._perp = perp
        leader, own = asset_of(perp.symbol), asset_of(spot.follows)
        # A pair whose own perp is not listed follows another one, at its own price.
        self._spot = replace(spot, scale=spot.scale * own.start_price_usd / leader.start_price_usd)
        volume = leader.daily_volume_usd * VOLUME_SHARE
        self.coin = Coin(spot.name, seed, grid=spot.grid, daily_volume_usd=volume)

    def open_minute(self) -> None:
        """Begins the minute the perp is in."""
        self.coin.open_minute(partial(spot_minute, self._spot, self._perp.current_minute))


def _perp_coin(symbol: str, seed: int) -> Coin:
    asset = asset_of(symbol)
    grid = Grid(asset.price_decimals, asset.size_decimals)
    return Coin(symbol, seed, grid=grid, daily_volume_usd=asset.daily_volume_usd)


# Changes rows before they are answered: a fault's way in. Takes the rows and the time.
Amend = Callable[[list[Candle], int], list[Candle]]

_NO_DELISTINGS: Mapping[str, int] = MappingProxyType({})


def dex_of(name: str) -> str:
    """The dex of a coin, by its name."""
    return name.partition(":")[0] if ":" in name else ""


class Exchange:
    """Both dexes and their clock."""

    def __init__(
        self,
        world: World,
        *,
        now: int,
        amend: Amend,
        delistings: Mapping[str, int] = _NO_DELISTINGS,
        spots: tuple[SimulatedSpot, ...] = SPOTS,
    ) -> None:
        self.now = now
        self.speed = 0.0
        self.amend = amend
        self.seed = world.seed
        self.main = Venue(world, at=now - now % STEP, spots=spots)
        self._world = world
        self._builder: Venue | None = None
        # Perps of the main dex that are to be delisted, and when; those that are, with the prices they froze at.
        self._delistings = dict(delistings)
        self.delisted = {each.name: each for each in DELISTED}
        self._mids: dict[str, str] = {}
        self._delist_due()

    def play_to(self, at: int, *, bars: Iterable[Candle] = ()) -> None:
        """Moves on to a step. The builder's dex is walked only once someone has asked for it."""
        self.now = at
        self.main.play_to(at, bars=bars)
        if self._builder is not None:
            self._builder.play_to(at)
        self._delist_due()
        self._mids.clear()

    def _delist_due(self) -> None:
        """Freezes the perps whose last moment has come, at their prices of now."""
        for name in [name for name, moment in self._delistings.items() if moment <= self.now]:
            del self._delistings[name]
            asset, shown = asset_of(name), self.main.perps[name].context()
            self.delisted[name] = DelistedPerp(
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

    def has_price_only(self, name: str) -> bool:
        """Whether a name has a price but no market here: a delisted perp or an outcome."""
        return name in self.delisted or name in self._outcome_mids()

    def mids(self, dex: str) -> dict[str, str] | None:
        """Every mid of a dex by name; the main one carries spot pairs, outcomes and the delisted too."""
        venue = self.venue(dex)
        if venue is None:
            return None
        mids = {symbol: wire.price_text(coin.mid_e8) for symbol, coin in venue.coins.items()}
        still = {name: each.mark for name, each in self.delisted.items()}
        return mids if dex else {**mids, **still, **self._outcome_mids()}

    def mids_text(self, dex: str) -> str:
        """The message as JSON, made once a step."""
        if dex not in self._mids:
            self._mids[dex] = msgspec.json.encode(self.mids(dex)).decode()
        return self._mids[dex]

    def _outcome_mids(self) -> dict[str, str]:
        odds: dict[str, str] = {}
        for number, symbol in OUTCOMES.items():
            perp = self.main.leader(symbol)
            odds |= outcome_mids(number, asset_of(perp.symbol), perp.mid_e8)
        return odds
