"""The world: a market in steps of five seconds, a pure function of seed, start and symbols.

A minute of it, in order:

1. `session_pace` says how lively this time of the week is;
2. the common factor moves (`Driver.next_minute`);
3. every listing moves with it and by itself (`Listing.advance`);
4. every listing opens the minute: its mids and the reports now due (`Listing.open_minute`);
5. the twelve steps are given out; the first carries the reports (`_steps_of`).

Before the minute that is asked for, only 1 to 3 happen.

`symbol_history` gives one symbol's past without a server: final 1-minute bars and settled funding, in the order they
became known, equal to `World.steps` to the last digit. A year takes seconds because only this symbol and the common
factor are walked, and of a minute only its bar is drawn.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from types import MappingProxyType

import msgspec

from tapebook.domain.market import Candle, FundingRate, Mid, Observation
from tapebook.domain.units import HOUR, MINUTE
from tapebook.world import assets
from tapebook.world.assets import DEFAULT_SYMBOLS, PriceHabit, asset_of
from tapebook.world.cadence import STEP, session_pace
from tapebook.world.drivers import Driver
from tapebook.world.listings import Listing, ListingMinute, MinuteOpening
from tapebook.world.random_streams import random_stream


class WorldStep(msgspec.Struct, frozen=True):
    """All that is observed at one instant: by kind, then in the order of the symbols."""

    at: int
    observations: tuple[Observation, ...]


class World:
    """A seeded market; every call of `steps` tells the same story.

    `ranging` are symbols that keep to a range.
    """

    def __init__(
        self,
        seed: int,
        *,
        start: int,
        symbols: tuple[str, ...] = DEFAULT_SYMBOLS,
        ranging: Mapping[str, PriceHabit] = MappingProxyType({}),
    ) -> None:
        if start % HOUR:
            raise ValueError(f"a world starts on the hour, not at {start}: use {start - start % HOUR}")
        if not symbols:
            raise ValueError(f"a world needs a symbol: choose from {', '.join(DEFAULT_SYMBOLS)}")
        if len(set(symbols)) != len(symbols):
            raise ValueError(f"a symbol is listed twice in {', '.join(symbols)}: name each once")
        self.seed = seed
        self.start = start
        self.symbols = symbols
        self.ranging = ranging
        self._assets = tuple(
            assets.ranging(asset_of(symbol), ranging[symbol]) if symbol in ranging else asset_of(symbol)
            for symbol in symbols
        )

    def steps(self, *, after: int | None = None) -> Iterator[WorldStep]:
        """Steps without end, from the start or the first one later than `after`."""
        first = self.start if after is None else max(self.start, after + 1)
        # The minute before is drawn too: its bar is due at the first instant of the next.
        drawn_from = first - first % MINUTE - MINUTE
        for number, at, moves in self.walk_minutes():
            if at >= drawn_from:
                openings = [listing.open_minute(turn, number=number, at=at) for listing, turn in moves]
                yield from (step for step in self._steps_of(openings, at) if step.at >= first)

    def walk_minutes(self) -> Iterator[tuple[int, int, list[tuple[Listing, ListingMinute]]]]:
        """Minutes without end, number and beginning, with every listing's turn: 1 to 3 above, and no details."""
        market = Driver(random_stream(self.seed, "market"))
        listings = [Listing(asset, self.seed) for asset in self._assets]
        for number in count():
            at = self.start + number * MINUTE
            yield number, at, list(zip(listings, _advance(market, listings, at), strict=True))

    def _steps_of(self, openings: list[MinuteOpening], at: int) -> Iterator[WorldStep]:
        """The twelve steps of a minute."""
        due = _in_order(openings)
        for prices in zip(*(opening.mids_e8 for opening in openings), strict=True):
            mids = (Mid(symbol, at, price) for symbol, price in zip(self.symbols, prices, strict=True))
            yield WorldStep(at, (*mids, *due))
            due = ()
            at += STEP


def _advance(market: Driver, listings: list[Listing], at: int) -> list[ListingMinute]:
    """One minute of the whole market, without its details."""
    lively = session_pace(at)
    move = market.next_minute(lively)
    return [listing.advance(move, lively) for listing in listings]


def _in_order(openings: list[MinuteOpening]) -> tuple[Observation, ...]:
    """The reports of all assets, by kind and then by symbol."""
    kinds = zip(*(opening.reports for opening in openings), strict=True)
    return tuple(report for kind in kinds for report in kind if report is not None)


def symbol_history(
    world: World, symbol: str, *, until: int, after: int | None = None
) -> Iterator[Candle | FundingRate]:
    """All bars that ended and all rates settled later than `after` and no later than `until`."""
    since = world.start if after is None else max(world.start, after)
    # Every asset has its own streams, so a world of one symbol tells of it what the whole world tells.
    alone = World(world.seed, start=world.start, symbols=(symbol,), ranging=world.ranging)
    for number, at, ((listing, turn),) in alone.walk_minutes():
        if at > until:
            return
        if number and at > since and at % HOUR == 0:
            yield listing.settled_funding(turn, at=at)
        if since < at + MINUTE <= until:
            yield listing.minute_bar(turn, number=number, at=at)[1]


def bars_by_step(world: World, *, every: int, until: int) -> Iterator[list[Candle]]:
    """The final bars of all symbols, those of one step after the other, up to the last whole step; each as a list."""
    bars: list[Candle] = []
    for number, at, moves in world.walk_minutes():
        if at > world.start and (at - world.start) % every == 0:
            yield bars
            bars = []
        if at >= until:
            return
        bars += [listing.minute_bar(turn, number=number, at=at)[1] for listing, turn in moves]


def symbol_candles(world: World, symbol: str, *, until: int, after: int | None = None) -> Iterator[Candle]:
    """The bars alone."""
    return (each for each in symbol_history(world, symbol, until=until, after=after) if isinstance(each, Candle))
