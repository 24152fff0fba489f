"""What a span of days amounts to, in integers that merge: any period is the merge of the leaves of its days.

`merged` is associative and has the empty aggregate as its identity, so days may be grouped in any way as long as
they stay in order. Its arguments are of different days: squares are of daily sums.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from tapebook.horizons.path import Path, joined

MOST_BEST = 5
MOST_WORST = 1


class Sums(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many values, their sum and the sum of their squares."""

    n: int = 0
    total: int = 0
    square: int = 0

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.n + other.n, self.total + other.total, self.square + other.square)


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a symbol or of a strategy; `square_e12` sums the squares of its daily results."""

    trades: int = 0
    wins: int = 0
    net_usd_e6: int = 0
    entered_usd_e6: int = 0
    square_e12: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.trades + other.trades,
            self.wins + other.wins,
            self.net_usd_e6 + other.net_usd_e6,
            self.entered_usd_e6 + other.entered_usd_e6,
            self.square_e12 + other.square_e12,
        )


class Notable(msgspec.Struct, frozen=True):
    """A trade worth remembering."""

    trade_id: str
    symbol: str
    side: Literal["long", "short"]
    exited_at: int
    net_usd_e6: int
    reason: str


class Aggregate(msgspec.Struct, frozen=True, omit_defaults=True):
    """Days summed up. Money is counted on the day a trade ended.

    `daily` are the results of days on which something ended; `first_day` and `last_day` count days since 1970.
    `ledger_usd_e6` sums what was booked in the days, if anybody said. `notional_ms` is what was held times how long.
    """

    trades: int = 0
    wins: int = 0
    net_usd_e6: int = 0
    gross_usd_e6: int = 0
    fees_usd_e6: int = 0
    funding_usd_e6: int = 0
    entered_usd_e6: int = 0
    notional_ms: int = 0
    ledger_usd_e6: int | None = None
    first_day: int | None = None
    last_day: int | None = None
    daily: Sums = Sums()
    confidence_e4: Sums = Sums()
    path: Path = Path()
    symbols: dict[str, Tally] = {}
    strategies: dict[str, Tally] = {}
    regimes: dict[str, int] = {}
    years: tuple[int, ...] = ()
    best: tuple[Notable, ...] = ()
    worst: tuple[Notable, ...] = ()

    @property
    def span_days(self) -> int:
        """Calendar days from the first to the last day something ended, both included; quiet days between count."""
        if self.first_day is None or self.last_day is None:
            return 0
        return self.last_day - self.first_day + 1


EMPTY = Aggregate()


def merged(earlier: Aggregate, later: Aggregate) -> Aggregate:
    """Two spans as one; every day of the first lies before every day of the second."""
    return Aggregate(
        trades=earlier.trades + later.trades,
        wins=earlier.wins + later.wins,
        net_usd_e6=earlier.net_usd_e6 + later.net_usd_e6,
        gross_usd_e6=earlier.gross_usd_e6 + later.gross_usd_e6,
        fees_usd_e6=earlier.fees_usd_e6 + later.fees_usd_e6,
        funding_usd_e6=earlier.funding_usd_e6 + later.funding_usd_e6,
        entered_usd_e6=earlier.entered_usd_e6 + later.entered_usd_e6,
        notional_ms=earlier.notional_ms + later.notional_ms,
        ledger_usd_e6=_sum_of_known(earlier.ledger_usd_e6, later.ledger_usd_e6),
        first_day=later.first_day if earlier.first_day is None else earlier.first_day,
        last_day=earlier.last_day if later.last_day is None else later.last_day,
        daily=earlier.daily + later.daily,
        confidence_e4=earlier.confidence_e4 + later.confidence_e4,
        path=joined(earlier.path, later.path),
        symbols=_tallies(earlier.symbols, later.symbols),
        strategies=_tallies(earlier.strategies, later.strategies),
        regimes=_counts(earlier.regimes, later.regimes),
        years=tuple(sorted({*earlier.years, *later.years})),
        best=best_of(earlier.best + later.best),
        worst=worst_of(earlier.worst + later.worst),
    )


def fold(parts: Iterable[Aggregate]) -> Aggregate:
    """Spans in the order of time as one."""
    whole = EMPTY
    for part in parts:
        whole = merged(whole, part)
    return whole


def best_of(trades: Iterable[Notable]) -> tuple[Notable, ...]:
    """The trades that won most; of equals, the earlier."""
    won = (trade for trade in trades if trade.net_usd_e6 > 0)
    return tuple(sorted(won, key=lambda trade: (-trade.net_usd_e6, trade.exited_at, trade.trade_id))[:MOST_BEST])


def worst_of(trades: Iterable[Notable]) -> tuple[Notable, ...]:
    """The trades that lost most; of equals, the earlier."""
    lost = (trade for trade in trades if trade.net_usd_e6 < 0)
    return tuple(sorted(lost, key=lambda trade: (trade.net_usd_e6, trade.exited_at, trade.trade_id))[:MOST_WORST])


def _sum_of_known(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def _counts(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one | other}


def _tallies(one: dict[str, Tally], other: dict[str, Tally]) -> dict[str, Tally]:
    return {name: one.get(name, Tally()) + other.get(name, Tally()) for name in one | other}
