"""What rule engines read off a packet. Whatever is missing or is no number is left out, never guessed.

The members of an ensemble read the same packet, so it is read once; and bars that were in the packet
before are not read again.
"""

import math
from functools import lru_cache
from typing import Literal

import msgspec

from tapebook.domain.memo import Memo, Window
from tapebook.domain.packet import Packet, Section

Side = Literal["long", "short"]

_COLUMNS = ("high", "low", "close")
_Prices = tuple[float, float, float]
Facts = dict[str, str]
"""Names and values of a section: of a name that stands twice the first value, none of a row without one."""


class Bars(msgspec.Struct, frozen=True, cache_hash=True):
    """The prices of the bars that are shown, oldest first, in columns of the same length."""

    highs: tuple[float, ...] = ()
    lows: tuple[float, ...] = ()
    closes: tuple[float, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """A packet as rule engines see it: the symbol, the bars, the facts of two sections, and the side that is held."""

    symbol: str
    bars: Bars
    market: Facts
    portfolio: Facts
    held: Side | None


def number(text: str | None) -> float | None:
    """A cell as a number; None when it is none that can be reckoned with."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class _Reader:
    """The bars that were read last; of the next packet most are the same."""

    def __init__(self) -> None:
        self._prices = Memo(_prices_in)
        self._bars = Memo(_bars)

    def read(self, packet: Packet) -> Reading:
        shown = packet.section("bars")
        bars = self._bars(self._prices(shown.columns)(shown.rows)) if shown else Bars()
        portfolio = _facts(packet.section("portfolio"))
        return Reading(packet.symbol, bars, _facts(packet.section("market")), portfolio, _held(portfolio))


@lru_cache(maxsize=256)
def _reader(_agent: str, _symbol: str) -> _Reader:
    return _Reader()


read: Memo[Packet, Reading] = Memo(lambda packet: _reader(packet.agent, packet.symbol).read(packet))
"""What a packet says; the members of an ensemble ask one after the other."""


def _facts(section: Section | None) -> Facts:
    if section is None:
        return {}
    # Backwards, so that of two values the first stays.
    rows = section.rows[::-1]
    try:
        return dict(rows)  # type: ignore[arg-type]
    except ValueError:
        return {row[0]: row[1] for row in rows if len(row) > 1}


def _held(portfolio: Facts) -> Side | None:
    side = portfolio.get("position_side")
    return "long" if side == "long" else "short" if side == "short" else None


def _bars(prices: tuple[_Prices | None, ...]) -> Bars:
    found = [each for each in prices if each is not None]
    return Bars(*zip(*found, strict=True)) if found else Bars()


def _prices_in(columns: tuple[str, ...]) -> Window[tuple[str, ...], _Prices | None]:
    """What gives the prices of rows under these columns, or None for a row that is not whole."""
    if not set(_COLUMNS) <= set(columns):
        return Window(lambda _: None)
    high, low, close = (columns.index(name) for name in _COLUMNS)

    def prices(row: tuple[str, ...]) -> _Prices | None:
        try:
            # Plus zero: a zero has no sign, so that equal bars tell equal stories.
            found = float(row[high]) + 0.0, float(row[low]) + 0.0, float(row[close]) + 0.0
        except (ValueError, IndexError):
            return None
        return found if all(map(math.isfinite, found)) else None

    return Window(prices)
