"""What a client may send on a socket: its messages, what it can subscribe to, and the lines the server sends back.

The echo of a subscription is normalised: defaults are filled in and the keys have the exchange's order, which is the
order of the fields.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from tapebook.world.server.bars import INTERVALS
from tapebook.world.server.exchange import Exchange

PONG = '{"channel":"pong"}'

_STATUS_TEXT = {
    422: "422 Unprocessable Entity",
    429: "429 Too Many Requests",
    500: "500 Internal Server Error",
}


class _SocketMessage(msgspec.Struct, frozen=True, tag_field="method"):
    """What all have in common: the verb in `method`."""


class Subscribe(_SocketMessage, frozen=True, tag="subscribe"):
    """Begin to tell me."""

    subscription: msgspec.Raw


class Unsubscribe(_SocketMessage, frozen=True, tag="unsubscribe"):
    """Stop telling me."""

    subscription: msgspec.Raw


class Ping(_SocketMessage, frozen=True, tag="ping"):
    """A ping of the client."""


class PostBody(msgspec.Struct, frozen=True):
    """A question of `/info`, or an action."""

    type: str
    payload: msgspec.Raw


class Post(_SocketMessage, frozen=True, tag="post"):
    """A question over the socket, with a number to find the answer by."""

    id: int
    request: PostBody


Message = Subscribe | Unsubscribe | Ping | Post
decode_message: Callable[[str], Message] = msgspec.json.Decoder(Message).decode


def subscription_response(method: str, subscription: str) -> str:
    """The echo of a subscription that was begun or ended."""
    return f'{{"channel":"subscriptionResponse","data":{{"method":"{method}","subscription":{subscription}}}}}'


def error_message(text: str) -> str:
    """Why something was not done."""
    return msgspec.json.encode({"channel": "error", "data": text}).decode()


def post_response(number: int, kind: str, body: bytes) -> str:
    """The answer to a question that came over the socket."""
    return _post_frame(number, f'{{"type":"info","payload":{{"type":"{kind}","data":{body.decode()}}}}}')


def post_error_response(number: int, status: int) -> str:
    """The reply when there is no answer: the line of the HTTP error."""
    return _post_frame(number, f'{{"type":"error","payload":"{_STATUS_TEXT[status]}"}}')


def _post_frame(number: int, response: str) -> str:
    return f'{{"channel":"post","data":{{"id":{number},"response":{response}}}}}'


class _SubscriptionBase(msgspec.Struct, frozen=True, rename="camel", tag_field="type"):
    """What all have in common."""


class MidsSubscription(_SubscriptionBase, frozen=True, tag="allMids", omit_defaults=True):
    """The full map of mids, every step."""

    dex: str = ""


class CandleSubscription(_SubscriptionBase, frozen=True, tag="candle"):
    """A forming bar, whenever a step traded."""

    interval: str
    coin: str


class BookSubscription(_SubscriptionBase, frozen=True, tag="l2Book"):
    """An order book, every step; `fast` means five levels."""

    coin: str
    n_sig_figs: Literal[2, 3, 4, 5] | None = None
    mantissa: Literal[1, 2, 5] | None = None
    fast: bool = False


class ContextSubscription(_SubscriptionBase, frozen=True, tag="activeAssetCtx"):
    """The context of a perp, every step."""

    coin: str


class TradeSubscription(_SubscriptionBase, frozen=True, tag="trades"):
    """Trades: one for each step that traded, as large as all of its trades together."""

    coin: str


class TopSubscription(_SubscriptionBase, frozen=True, tag="bbo"):
    """The best bid and ask, when they change."""

    coin: str


Subscription = (
    MidsSubscription | CandleSubscription | BookSubscription | ContextSubscription | TradeSubscription | TopSubscription
)
decode_subscription: Callable[[bytes], Subscription] = msgspec.json.Decoder(Subscription).decode


def is_valid_subscription(subscription: Subscription, exchange: Exchange) -> bool:
    """Whether the exchange has what is asked for."""
    match subscription:
        case MidsSubscription(dex=dex):
            return exchange.venue(dex) is not None
        case CandleSubscription(interval=interval, coin=coin):
            return interval in INTERVALS and exchange.coin(coin) is not None
        case BookSubscription(n_sig_figs=figures, mantissa=mantissa) if mantissa is not None and figures != 5:
            return False
        case ContextSubscription(coin=coin):
            return exchange.perp(coin) is not None
    return exchange.coin(subscription.coin) is not None
