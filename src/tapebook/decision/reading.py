"""What rule engines read off a packet. Whatever is missing or is no number is left out, never guessed.

The members of an ensemble read the same packet, so it is read once; and bars that were in the packet
before are not read again.
"""

import math
from functools import lru_cache
from typing import Literal

import msgspec

from tapebook.domain.memo import Memo
from tapebook.domain.packet import Packet, Section

Side = Literal["long", "short"]

_PRICES = ("high", "low", "close")


class Bars(msgspec.Struct, frozen=True):
    """The prices of the bars that are shown, oldest first, in columns of the same length."""

    highs: tuple[float, ...] = ()
    lows: tuple[float, ...] = ()
    closes: tuple[float, ...] = ()


class Reading(msgspec.Struct, frozen=True):
    """A packet as rule engines see it: the bars, and the facts of two sections by their names."""

    bars: Bars
    market: dict[str, str]
    portfolio: dict[str, str]

    @property
    def held(self) -> Side | None:
        """The side of the position in the packet's symbol, if there is one."""
        side = self.portfolio.get("position_side")
        return "long" if side == "long" else "short" if side == "short" else None


def read(packet: Packet) -> Reading:
    """What a packet says."""
    return _reader(packet.agent, packet.symbol).reading(packet)


def number(text: str | None) -> float | None:
    """A cell as a number; None when it is none that can be reckoned with."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class _Reader:
    """The packet that was read last, and the bars."""

    def __init__(self) -> None:
        self.reading = Memo(self._read)
        self._bars = Memo(_bars)

    def _read(self, packet: Packet) -> Reading:
        shown = packet.section("bars")
        bars = self._bars((shown.columns, shown.rows)) if shown else Bars()
        return Reading(bars, _facts(packet.section("market")), _facts(packet.section("portfolio")))


@lru_cache(maxsize=512)
def _reader(_agent: str, _symbol: str) -> _Reader:
    return _Reader()


def _facts(section: Section | None) -> dict[str, str]:
    """Names and values; of a name that stands twice, the first value."""
    rows = section.rows if section else ()
    return {row[0]: row[1] for row in reversed(rows) if len(row) > 1}


def _bars(table: tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]) -> Bars:
    """The bars of a table whose columns are found by name; a row that is not whole is left out."""
    columns, rows = table
    if not set(_PRICES) <= set(columns):
        return Bars()
    high, low, close = (columns.index(name) for name in _PRICES)
    found = [prices for row in rows if (prices := _prices(row, high, low, close))]
    return Bars(*zip(*found, strict=True)) if found else Bars()


def _prices(row: tuple[str, ...], high: int, low: int, close: int) -> tuple[float, float, float] | None:
    try:
        prices = float(row[high]), float(row[low]), float(row[close])
    except (ValueError, IndexError):
        return None
    return prices if all(map(math.isfinite, prices)) else None
