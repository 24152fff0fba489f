"""What a span of days amounts to, in integers that merge: any period is the merge of the leaves of its days.

`merged` is associative and has the empty aggregate as its identity, so days may be grouped in any way as long as
they stay in order. Its arguments are of different days: squares are of daily sums.
"""

from collections.abc import Iterable
from functools import reduce
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
    return fold((earlier, later))


def fold(parts: Iterable[Aggregate]) -> Aggregate:
    """Spans in the order of time as one."""
    spans = list(parts)
    if len(spans) == 1:
        return spans[0]
    booked = [each.ledger_usd_e6 for each in spans if each.ledger_usd_e6 is not None]
    firsts = [each.first_day for each in spans if each.first_day is not None]
    lasts = [each.last_day for each in spans if each.last_day is not None]
    return Aggregate(
        trades=sum(each.trades for each in spans),
        wins=sum(each.wins for each in spans),
        net_usd_e6=sum(each.net_usd_e6 for each in spans),
        gross_usd_e6=sum(each.gross_usd_e6 for each in spans),
        fees_usd_e6=sum(each.fees_usd_e6 for each in spans),
        funding_usd_e6=sum(each.funding_usd_e6 for each in spans),
        entered_usd_e6=sum(each.entered_usd_e6 for each in spans),
        notional_ms=sum(each.notional_ms for each in spans),
        ledger_usd_e6=sum(booked) if booked else None,
        first_day=firsts[0] if firsts else None,
        last_day=lasts[-1] if lasts else None,
        daily=_summed(each.daily for each in spans),
        confidence_e4=_summed(each.confidence_e4 for each in spans),
        path=reduce(joined, (each.path for each in spans), Path()),
        symbols=_tallies(each.symbols for each in spans),
        strategies=_tallies(each.strategies for each in spans),
        regimes=_counts(each.regimes for each in spans),
        years=tuple(sorted({year for each in spans for year in each.years})),
        best=best_of(trade for each in spans for trade in each.best),
        worst=worst_of(trade for each in spans for trade in each.worst),
    )


def _summed(values: Iterable[Sums]) -> Sums:
    n = total = square = 0
    for each in values:
        n, total, square = n + each.n, total + each.total, square + each.square
    return Sums(n, total, square)


def best_of(trades: Iterable[Notable]) -> tuple[Notable, ...]:
    """The trades that won most; of equals, the earlier."""
    won = (trade for trade in trades if trade.net_usd_e6 > 0)
    return tuple(sorted(won, key=lambda trade: (-trade.net_usd_e6, trade.exited_at, trade.trade_id))[:MOST_BEST])


def worst_of(trades: Iterable[Notable]) -> tuple[Notable, ...]:
    """The trades that lost most; of equals, the earlier."""
    lost = (trade for trade in trades if trade.net_usd_e6 < 0)
    return tuple(sorted(lost, key=lambda trade: (trade.net_usd_e6, trade.exited_at, trade.trade_id))[:MOST_WORST])


def _counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _tallies(parts: Iterable[dict[str, Tally]]) -> dict[str, Tally]:
    found: dict[str, list[Tally]] = {}
    for part in parts:
        for name, one in part.items():
            found.setdefault(name, []).append(one)
    return {name: ones[0] if len(ones) == 1 else _tally(ones) for name, ones in found.items()}


def _tally(ones: list[Tally]) -> Tally:
    columns = zip(*map(msgspec.structs.astuple, ones), strict=True)
    return Tally(*map(sum, columns))
