"""The frames of one step: for every subscription the message it gets, or none, made once for all sockets."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from tapebook.world.server import answers, catalog, wire
from tapebook.world.server.coins import Coin
from tapebook.world.server.exchange import Exchange
from tapebook.world.server.levels import level_text
from tapebook.world.server.mangle import Frame
from tapebook.world.server.requests import L2Book
from tapebook.world.server.subscriptions import Books, Candles, Contexts, Mids, Subscription, Tops, Trades

_FAST_LEVELS, _SLOW_LEVELS = 5, 20


class Feed:
    """The frames of the step the exchange is at."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._made: dict[Subscription, Frame | None] = {}
        self._tops: dict[str, str] = {}

    def next_step(self) -> None:
        """Forgets the frames of the step before."""
        self._made.clear()

    def frame(self, subscription: Subscription) -> Frame | None:
        """What a subscriber gets at this step; None when there is nothing to tell."""
        if subscription not in self._made:
            self._made[subscription] = _FRAMES[type(subscription)](self, subscription)
        return self._made[subscription]

    def _coin(self, name: str) -> Coin | None:
        """A coin that is subscribed to; None when it was delisted since."""
        coin = self._exchange.coin(name)
        assert coin is not None or name in self._exchange.delisted, "only known coins are subscribed to"
        return coin

    def _mids(self, wanted: Mids) -> Frame:
        dex = f',"dex":"{wanted.dex}"' if wanted.dex else ""
        text = f'{{"channel":"allMids","data":{{"mids":{self._exchange.mids_text(wanted.dex)}{dex}}}}}'
        return Frame("mids", wanted.dex or "*", text.encode())

    def _candle(self, wanted: Candles) -> Frame | None:
        coin = self._coin(wanted.coin)
        if coin is None or not coin.traded():
            return None
        bar = coin.bars.open_bar(wanted.interval, coin.forming())
        assert bar is not None, "a minute that traded has a bar"
        text = wire.candle_text(bar, wanted.interval, coin.grid.size_decimals)
        return Frame("candles", wanted.coin, f'{{"channel":"candle","data":{text}}}'.encode(), wanted.interval)

    def _book(self, wanted: Books) -> Frame:
        request = L2Book(wanted.coin, wanted.n_sig_figs, wanted.mantissa)
        most = _FAST_LEVELS if wanted.fast else _SLOW_LEVELS
        text = answers.book_text(self._exchange, request, most=most) or "null"
        fast = f'{text[:-1]},"fast":true}}' if wanted.fast else text
        variant = f"{wanted.n_sig_figs} {wanted.mantissa} {wanted.fast}"
        return Frame("books", wanted.coin, f'{{"channel":"l2Book","data":{fast}}}'.encode(), variant)

    def _context(self, wanted: Contexts) -> Frame:
        shown = self._coin(wanted.coin) or self._exchange.delisted[wanted.coin]
        told = {"coin": wanted.coin, "ctx": shown.context()}
        return Frame("contexts", wanted.coin, msgspec.json.encode({"channel": "activeAssetCtx", "data": told}))

    def _trades(self, wanted: Trades) -> Frame | None:
        coin = self._coin(wanted.coin)
        if coin is None or not coin.traded():
            return None
        rows = [_trade(coin, self._exchange.main.at)]
        return Frame("trades", wanted.coin, msgspec.json.encode({"channel": "trades", "data": rows}))

    def _top(self, wanted: Tops) -> Frame | None:
        coin, at = self._coin(wanted.coin), self._exchange.main.at
        if coin is None:
            return None
        book = coin.book(at)
        text = f"[{level_text(book.bids[0], coin.grid)},{level_text(book.asks[0], coin.grid)}]"
        if self._tops.get(wanted.coin) == text:
            return None
        self._tops[wanted.coin] = text
        payload = f'{{"channel":"bbo","data":{{"coin":"{wanted.coin}","time":{at},"bbo":{text}}}}}'
        return Frame("tops", wanted.coin, payload.encode())


def _trade(coin: Coin, at: int) -> dict[str, Any]:
    """The trading of a step as one trade at its mid."""
    now, before = coin.forming(), coin.forming(back=1)
    assert now is not None, "a step that traded has a bar"
    size = now.volume_base - (before.volume_base if before else 0.0)
    digest = hashlib.blake2b(f"{coin.symbol}/{at}".encode(), digest_size=32).hexdigest()
    return {
        "coin": coin.symbol,
        "side": "B" if now.close_e8 >= (before or now).close_e8 else "A",
        "px": wire.price(now.close_e8),
        "sz": wire.amount(size, coin.grid.size_decimals),
        "time": at,
        "hash": f"0x{digest}",
        "tid": int(digest[:12], 16),
        "users": [catalog.address(f"buyer {digest}"), catalog.address(f"seller {digest}")],
    }


_FRAMES: dict[type, Callable[[Feed, Any], Frame | None]] = {
    Mids: Feed._mids,
    Candles: Feed._candle,
    Books: Feed._book,
    Contexts: Feed._context,
    Trades: Feed._trades,
    Tops: Feed._top,
}
