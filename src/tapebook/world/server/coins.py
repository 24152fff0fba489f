"""One coin as the exchange shows it at the step the world has reached: mid, bars, book and context."""

from random import Random
from typing import Any

from tapebook.domain.market import Candle
from tapebook.domain.money import E8
from tapebook.world.cadence import MINUTES_PER_DAY
from tapebook.world.listings import Drawn
from tapebook.world.quotes import quote_e8
from tapebook.world.server import levels, wire
from tapebook.world.server.bars import Bars, forming
from tapebook.world.server.levels import Book, Grid
from tapebook.world.streams import stream_seed

_MONEY_DECIMALS = 6


class Coin:
    """The state of one coin; `open` and `step` move it on, the rest reads it."""

    def __init__(self, symbol: str, seed: int, *, grid: Grid, daily_volume_usd: float) -> None:
        self.symbol = symbol
        self.grid = grid
        self.bars = Bars()
        self.index = 0
        self._seed = seed
        self._usual_volume_usd = daily_volume_usd
        self._drawn: Drawn | None = None
        self._states: list[Candle | None] | None = None
        self._book: Book | None = None
        self._day_base = self._day_usd = 0.0

    @property
    def drawn(self) -> Drawn:
        """The minute that is being played."""
        assert self._drawn is not None, "a coin shows nothing before its first minute"
        return self._drawn

    @property
    def mid_e8(self) -> int:
        """The mid of this step."""
        return self.drawn.mids_e8[self.index]

    def open(self, drawn: Drawn) -> None:
        """Begins a minute; the one before is over and its bar final."""
        if self._drawn is not None:
            self._close(self._drawn.candle)
        self._drawn, self._states = drawn, None
        self.step(0)

    def step(self, index: int) -> None:
        """Moves to a step of the minute."""
        self.index, self._book = index, None

    def forming(self, *, back: int = 0) -> Candle | None:
        """The bar of this minute as it stands, or stood so many steps before; None before its first trade."""
        if self._states is None:
            chance = Random(stream_seed(self._seed, "forming", self.symbol, minute=self.drawn.candle.bucket_ts))
            decimals = self.grid.size_decimals
            self._states = forming(self.drawn.candle, self.drawn.mids_e8, chance, size_decimals=decimals)
        return self._states[self.index - back] if self.index >= back else None

    def traded(self) -> bool:
        """Whether the step changed the bar."""
        return self.forming() != self.forming(back=1)

    def book(self, at: int) -> Book:
        """The order book of this step."""
        if self._book is None:
            chance = Random(stream_seed(self._seed, "levels", self.symbol, minute=at))
            self._book = levels.build(self.drawn.book, self.grid, chance, mid_e8=self.mid_e8)
        return self._book

    def context(self) -> dict[str, Any]:
        """The exchange's view of a perp, as a row of `metaAndAssetCtxs`."""
        context, mid = self.drawn.context, self.mid_e8
        oracle = context.oracle_e8
        if self.index:
            oracle = quote_e8(oracle / E8 * mid / self.drawn.mids_e8[0], self.grid.price_decimals)
        bid, ask = levels.best(self.drawn.book, self.grid, mid_e8=mid)
        return {
            "funding": wire.rate(context.funding_e12),
            "openInterest": wire.amount(context.open_interest_base, self.grid.size_decimals),
            **self.day(),
            "premium": wire.rate(context.premium_e12),
            "oraclePx": wire.price(oracle),
            "markPx": wire.price(mid),
            "midPx": wire.price(mid),
            "impactPxs": [wire.price(bid), wire.price(ask)],
        }

    def day(self) -> dict[str, Any]:
        """The last 24 hours; what the world has not told yet is taken to have been a usual day."""
        minutes = self.bars.minutes
        untold = max(0, MINUTES_PER_DAY - len(minutes)) / MINUTES_PER_DAY * self._usual_volume_usd
        before = minutes[-min(len(minutes), MINUTES_PER_DAY)] if minutes else self.drawn.candle
        base = self._day_base + untold / (self.mid_e8 / E8)
        return {
            "prevDayPx": wire.price(before.open_e8),
            "dayNtlVlm": wire.amount(self._day_usd + untold, _MONEY_DECIMALS),
            "dayBaseVlm": wire.amount(base, self.grid.size_decimals),
        }

    def _close(self, minute: Candle) -> None:
        self.bars.close(minute)
        self._day_base += minute.volume_base
        self._day_usd += minute.volume_quote_usd
        if len(self.bars.minutes) > MINUTES_PER_DAY:
            gone = self.bars.minutes[-MINUTES_PER_DAY - 1]
            self._day_base -= gone.volume_base
            self._day_usd -= gone.volume_quote_usd
