"""The servers beside the exchange: Polymarket's Gamma and CLOB, DefiLlama's and its stablecoins', by prefix.

They know the exchange's time and prices, and share its faults: a request can be one too many (429), break (a proxy's
page), or find its server down for a while. What they say is in `predictions.py` and `macro.py`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from tapebook.world.faults import BAD_GATEWAY, FaultLog, Faults, InjectedFault
from tapebook.world.server.exchange import Exchange
from tapebook.world.server.macro import MacroFigures
from tapebook.world.server.predictions import GammaRefusal, PredictionExchange
from tapebook.world.server.requests import ClientRateWindow

# Requests a minute, as many as the ten-second windows of the real ones let through.
_MOST_REQUESTS = {"gamma": 2_100, "clob": 3_000, "llama": 300, "stablecoins": 300}
_DEPRECATED = {
    "deprecation": "true",
    "sunset": "Fri, 01 May 2026 00:00:00 GMT",
    "warning": '299 - "use /events/keyset"',
}
_TEXT_ERROR = {404: "Data not found", 500: "Internal Error", 402: "Upgrade to the paid plan"}

_INVALID_PAYLOAD = {"error": "Invalid payload"}

Answer = Callable[[web.Request], Any]
Book = dict[str, Any]
OfBook = Callable[[Book, str], Any]
OfBooks = Callable[[list[Book], list[dict[str, str]]], Any]


class OtherServers:
    """Four servers in one, as routes."""

    def __init__(self, exchange: Exchange, faults: Faults, record: FaultLog, *, page_size: int) -> None:
        self._exchange, self._faults, self._record = exchange, faults, record
        self._predictions = PredictionExchange(exchange, seed=exchange.seed, page_size=page_size)
        self._macro = MacroFigures(exchange, seed=exchange.seed)
        self._windows = {name: ClientRateWindow(most) for name, most in _MOST_REQUESTS.items()}
        self._numbers: Counter[str] = Counter()
        # What was asked, in order: tests look at it.
        self.asked: list[tuple[str, str]] = []

    def routes(self) -> list[web.RouteDef]:
        """All of them."""
        predictions, macro = self._predictions, self._macro

        def query(request: web.Request) -> Mapping[str, str]:
            return request.query

        gets: dict[str, Answer] = {
            "/gamma/events/keyset": lambda request: predictions.keyset_page(query(request)),
            "/gamma/events": lambda request: predictions.legacy_page(query(request)),
            "/gamma/markets/keyset": lambda request: predictions.keyset_page(query(request), of="markets"),
            "/gamma/public-search": lambda request: predictions.search(query(request)),
            "/clob/prices-history": lambda request: predictions.history(query(request)),
            **{f"/clob/{name}": self._single(make) for name, make in _OF_BOOK.items()},
            # What is asked for many tokens is asked by POST alone.
            **{f"/clob/{name}": _refuse_get for name in _OF_BOOKS},
            "/clob/time": lambda request: self._exchange.now // 1000,
            "/llama/v2/chains": lambda request: macro.chains(),
            "/llama/protocols": lambda request: macro.protocols(),
            "/llama/v2/historicalChainTvl": lambda request: macro.history(),
            "/llama/overview/{kind}": lambda request: _overview(macro, request),
            "/stablecoins/stablecoins": lambda request: macro.stablecoins(),
        }
        found = [web.get(path, self._handler(path, answer)) for path, answer in gets.items()]
        return [*found, *(web.post(f"/clob/{name}", self._plural(make)) for name, make in _OF_BOOKS.items())]

    def _single(self, make: OfBook) -> Answer:
        def answer(request: web.Request) -> Any:
            token = request.query.get("token_id", "")
            if not (token.isascii() and token.isdecimal()):
                raise GammaRefusal(400, {"error": "Invalid token id"})
            found = self._predictions.books([token])
            if not found:
                raise GammaRefusal(404, {"error": "No orderbook exists for the requested token id"})
            return make(found[0], request.query.get("side", ""))

        return answer

    def _handler(self, path: str, answer: Answer) -> Callable[[web.Request], Any]:
        async def respond(request: web.Request) -> web.StreamResponse:
            refused = self._refuse(request)
            if refused is not None:
                return refused
            try:
                body = msgspec.json.encode(answer(request))
            except GammaRefusal as refusal:
                return _refusal_response(refusal)
            headers = _DEPRECATED if path == "/gamma/events" else {}
            return web.Response(body=body, content_type="application/json", headers=headers)

        return respond

    def _plural(self, make: OfBooks) -> Callable[[web.Request], Any]:
        async def respond(request: web.Request) -> web.StreamResponse:
            refused = self._refuse(request)
            if refused is not None:
                return refused
            try:
                asked = msgspec.json.decode(await request.read(), type=list[dict[str, str]])
            except msgspec.DecodeError:
                return web.json_response(_INVALID_PAYLOAD, status=400)
            books = self._predictions.books([each.get("token_id", "") for each in asked])
            return web.Response(body=msgspec.json.encode(make(books, asked)), content_type="application/json")

        return respond

    def _refuse(self, request: web.Request) -> web.Response | None:
        """What a server says that does not answer now; None when it does."""
        server, now = request.path.split("/")[1], self._exchange.now
        self.asked.append((request.path, request.query_string))
        if self._faults.is_down(server, now):
            return web.Response(status=503, body=BAD_GATEWAY, content_type="text/html")
        if request.headers.get("User-Agent", "").startswith("Python"):
            return web.Response(status=403, text="error code: 1010")
        if not self._windows[server].try_spend(now):
            return web.Response(status=429, text="Too many requests", headers={"Retry-After": "30"})
        self._numbers[server] += 1
        number = self._numbers[server]
        for kind, status in (("too_many", 429), ("error", 502)):
            if self._faults.happens(kind, f"{server} {request.path}", now, number=number):
                self._record.add(InjectedFault(kind, server, request.path, now, now))
                return web.Response(status=status, body=BAD_GATEWAY, content_type="text/html")
        return None


def _refusal_response(refusal: GammaRefusal) -> web.Response:
    if isinstance(refusal.body, str):
        return web.Response(status=refusal.status, text=refusal.body)
    return web.Response(status=refusal.status, body=msgspec.json.encode(refusal.body), content_type="application/json")


def _overview(macro: MacroFigures, request: web.Request) -> Any:
    kind, data_type = request.match_info["kind"], request.query.get("dataType", "")
    status = macro.overview_status(kind, data_type)
    if status != 200:
        # Plain text: only answers are JSON.
        raise GammaRefusal(status, _TEXT_ERROR[status])
    charts = request.query.get("excludeTotalDataChart") != "true"
    return macro.overview(kind, data_type, charts=charts)


def _refuse_get(request: web.Request) -> Any:
    raise GammaRefusal(400, _INVALID_PAYLOAD)


def _best(book: Book, side: str) -> str:
    """What `BUY` and `SELL` get: the best bid and the best ask, which stand last."""
    if side not in ("BUY", "SELL"):
        raise GammaRefusal(400, {"error": "Invalid side"})
    return str(book["bids" if side == "BUY" else "asks"][-1]["price"])


def _middle(book: Book) -> str:
    return f"{(float(_best(book, 'BUY')) + float(_best(book, 'SELL'))) / 2:.4g}"


def _spread(book: Book) -> str:
    return f"{float(_best(book, 'SELL')) - float(_best(book, 'BUY')):.4g}"


# What the CLOB tells of one token by GET, and of many by POST; the documents call `mid` otherwise.
_OF_BOOK: dict[str, OfBook] = {
    "book": lambda book, side: book,
    "midpoint": lambda book, side: {"mid": _middle(book)},
    "price": lambda book, side: {"price": _best(book, side)},
    "spread": lambda book, side: {"spread": _spread(book)},
    "last-trade-price": lambda book, side: {"price": book["last_trade_price"], "side": "BUY"},
}
_OF_BOOKS: dict[str, OfBooks] = {
    "books": lambda books, asked: books,
    "midpoints": lambda books, asked: {book["asset_id"]: _middle(book) for book in books},
    "spreads": lambda books, asked: {book["asset_id"]: _spread(book) for book in books},
    "prices": lambda books, asked: _prices(books, asked),
}


def _prices(books: list[Book], asked: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    by_token = {book["asset_id"]: book for book in books}
    found: dict[str, dict[str, str]] = {}
    for each in asked:
        if book := by_token.get(each.get("token_id", "")):
            found.setdefault(each["token_id"], {})[each.get("side", "")] = _best(book, each.get("side", ""))
    return found
