"""What prediction markets say of assets: links, the state of a market, and summaries by asset. Pure.

A market is linked to an asset by a tag of its event (`bitcoin`), or by a whole word of its titles that the registry
allows to search for. A price near one is no outcome: a market is `open`, then `pending` while a proposed outcome may be
disputed, `disputed` while it is, and `final` once it is closed.

A summary has the markets of one asset that end soon (`immediate`), later (`later`), or were closed in the last days
(`closed`), those with the most money of the last day first. Its bias is the mean of what its directional markets
expect, +1 where the price is sure to rise above what is asked and -1 where it is sure to fall below it. A market weighs
as much as was traded in it and as it is undecided: one that asks what everybody knows says nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec

from tapebook.domain.units import DAY, iso_text
from tapebook.sources.polymarket.wire import (
    OrderBookTop,
    PredictionEvent,
    PredictionMarket,
    affirmative_place,
    decimal_text,
    probability,
)

MarketState = Literal["open", "pending", "disputed", "final"]
SummaryKind = Literal["immediate", "later", "closed"]

TAG_ASSETS = {
    **{"bitcoin": "BTC", "ethereum": "ETH", "solana": "SOL", "xrp": "XRP"},
    **{"dogecoin": "DOGE", "bnb": "BNB", "hype": "HYPE", "hyperliquid": "HYPE"},
}
"""Tags that name an asset beyond doubt."""

# Markets that are decided within minutes are thousands a day, and say nothing of where a price goes.
_SHORT_SERIES = re.compile(r"-(5|15)m\Z")
_SHORT_TAGS = frozenset(("5m", "15m"))
_RISES = re.compile(r"\b(above|over|reach|reaches|hit|hits|higher|exceed|exceeds|all time high|ath|greater than|up)\b")
_FALLS = re.compile(r"\b(below|under|dip|dips|fall|falls|drop|drops|lower|crash|less than|down to)\b")
_BIAS_LIMIT = Decimal("0.15")
_WORD = re.compile(r"[^a-z0-9.+/&]+")
# Beyond this much a market is decided in all but name.
_WEIGHT_FLOOR = Decimal("0.01")


class LinkedMarket(msgspec.Struct, frozen=True):
    """A market with its event and the assets it is about."""

    market: PredictionMarket
    event: PredictionEvent
    assets: tuple[str, ...]
    by: str


class AssetMatcher:
    """Finds the assets that titles name, by the terms of the registry."""

    def __init__(self, terms: Mapping[str, Sequence[str]]) -> None:
        self._symbols = {f" {_plain(term)} ": symbol for symbol, words in sorted(terms.items()) for term in words}
        # Longer terms first: `bitcoin cash` is not bitcoin.
        self._terms = sorted(self._symbols, key=lambda term: (-len(term), term))

    def link(self, event: PredictionEvent, market: PredictionMarket) -> LinkedMarket | None:
        """The market with its assets; None when it is about none that is known."""
        tagged = tuple(dict.fromkeys(TAG_ASSETS[tag] for tag in event.tags if tag in TAG_ASSETS))
        if tagged:
            return LinkedMarket(market, event, tagged, "tag")
        # Words of two titles are never one term.
        text = " | ".join(f" {_plain(each)} " for each in (event.title, market.question, event.slug, market.slug))
        found: dict[str, None] = {}
        for term in self._terms:
            if term in text:
                found[self._symbols[term]] = None
                text = text.replace(term, " | ")
        return LinkedMarket(market, event, tuple(sorted(found)), "title") if found else None


def _plain(text: str) -> str:
    words = (word.strip(".") for word in _WORD.sub(" ", text.casefold()).split())
    return " ".join(word for word in words if word)


def is_short_lived(event: PredictionEvent) -> bool:
    """Whether an event is one of the series that are decided every few minutes."""
    return bool(_SHORT_SERIES.search(event.series) or _SHORT_TAGS & {tag.casefold() for tag in event.tags})


def market_state(market: PredictionMarket) -> MarketState:
    """How far a market is from its outcome; a price near one says nothing of it."""
    newest = market.resolutions[-1] if market.resolutions else ""
    if newest == "disputed":
        return "disputed"
    if market.closed:
        return "final"
    return "pending" if newest in ("proposed", "resolved") else "open"


def winning_outcome(market: PredictionMarket) -> str | None:
    """The outcome of a closed market: the one whose price is exactly one; None where none is, as in old markets."""
    if not market.closed:
        return None
    won = [outcome for place, outcome in enumerate(market.outcomes) if probability(market, place) == 1]
    return won[0] if len(won) == 1 else None


def direction(market: PredictionMarket) -> int:
    """+1 when Yes means a higher price, -1 when it means a lower one, 0 when the question is about something else."""
    question = _plain(market.question)
    if [outcome.casefold() for outcome in market.outcomes[:1]] in (["up"], ["down"]):
        return 1
    rises, falls = bool(_RISES.search(question)), bool(_FALLS.search(question))
    return int(rises) - int(falls)


def is_in_summary(kind: SummaryKind, linked: LinkedMarket, *, now: int, soon_ms: int, closed_ms: int) -> bool:
    """Whether a market belongs to a summary: by the time it was closed, else by its deadline."""
    market = linked.market
    if market.closed:
        # A deadline is no close: a market may be closed weeks before it.
        closed_at = market.closed_at
        return kind == "closed" and closed_at is not None and now - closed_ms <= closed_at <= now
    ends = market.ends_at if market.ends_at is not None else linked.event.ends_at
    if ends is None:
        return kind == "later"
    # An outcome may be disputed for days, a market that is open for longer behind its deadline is forgotten.
    is_current = ends > now - DAY or market_state(market) in ("pending", "disputed")
    return kind == ("immediate" if ends <= now + soon_ms else "later") and is_current


def with_history(linked: LinkedMarket, shifts: Mapping[str, tuple[float | None, float | None]]) -> LinkedMarket:
    """The market with the shifts of its price that the history of one of its tokens shows."""
    place = affirmative_place(linked.market) or 0
    token = linked.market.tokens[place] if place < len(linked.market.tokens) else ""
    if token not in shifts:
        return linked
    # Shifts are told of the first outcome.
    hour, day = (None if shift is None else (shift if place == 0 else -shift) for shift in shifts[token])
    market = linked.market
    known = {"shift_1h": market.shift_1h if hour is None else round(hour, 6)}
    known["shift_24h"] = market.shift_24h if day is None else round(day, 6)
    return msgspec.structs.replace(linked, market=msgspec.structs.replace(market, **known))


def most_traded(markets: Iterable[LinkedMarket], most: int) -> list[LinkedMarket]:
    """Those with the most money of the last day; of equal ones, that which ends first."""
    return sorted(markets, key=_by_volume)[:most]


def _by_volume(linked: LinkedMarket) -> tuple[float, int, str]:
    return -linked.market.volume_24h, linked.market.ends_at or 2**62, linked.market.id


def summary_metrics(
    kind: SummaryKind, markets: Sequence[LinkedMarket], *, books: Mapping[str, OrderBookTop], most: int
) -> dict[str, Any]:
    """The figures of one asset's markets, as canonical values: numbers are decimal text."""
    shown = most_traded(markets, most)
    lean, shift_1h, shift_24h, directional = _lean_and_shifts(markets)
    found: dict[str, Any] = {
        "markets": len(markets),
        "volume24hUsd": str(round(sum(each.market.volume_24h for each in markets))),
        "top": [_market_row(kind, each, books) for each in shown],
    }
    if kind != "closed":
        found |= {"directionalMarkets": directional, "bias": bias_word(lean), "biasScore": _four_digits(lean)}
        found |= {"probabilityShift1h": _four_digits(shift_1h), "probabilityShift24h": _four_digits(shift_24h)}
    return found


def bias_word(lean: Decimal | None) -> str | None:
    """What a bias is called; None without a directional market."""
    if lean is None:
        return None
    return "risk_on" if lean >= _BIAS_LIMIT else "risk_off" if lean <= -_BIAS_LIMIT else "neutral"


def _lean_and_shifts(
    markets: Iterable[LinkedMarket],
) -> tuple[Decimal | None, Decimal | None, Decimal | None, int]:
    """The bias, how it moved in an hour and in a day, and how many markets say so."""
    sums = [Decimal(0), Decimal(0), Decimal(0)]
    weights, count = Decimal(0), 0
    for linked in markets:
        market, sign, place = linked.market, direction(linked.market), affirmative_place(linked.market)
        yes = None if place is None else probability(market, place)
        if not sign or yes is None or market_state(market) != "open":
            continue
        weight = max(_WEIGHT_FLOOR, 4 * yes * (1 - yes)) * (1 + Decimal(round(market.volume_24h)))
        # Shifts are told of the first outcome, whichever says Yes.
        turn = sign if place == 0 else -sign
        sums[0] += weight * sign * (2 * yes - 1)
        for at, shift in ((1, market.shift_1h), (2, market.shift_24h)):
            sums[at] += weight * turn * Decimal(decimal_text(shift) or 0)
        weights, count = weights + weight, count + 1
    if not count:
        return None, None, None, 0
    return sums[0] / weights, sums[1] / weights, sums[2] / weights, count


def _market_row(kind: SummaryKind, linked: LinkedMarket, books: Mapping[str, OrderBookTop]) -> dict[str, Any]:
    market = linked.market
    place = affirmative_place(market)
    at = 0 if place is None else place
    price = probability(market, at)
    turn = 1 if at == 0 else -1
    row: dict[str, Any] = {
        "id": market.id,
        "question": market.question or linked.event.title,
        "outcome": market.outcomes[at] if at < len(market.outcomes) else None,
        "probability": _four_digits(price),
        "state": market_state(market),
        "endsAt": None if market.ends_at is None else iso_text(market.ends_at),
        "volume24hUsd": str(round(market.volume_24h)),
        "tick": market.tick or None,
    }
    if kind == "closed":
        closed = None if market.closed_at is None else iso_text(market.closed_at)
        return row | {"closedAt": closed, "won": winning_outcome(market)}
    for name, shift in (("shift1h", market.shift_1h), ("shift24h", market.shift_24h)):
        row[name] = None if shift is None else _four_digits(turn * Decimal(decimal_text(shift) or 0))
    book = books.get(market.tokens[at]) if at < len(market.tokens) else None
    if book is not None:
        row |= {"bid": book.bid, "ask": book.ask, "mid": book.mid, "tick": book.tick or row["tick"]}
    return row


def _four_digits(value: Decimal | None) -> str | None:
    # Zero has no sign.
    return None if value is None else f"{value + 0:.4f}".replace("-0.0000", "0.0000")
