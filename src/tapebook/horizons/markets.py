"""What the market itself did in a span of days, whoever traded in it: its phase, its volatility, what moves together.

A day of a symbol is a `PriceSpan`, made of its hours (`prices_of_day`). Spans of days in a row merge into one
(`join_prices`), like all that layers are built from, so a quarter needs no second look at its hours.

market_phase         Bull or Bear when the symbol has moved by 20 %, or by 5 % and further than its daily moves would
                     carry it by chance (the root of the sum of their squares); else Sideways
volatility_regime    high when an hour's deviation is that of a `*_hivol` regime or more, else low: 0.4 % in five
                     minutes, times the square root of twelve
market_correlation   of the daily returns of two symbols, both taken to be 0 on average

The word of several symbols is that of most of them. A tie between phases is Sideways, one between volatilities high.
`SECTORS` says what a symbol is traded as; a home adds to it, or overrides it, with `horizons.sectors`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from tapebook.domain.market import Candle
from tapebook.domain.units import DAY
from tapebook.horizons.layers import Period

MAX_SYMBOLS = 20
"""Symbols of a scope whose prices are kept in its layers: the first it watches."""

MAX_COMPARED = 8
"""Symbols of a scope that are compared with one another: 28 pairs."""

FIRST_DAYS, MAX_DAYS = 7, 31
"""How many days before the first roll-up are looked at, and how many after a pause: what a tape has at hand."""

FEWEST_DAYS = 5
"""Days of which a phase or a correlation is spoken."""

FEWEST_HOURS = 12

_E6, _E12 = 10**6, 10**12
_PHASE_MOVE, _SMALL_MOVE = 0.20, 0.05
# Seed thresholds are of five minutes; an hour has twelve of them.
_HIGH_PER_HOUR = 0.004 * math.sqrt(12)
_HOURS_PER_YEAR = 365 * 24


class PriceSpan(msgspec.Struct, frozen=True, omit_defaults=True):
    """One symbol over days in a row: its first and last price, the squares of its returns, and what they are of.

    `daily_e12` sums the squares of daily returns, `hourly_e12` those of bars that cover `hours` together.
    """

    days: int
    open_e8: int
    close_e8: int
    daily_e12: int
    hours: int = 0
    hourly_e12: int = 0

    @property
    def change(self) -> float:
        """The move from the first price to the last, as a fraction of the first."""
        return (self.close_e8 - self.open_e8) / self.open_e8

    @property
    def hourly_deviation(self) -> float | None:
        """How far an hour moves; None of too few hours."""
        return math.sqrt(self.hourly_e12 / _E12 / self.hours) if self.hours >= FEWEST_HOURS else None


class MarketDays(Protocol):
    """Where the prices of a day come from, as far as they are known by now."""

    def prices(self, day: Period) -> dict[str, PriceSpan]:
        """The symbols of a scope with their prices on a day that is over; without those nothing is known of."""
        ...


def prices_of_day(bars: Sequence[Candle]) -> PriceSpan | None:
    """The prices of a day from its bars, oldest first; None without any."""
    if not bars or min(min(bar.open_e8, bar.close_e8) for bar in bars) <= 0:
        return None
    before = [bars[0].open_e8, *(bar.close_e8 for bar in bars[:-1])]
    moves = [_return_e6(first, bar.close_e8) for first, bar in zip(before, bars, strict=True)]
    whole = _return_e6(bars[0].open_e8, bars[-1].close_e8)
    hours = sum(bar.granularity_sec for bar in bars) // 3600
    squares = sum(move * move for move in moves)
    return PriceSpan(1, bars[0].open_e8, bars[-1].close_e8, whole * whole, hours, squares)


def moves_together(prices: Mapping[str, PriceSpan]) -> dict[str, int]:
    """The products of a day's returns, two symbols at a time, by their names in order."""
    names = sorted(list(prices)[:MAX_COMPARED])
    moves = {name: _return_e6(prices[name].open_e8, prices[name].close_e8) for name in names}
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    return {f"{one} {other}": moves[one] * moves[other] for one, other in pairs}


def join_prices(parts: Iterable[Mapping[str, PriceSpan]]) -> dict[str, PriceSpan]:
    """Spans in the order of time as one."""
    found: dict[str, list[PriceSpan]] = {}
    for part in parts:
        for symbol, span in part.items():
            found.setdefault(symbol, []).append(span)
    return {symbol: spans[0] if len(spans) == 1 else _join_spans(spans) for symbol, spans in found.items()}


def _join_spans(spans: Sequence[PriceSpan]) -> PriceSpan:
    return PriceSpan(
        days=sum(span.days for span in spans),
        open_e8=spans[0].open_e8,
        close_e8=spans[-1].close_e8,
        daily_e12=sum(span.daily_e12 for span in spans),
        hours=sum(span.hours for span in spans),
        hourly_e12=sum(span.hourly_e12 for span in spans),
    )


def _return_e6(before_e8: int, after_e8: int) -> int:
    # Rounded, since the last digits of a logarithm are the library's own.
    return round(math.log(after_e8 / before_e8) * _E6)


def phase_of(span: PriceSpan) -> str | None:
    """Bull, Bear or Sideways; None of too few days."""
    if span.days < FEWEST_DAYS:
        return None
    move, by_chance = math.log(span.close_e8 / span.open_e8), math.sqrt(span.daily_e12) / _E6
    is_phase = abs(span.change) >= _PHASE_MOVE or (abs(span.change) >= _SMALL_MOVE and abs(move) >= by_chance)
    return ("Bull" if move > 0 else "Bear") if is_phase else "Sideways"


def volatility_of(span: PriceSpan) -> str | None:
    """high or low; None of too few hours."""
    deviation = span.hourly_deviation
    return None if deviation is None else "high" if deviation >= _HIGH_PER_HOUR else "low"


def yearly_volatility(span: PriceSpan) -> float | None:
    """The deviation of a year of such hours, as a fraction."""
    deviation = span.hourly_deviation
    return None if deviation is None else deviation * math.sqrt(_HOURS_PER_YEAR)


def word_of_most(words: Iterable[str | None], *, tie: str) -> str | None:
    """The word that most have; of a tie, the cautious one."""
    counts = Counter(word for word in words if word)
    first = [word for word, count in counts.items() if count == max(counts.values())]
    return None if not first else first[0] if len(first) == 1 else tie


def correlations(prices: Mapping[str, PriceSpan], together: Mapping[str, int]) -> dict[str, float]:
    """The correlation of each pair that moved, by its two names."""
    found = {}
    for pair, product in together.items():
        one, other = (prices[name] for name in pair.split(" "))
        room = math.sqrt(one.daily_e12) * math.sqrt(other.daily_e12)
        if min(one.days, other.days) >= FEWEST_DAYS and room:
            # Rounding alone can carry it past one.
            found[pair] = max(-1.0, min(1.0, product / room))
    return found


def market_days_due(mark: int | None, *, today: int) -> list[int]:
    """The days that are over and whose prices are not in the layers yet, counted since 1970; `mark` is the last one."""
    last = today // DAY
    return list(range(max(last - MAX_DAYS, last - FIRST_DAYS if mark is None else mark + 1), last))


OTHER_SECTOR = "Other"

SECTORS: dict[str, str] = {
    symbol: sector
    for sector, symbols in {
        "Bitcoin": "BTC UBTC WBTC",
        "Layer 1": "ETH UETH SOL USOL BNB ADA AVAX SUI APT DOT NEAR ATOM TON TRX SEI INJ HBAR ICP TIA KAS BERA S MON",
        "Layer 2": "ARB OP MATIC POL STRK ZK MNT IMX METIS BLAST MANTA SCR LINEA MOVE",
        "Payments": "XRP LTC BCH XLM XMR ZEC DASH ETC BSV",
        "DeFi": "UNI AAVE MKR SKY CRV LDO COMP SNX SUSHI PENDLE GMX DYDX JUP RUNE CAKE ENA MORPHO ONDO EIGEN ETHFI",
        "Exchange": "HYPE FTT OKB CRO ASTER",
        "Meme": "DOGE SHIB PEPE WIF BONK FLOKI BRETT POPCAT MEW TRUMP MELANIA FARTCOIN PUMP MOODENG PNUT NEIRO",
        "AI": "FET TAO RENDER WLD VIRTUAL AIXBT AI16Z GRASS IO KAITO",
        "Infrastructure": "LINK PYTH FIL AR GRT W ZRO STX ORDI",
        "Gaming": "AXS SAND MANA GALA APE BEAM PIXEL SUPER YGG",
        "Metals": "PAXG XAUT GOLD SILVER",
    }.items()
    for symbol in symbols.split()
}
"""What symbols are traded as, unless the settings say otherwise."""


def sector_of(symbol: str, own: Mapping[str, str] = {}) -> str:
    """The sector of a symbol: by a home's own table, then by `SECTORS`, with what venues put around a name aside."""
    coin = symbol.partition("/")[0].rpartition(":")[2]
    # Coins worth little are listed by the thousand.
    names = (symbol, coin, coin.removeprefix("k"))
    return next((table[name] for table in (own, SECTORS) for name in names if name in table), OTHER_SECTOR)
