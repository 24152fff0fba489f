"""What `/info` answers: one function per request, from the exchange's state to JSON, within the client's limits.

A request about a name nobody knows is answered as the exchange does: sometimes `null` with 200, sometimes with 500.
`predictedFundings` says the rate to come here and what two other venues charge for the same coin: each venue has its
own interval, says nothing of some coins, and now and then does not name the interval. `InfoEndpoint` weighs requests
before they are answered, over HTTP and over sockets alike.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from tapebook.domain.units import HOUR, floor_to_step
from tapebook.world.faults import FaultLog, Faults, InjectedFault
from tapebook.world.random_streams import stream_seed
from tapebook.world.server import catalog, levels, requests, wire
from tapebook.world.server.bars import INTERVALS
from tapebook.world.server.exchange import Exchange, dex_of
from tapebook.world.server.requests import ClientLimits

_HERE, _HERE_HOURS = "HlPerp", 1

# By venue and coin: hours between two payments, 0 where the interval is not named, None where the coin is not listed.
_ELSEWHERE: dict[str, dict[str, int | None]] = {
    "BinPerp": {"BTC": 8, "ETH": 8, "SOL": 8, "HYPE": 4, "DOGE": 0, "kPEPE": 4},
    "BybitPerp": {"BTC": 8, "ETH": 8, "SOL": 4, "HYPE": 1, "DOGE": 8, "kPEPE": None},
}
_UNNAMED_HOURS = 8
_RATE_E12 = 10_000


def predicted_fundings(exchange: Exchange) -> list[list[Any]]:
    """All perps of the main dex by name, the delisted among them."""
    rows: dict[str, list[list[Any]]] = {
        each.name: [["BinPerp", None], [_HERE, _funding_slot(0, exchange.now, _HERE_HOURS)], ["BybitPerp", None]]
        for each in exchange.delisted.values()
    }
    for symbol, coin in exchange.main.perps.items():
        if symbol in rows:
            continue
        here = coin.current_minute.context.funding_e12
        first, last = (
            [venue, _other_venue_slot(exchange, venue, symbol, rate_e12=here)] for venue in ("BinPerp", "BybitPerp")
        )
        rows[symbol] = [first, [_HERE, _funding_slot(here, exchange.now, _HERE_HOURS)], last]
    return [[symbol, rows[symbol]] for symbol in sorted(rows)]


def _other_venue_slot(exchange: Exchange, venue: str, symbol: str, *, rate_e12: int) -> dict[str, Any] | None:
    """Another venue's rate for its own interval: near ours times the hours, and the same for the whole hour."""
    hours = _ELSEWHERE[venue].get(symbol, _UNNAMED_HOURS)
    if hours is None:
        return None
    span = hours or _UNNAMED_HOURS
    dice = stream_seed(exchange.seed, venue, symbol, minute=floor_to_step(exchange.now, HOUR))
    rate = rate_e12 * span * (50 + dice % 101) // 100
    slot = _funding_slot(rate // _RATE_E12 * _RATE_E12, exchange.now, span)
    if not hours:
        del slot["fundingIntervalHours"]
    return slot


def _funding_slot(rate_e12: int, now: int, hours: int) -> dict[str, Any]:
    following = floor_to_step(now, hours * HOUR) + hours * HOUR
    return {"fundingRate": wire.rate_text(rate_e12), "nextFundingTime": following, "fundingIntervalHours": hours}


MOST_FUNDING_ROWS = 500

REFUSAL_TEXT = "Failed to deserialize the JSON body into the target type"


class InfoAnswer(msgspec.Struct, frozen=True):
    """A status, a JSON body, and how many rows are in it."""

    status: int
    body: bytes
    rows: int = 0


NULL_ANSWER = InfoAnswer(200, b"null")
TOO_MANY_REQUESTS = InfoAnswer(429, b"null")
SERVER_ERROR = InfoAnswer(500, b"null")


def answer_request(exchange: Exchange, request: requests.Request) -> InfoAnswer:
    """The answer to any question."""
    return _ANSWERS[type(request)](exchange, request)


def refusal_answer(why: str) -> InfoAnswer:
    """What a body that is no question gets: text, not JSON."""
    return InfoAnswer(422, f"{REFUSAL_TEXT}: {why}".encode())


def _json_answer(value: Any) -> InfoAnswer:
    return InfoAnswer(200, msgspec.json.encode(value))


def _meta(exchange: Exchange, request: requests.Meta) -> InfoAnswer:
    venue = exchange.venue(request.dex)
    if venue is None:
        return SERVER_ERROR
    return _json_answer(catalog.meta_response(list(venue.perps), dex=request.dex, delisted=exchange.delisted.values()))


def _contexts(exchange: Exchange, request: requests.MetaAndAssetCtxs) -> InfoAnswer:
    venue = exchange.venue(request.dex)
    if venue is None:
        return SERVER_ERROR
    symbols = list(venue.perps)
    rows = {symbol: coin.context() for symbol, coin in venue.perps.items()}
    rows |= {name: each.context() for name, each in exchange.delisted.items()}
    names = catalog.universe_names(symbols, dex=request.dex)
    meta = catalog.meta_response(symbols, dex=request.dex, delisted=exchange.delisted.values())
    return _json_answer([meta, [rows[name] for name in names]])


def _spot_meta(exchange: Exchange, request: requests.SpotMeta) -> InfoAnswer:
    return _json_answer(catalog.spot_meta_response())


def _all_mids(exchange: Exchange, request: requests.AllMids) -> InfoAnswer:
    return (
        SERVER_ERROR
        if exchange.venue(request.dex) is None
        else InfoAnswer(200, exchange.mids_text(request.dex).encode())
    )


def _l2_book(exchange: Exchange, request: requests.L2Book) -> InfoAnswer:
    if request.mantissa is not None and request.n_sig_figs != 5:
        return refusal_answer("mantissa goes with nSigFigs 5 only")
    text = book_text(exchange, request)
    return NULL_ANSWER if text is None else InfoAnswer(200, text.encode())


def book_text(exchange: Exchange, request: requests.L2Book, *, most: int = levels.MOST_LEVELS) -> str | None:
    """A book as JSON; None for a name nobody knows, and no levels where nothing is traded."""
    coin = exchange.coin(request.coin)
    head = f'{{"coin":"{request.coin}","time":{exchange.now}'
    if coin is None:
        return f'{head},"levels":[[],[]]}}' if exchange.has_price_only(request.coin) else None
    book, sides = coin.book(exchange.main.at), []
    for side, away in ((book.bids, -1), (book.asks, 1)):
        shown = side
        if request.n_sig_figs is not None:
            mantissa = request.mantissa or 1
            shown = levels.aggregate_levels(side, coin.grid, figures=request.n_sig_figs, mantissa=mantissa, away=away)
        sides.append(",".join(levels.level_text(level, coin.grid) for level in shown[:most]))
    spread = f',"spread":"{wire.price_text(book.spread_e8)}"' if request.n_sig_figs is not None else ""
    return f'{head},"levels":[[{sides[0]}],[{sides[1]}]]{spread}}}'


def _candles(exchange: Exchange, request: requests.CandleSnapshot) -> InfoAnswer:
    wanted = request.req
    if wanted.interval not in INTERVALS:
        return refusal_answer(f"req.interval: unknown variant `{wanted.interval}`")
    coin = exchange.coin(wanted.coin)
    if coin is None:
        return InfoAnswer(200, b"[]") if wanted.coin in exchange.delisted else SERVER_ERROR
    end = exchange.now if wanted.end_time is None else wanted.end_time
    rows = coin.bars.rows(wanted.interval, coin.forming_bar(), start=wanted.start_time, end=end)
    rows = exchange.amend(rows, exchange.now)
    texts = [wire.candle_text(row, wanted.interval, coin.grid.size_decimals) for row in rows]
    return InfoAnswer(200, f"[{','.join(texts)}]".encode(), len(texts))


def _predictions(exchange: Exchange, request: requests.PredictedFundings) -> InfoAnswer:
    return _json_answer(predicted_fundings(exchange))


def _funding(exchange: Exchange, request: requests.FundingHistory) -> InfoAnswer:
    venue = exchange.venue(dex_of(request.coin))
    if venue is None or request.coin not in venue.settled:
        return InfoAnswer(200, b"[]") if request.coin in exchange.delisted else SERVER_ERROR
    end = exchange.now if request.end_time is None else min(request.end_time, exchange.now)
    settled = (wire.funding_row(each, exchange.seed) for each in venue.settled[request.coin])
    rows = [row for row in settled if request.start_time <= row["time"] <= end][:MOST_FUNDING_ROWS]
    return InfoAnswer(200, msgspec.json.encode(rows), len(rows))


def _dexs(exchange: Exchange, request: requests.PerpDexs) -> InfoAnswer:
    venue = exchange.venue(catalog.BUILDER_DEX)
    assert venue is not None
    return _json_answer(catalog.perp_dexs_response(list(venue.perps)))


def _status(exchange: Exchange, request: requests.ExchangeStatus) -> InfoAnswer:
    return _json_answer({"specialStatuses": None, "time": exchange.now})


def _clock(exchange: Exchange, request: requests.WorldClock) -> InfoAnswer:
    return _json_answer({"now": exchange.now, "speed": exchange.speed})


_ANSWERS: dict[type, Callable[[Exchange, Any], InfoAnswer]] = {
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


class InfoEndpoint:
    """The exchange with its clients' accounts."""

    def __init__(self, exchange: Exchange, faults: Faults, record: FaultLog) -> None:
        self.exchange = exchange
        self._faults = faults
        self._record = record
        self._clients: dict[str, ClientLimits] = defaultdict(ClientLimits)
        self._asked: Counter[str] = Counter()

    def client(self, address: str | None) -> ClientLimits:
        """The account of an address."""
        return self._clients[address or ""]

    def answer_within_limits(self, client: ClientLimits, request: requests.Request) -> InfoAnswer:
        """The answer, if the client's weight allows the question; what the rows weigh is known only afterwards."""
        now = self.exchange.now
        if not client.weight.fits(now, requests.request_weight(request, 0)):
            return TOO_MANY_REQUESTS
        found = answer_request(self.exchange, request)
        client.weight.spend(now, requests.request_weight(request, found.rows))
        return found

    def answer_with_faults(self, client: ClientLimits, request: requests.Request) -> InfoAnswer | None:
        """The answer, or the fault that strikes instead; None when the question stays unanswered."""
        fault = self._fault_for(request)
        if fault == "timeout":
            return None
        return {"too_many": TOO_MANY_REQUESTS, "error": SERVER_ERROR}.get(fault) or self.answer_within_limits(
            client, request
        )

    def _fault_for(self, request: requests.Request) -> str:
        kind, subject, now = type(request).__name__, requests.request_subject(request), self.exchange.now
        if isinstance(request, requests.WorldClock):
            return ""
        # Time may stand still while a client tries again, so the dice go by the number of the try.
        self._asked[f"{kind}/{subject}"] += 1
        number = self._asked[f"{kind}/{subject}"]
        for fault in ("timeout", "too_many", "error"):
            if self._faults.happens(fault, f"{kind}/{subject}", now, number=number):
                self._record.add(InjectedFault(fault, requests.CHANNELS.get(type(request), "*"), subject, now, now))
                return fault
        return ""
