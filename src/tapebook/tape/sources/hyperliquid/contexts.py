"""Contexts and funding: answers as facts. Pure.

A context has no time of its own: its bucket is the minute it was asked for. Delisted perps keep
coming with frozen prices: only live ones have contexts, and of the others that price is the one
they were settled at. Each venue's predicted rate belongs to that venue's own interval, and an
interval that is not named stays unknown.
"""

from collections.abc import Callable, Container, Iterable
from typing import TypeVar

from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.domain.market import AssetContext, Delisting, FundingRate, PredictedFunding
from tapebook.domain.money import E12, scaled
from tapebook.tape.sources.hyperliquid.answers import (
    ContextRow,
    FundingRow,
    Perps,
    PredictedRow,
    VenueRow,
)
from tapebook.tape.sources.hyperliquid.universe import dex_of, full_name
from tapebook.tape.sources.hyperliquid.wire import Malformed, malformed, price_e8

Fact = TypeVar("Fact")
Source = TypeVar("Source")

# 1,000 times what is owed: no rate is that high, and larger numbers would not fit where rates are kept.
_MOST_E12 = 1_000 * E12
# Clocks differ a little.
_MOST_AHEAD = MINUTE


def contexts_of(
    answer: Perps, *, dex: str, watched: Container[str], bucket_ts: int
) -> tuple[list[AssetContext], list[Malformed]]:
    """The contexts of the watched perps."""
    pairs = [
        (full_name(dex, perp.name), row)
        for perp, row in zip(answer.universe, answer.contexts, strict=True)
        if perp is not None and row is not None and full_name(dex, perp.name) in watched
    ]
    return _each(pairs, lambda pair: _context(*pair, bucket_ts=bucket_ts), name=lambda pair: pair[0])


def delistings_of(answer: Perps, *, dex: str, bucket_ts: int) -> list[Delisting]:
    """Of every perp whether it is listed; one without a readable price says nothing."""
    facts = []
    for perp, row in zip(answer.universe, answer.contexts, strict=True):
        if perp is not None and row is not None:
            price = _settlement(row) if perp.is_delisted else None
            if price is not None or not perp.is_delisted:
                facts.append(Delisting(full_name(dex, perp.name), bucket_ts, price))
    return facts


def _settlement(row: ContextRow) -> int | None:
    try:
        return price_e8(row.mark_px)
    except ValueError:
        return None


def _context(symbol: str, row: ContextRow, *, bucket_ts: int) -> AssetContext:
    interest = float(row.open_interest)
    if not 0 <= interest < float("inf"):
        raise ValueError(f"{row.open_interest!r} is no open interest")
    return AssetContext(
        symbol=symbol,
        bucket_ts=bucket_ts,
        funding_e12=_rate(row.funding),
        # Without impact prices there is nothing above or below the oracle to pay for.
        premium_e12=_rate(row.premium or "0"),
        open_interest_base=interest,
        mark_e8=price_e8(row.mark_px),
        oracle_e8=price_e8(row.oracle_px),
    )


def predicted_of(
    rows: Iterable[PredictedRow], *, watched: Container[str], bucket_ts: int
) -> tuple[list[PredictedFunding], list[Malformed]]:
    """What each venue will charge next for the watched perps; a venue without the coin says nothing."""
    named = [(coin, venue, row) for coin, venues in rows if coin in watched for venue, row in venues]
    listed = [one for one in named if one[2] is not None]
    return _each(listed, lambda one: _predicted(*one, bucket_ts=bucket_ts), name=lambda one: f"{one[0]} {one[1]}")


def _predicted(symbol: str, venue: str, row: VenueRow | None, *, bucket_ts: int) -> PredictedFunding:
    if row is None:
        raise ValueError(f"{venue} does not list {symbol}")
    rate = _rate(row.funding_rate)
    return PredictedFunding(symbol, bucket_ts, venue, rate, row.funding_interval_hours, row.next_funding_time)


def funding_of(symbol: str, rows: Iterable[FundingRow], *, until: int) -> tuple[list[FundingRate], list[Malformed]]:
    """Settled rates, each at its hour, in order; none is settled after `until`."""
    rates, problems = _each(rows, lambda row: _funding(symbol, row, until=until), name=lambda row: symbol)
    return sorted(rates, key=lambda rate: rate.bucket_ts), problems


def _funding(symbol: str, row: FundingRow, *, until: int) -> FundingRate:
    if full_name(dex_of(symbol), row.coin) != symbol:
        raise ValueError(f"asked for {symbol}, answered with {row.coin}")
    if row.time > until + _MOST_AHEAD:
        # It would pass for the newest one, and all that follow for known.
        raise ValueError(f"settled at {row.time}, which is yet to come")
    return FundingRate(symbol, floor(row.time, HOUR), _rate(row.funding_rate), _rate(row.premium or "0"))


def _rate(text: str) -> int:
    rate = scaled(text, E12)
    if abs(rate) > _MOST_E12:
        raise ValueError(f"{text!r} is no rate")
    return rate


def _each(
    sources: Iterable[Source], convert: Callable[[Source], Fact], *, name: Callable[[Source], str]
) -> tuple[list[Fact], list[Malformed]]:
    """Every one that converts, and a value for every one that does not."""
    facts: list[Fact] = []
    problems = []
    for source in sources:
        try:
            facts.append(convert(source))
        except ValueError as error:
            problems.append(malformed("number", error, str(source), subject=name(source)))
    return facts, problems
