"""One listed asset at work: everything the world says about it, minute by minute.

`advance` walks the minute path and is all that fast-forwarding costs. `open_minute` then draws
the details of that minute from a stream of its own. What is said at the first instant of a
minute is only what was known then: the standing and the heat of the minute before.
"""

from random import Random

import msgspec

from tapebook.domain.instants import HOUR
from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Observation
from tapebook.world.assets import Asset
from tapebook.world.books import liquidity_of
from tapebook.world.cadence import REPORT_EVERY
from tapebook.world.candles import candle_of
from tapebook.world.drivers import Move
from tapebook.world.funding import Carry, Standing, context_of, funding_of
from tapebook.world.prices import Minute, PricePath, mids_e8
from tapebook.world.streams import stream_seed


class Turn(msgspec.Struct, frozen=True):
    """A minute of one asset, and what was known of the asset when it began."""

    minute: Minute
    known: Standing
    known_heat: float


class Opening(msgspec.Struct, frozen=True):
    """A minute as it opens: its mids, and the reports due at its first instant.

    Reports are in a fixed order of kinds (candle, liquidity, context, funding), None where none is due.
    """

    mids_e8: list[int]
    reports: tuple[Observation | None, ...]


class Drawn(msgspec.Struct, frozen=True):
    """A minute with all its details, told before it is over: `candle` is its final bar, the rest is of its start."""

    mids_e8: list[int]
    candle: Candle
    book: Liquidity
    context: AssetContext


class Listing:
    """The running state of one asset."""

    def __init__(self, asset: Asset, seed: int) -> None:
        self.asset = asset
        self._seed = seed
        self._path = PricePath(asset, seed)
        self._carry = Carry(asset, seed)
        self._chance = Random(0)
        self._heat = 1.0
        self._last_candle: Candle | None = None

    def advance(self, market: Move, pace: float) -> Turn:
        """One minute on, without its details."""
        known, known_heat = self._carry.standing, self._heat
        minute = self._path.minute(market, pace)
        self._heat = minute.heat
        self._carry.minute(minute.change, sum(size for _, size in minute.jumps))
        return Turn(minute, known, known_heat)

    def open_minute(self, turn: Turn, *, number: int, at: int) -> Opening:
        """The details of the minute just advanced to, which has this number and begins at `at`."""
        ended = self._last_candle
        mids, self._last_candle = self.bar(turn, number=number, at=at)
        reports = self._reports(turn, at=at, mid_e8=mids[0]) if at % REPORT_EVERY == 0 else (None, None)
        settled = self.settled(turn, at=at) if number and at % HOUR == 0 else None
        return Opening(mids, (ended, *reports, settled))

    def draw(self, turn: Turn, *, number: int, at: int) -> Drawn:
        """The minute just advanced to as whoever plays it out needs it; its book and context are of every minute."""
        mids, candle = self.bar(turn, number=number, at=at)
        return Drawn(mids, candle, *self._reports(turn, at=at, mid_e8=mids[0]))

    def bar(self, turn: Turn, *, number: int, at: int) -> tuple[list[int], Candle]:
        """The mids of the minute just advanced to, and its final bar."""
        # A fresh stream per minute: details that fast-forward leaves out cannot shift those that follow.
        self._chance.seed(stream_seed(self._seed, "detail", self.asset.symbol, minute=number))
        mids = mids_e8(self.asset, turn.minute, self._chance)
        return mids, candle_of(self.asset, turn.minute, self._chance, at=at, mids_e8=mids)

    def settled(self, turn: Turn, *, at: int) -> FundingRate:
        """The rate settled at the full hour at which the minute begins."""
        return funding_of(self.asset, turn.known, at=at)

    def _reports(self, turn: Turn, *, at: int, mid_e8: int) -> tuple[Liquidity, AssetContext]:
        heat, momentum = turn.known_heat, turn.known.momentum
        book = liquidity_of(self.asset, self._chance, at=at, mid_e8=mid_e8, heat=heat, momentum=momentum)
        return book, context_of(self.asset, turn.known, at=at, mid_e8=mid_e8)
