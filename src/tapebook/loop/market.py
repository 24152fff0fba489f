"""What a packet shows of one symbol, read as of a moment: the same for every agent that wants the same bars."""

from typing import Any

import msgspec

from tapebook.context import CURRENT, Feature, Market, PacketVersion
from tapebook.domain.instants import DAY
from tapebook.domain.market import AssetContext, Liquidity
from tapebook.errors import Damaged
from tapebook.tape.features import liquidity_profile, to_metrics
from tapebook.tape.finality import BarsSeen, finished_bars
from tapebook.tape.store import Tape, View

FAMILIES = {"fundingPressure": "pressure", "volatilityProfile": "volatility", "positioningPressure": "positioning"}


def read_market(
    tape: Tape, symbol: str, *, minutes: int, count: int, view: View, version: PacketVersion = CURRENT
) -> Market:
    """Bars and price: what no decision does without."""
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
    )


def with_features(tape: Tape, market: Market, *, view: View, version: PacketVersion = CURRENT) -> Market:
    """The market with its book, its funding and the features of its symbol."""
    symbol = market.symbol
    if tape.has_prices_alone(symbol):
        return market
    books = tape.facts(Liquidity, symbol, since=view.as_of - DAY, view=view)
    profile = liquidity_profile(books, as_of=view.as_of) if books else None
    features = [_feature("liquidityProfile", books[-1].bucket_ts, to_metrics(profile))] if profile else []
    for name, family in FAMILIES.items():
        row = tape.feature(family, symbol, view=view)
        if row is not None:
            features.append(_feature(name, row.bucket_ts, _metrics(row.metrics_json, symbol)))
    return msgspec.structs.replace(
        market,
        liquidity=books[-1] if books else tape.newest(Liquidity, symbol, view=view),
        context=tape.newest(AssetContext, symbol, view=view),
        features=tuple(features),
    )


def _metrics(text: str, symbol: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Damaged(f"a feature of {symbol} is not readable ({error}); restore tape.db from a backup") from error


def _feature(name: str, bucket_ts: int, metrics: dict[str, Any]) -> Feature:
    known = sorted((key, str(value)) for key, value in metrics.items() if value is not None)
    return Feature(name, bucket_ts, tuple(known))
