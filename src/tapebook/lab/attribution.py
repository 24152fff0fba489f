"""Luck and skill apart: where the result of some trades came from, in parts that sum to it exactly.

    market    what their exposure would have earned at the even pace of the market over the whole stretch
    sizing    what came of having more on some trades than on others, beyond that pace
    timing    the rest of the gross result: being in at these moments and not at others, at the usual size
    fees, funding    as they were booked; fees are negative

With N for a trade's notional, s for its side, h for how long it was held, g for its gross result and d for the
pace of its symbol, one trade has market = s N h d and an excess x = g / N - s h d; sizing is the sum of (N - mean N) x.
"""

import math
from collections.abc import Mapping, Sequence

from tapebook.domain.trade import ClosedTrade
from tapebook.lab.result import Parts

Prices = tuple[int | None, int | None]


def paces(trades: Sequence[ClosedTrade], prices: Mapping[str, Prices], *, start: int, end: int) -> dict[str, float]:
    """Each symbol's return per millisecond from its prices at the start and the end of a stretch.

    A symbol that had no price at the start begins with the mark at which it was entered first.
    """
    found = {}
    for trade in sorted(trades, key=lambda each: -each.state.entry_tick_at):
        symbol, entered_at = trade.state.symbol, trade.state.entry_tick_at
        first, last = prices.get(symbol, (None, None))
        since, begun = (start, first) if first else (entered_at, trade.state.entry_mark_e8)
        if begun and last and end > since:
            found[symbol] = (last / begun - 1) / (end - since)
    return found


def attribution(trades: Sequence[ClosedTrade], paces: Mapping[str, float]) -> Parts:
    """The parts of some trades' net result; `paces` is each symbol's return per millisecond."""
    sizes = [trade.state.entry_notional_usd_e6 for trade in trades]
    usual = math.fsum(sizes) / len(sizes) if sizes else 0.0
    market, sizing = [], []
    for trade, size in zip(trades, sizes, strict=True):
        side = 1 if trade.state.side == "long" else -1
        expected = side * trade.holding_ms * paces.get(trade.state.symbol, 0.0)
        market.append(size * expected)
        excess = trade.state.realised_usd_e6 / size - expected if size else 0.0
        sizing.append((size - usual) * excess)
    moved, sized = round(math.fsum(market)), round(math.fsum(sizing))
    return Parts(
        market_usd_e6=moved,
        timing_usd_e6=sum(trade.state.realised_usd_e6 for trade in trades) - moved - sized,
        sizing_usd_e6=sized,
        fees_usd_e6=-sum(trade.state.fees_usd_e6 for trade in trades),
        funding_usd_e6=sum(trade.state.funding_usd_e6 for trade in trades),
    )
