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


class _Tier(msgspec.Struct, frozen=True):
    """The value it begins at, its largest leverage, and the parts of a value in it that must be backed."""

    begins_e16: int
    max_leverage: int
    maintenance: int


class Margins:
    """The tiers of every coin."""

    def __init__(self, default_max_leverage: int) -> None:
        self._default = _highest_first(((0, default_max_leverage),))

    def max_leverage(self, symbol: str, worth_e16: int) -> int:
        """The largest leverage a position of this value may have."""
        tiers = _known_tiers().get(symbol, self._default)
        return next(tier.max_leverage for tier in tiers if worth_e16 >= tier.begins_e16)

    def falls_short(self, cash_usd_e6: int, positions: Mapping[str, Position], prices: Mapping[str, int]) -> bool:
        """Whether cash and positions together are worth less, at these prices, than they must at least be."""
        worth, values = cash_usd_e6 * _E16_PER_USD_E6, 0
        for symbol, held in positions.items():
            value = held.size_e8 * prices[symbol]
            worth += value - held.cost_usd_e6 * _E16_PER_USD_E6
            values += abs(value)
        # Nobody must back more than half of a value: a leverage is one at least.
        if 2 * worth >= values:
            return False
        needed = [self._maintenance(symbol, abs(held.size_e8) * prices[symbol]) for symbol, held in positions.items()]
        return worth * _PARTS < sum(needed)

    def _maintenance(self, symbol: str, worth_e16: int) -> int:
        """The least a position of this value must be backed by, in parts of USD e16."""
        needed, left = 0, worth_e16
        for tier in _known_tiers().get(symbol, self._default):
            if left > tier.begins_e16:
                needed += (left - tier.begins_e16) * tier.maintenance
                left = tier.begins_e16
        return needed


def covers_initial(cash_usd_e6: int, positions: Mapping[str, Position], marks: Mapping[str, int]) -> bool:
    """Whether an account under cross margin is worth the initial margin of all it holds."""
    parts = lcm(*(max(1, held.leverage) for held in positions.values()))
    worth = cash_usd_e6 * _E16_PER_USD_E6
    needed = 0
    for symbol, held in positions.items():
        worth += held.size_e8 * marks[symbol] - held.cost_usd_e6 * _E16_PER_USD_E6
        needed += abs(held.size_e8) * marks[symbol] * (parts // max(1, held.leverage))
    return worth * parts >= needed


def listed_symbols() -> tuple[str, frozenset[str]]:
    """The day of the margin tables, and every coin the exchange listed then."""
    return _tables().vintage, frozenset(_known_tiers())


@cache
def _tables() -> _Tables:
    content = resources.files("tapebook.broker").joinpath("margin_tables.json").read_bytes()
    return msgspec.json.decode(content, type=_Tables)


@cache
def _known_tiers() -> dict[str, tuple[_Tier, ...]]:
    tables = _tables().tables
    return {symbol: _highest_first(table.tiers) for table in tables for symbol in table.symbols}


def _highest_first(tiers: tuple[tuple[int, int], ...]) -> tuple[_Tier, ...]:
    return tuple(_Tier(begins * _E16_PER_USD, most, _PARTS // (2 * most)) for begins, most in reversed(tiers))
