"""What the tape knows now of positions that were held in the past: the funding they paid and the prices they saw.

Live, a position is followed as the market is told (`reconcile`, `price_path`). A fill that is imported comes after all
of that: rates and prices are read as they are known now, by when they happened.

- Funding is due at every hour for which a rate was settled, on what was held just before it, at the price observed
  then: a midpoint of the last minute, else the newest midpoint or end of a bar within the hour.
- The path are the prices between two fills, by the rule of `price_path.extremes`.

Each answer says whether the tape has all of it. Rates come every hour or every eight: what is missing is told by the
distance of those that are there.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND
from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.domain.money import E12, divide, notional_usd_e6
from tapebook.domain.order import FundingPayment
from tapebook.domain.position import Position
from tapebook.domain.trade import PriceRange
from tapebook.loop.price_path import extremes
from tapebook.tape.importer import INTERVALS
from tapebook.tape.store import Tape, View

_LONGEST_SPACING = 8 * HOUR


class _Rates:
    """The settled rates of a symbol, by their hour."""

    def __init__(self, rates: Sequence[FundingRate]) -> None:
        self.by_hour = {rate.bucket_ts: rate.rate_e12 for rate in rates}
        self._hours = sorted(self.by_hour)

    def due(self, hour: int) -> bool:
        """Whether a rate is to be expected at an hour, by the distance of those nearest to it."""
        at = bisect_left(self._hours, hour)
        near = self._hours[max(0, at - 2) : at + 2]
        apart = min((after - before for before, after in pairwise(near)), default=HOUR)
        return not near or (hour - near[0]) % (apart if apart <= _LONGEST_SPACING else HOUR) == 0


class PastMarket:
    """Funding and prices of the past as they are known at `now`, from `since` on."""

    def __init__(self, tape: Tape, *, since: int, now: int) -> None:
        self._tape = tape
        self._since = since
        self._view = View(now)
        self._symbols = frozenset(tape.symbols())
        # Rates by symbol: they do not change while a file is imported.
        self._rates: dict[str, _Rates] = {}

    def funding(self, held: Position, *, after: int, until: int) -> tuple[list[FundingPayment], bool]:
        """What a position paid or received after one moment and up to another, and whether all rates are there."""
        rates, paid, whole = self._known_rates(held.symbol), [], True
        for hour in range(after - after % HOUR + HOUR, until + 1, HOUR):
            rate = rates.by_hour.get(hour)
            price = None if rate is None else self.price_at(held.symbol, hour)
            if rate is not None and price is not None:
                amount = -divide(notional_usd_e6(held.size_e8, price) * rate, E12)
                paid.append(FundingPayment(held.symbol, hour, amount, rate))
            elif rates.due(hour):
                whole = False
        return paid, whole

    def path(self, held: Position, *, since: int, until: int, ended_by: int) -> tuple[PriceRange | None, bool]:
        """The prices that count for what was held between two fills, and whether the tape has that time.

        It has it when some price was observed in it, and never none for an hour, or for a bar where these are longer.
        Of a liquidation, `ended_by` leaves out the bar it happened in.
        """
        if until <= since or held.symbol not in self._symbols:
            return None, until <= since
        bars = self._bars(held.symbol, since=since, until=until)
        begins = min(since, bars[0].bucket_ts) if bars else since
        mids = self._tape.mids(held.symbol, since=begins, until=until - 1, view=self._view)
        ended = [bar for bar in bars if bar.end <= ended_by]
        return extremes(ended, mids, since), _covers(bars, mids, since=since, until=until)

    def price_at(self, symbol: str, moment: int) -> int | None:
        """The price observed at a moment; None when none was within the hour before it."""
        mids = self._tape.mids(symbol, since=moment - HOUR, until=moment, view=self._view)
        if mids and mids[-1].bucket_ts >= moment - MINUTE:
            return mids[-1].price_e8
        ended = [bar for bar in self._bars(symbol, since=moment - HOUR, until=moment) if bar.end <= moment]
        if ended and (not mids or ended[-1].end > mids[-1].bucket_ts):
            return ended[-1].close_e8
        return mids[-1].price_e8 if mids else None

    def _known_rates(self, symbol: str) -> _Rates:
        if symbol not in self._rates:
            rates = self._tape.facts(FundingRate, symbol, since=self._since - DAY, view=self._view)
            self._rates[symbol] = _Rates(rates)
        return self._rates[symbol]

    def _bars(self, symbol: str, *, since: int, until: int) -> list[Candle]:
        """The bars that were under way between two moments, oldest first, the finest there are of each time."""
        found: list[Candle] = []
        for seconds in INTERVALS.values() if symbol in self._symbols else ():
            first = since - seconds * SECOND + 1
            bars = self._tape.candles(symbol, granularity_sec=seconds, since=first, until=until - 1, view=self._view)
            if found:
                begins, ends = found[0].bucket_ts, found[-1].end
                bars = [bar for bar in bars if bar.end <= begins or bar.bucket_ts >= ends]
            found = sorted([*found, *bars], key=lambda bar: bar.bucket_ts) if found and bars else found or bars
            if found and found[0].bucket_ts <= since and found[-1].end >= until:
                break
        return found


def _covers(bars: Sequence[Candle], mids: Sequence[Mid], *, since: int, until: int) -> bool:
    """Whether the time between two moments has prices throughout."""
    seen = sorted([*((bar.bucket_ts, bar.end) for bar in bars), *((mid.bucket_ts, mid.bucket_ts) for mid in mids)])
    if not seen:
        return False
    longest = max([HOUR, *(bar.end - bar.bucket_ts for bar in bars)])
    reached = since
    for begins, ends in seen:
        if begins - reached > longest:
            return False
        reached = max(reached, ends)
    return until - reached <= longest
