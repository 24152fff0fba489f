"""Features of history: derived at the time of reading what live ingestion derives and stores.

Imported history has bars of one length and funding that was settled; it has no books and no contexts. What can be
said of volatility, funding and positioning is a pure function of these, computed at the boundaries of live
derivation: every five minutes, from what was known when the grace of a source's last bar was over. So a value and
its age behave as live, a decision at any moment between two boundaries sees the same, and no bar counts before it
was known.
"""

from typing import Protocol

import msgspec

from tapebook.domain.market import Candle, FundingRate, SettledFunding
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND
from tapebook.tape.features import (
    SETTLED_BACK_MS,
    PositioningPressure,
    SlidingReturns,
    VolatilityProfile,
    full_day_lines,
    funding_input,
    is_rate_in_force,
    positioning_line,
    positioning_of,
    settled_funding,
    settled_rate_8h_e12,
    volatility_line,
    volatility_of,
)
from tapebook.tape.view import GRACE_MS, NO_WATERMARK, View

CADENCE = 5 * MINUTE

# A few hours of boundaries: who stops before has waited a millisecond for nothing.
_AHEAD = 48


class BarsAndRates(Protocol):
    """What features of history are made of."""

    def newest_bar(self, symbol: str, *, view: View) -> Candle | None:
        """The bar that ended last, of the finest there are."""
        ...

    def candles(self, symbol: str, *, granularity_sec: int, since: int, view: View) -> list[Candle]:
        """A symbol's bars that begin since a moment and had ended by `view.as_of`, oldest first."""
        ...

    def facts(self, kind: type[FundingRate], symbol: str, *, since: int, view: View) -> list[FundingRate]:
        """A symbol's facts of a kind since a moment, oldest first."""
        ...


class HistoryFeatures(msgspec.Struct, frozen=True, gc=False):
    """What bars and rates say of one symbol at a boundary; None where too little is known.

    Volatility and positioning are the lines of the figures that a packet shows where these can be written in one go.
    """

    bucket_ts: int
    settled: SettledFunding | None = None
    volatility: VolatilityProfile | str | None = None
    positioning: PositioningPressure | str | None = None


class FrozenRows(Protocol):
    """Rows that do not change any more, and when they were known."""

    def known_by(self, symbol: str, since: int, until: int, /, *, granularity_sec: int) -> int:
        """When all rows that begin between two moments were known; never, if that cannot be said.

        They are bars of a length or, where that is 0, rates.
        """
        ...

    def timely_bars(self, symbol: str, since: int, until: int, /, *, granularity_sec: int) -> list[Candle] | None:
        """The bars of a length that begin between two moments, each known when its grace was over.

        None where one came later or was revised, or where the symbol may have bars of another length.
        """
        ...


class HistoryDeriver:
    """Derives the features of one symbol, boundary by boundary.

    A cache: of the last boundary and some that follow it, and of the sums over its bars. It belongs to a reader whose
    rows do not change (`ForwardTape`), and then only new bars are read: those before were all known (`frozen`)
    and look the same for ever. Whoever reads a tape that grows takes a new one each time, and all is read.
    """

    def __init__(self, tape: BarsAndRates, symbol: str, *, frozen: FrozenRows | None = None) -> None:
        self._tape = tape
        self._symbol = symbol
        self._frozen = frozen
        self._last = HistoryFeatures(-1)
        # Derived before they were asked for, and the newest of them. A tape that grows may change what is ahead.
        self._ahead: dict[int, HistoryFeatures] = {}
        self._newest = -1
        # The newest rate, what it adds to positioning, and up to where all rates were known.
        self._settled: SettledFunding | None = None
        self._funding: float | None = None
        self._rates_until = 0
        # The sums of bars of one length, when the newest of these ended, and up to where all of them were known.
        self._returns = SlidingReturns()
        self._length = self._ended = self._until = 0

    def features_at(self, view: View) -> HistoryFeatures:
        """The features of the newest boundary whose grace was over."""
        boundary = view.as_of - GRACE_MS
        boundary -= boundary % CADENCE
        if self._last.bucket_ts != boundary:
            found = self._ahead.get(boundary)
            self._last = self._derive_ahead(boundary, view.watermark) if found is None else found
        return self._last

    def _derive_ahead(self, boundary: int, watermark: int) -> HistoryFeatures:
        """The features of a boundary; of the next ones too, for who asks for one after the other."""
        # Each is what it would be when its turn comes: it sees what was known at its own moment. Derived in a row
        # they cost a third of what they do one by one between the other work of a tick.
        if boundary <= self._newest:
            self._until = self._rates_until = 0
        self._move(View(boundary + GRACE_MS, watermark))
        self._ahead = {boundary: self._derive(boundary, watermark)}
        self._newest = boundary
        if self._frozen is not None and boundary == self._last.bucket_ts + CADENCE:
            self._newest += (_AHEAD - 1) * CADENCE
            self._derive_next(range(boundary + CADENCE, self._newest + 1, CADENCE), watermark, frozen=self._frozen)
        return self._ahead[boundary]

    def _derive_next(self, boundaries: range, watermark: int, *, frozen: FrozenRows) -> None:
        """The features of the boundaries that follow; bars that all came in time are read once for all of them."""
        prompt: list[Candle] | None = None
        if self._until and self._length:
            prompt = frozen.timely_bars(self._symbol, self._until, boundaries[-1], granularity_sec=self._length)
        step, taken = self._length * SECOND, 0
        for at in boundaries:
            as_of, new = at + GRACE_MS, taken
            if prompt is None:
                self._move(View(as_of, watermark))
            else:
                end = as_of - as_of % step
                while new < len(prompt) and prompt[new].bucket_ts < end:
                    new += 1
                if new > taken:
                    self._ended = prompt[new - 1].end
                if self._ended > as_of - DAY:
                    self._returns.slide(prompt[taken:new], since=end - DAY)
                    taken, self._until = new, end
                else:
                    # The newest bar is too old: what counts now is looked for again at each boundary.
                    prompt = None
                    self._move(View(as_of, watermark))
            self._ahead[at] = self._derive(at, watermark)

    def _derive(self, boundary: int, watermark: int) -> HistoryFeatures:
        """What the sums and the newest rate say at a boundary."""
        as_of, returns = boundary + GRACE_MS, self._returns
        # Funding is settled at full hours: in between no rate is new.
        if boundary >= self._rates_until:
            self._read_rates(boundary - boundary % HOUR, View(as_of, watermark))
        settled, funding = self._settled, self._funding
        if settled is not None and not is_rate_in_force(settled, as_of=as_of):
            settled = funding = None
        lines = full_day_lines(returns, as_of=as_of, funding=funding)
        if lines is not None and lines[1] is not None:
            return HistoryFeatures(boundary, settled, *lines)
        rate = None if settled is None else settled_rate_8h_e12(settled)
        volatility = volatility_of(returns, as_of=as_of)
        positioning = positioning_of(self._symbol, returns, as_of=as_of, rate_8h_e12=rate, imbalance=None)
        return HistoryFeatures(
            boundary,
            settled,
            volatility and (volatility_line(volatility) or volatility),
            positioning and (positioning_line(positioning) or positioning),
        )

    def _read_rates(self, hour: int, view: View) -> None:
        since = hour - SETTLED_BACK_MS
        found = settled_funding(self._tape.facts(FundingRate, self._symbol, since=since, view=view))
        self._settled, self._funding = found, None if found is None else funding_input(settled_rate_8h_e12(found))
        is_known = self._known_by(since, hour + HOUR - 1, granularity_sec=0) <= view.as_of
        self._rates_until = hour + HOUR if is_known else 0

    def _move(self, view: View) -> None:
        """Brings the sums to a moment: over a day and the close before it, of bars as long as the newest one is."""
        newest = self._tape.newest_bar(self._symbol, view=view)
        length, self._ended = (0, 0) if newest is None else (newest.granularity_sec, newest.end)
        if self._ended <= view.as_of - DAY:
            length = 0
        step = length * SECOND or DAY
        end = view.as_of - view.as_of % step
        first = end - DAY
        since = self._until if length == self._length and self._until > first else first - step
        if since != self._until:
            self._returns.clear()
        new = self._tape.candles(self._symbol, granularity_sec=length, since=since, view=view) if length else ()
        self._returns.slide(new, since=first)
        is_known = self._known_by(since, end - 1, granularity_sec=length) <= view.as_of
        self._length, self._until = length, end if is_known else 0

    def _known_by(self, since: int, until: int, *, granularity_sec: int) -> int:
        if self._frozen is None:
            return NO_WATERMARK
        return self._frozen.known_by(self._symbol, since, until, granularity_sec=granularity_sec)
