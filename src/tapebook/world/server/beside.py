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

Answer = Callable[[web.Request], Any]


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
            "/gamma/public-search": lambda request: predictions.search(query(request)),
            "/clob/book": lambda request: _only_book(predictions.books([query(request).get("token_id", "")])),
            "/clob/midpoint": lambda request: _middle(predictions.books([query(request).get("token_id", "")])),
            "/clob/time": lambda request: self._exchange.now // 1000,
            "/llama/v2/chains": lambda request: macro.chains(),
            "/llama/protocols": lambda request: macro.protocols(),
            "/llama/v2/historicalChainTvl": lambda request: macro.history(),
            "/llama/overview/{kind}": lambda request: _overview(macro, request),
            "/stablecoins/stablecoins": lambda request: macro.stablecoins(),
        }
        found = [web.get(path, self._handler(path, answer)) for path, answer in gets.items()]
        return [*found, web.post("/clob/books", self._books)]

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

    async def _books(self, request: web.Request) -> web.StreamResponse:
        refused = self._refuse(request)
        if refused is not None:
            return refused
        try:
            asked = msgspec.json.decode(await request.read(), type=list[dict[str, str]])
        except msgspec.DecodeError:
            return web.json_response({"error": "Invalid payload"}, status=400)
        body = msgspec.json.encode(self._predictions.books([each.get("token_id", "") for each in asked]))
        return web.Response(body=body, content_type="application/json")

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


def _only_book(found: list[dict[str, Any]]) -> dict[str, Any]:
    if not found:
        raise GammaRefusal(404, {"error": "No orderbook exists for the requested token id"})
    return found[0]


def _middle(found: list[dict[str, Any]]) -> dict[str, str]:
    book = _only_book(found)
    return {"mid": f"{(float(book['bids'][-1]['price']) + float(book['asks'][-1]['price'])) / 2:.4g}"}
