"""The market of a symbol now: its price and the features from their rows, with how old each is."""

from typing import Any, TypedDict, cast

import msgspec

from tapebook.domain.instants import DAY, HOUR, iso_text
from tapebook.domain.market import FeatureRow, Gap, Liquidity
from tapebook.domain.money import E8
from tapebook.tape.bars import finished_bars
from tapebook.tape.features import liquidity_profile, regime_of, to_metrics
from tapebook.tape.store import Tape
from tapebook.tape.view import RecordedGap, View

STALE_AFTER_MS = {"mids": 60_000, "books": 15 * 60_000, "features": 15 * 60_000}
"""Three missed deliveries: older than this, a reader is told that the value is stale."""

REGIME_BAR_MINUTES, REGIME_BARS = 5, 100
"""The window a regime is told of; an agent's packet has that of its own bars."""


class PriceView(TypedDict):
    """A price, and how old it is."""

    price: float
    at: str
    ageSeconds: int
    stale: bool


class RegimeView(TypedDict):
    """The tag of the market's regime, and the bars it was made of."""

    tag: str
    bars: int
    barMinutes: int


# The keys of what is missing are words of Python.
GapView = TypedDict("GapView", {"channel": str, "from": str, "to": str, "filled": bool})


class MarketView(TypedDict):
    """The market of one symbol; the figures of a feature are decimal text, and null where they are not known."""

    symbol: str
    asOf: str
    midPrice: PriceView | None
    regime: RegimeView | None
    liquidityProfile: dict[str, Any] | None
    fundingPressure: dict[str, Any] | None
    volatilityProfile: dict[str, Any] | None
    positioningPressure: dict[str, Any] | None
    gaps: list[GapView]


def market_view(tape: Tape, symbol: str, *, view: View) -> MarketView:
    """The market of one symbol as a mapping; what is not known is null, what is old says so."""
    mid = tape.last_price(symbol, view=view)
    price = None if mid is None else {"price": mid.price_e8 / E8, **_age_view(mid.bucket_ts, view, "mids")}
    return {
        "symbol": symbol,
        "asOf": iso_text(view.as_of),
        "midPrice": cast(PriceView | None, price),
        "regime": _regime_view(tape, symbol, view),
        "liquidityProfile": _liquidity_view(tape, symbol, view),
        "fundingPressure": _feature_view(tape, symbol, view, family="pressure"),
        "volatilityProfile": _feature_view(tape, symbol, view, family="volatility"),
        "positioningPressure": _feature_view(tape, symbol, view, family="positioning"),
        "gaps": [_gap_view(each, view) for each in tape.gaps(as_of=view.as_of) if _concerns(each.gap, symbol, view)],
    }


def _feature_view(tape: Tape, symbol: str, view: View, *, family: str) -> dict[str, Any] | None:
    row = tape.feature(family, symbol, view=view)
    return None if row is None else _metrics(row) | _age_view(row.bucket_ts, view, "features")


def _regime_view(tape: Tape, symbol: str, view: View) -> RegimeView | None:
    """The tag of the window it was made for; None without bars, `unknown` with too few."""
    bars = finished_bars(tape, symbol, minutes=REGIME_BAR_MINUTES, count=REGIME_BARS, view=view).bars
    tag = regime_of(bars) if bars else None
    return None if tag is None else {"tag": tag, "bars": len(bars), "barMinutes": REGIME_BAR_MINUTES}


def _metrics(row: FeatureRow) -> dict[str, Any]:
    return msgspec.json.decode(row.metrics_json, type=dict[str, Any])


def _concerns(gap: Gap, symbol: str, view: View) -> bool:
    """Whether a gap is about the symbol and not long gone."""
    return gap.subject in ("*", symbol) and gap.to_ts > view.as_of - HOUR


def _gap_view(recorded: RecordedGap, view: View) -> GapView:
    gap = recorded.gap
    # A gap that was filled later was open at the moment that is asked about.
    filled = recorded.filled_at is not None and recorded.filled_at <= view.as_of
    return {"channel": gap.channel, "from": iso_text(gap.from_ts), "to": iso_text(gap.to_ts), "filled": filled}


def _liquidity_view(tape: Tape, symbol: str, view: View) -> dict[str, Any] | None:
    books = tape.facts(Liquidity, symbol, since=view.as_of - DAY, view=view)
    profile = liquidity_profile(books, as_of=view.as_of)
    return None if profile is None else to_metrics(profile) | _age_view(books[-1].bucket_ts, view, "books")


def _age_view(bucket_ts: int, view: View, kind: str) -> dict[str, Any]:
    age = view.as_of - bucket_ts
    return {"at": iso_text(bucket_ts), "ageSeconds": age // 1000, "stale": age > STALE_AFTER_MS[kind]}
