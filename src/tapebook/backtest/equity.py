"""Equity over time, and what follows from it: drawdown, daily returns, Sharpe ratio, a line to draw.

Between two ticks the book knows equity at these moments (`equity_points`):

    something is held      whenever it was valued, at the marks of then
    nothing is held        whenever cash moved

At a moment nobody looked, such as midnight, what was held is valued once more (`equity_at`): the account as the book
had it, at the price last observed by then.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tapebook.backtest.book_range import BookRange
from tapebook.book.store import Book
from tapebook.domain.agent import Deployment
from tapebook.domain.estimate import Estimate
from tapebook.domain.units import DAY, divide_half_even
from tapebook.tape.store import Tape
from tapebook.tape.view import GRACE_MS, View
from tapebook.tick.quotes import position_marks

DAYS_A_YEAR = 365
"""Perps trade every day."""

FEWEST_RETURNS = 5
"""Days below which a Sharpe ratio says nothing."""

_PPM = 1_000_000
# The normal quantile of a 95 % interval.
_Z = 1.959963984540054
# What moves equity, in the order in which events of one number count.
_CASH, _CLOSED, _OPENED, _VALUED = range(4)


class EquityPoint(NamedTuple):
    """Equity at a moment, and what of it an insurance has paid by then."""

    at: int
    usd_e6: int
    insured_usd_e6: int = 0

    @property
    def own_usd_e6(self) -> int:
        """What would be left without the insurance: a loss it made good is a loss."""
        return self.usd_e6 - self.insured_usd_e6


class Drawdown(NamedTuple):
    """The deepest fall below an earlier peak, in money and as a share of its peak; they may be two falls."""

    usd_e6: int
    ppm: int


def equity_points(book: BookRange, *, begins_with_first_fill: bool = False) -> list[EquityPoint]:
    """Equity whenever the book knows it, in the order of the log; time never goes back.

    An account into which fills of the past were imported was opened after them: with `begins_with_first_fill` its line
    begins with the first of them.
    """
    points: list[EquityPoint] = []
    paid, place, insured, newest = book.insurance_payments(), 0, 0, 0
    for seq, at, usd in _known_equity(book):
        while place < len(paid) and paid[place].seq <= seq:
            insured, place = insured + paid[place].usd_e6, place + 1
        # A fill that was learned late is booked with its own, earlier time; the line goes on where it is.
        if begins_with_first_fill and len(points) == 1 and at < newest:
            points[0] = points[0]._replace(at=at)
            newest = at
        newest = at if not points or at > newest else newest
        points.append(EquityPoint(newest, usd, insured))
    return points


_CACHED_LINES = 64


class EquityCache:
    """The lines read last, each of a range of one book; of a range that has ended nothing changes any more.

    Nothing is invalidated: a stream that moved on is another range. A page that is drawn anew when only prices moved
    reads no line twice.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, int, int], list[EquityPoint]] = OrderedDict()
        self._lock = threading.Lock()

    def points(self, deployment: str, book: BookRange) -> list[EquityPoint]:
        """A range's `equity_points` from its first fill on, in a list of the caller's own."""
        key = (deployment, book.after, book.until)
        with self._lock:
            known = self._lines.get(key)
        if known is None:
            known = equity_points(book, begins_with_first_fill=True)
            with self._lock:
                self._lines[key] = known
                if len(self._lines) > _CACHED_LINES:
                    self._lines.popitem(last=False)
        return list(known)


def _known_equity(book: BookRange) -> Iterator[tuple[int, int, int]]:
    """Where in the log, when, and how much."""
    spans, after = book.holding_spans(), book.after
    held = sum(span.entry_seq <= after for span in spans)
    # Plain tuples: a week of an agent that is busy is tens of thousands, and pages are drawn again and again.
    events = [(seq, _VALUED, at, usd) for seq, at, usd in book.snapshots()]
    events += [(seq, _CASH, at, usd) for seq, at, usd in book.balances()]
    events += [(entry, _OPENED, 0, 0) for entry, _, _, _ in spans if entry > after]
    events += [(end, _CLOSED, at or 0, 0) for _, _, end, at in spans if end is not None]
    events.sort()
    cash, flat = 0, None
    for seq, what, at, usd in events:
        # The event after a posting or a close may open the next position: then nobody was flat in between.
        if flat is not None and not (what == _OPENED and seq == flat[0] + 1):
            yield flat
        flat = None
        if what == _VALUED:
            yield seq, at, usd
            continue
        if what == _CASH:
            cash = usd
        else:
            held += 1 if what == _OPENED else -1
        if what != _OPENED and not held:
            flat = (seq, at, cash)
    if flat is not None:
        yield flat


def equity_at(book: Book, tape: Tape, deployment: Deployment, moment: int, *, seq: int, watermark: int) -> int:
    """Equity at a moment: the account as of a sequence number, at the prices of then."""
    portfolio = book.account(deployment.id, seq=seq).portfolio
    # The bar that ends at the moment is known a little later.
    known = moment + GRACE_MS
    marks = position_marks(tape, portfolio.positions.values(), view=View(known, watermark))
    return portfolio.equity_usd_e6(marks)


def midnights(start: int, end: int) -> range:
    """Every 00:00 UTC from a moment to another, both included."""
    return range(-(-start // DAY) * DAY, end + 1, DAY)


def deepest_drawdown(values: Iterable[int]) -> Drawdown:
    """The deepest fall of a series, exactly."""
    peak, most, share = 0, 0, 0
    for value in values:
        peak = max(peak, value)
        most = max(most, peak - value)
        share = max(share, divide_half_even((peak - value) * _PPM, peak) if peak else 0)
    return Drawdown(most, share)


def step_returns(values: Sequence[float]) -> list[float]:
    """The return of each step of a series; after a value that is not above zero there is none."""
    return [after / before - 1 for before, after in pairwise(values) if before > 0]


def sharpe_ratio(daily: Sequence[float]) -> Estimate | None:
    """The annualised Sharpe ratio of daily returns, against cash that earns nothing, with its interval.

        S = mean / deviation (n - 1)            value = S √365
        variance of S = (1 - skew S + (kurtosis - 1) S² / 4) / n

    The variance is Mertens', which holds for returns that are not normal; it does not know of days that hang
    together. None below five returns, and where they do not differ.
    """
    n = len(daily)
    middle = math.fsum(daily) / n if n else 0.0
    spread = [value - middle for value in daily]
    second = math.fsum(value**2 for value in spread) / n if n else 0.0
    # Returns that do not differ leave rounding errors, whose ratio means nothing.
    if n < FEWEST_RETURNS or second <= 1e-24:
        return None
    skew = math.fsum(value**3 for value in spread) / n / second**1.5
    kurtosis = math.fsum(value**4 for value in spread) / n / second**2
    ratio = middle / math.sqrt(second * n / (n - 1))
    variance = max(0.0, 1 - skew * ratio + (kurtosis - 1) / 4 * ratio**2) / n
    half, year = _Z * math.sqrt(variance), math.sqrt(DAYS_A_YEAR)
    return Estimate(ratio * year, (ratio - half) * year, (ratio + half) * year, n)


def thin_points(points: Sequence[EquityPoint], most: int) -> list[EquityPoint]:
    """At most so many points of a line, with the first, the last and the extremes of every stretch."""
    if len(points) <= most:
        return list(points)
    # Every stretch keeps up to four points.
    size = -(-len(points) * 4 // most)
    kept: list[EquityPoint] = []
    for start in range(0, len(points), size):
        part = range(start, min(start + size, len(points)))
        ends = {part[0], part[-1], min(part, key=lambda i: points[i].usd_e6), max(part, key=lambda i: points[i].usd_e6)}
        kept += [points[place] for place in sorted(ends)]
    return kept


def share_held(book: BookRange, start: int, end: int) -> float:
    """The share of a stretch of time in which anything was held."""
    held, until = 0, start
    for span in sorted(book.holding_spans(), key=lambda each: each.entered_at):
        # Positions overlap: time in which several were held counts once.
        left = end if span.exited_at is None else min(span.exited_at, end)
        held += max(0, left - max(span.entered_at, until))
        until = max(until, left)
    return held / (end - start) if end > start else 0.0
