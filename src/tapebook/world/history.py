"""A symbol's past without a server: final 1-minute bars and settled funding, in the order they became known.

A year takes seconds because only this symbol and the common factor are walked, and of a minute
only its bar is drawn. What comes out is what `World.steps` tells of the symbol, to the last digit.
"""

from collections.abc import Iterator

from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import Candle, FundingRate
from tapebook.world.market import World


def history(world: World, symbol: str, *, until: int, after: int | None = None) -> Iterator[Candle | FundingRate]:
    """All bars that ended and all rates settled later than `after` and no later than `until`."""
    since = world.start if after is None else max(world.start, after)
    # Every asset has its own streams, so a world of one symbol tells of it what the whole world tells.
    alone = World(world.seed, start=world.start, symbols=(symbol,))
    for number, at, ((listing, turn),) in alone.walk():
        if at > until:
            return
        if number and at > since and at % HOUR == 0:
            yield listing.settled(turn, at=at)
        if since < at + MINUTE <= until:
            yield listing.bar(turn, number=number, at=at)[1]


def candles(world: World, symbol: str, *, until: int, after: int | None = None) -> Iterator[Candle]:
    """The bars alone."""
    return (each for each in history(world, symbol, until=until, after=after) if isinstance(each, Candle))
