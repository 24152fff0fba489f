"""The world: a market in steps of five seconds, a pure function of seed, start and symbols.

A minute of it, in order:

1. `pace` says how lively this time of the week is;
2. the common factor moves (`Driver.minute`);
3. every listing moves with it and by itself (`Listing.advance`);
4. every listing opens the minute: its mids and the reports now due (`Listing.open_minute`);
5. the twelve steps are given out; the first carries the reports (`_steps_of`).

Before the minute that is asked for, only 1 to 3 happen.
"""

from collections.abc import Iterator
from itertools import count

import msgspec

from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import Mid, Observation
from tapebook.world.assets import DEFAULT_SYMBOLS, asset_of
from tapebook.world.cadence import STEP
from tapebook.world.drivers import Driver
from tapebook.world.listings import Listing, Opening, Turn
from tapebook.world.sessions import pace
from tapebook.world.streams import stream


class Step(msgspec.Struct, frozen=True):
    """All that is observed at one instant: by kind, then in the order of the symbols."""

    at: int
    observations: tuple[Observation, ...]


class World:
    """A seeded market; every call of `steps` tells the same story."""

    def __init__(self, seed: int, *, start: int, symbols: tuple[str, ...] = DEFAULT_SYMBOLS) -> None:
        if start % HOUR:
            raise ValueError(f"a world starts on the hour, not at {start}: use {start - start % HOUR}")
        if not symbols:
            raise ValueError(f"a world needs a symbol: choose from {', '.join(DEFAULT_SYMBOLS)}")
        if len(set(symbols)) != len(symbols):
            raise ValueError(f"a symbol is listed twice in {', '.join(symbols)}: name each once")
        self.seed = seed
        self.start = start
        self.symbols = symbols
        self._assets = tuple(asset_of(symbol) for symbol in symbols)

    def steps(self, *, after: int | None = None) -> Iterator[Step]:
        """Steps without end, from the start or the first one later than `after`."""
        first = self.start if after is None else max(self.start, after + 1)
        # The minute before is drawn too: its bar is due at the first instant of the next.
        drawn_from = first - first % MINUTE - MINUTE
        for number, at, moves in self.walk():
            if at >= drawn_from:
                openings = [listing.open_minute(turn, number=number, at=at) for listing, turn in moves]
                yield from (step for step in self._steps_of(openings, at) if step.at >= first)

    def walk(self) -> Iterator[tuple[int, int, list[tuple[Listing, Turn]]]]:
        """Minutes without end, number and beginning, with every listing's turn: 1 to 3 above, and no details."""
        market = Driver(stream(self.seed, "market"))
        listings = [Listing(asset, self.seed) for asset in self._assets]
        for number in count():
            at = self.start + number * MINUTE
            yield number, at, list(zip(listings, _advance(market, listings, at), strict=True))

    def _steps_of(self, openings: list[Opening], at: int) -> Iterator[Step]:
        """The twelve steps of a minute."""
        due = _in_order(openings)
        for prices in zip(*(opening.mids_e8 for opening in openings), strict=True):
            mids = (Mid(symbol, at, price) for symbol, price in zip(self.symbols, prices, strict=True))
            yield Step(at, (*mids, *due))
            due = ()
            at += STEP


def _advance(market: Driver, listings: list[Listing], at: int) -> list[Turn]:
    """One minute of the whole market, without its details."""
    lively = pace(at)
    move = market.minute(lively)
    return [listing.advance(move, lively) for listing in listings]


def _in_order(openings: list[Opening]) -> tuple[Observation, ...]:
    """The reports of all assets, by kind and then by symbol."""
    kinds = zip(*(opening.reports for opening in openings), strict=True)
    return tuple(report for kind in kinds for report in kind if report is not None)
