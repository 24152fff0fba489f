"""A backtest told a second time as one loop over bars: no line of the package is used here.

It follows the trend as the engine `trend` says it does: the average of the last 8 closes of half hours against that of
the last 32, long above 15 bps, short below -15, out when the gap is back within 4; 1,000 USD each time. What it wants
at a slot it has at a price of the bar that begins there, half a spread away and further with its size, less a fee.
Money is integers, rounded half to even; prices are rounded to the worse side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import NamedTuple

BAR, HALF_HOUR, HOUR = 300_000, 1_800_000, 3_600_000
DECIDED_AFTER, LATENCY = 2_000, 500
FAST, SLOW, ENTER, LEAVE = 8, 32, 15.0, 4.0
SEEN = 48
NOTIONAL_USD = 1_000
HALF_SPREAD_BPS, IMPACT_BPS_PER_100K, FEE_BPS = Fraction(1), Fraction(2), Fraction(9, 2)


class Bar(NamedTuple):
    """Five minutes, prices in hundred-millionths of a dollar."""

    at: int
    open: int
    high: int
    low: int
    close: int


class Fill(NamedTuple):
    """When, how much, at which price (both e8), and the fee in millionths of a dollar."""

    at: int
    size: int
    price: int
    fee: int


@dataclass
class Account:
    """What the loop holds and has done."""

    size: int = 0
    fills: list[Fill] = field(default_factory=list)
    funding: list[tuple[int, int]] = field(default_factory=list)


def bare_loop(bars: Sequence[Bar], rates: Mapping[int, int], *, fill: str) -> Account:
    """The account after a decision at every bar's start; what is wanted at the last one is not had any more."""
    account, closes, wanted, side = Account(), list[float](), 0, 0
    for place, bar in enumerate(bars):
        # What is known at this slot are the bars before it.
        if place and bar.at % HALF_HOUR == 0:
            closes.append(float(bars[place - 1].close))
            side = side_of(closes)
        if wanted and fill != "bar_close":
            book(account, wanted, bars[place - 1], fill)
        if bar.at % HOUR == 0 and account.size and bar.at in rates and place >= 2:
            # The price known at the hour is that of the bar before the one that ends there: a bar is known 2 s later.
            value = half_even(account.size * bars[place - 2].close, 10**10)
            account.funding.append((bar.at, -half_even(value * rates[bar.at], 10**12)))
        if wanted and fill == "bar_close":
            book(account, wanted, bars[place - 1], fill)
        wanted = wants(side, account.size, bars[place - 1].close) if place else 0
    return account


def side_of(closes: Sequence[float]) -> int:
    """The side after the bars that a packet shows, flat before the first of them."""
    seen, side = closes[-SEEN:], 0
    for end in range(SLOW, len(seen) + 1):
        fast, slow = sum(seen[end - FAST : end]) / FAST, sum(seen[end - SLOW : end]) / SLOW
        gap = (fast / slow - 1) * 10_000
        if abs(gap) > ENTER:
            side = 1 if gap > 0 else -1
        elif side * gap < LEAVE:
            side = 0
    return side


def wants(side: int, size: int, mark: int) -> int:
    """What to buy (or sell, negative) at a slot."""
    if side == (size > 0) - (size < 0):
        return 0
    return side * (NOTIONAL_USD * 10**16 // mark) - size


def book(account: Account, size: int, bar: Bar, fill: str) -> None:
    """Has what was wanted at the start of a bar."""
    worst = bar.high if size > 0 else bar.low
    mid = {"next_open": bar.open, "worst": worst, "bar_close": bar.close}[fill]
    value_usd = Fraction(abs(size) * mid, 10**16)
    away = ceil(mid * (HALF_SPREAD_BPS + IMPACT_BPS_PER_100K * value_usd / 100_000) / 10_000)
    price = mid + away if size > 0 else mid - away
    paid = abs(half_even(size * price, 10**10))
    at = bar.at + (BAR if fill == "bar_close" else DECIDED_AFTER + LATENCY)
    account.fills.append(Fill(at, size, price, half_even(paid * FEE_BPS.numerator, FEE_BPS.denominator * 10_000)))
    account.size += size


def half_even(numerator: int, denominator: int) -> int:
    """A rounded quotient."""
    return round(Fraction(numerator, denominator))
