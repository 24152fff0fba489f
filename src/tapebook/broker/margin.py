"""Margin: how much leverage a coin allows, what a position must be backed by, and where an account is liquidated.

As on Hyperliquid: a coin has tiers, each with the value it begins at and a largest leverage. The maintenance rate
of a tier is half its initial rate, 1 / (2 × largest leverage), and counts for the part of the value that lies in
the tier, so that it never jumps. How much leverage a coin allows is what the exchange's list was known to say at the
moment (`Quotes.listing`). The list does not name the higher tiers: `margin_tables.json` holds those of every coin that
was listed on the day its `vintage` names, and the decimals of their sizes. Where both name a leverage, that of the list
counts; a coin that neither knows has one tier. All comparisons are exact: values are USD e16 (a size times a price),
shares are counted in parts of a number every leverage divides, and nothing is rounded.

Within a window prices move together, in equal steps, from where the bar opened to its adverse extreme: a long to
the low, a short to the high. The first step at which the account falls short is where it is closed
(`liquidation_prices`). For a single position that is its liquidation price, to a millionth of the way and never on
the better side; a bar that opens beyond it is closed at its open.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from math import lcm

import msgspec

from tapebook.domain.order import Increments
from tapebook.domain.position import Position

MAX_LEVERAGE = 50
# A size times a price, both e8, is USD e16.
_E16_PER_USD_E6 = 10**10
_E16_PER_USD = 10**16
# Twice, for a maintenance rate is half of 1 / leverage: every rate is a whole number of parts.
_SHARE_PARTS = 2 * lcm(*range(1, MAX_LEVERAGE + 1))


class _MarginTable(msgspec.Struct, frozen=True):
    tiers: tuple[tuple[int, int], ...]
    symbols: tuple[str, ...]


class _MarginTables(msgspec.Struct, frozen=True):
    vintage: str
    tables: tuple[_MarginTable, ...]
    size_decimals: dict[str, int]


class _MarginTier(msgspec.Struct, frozen=True):
    """The value it begins at, its largest leverage, and the parts of a value in it that must be backed."""

    begins_e16: int
    max_leverage: int
    maintenance: int


ListedLeverage = Callable[[str], int | None]
"""The largest leverage of a symbol by the exchange's list, None where it names none."""


def _not_listed(symbol: str) -> int | None:
    return None


class MarginTiers:
    """The tiers of every coin."""

    def __init__(self, default_max_leverage: int) -> None:
        self._default = _tiers_highest_first(((0, default_max_leverage),))

    def max_leverage(self, symbol: str, worth_e16: int, *, listed: int | None = None) -> int:
        """The largest leverage a position of this value may have."""
        tiers = self._tiers(symbol, listed)
        return next(tier.max_leverage for tier in tiers if worth_e16 >= tier.begins_e16)

    def _tiers(self, symbol: str, listed: int | None) -> tuple[_MarginTier, ...]:
        tiers = _known_tiers().get(symbol)
        if listed is None or not 1 <= listed <= MAX_LEVERAGE:
            return tiers or self._default
        if tiers is None:
            return _tiers_highest_first(((0, listed),))
        if tiers[-1].max_leverage == listed:
            return tiers
        # Larger positions never get more than the list allows the smallest one.
        known = [(tier.begins_e16 // _E16_PER_USD, min(tier.max_leverage, listed)) for tier in reversed(tiers[:-1])]
        return _tiers_highest_first(((0, listed), *known))

    def falls_short(
        self,
        cash_usd_e6: int,
        positions: Mapping[str, Position],
        prices: Mapping[str, int],
        *,
        listed: ListedLeverage = _not_listed,
    ) -> bool:
        """Whether cash and positions together are worth less, at these prices, than they must at least be."""
        worth, values = cash_usd_e6 * _E16_PER_USD_E6, 0
        for symbol, held in positions.items():
            value = held.size_e8 * prices[symbol]
            worth += value - held.cost_usd_e6 * _E16_PER_USD_E6
            values += abs(value)
        # Nobody must back more than half of a value: a leverage is one at least.
        if 2 * worth >= values:
            return False
        needed = [
            _maintenance(self._tiers(symbol, listed(symbol)), abs(held.size_e8) * prices[symbol])
            for symbol, held in positions.items()
        ]
        return worth * _SHARE_PARTS < sum(needed)


def is_backed_by_half(backing_usd_e6: int, held: Position, price_e8: int) -> bool:
    """Whether a position is backed by half its value or more: nobody must back more, for a leverage is one at least."""
    value = held.size_e8 * price_e8
    return 2 * ((backing_usd_e6 - held.cost_usd_e6) * _E16_PER_USD_E6 + value) >= abs(value)


def _maintenance(tiers: Sequence[_MarginTier], worth_e16: int) -> int:
    """The least a position of this value must be backed by, in parts of USD e16."""
    needed, left = 0, worth_e16
    for tier in tiers:
        if left > tier.begins_e16:
            needed += (left - tier.begins_e16) * tier.maintenance
            left = tier.begins_e16
    return needed


def covers_initial_margin(cash_usd_e6: int, positions: Mapping[str, Position], marks: Mapping[str, int]) -> bool:
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
    return _margin_tables().vintage, frozenset(_known_tiers())


# A price of a perp has five significant digits, and together with its sizes six decimals.
_PRICE_DIGITS, _DECIMALS = 5, 6


def listed_increments(symbol: str, listed: int | None = None) -> Increments | None:
    """The steps in which the exchange takes sizes and prices of a coin, by the decimals its list names or those of the
    tables; None of a coin that neither knows.
    """
    decimals = _margin_tables().size_decimals.get(symbol) if listed is None else listed
    if decimals is None or not 0 <= decimals <= _DECIMALS:
        return None
    return Increments(10 ** (8 - decimals), 10 ** (8 - _DECIMALS + decimals), _PRICE_DIGITS)


@cache
def _margin_tables() -> _MarginTables:
    content = resources.files("tapebook.broker").joinpath("margin_tables.json").read_bytes()
    return msgspec.json.decode(content, type=_MarginTables)


@cache
def _known_tiers() -> dict[str, tuple[_MarginTier, ...]]:
    tables = _margin_tables().tables
    return {symbol: _tiers_highest_first(table.tiers) for table in tables for symbol in table.symbols}


def _tiers_highest_first(tiers: tuple[tuple[int, int], ...]) -> tuple[_MarginTier, ...]:
    return tuple(
        _MarginTier(begins * _E16_PER_USD, most, _SHARE_PARTS // (2 * most)) for begins, most in reversed(tiers)
    )


# A millionth of the way through a bar, found in twenty halvings.
PRICE_STEPS = 1_000_000


class AdverseMove(msgspec.Struct, frozen=True):
    """The adverse part of a price's way through a bar: from its first to its worst."""

    first_e8: int
    worst_e8: int

    def price_at(self, step: int) -> int:
        """The price after so many of all steps."""
        return self.first_e8 + (self.worst_e8 - self.first_e8) * step // PRICE_STEPS


def liquidation_prices(
    backing_usd_e6: int,
    positions: Mapping[str, Position],
    ways: Mapping[str, AdverseMove],
    *,
    margins: MarginTiers,
    listed: ListedLeverage = _not_listed,
) -> dict[str, int] | None:
    """The prices at which positions that share a backing are closed; None when it lasts through the bar."""
    worst = {symbol: ways[symbol].worst_e8 for symbol in positions}
    if not margins.falls_short(backing_usd_e6, positions, worst, listed=listed):
        return None

    def prices(step: int) -> dict[str, int]:
        return {symbol: ways[symbol].price_at(step) for symbol in positions}

    # On the way things only get worse: a maintenance rate is below one, so a loss weighs more than what it frees.
    lasts, short = -1, PRICE_STEPS
    while short - lasts > 1:
        middle = (lasts + short) // 2
        falls = margins.falls_short(backing_usd_e6, positions, prices(middle), listed=listed)
        lasts, short = (lasts, middle) if falls else (middle, short)
    return prices(short)
