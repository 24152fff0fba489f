"""What a packet shows of one symbol, read as of a moment: the same for every agent that wants the same bars."""

from functools import lru_cache
from typing import Any

import msgspec

from tapebook.context import CURRENT, Feature, Market, PacketVersion
from tapebook.context.sections.market import shown_line
from tapebook.domain.instants import DAY
from tapebook.domain.market import AssetContext, Candle, FeatureRow, Liquidity, SettledFunding
from tapebook.domain.memo import Memo
from tapebook.errors import Damaged
from tapebook.tape import features as tape_features
from tapebook.tape.derived import HistoryFeatures
from tapebook.tape.features import Regimes, liquidity_profile, settled_pressure, to_metrics
from tapebook.tape.finality import BarsSeen, finished_bars
from tapebook.tape.store import Tape, View

FAMILIES = {"fundingPressure": "pressure", "volatilityProfile": "volatility", "positioningPressure": "positioning"}


STORED_FOR_MS = DAY
"""A stored feature or context older than this tells of nothing a decision still sees: then bars and rates speak."""


def read_market(
    tape: Tape, symbol: str, *, minutes: int, count: int, view: View, version: PacketVersion = CURRENT
) -> Market:
    """Bars, price and regime: what no decision does without."""
    if version.complete_bars:
        seen = finished_bars(tape, symbol, minutes=minutes, count=count, view=view)
    else:
        seen = BarsSeen(tape.bars(symbol, minutes=minutes, count=count, view=view))
    return Market(
        symbol=symbol,
        as_of=view.as_of,
        bar_minutes=minutes,
        bars=seen.bars,
        mid=tape.last_price(symbol, view=view),
        unfinished=seen.unfinished,
        regime=_regimes(symbol, minutes, count)(seen.bars) if version.scaled_regimes else None,
    )


def with_features(tape: Tape, market: Market, *, view: View, version: PacketVersion = CURRENT) -> Market:
    """The market with its book, its funding and the features of its symbol.

    Features are those that were stored as the market was observed. Where none were, as in imported history, they are
    derived from the bars and rates there are.
    """
    symbol = market.symbol
    if tape.has_prices_alone(symbol):
        return _with_history(tape, market, view=view) if version.derived_features else market
    books = tape.facts(Liquidity, symbol, since=view.as_of - DAY, view=view)
    profile = liquidity_profile(books, as_of=view.as_of) if books else None
    features = [_feature("liquidityProfile", books[-1].bucket_ts, to_metrics(profile))] if profile else []
    rows = {name: tape.feature(family, symbol, view=view) for name, family in FAMILIES.items()}
    for name, row in rows.items():
        if row is not None:
            features.append(_feature(name, row.bucket_ts, _metrics(row.metrics_json, symbol)))
    found = msgspec.structs.replace(
        market,
        liquidity=books[-1] if books else tape.newest(Liquidity, symbol, view=view),
        context=tape.newest(AssetContext, symbol, view=view),
        features=tuple(features),
    )
    stored = [found.context, *rows.values()]
    if not version.derived_features or any(_speaks(each, view) for each in stored):
        return found
    return _with_history(tape, found, view=view)


def _speaks(stored: FeatureRow | AssetContext | None, view: View) -> bool:
    return stored is not None and view.as_of - stored.bucket_ts <= STORED_FOR_MS


def _with_history(tape: Tape, market: Market, *, view: View) -> Market:
    """The market with what its bars and settled rates say; a profile of books that were stored stays."""
    derived = tape.history_features(market.symbol, view=view)
    found = _history_shown(market.symbol)(derived)
    if not found:
        return market
    if market.features:
        found = (*(feature for feature in market.features if feature.name == "liquidityProfile"), *found)
    settled = derived.settled
    context = market.context if settled is None else None
    return msgspec.structs.replace(market, context=context, settled=settled, features=found)


# Both are caches of the last value asked for, by what is compared; a symbol and a kind of window have one each.
@lru_cache(maxsize=256)
def _regimes(_symbol: str, _minutes: int, _count: int) -> Memo[tuple[Candle, ...], str | None]:
    """What tags the windows of one kind, which follow one another."""
    return Memo(Regimes())


@lru_cache(maxsize=256)
def _history_shown(_symbol: str) -> Memo[HistoryFeatures, tuple[Feature, ...]]:
    """What writes down the features of history: those of a boundary are the same for every tick until the next."""
    funding = Memo(_funding_line)

    def shown(derived: HistoryFeatures) -> tuple[Feature, ...]:
        at, volatility, positioning = derived.bucket_ts, derived.volatility, derived.positioning
        found = []
        if derived.settled is not None:
            found.append(Feature("fundingPressure", at, (), funding(derived.settled)))
        if volatility is not None:
            line = volatility if isinstance(volatility, str) else _line("volatilityProfile", volatility)
            found.append(Feature("volatilityProfile", at, (), line))
        if positioning is not None:
            line = positioning if isinstance(positioning, str) else _line("positioningPressure", positioning)
            found.append(Feature("positioningPressure", at, (), line))
        return tuple(found)

    return Memo(shown)


def _funding_line(settled: SettledFunding) -> str:
    """What a settled rate says, which stays the same for as long as it is the newest."""
    return _line("fundingPressure", settled_pressure(settled, as_of=settled.bucket_ts))


def _line(name: str, found: tape_features.Feature) -> str:
    """Those figures of a feature that a packet shows."""
    return shown_line(_feature(name, 0, to_metrics(found)))


def _metrics(text: str, symbol: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Damaged(f"a feature of {symbol} is not readable ({error}); restore tape.db from a backup") from error


def _feature(name: str, bucket_ts: int, metrics: dict[str, Any]) -> Feature:
    known = sorted((key, str(value)) for key, value in metrics.items() if value is not None)
    return Feature(name, bucket_ts, tuple(known))
