"""What `/info` answers: one function per question, from the exchange as it stands to JSON.

A question about a name nobody knows is answered as the exchange does: sometimes `null` with 200, sometimes with 500.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tapebook.world.server import catalog, levels, requests, wire
from tapebook.world.server.bars import INTERVALS
from tapebook.world.server.exchange import Exchange, dex_of
from tapebook.world.server.predictions import predictions

MOST_FUNDING_ROWS = 500

REFUSED = "Failed to deserialize the JSON body into the target type"


class Answer(msgspec.Struct, frozen=True):
    """A status, a JSON body, and how many rows are in it."""

    status: int
    body: bytes
    rows: int = 0


NOTHING = Answer(200, b"null")
TOO_MANY = Answer(429, b"null")
FAILED = Answer(500, b"null")


def answer(exchange: Exchange, request: requests.Request) -> Answer:
    """The answer to any question."""
    return _ANSWERS[type(request)](exchange, request)


def refused(why: str) -> Answer:
    """What a body that is no question gets: text, not JSON."""
    return Answer(422, f"{REFUSED}: {why}".encode())


def _json(value: Any) -> Answer:
    return Answer(200, msgspec.json.encode(value))


def _meta(exchange: Exchange, request: requests.Meta) -> Answer:
    venue = exchange.venue(request.dex)
    if venue is None:
        return FAILED
    return _json(catalog.meta(list(venue.perps), dex=request.dex, delisted=exchange.delisted.values()))


def _contexts(exchange: Exchange, request: requests.MetaAndAssetCtxs) -> Answer:
    venue = exchange.venue(request.dex)
    if venue is None:
        return FAILED
    symbols = list(venue.perps)
    rows = {symbol: coin.context() for symbol, coin in venue.perps.items()}
    rows |= {name: each.context() for name, each in exchange.delisted.items()}
    names = catalog.universe(symbols, dex=request.dex)
    meta = catalog.meta(symbols, dex=request.dex, delisted=exchange.delisted.values())
    return _json([meta, [rows[name] for name in names]])


def _spot_meta(exchange: Exchange, request: requests.SpotMeta) -> Answer:
    return _json(catalog.spot_meta())


def _all_mids(exchange: Exchange, request: requests.AllMids) -> Answer:
    return FAILED if exchange.venue(request.dex) is None else Answer(200, exchange.mids_text(request.dex).encode())


def _l2_book(exchange: Exchange, request: requests.L2Book) -> Answer:
    if request.mantissa is not None and request.n_sig_figs != 5:
        return refused("mantissa goes with nSigFigs 5 only")
    text = book_text(exchange, request)
    return NOTHING if text is None else Answer(200, text.encode())


def book_text(exchange: Exchange, request: requests.L2Book, *, most: int = levels.MOST_LEVELS) -> str | None:
    """A book as JSON; None for a name nobody knows, and no levels where nothing is traded."""
    coin = exchange.coin(request.coin)
    head = f'{{"coin":"{request.coin}","time":{exchange.now}'
    if coin is None:
        return f'{head},"levels":[[],[]]}}' if exchange.stands_still(request.coin) else None
    book, sides = coin.book(exchange.main.at), []
    for side, away in ((book.bids, -1), (book.asks, 1)):
        shown = side
        if request.n_sig_figs is not None:
            mantissa = request.mantissa or 1
            shown = levels.aggregate(side, coin.grid, figures=request.n_sig_figs, mantissa=mantissa, away=away)
        sides.append(",".join(levels.level_text(level, coin.grid) for level in shown[:most]))
    spread = f',"spread":"{wire.price(book.spread_e8)}"' if request.n_sig_figs is not None else ""
    return f'{head},"levels":[[{sides[0]}],[{sides[1]}]]{spread}}}'


def _candles(exchange: Exchange, request: requests.CandleSnapshot) -> Answer:
    wanted = request.req
    if wanted.interval not in INTERVALS:
        return refused(f"req.interval: unknown variant `{wanted.interval}`")
    coin = exchange.coin(wanted.coin)
    if coin is None:
        return Answer(200, b"[]") if wanted.coin in exchange.delisted else FAILED
    end = exchange.now if wanted.end_time is None else wanted.end_time
    rows = coin.bars.rows(wanted.interval, coin.forming(), start=wanted.start_time, end=end)
    rows = exchange.amend(rows, exchange.now)
    texts = [wire.candle_text(row, wanted.interval, coin.grid.size_decimals) for row in rows]
    return Answer(200, f"[{','.join(texts)}]".encode(), len(texts))


def _predictions(exchange: Exchange, request: requests.PredictedFundings) -> Answer:
    return _json(predictions(exchange))


def _funding(exchange: Exchange, request: requests.FundingHistory) -> Answer:
    venue = exchange.venue(dex_of(request.coin))
    if venue is None or request.coin not in venue.settled:
        return Answer(200, b"[]") if request.coin in exchange.delisted else FAILED
    end = exchange.now if request.end_time is None else min(request.end_time, exchange.now)
    settled = (wire.funding_row(each, exchange.seed) for each in venue.settled[request.coin])
    rows = [row for row in settled if request.start_time <= row["time"] <= end][:MOST_FUNDING_ROWS]
    return Answer(200, msgspec.json.encode(rows), len(rows))


def _dexs(exchange: Exchange, request: requests.PerpDexs) -> Answer:
    venue = exchange.venue(catalog.BUILDER_DEX)
    assert venue is not None
    return _json(catalog.perp_dexs(list(venue.perps)))


def _status(exchange: Exchange, request: requests.ExchangeStatus) -> Answer:
    return _json({"specialStatuses": None, "time": exchange.now})


def _clock(exchange: Exchange, request: requests.WorldClock) -> Answer:
    return _json({"now": exchange.now, "speed": exchange.speed})


_ANSWERS: dict[type, Callable[[Exchange, Any], Answer]] = {
    requests.Meta: _meta,
    requests.MetaAndAssetCtxs: _contexts,
    requests.SpotMeta: _spot_meta,
    requests.AllMids: _all_mids,
    requests.L2Book: _l2_book,
    requests.CandleSnapshot: _candles,
    requests.PredictedFundings: _predictions,
    requests.FundingHistory: _funding,
    requests.PerpDexs: _dexs,
    requests.ExchangeStatus: _status,
    requests.WorldClock: _clock,
}
