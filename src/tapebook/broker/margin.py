"""Margin: how much leverage a coin allows, and how much an open position must at least be backed by.

As on Hyperliquid: a coin has tiers, each with the value it begins at and a largest leverage. The
maintenance rate of a tier is half its initial rate, 1 / (2 × largest leverage), and counts for the
part of the value that lies in the tier, so that it never jumps.

`margin_tables.json` holds the tiers of every coin the exchange listed on the day its `vintage`
names; before and after that day they may have been others. A coin it does not know has one tier.

All comparisons are exact: values are USD e16 (a size times a price), shares are counted in parts of
a number every leverage divides, and nothing is rounded.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from math import lcm

import msgspec

from tapebook.domain.position import Position

MOST_LEVERAGE = 50
_E16_PER_USD_E6 = 10**10
_E16_PER_USD = 10**16
_PARTS = 2 * lcm(*range(1, MOST_LEVERAGE + 1))


class _Table(msgspec.Struct, frozen=True):
    tiers: tuple[tuple[int, int], ...]
    symbols: tuple[str, ...]


class _Tables(msgspec.Struct, frozen=True):
    vintage: str
    tables: tuple[_Table, ...]


class Margins:
    """The tiers of every coin."""

    def __init__(self, default_max_leverage: int) -> None:
        self._default: tuple[tuple[int, int], ...] = ((0, default_max_leverage),)

    def max_leverage(self, symbol: str, worth_e16: int) -> int:
        """The largest leverage a position of this value may have."""
        return next(most for begins, most in reversed(self._tiers(symbol)) if worth_e16 >= begins * _E16_PER_USD)

    def falls_short(self, cash_usd_e6: int, positions: Mapping[str, Position], prices: Mapping[str, int]) -> bool:
        """Whether cash and positions together are worth less, at these prices, than they must at least be."""
        worth, needed = cash_usd_e6 * _E16_PER_USD_E6, 0
        for symbol, held in positions.items():
            worth += held.size_e8 * prices[symbol] - held.cost_usd_e6 * _E16_PER_USD_E6
            needed += self._maintenance(symbol, abs(held.size_e8) * prices[symbol])
        return worth * _PARTS < needed

    def _maintenance(self, symbol: str, worth_e16: int) -> int:
        """The least a position of this value must be backed by, in parts of USD e16."""
        tiers = self._tiers(symbol)
        ends = [begins * _E16_PER_USD for begins, _ in tiers[1:]] + [worth_e16]
        needed = 0
        for (begins, most), end in zip(tiers, ends, strict=True):
            within = min(worth_e16, end) - begins * _E16_PER_USD
            needed += max(0, within) * (_PARTS // (2 * most))
        return needed

    def _tiers(self, symbol: str) -> tuple[tuple[int, int], ...]:
        return _known_tiers().get(symbol, self._default)


def covers_initial(cash_usd_e6: int, positions: Mapping[str, Position], marks: Mapping[str, int]) -> bool:
    """Whether an account under cross margin is worth the initial margin of all it holds."""
    parts = lcm(*(max(1, held.leverage) for held in positions.values()))
    worth = cash_usd_e6 * _E16_PER_USD_E6
    needed = 0
    for symbol, held in positions.items():
        worth += held.size_e8 * marks[symbol] - held.cost_usd_e6 * _E16_PER_USD_E6
        needed += abs(held.size_e8) * marks[symbol] * (parts // max(1, held.leverage))
    return worth * parts >= needed


@cache
def _known_tiers() -> dict[str, tuple[tuple[int, int], ...]]:
    content = resources.files("tapebook.broker").joinpath("margin_tables.json").read_bytes()
    tables = msgspec.json.decode(content, type=_Tables).tables
    return {symbol: table.tiers for table in tables for symbol in table.symbols}
