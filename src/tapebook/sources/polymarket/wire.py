"""Answers of Gamma and of the CLOB as values. Pure; everything but an id is optional, and what is odd is left out.

What the servers do that one would not expect, and where it is handled:

- lists are texts that hold JSON (`json_list`), may be missing or empty, and are real lists in some answers;
- times come in three forms, `closedTime` with a blank and an offset of two digits (`_polling.instant_of`);
- `closed` is the settlement, `active` stays true after it, and `acceptingOrders` may;
- amounts are text in markets and numbers in events (`_polling.number_of`); ids are text everywhere;
- a page is the last one when it names no `next_cursor`; it holds 100 events at most, whatever was asked for;
- outcomes are Yes and No, Up and Down in any order, or names (`affirmative_place`);
- the best price of a book stands last on either side; the midpoint is made of both (`OrderBookTop.mid`), for the CLOB
  and its documents call it by two names;
- a history of prices may end with a point of now, whatever was asked for (`read_shifts`); spans are asked for by their
  ends, since `1m` is a month.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from tapebook.domain.units import DAY, HOUR, SECOND
from tapebook.sources._polling import decode_answer, instant_of, number_of, text_of

_MOST_TITLE = 300
_YES = ("yes", "up")


class PredictionMarket(msgspec.Struct, frozen=True):
    """One question with its outcomes; prices, tokens and outcomes stand in one order. Shifts are of the first one."""

    id: str
    question: str = ""
    slug: str = ""
    outcomes: tuple[str, ...] = ()
    prices: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    tick: str = ""
    ends_at: int | None = None
    closed_at: int | None = None
    closed: bool = False
    resolutions: tuple[str, ...] = ()
    volume_24h: float = 0.0
    bid: float | None = None
    ask: float | None = None
    shift_1h: float | None = None
    shift_24h: float | None = None


class PredictionEvent(msgspec.Struct, frozen=True):
    """A group of questions: what a page of the site shows."""

    id: str
    title: str = ""
    slug: str = ""
    series: str = ""
    tags: tuple[str, ...] = ()
    ends_at: int | None = None
    closed_at: int | None = None
    closed: bool = False
    markets: tuple[PredictionMarket, ...] = ()


class EventPage(msgspec.Struct, frozen=True):
    """Events of a list or a search, the cursor of the next page if there is one, and how many rows were unreadable."""

    events: tuple[PredictionEvent, ...]
    cursor: str | None
    odd: int


class OrderBookTop(msgspec.Struct, frozen=True):
    """The best prices of a token's book, as decimal text, its tick, and the money that rests on either side."""

    token: str
    bid: str | None
    ask: str | None
    tick: str | None
    bid_usd: float
    ask_usd: float

    @property
    def mid(self) -> str | None:
        """The price in the middle; None where a side is empty."""
        if self.bid is None or self.ask is None:
            return None
        return f"{((Decimal(self.bid) + Decimal(self.ask)) / 2).normalize():f}"


def json_list(value: Any) -> tuple[str, ...]:
    """A list of texts, which mostly is a text that holds JSON; empty when it is missing, empty or something else."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return ()
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def read_page(body: bytes) -> EventPage:
    """A page of events, of the keyset list or of a search; ValueError when it is neither."""
    page = decode_answer(body)
    if isinstance(page, list):
        page = {"events": page}
    rows = page.get("events") if isinstance(page, dict) else None
    # A search that found nothing may leave the list out, or say null.
    if rows is None and isinstance(page, dict) and ("pagination" in page or "events" in page):
        rows = []
    if not isinstance(rows, list):
        raise ValueError(f"a page without events: {str(page)[:60]!r}")
    found = [_event(row) for row in rows]
    cursor = page.get("next_cursor")
    events = tuple(event for event in found if event is not None)
    return EventPage(events, cursor if isinstance(cursor, str) and cursor else None, len(found) - len(events))


def _event(row: Any) -> PredictionEvent | None:
    if not isinstance(row, dict) or not (number := _id(row)):
        return None
    series = row.get("series")
    slugs = [text_of(each, "slug") for each in series if isinstance(each, dict)] if isinstance(series, list) else []
    tags = row.get("tags")
    markets = row.get("markets")
    return PredictionEvent(
        id=number,
        title=text_of(row, "title", _MOST_TITLE),
        slug=text_of(row, "slug"),
        series=text_of(row, "seriesSlug") or next(filter(None, slugs), ""),
        tags=tuple(text_of(tag, "slug") for tag in tags if isinstance(tag, dict)) if isinstance(tags, list) else (),
        ends_at=instant_of(row, "endDate"),
        closed_at=instant_of(row, "closedTime"),
        closed=row.get("closed") is True,
        markets=tuple(found for each in markets if (found := read_market(each))) if isinstance(markets, list) else (),
    )


def read_market(row: Any) -> PredictionMarket | None:
    """One market of an event or an answer of its own; None without an id."""
    if not isinstance(row, dict) or not (number := _id(row)):
        return None
    # `umaResolutionStatus` is the newest; the list beside it has the way there, two disputes included.
    said, newest = json_list(row.get("umaResolutionStatuses")), text_of(row, "umaResolutionStatus", 40)
    way = said if not newest or said[-1:] == (newest,) else (*said, newest)
    return PredictionMarket(
        id=number,
        question=text_of(row, "question", _MOST_TITLE),
        slug=text_of(row, "slug"),
        outcomes=json_list(row.get("outcomes")),
        prices=json_list(row.get("outcomePrices")),
        tokens=json_list(row.get("clobTokenIds")),
        tick=decimal_text(row.get("orderPriceMinTickSize")),
        ends_at=instant_of(row, "endDate"),
        closed_at=instant_of(row, "closedTime"),
        closed=row.get("closed") is True,
        resolutions=way,
        volume_24h=max(0.0, number_of(row, "volume24hr") or 0.0),
        bid=number_of(row, "bestBid"),
        ask=number_of(row, "bestAsk"),
        shift_1h=number_of(row, "oneHourPriceChange"),
        shift_24h=number_of(row, "oneDayPriceChange"),
    )


def _id(row: Mapping[str, Any]) -> str:
    value = row.get("id")
    # Ids are text; a number is what an older answer wrote of the same id.
    found = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return found if found.isascii() and found.isdecimal() and len(found) < 20 else ""


def decimal_text(value: Any) -> str:
    """A number of an answer as short decimal text; empty when it is none."""
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return ""
    return f"{found.normalize():f}" if found.is_finite() and abs(found) < 10**12 else ""


def probability(market: PredictionMarket, place: int) -> Decimal | None:
    """The price of an outcome, from 0 to 1; a market of the last minutes has none."""
    text = decimal_text(market.prices[place]) if place < len(market.prices) else ""
    found = Decimal(text) if text else None
    return found if found is not None and 0 <= found <= 1 else None


def affirmative_place(market: PredictionMarket) -> int | None:
    """Where the outcome stands that says Yes or Up; None when outcomes are names."""
    for place, outcome in enumerate(market.outcomes):
        if outcome.strip().casefold() in _YES:
            return place
    return None


def read_books(body: bytes) -> dict[str, OrderBookTop]:
    """The tops of books by token; ValueError when it is no list of books."""
    rows = decode_answer(body)
    rows = [rows] if isinstance(rows, dict) and "asset_id" in rows else rows
    if not isinstance(rows, list):
        raise ValueError(f"no list of books: {str(rows)[:60]!r}")
    found = {}
    for row in rows:
        if isinstance(row, dict) and (token := text_of(row, "asset_id")):
            bids, asks = _levels(row.get("bids")), _levels(row.get("asks"))
            found[token] = OrderBookTop(
                token=token,
                # By price and not by place: whichever end a server puts its best price at, it is the best.
                bid=f"{max(bids)[0].normalize():f}" if bids else None,
                ask=f"{min(asks)[0].normalize():f}" if asks else None,
                tick=decimal_text(row.get("tick_size")) or None,
                bid_usd=float(sum(price * size for price, size in bids)),
                ask_usd=float(sum(price * size for price, size in asks)),
            )
    return found


def _levels(rows: Any) -> list[tuple[Decimal, Decimal]]:
    found = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            price, size = decimal_text(row.get("price")), decimal_text(row.get("size"))
            if price and size and 0 < Decimal(price) < 1 and Decimal(size) > 0:
                found.append((Decimal(price), Decimal(size)))
    return found


def read_shifts(body: bytes, *, until: int) -> tuple[float | None, float | None]:
    """How a price has moved in the hour and the day before a moment; None where the history does not reach back.

    ValueError when it is no history.
    """
    answer = decode_answer(body)
    rows = answer.get("history") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise ValueError(f"no history: {str(answer)[:60]!r}")
    points = []
    for row in rows:
        at, price = (number_of(row, "t"), number_of(row, "p")) if isinstance(row, dict) else (None, None)
        # The last point may be one of now, which nobody asked for.
        if at is not None and price is not None and 0 <= price <= 1 and at * SECOND <= until:
            points.append((int(at * SECOND), price))
    points.sort()
    return _shift(points, until, HOUR), _shift(points, until, DAY)


def _shift(points: list[tuple[int, float]], until: int, span: int) -> float | None:
    newest = [price for at, price in points if at > until - HOUR]
    # What is much older than the span is of another time.
    before = [price for at, price in points if until - span - HOUR < at <= until - span]
    return newest[-1] - before[-1] if newest and before else None
