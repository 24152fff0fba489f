"""The market of a symbol now: its price and the features from their rows, with how old each is."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypedDict, cast

import msgspec

from tapebook.domain.agent import OWN_SUBSCRIPTIONS, Horizon, Subscriptions
from tapebook.domain.market import TRADED_KINDS, FeatureRow, Gap, Liquidity
from tapebook.domain.text import short_line
from tapebook.domain.units import DAY, E8, HOUR, iso_text
from tapebook.tape.bars import finished_bars, regime_of
from tapebook.tape.features import liquidity_profile, to_metrics
from tapebook.tape.registry import SUBJECT_STALE_AFTER_MS, SubjectRow, macro_rows, prediction_rows
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


_FEATURES = {"fundingPressure": "pressure", "volatilityProfile": "volatility", "positioningPressure": "positioning"}


class RegimeView(TypedDict):
    """The tag of the market's regime, and the bars it was made of."""

    tag: str
    bars: int
    barMinutes: int


# The keys of what is missing are words of Python.
GapView = TypedDict("GapView", {"channel": str, "from": str, "to": str, "filled": bool})


class MarketView(TypedDict, total=False):
    """The market of one symbol; the figures of a feature are decimal text, and null where they are not known.

    Of a subject that is not traded there are its kind and its channels alone.
    """

    symbol: str
    kind: str | None
    asOf: str
    midPrice: PriceView | None
    regime: RegimeView | None
    liquidityProfile: dict[str, Any] | None
    fundingPressure: dict[str, Any] | None
    volatilityProfile: dict[str, Any] | None
    positioningPressure: dict[str, Any] | None
    channels: dict[str, dict[str, Any]]
    gaps: list[GapView]


def market_view(tape: Tape, symbol: str, *, view: View) -> MarketView:
    """The market of one symbol as a mapping; what is not known is null, what is old says so.

    Of a subject that is not traded there is what sources with tables of their own said last, by channel.
    """
    channels = {
        row.family: _metrics(row) | _time_view(row.bucket_ts, view) for row in tape.source_rows(symbol, view=view)
    }
    gaps = [_gap_view(each, view) for each in tape.gaps(as_of=view.as_of) if _concerns(each.gap, symbol, view)]
    kind = tape.kind_of(symbol)
    if kind not in TRADED_KINDS:
        return {"symbol": symbol, "kind": kind, "asOf": iso_text(view.as_of), "channels": channels, "gaps": gaps}
    blocks = _price_and_features(tape, symbol, view)
    found: dict[str, Any] = {"symbol": symbol, "asOf": iso_text(view.as_of), "midPrice": blocks.pop("midPrice")}
    shown = found | {"regime": _regime_view(tape, symbol, view)} | blocks
    return cast(MarketView, shown | ({"channels": channels} if channels else {}) | {"gaps": gaps})


def _price_and_features(tape: Tape, symbol: str, view: View) -> dict[str, Any]:
    """The price of a symbol and what is derived of its market, each with its age."""
    mid = tape.last_price(symbol, view=view)
    price = None if mid is None else {"price": mid.price_e8 / E8, **_age_view(mid.bucket_ts, view, "mids")}
    found: dict[str, Any] = {"midPrice": price, "liquidityProfile": _liquidity_view(tape, symbol, view)}
    for name, family in _FEATURES.items():
        row = tape.newest(family, symbol, view=view)
        found[name] = None if row is None else _metrics(row) | _age_view(row.bucket_ts, view, "features")
    return found


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
    # Of the moment of the newest book: a reader is told that it is stale, where a feature would leave it out.
    profile = liquidity_profile(books, as_of=books[-1].bucket_ts) if books else None
    return None if profile is None else to_metrics(profile) | _age_view(books[-1].bucket_ts, view, "books")


def _age_view(bucket_ts: int, view: View, kind: str) -> dict[str, Any]:
    return _time_view(bucket_ts, view) | {"stale": view.as_of - bucket_ts > STALE_AFTER_MS[kind]}


def _time_view(bucket_ts: int, view: View) -> dict[str, Any]:
    return {"at": iso_text(bucket_ts), "ageSeconds": (view.as_of - bucket_ts) // 1000}


HORIZON_SPANS: dict[Horizon, tuple[int, int]] = {
    "scalp": (HOUR, 1),
    "intraday": (DAY, 3),
    "swing": (7 * DAY, 5),
    "position": (30 * DAY, 8),
}
"""How far back a horizon looks at rows of capital, and how many of each it takes."""

_AGES = ("at", "ageSeconds", "stale")
MarketSource = Literal["hyperliquid", "polymarket", "defillama"]
_OWN_BLOCKS = {
    "liquidityProfile": "liquidity",
    "fundingPressure": "funding",
    "volatilityProfile": "volatility",
    "positioningPressure": "positioning",
}


class AssetContextView(TypedDict, total=False):
    """What is known of one asset; each block has its age and whether it is stale, and is null where nothing is known.

    Blocks of sources that were not asked for are left out.
    """

    midPrice: PriceView | None
    liquidity: dict[str, Any] | None
    funding: dict[str, Any] | None
    volatility: dict[str, Any] | None
    positioning: dict[str, Any] | None
    predictionMarkets: dict[str, Any] | None
    macro: dict[str, Any] | None


def asset_context_view(
    tape: Tape,
    symbol: str,
    *,
    view: View,
    horizon: Horizon,
    sources: Collection[str],
    subscriptions: Subscriptions = OWN_SUBSCRIPTIONS,
) -> AssetContextView:
    """The compact context of one asset: its own market, what prediction markets expect, and the capital around it.

    Of what is global it has the asset's own, or what is subscribed to.
    """
    found: dict[str, Any] = {}
    if "hyperliquid" in sources:
        own = _price_and_features(tape, symbol, view)
        found["midPrice"] = own["midPrice"]
        found |= {block: own[name] for name, block in _OWN_BLOCKS.items()}
    if "polymarket" in sources:
        found["predictionMarkets"] = _predictions(tape, symbol, view, horizon, chosen=subscriptions.predictions)
    if "defillama" in sources:
        found["macro"] = _macro_block(tape, symbol, view, horizon, chosen=subscriptions.macro)
    return cast(AssetContextView, found)


def _predictions(
    tape: Tape, symbol: str, view: View, horizon: Horizon, *, chosen: Sequence[str]
) -> dict[str, Any] | None:
    """The block of an asset, with those of other assets that are subscribed to beside it, by symbol."""
    rows = prediction_rows(tape, symbol, view=view, chosen=chosen)
    known = {each: _prediction_block(by_channel, view, horizon) for each, by_channel in rows.items()}
    own = known.pop(symbol, None)
    if not known:
        return own
    # Of several blocks the newest says how old all of it is, as in each of them.
    at = max(each["at"] for each in [*known.values(), *filter(None, [own])])
    ages = own or next({name: each[name] for name in _AGES} for each in known.values() if each["at"] == at)
    return ages | {"subscribed": known}


def _prediction_block(rows: Mapping[str, SubjectRow], view: View, horizon: Horizon) -> dict[str, Any]:
    """The summaries of an asset's prediction markets; titles are text of others, without what is not seen."""
    # A decision of minutes has no use for what ends in months.
    wanted = {"immediate": "immediate_markets", "recentlyClosed": "recently_closed_markets"}
    if horizon in ("swing", "position"):
        wanted["later"] = "later_markets"
    blocks = {name: _visible_titles(rows[channel].metrics) for name, channel in wanted.items() if channel in rows}
    now = rows.get("immediate_markets")
    newest = max(row.bucket_ts for row in rows.values())
    lead = {
        "immediateBias": now and now.metrics.get("bias"),
        "probabilityShift1h": now and now.metrics.get("probabilityShift1h"),
    }
    return lead | blocks | _context_age(newest, view)


def _visible_titles(metrics: dict[str, Any]) -> dict[str, Any]:
    # Outcomes are as much the words of others as titles are.
    return {**metrics, "top": [_visible_texts(row, 200) for row in metrics.get("top", ())]}


def _macro_block(
    tape: Tape, symbol: str, view: View, horizon: Horizon, *, chosen: Sequence[str]
) -> dict[str, Any] | None:
    span, most = HORIZON_SPANS[horizon]
    rows = macro_rows(tape, symbol, view=view, since=view.as_of - span, most=most, chosen=chosen)
    if not rows:
        return None
    flows = next((row.metrics for row in rows if row.channel == "capital_flows"), {})
    lead = {name: flows.get(name) for name in ("stablecoinFlow24hUsd", "chainFlowBias")}
    told = [
        {"channel": row.channel, "subject": row.subject, **_visible_texts(row.metrics, 80)}
        | _context_age(row.bucket_ts, view)
        for row in rows
    ]
    return lead | {"rows": told} | _context_age(max(row.bucket_ts for row in rows), view)


def _visible_texts(row: dict[str, Any], most: int) -> dict[str, Any]:
    return {name: short_line(value, most) if isinstance(value, str) else value for name, value in row.items()}


def _context_age(bucket_ts: int, view: View) -> dict[str, Any]:
    return _time_view(bucket_ts, view) | {"stale": view.as_of - bucket_ts > SUBJECT_STALE_AFTER_MS}
