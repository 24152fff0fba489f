"""How much of the market an agent had on average: what its positions cost, weighted with how long they were held."""

from collections.abc import Iterable

from tapebook.lab.chronicle import BookedFill

_E16_PER_USD = 10**16


def average_exposures(fills: Iterable[BookedFill], *, start: int, end: int) -> dict[str, float]:
    """The time-weighted average exposure of each symbol between two moments, in USD; negative for a short.

    A position counts at what it cost (its size at its average entry price), and no time in which nothing is held is
    left out: half of the time 1,000 long is 500, and as long 1,000 short beside it is nothing.
    """
    found: dict[str, float] = {}
    for symbol, steps in _by_symbol(fills).items():
        ends = [at for at, _ in steps[1:]] + [end]
        held = [
            cost * max(0, min(until, end) - max(at, start)) for (at, cost), until in zip(steps, ends, strict=True)
        ]
        found[symbol] = sum(held) / (end - start)
    return {symbol: found[symbol] for symbol in sorted(found)}


def _by_symbol(fills: Iterable[BookedFill]) -> dict[str, list[tuple[int, float]]]:
    """For each symbol what its position costs in USD, with its sign, from each fill on."""
    sizes: dict[str, int] = {}
    costs: dict[str, float] = {}
    steps: dict[str, list[tuple[int, float]]] = {}
    for fill in fills:
        before, price = sizes.get(fill.symbol, 0), fill.price_e8 / _E16_PER_USD
        after = sizes[fill.symbol] = before + fill.signed_size_e8
        if before * after <= 0:
            cost = after * price
        elif abs(after) < abs(before):
            cost = costs[fill.symbol] * after / before
        else:
            cost = costs[fill.symbol] + fill.signed_size_e8 * price
        costs[fill.symbol] = cost
        steps.setdefault(fill.symbol, []).append((fill.at, cost))
    return steps
