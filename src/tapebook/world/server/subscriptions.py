"""What a socket can subscribe to, and how the exchange writes a subscription back.

The echo is normalised: defaults are filled in and the keys have the exchange's order, which is the order of the fields.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from tapebook.world.server.bars import INTERVALS
from tapebook.world.server.exchange import Exchange


class _Subscription(msgspec.Struct, frozen=True, rename="camel", tag_field="type"):
    """What all have in common."""


class Mids(_Subscription, frozen=True, tag="allMids", omit_defaults=True):
    """The full map of mids, every step."""

    dex: str = ""


class Candles(_Subscription, frozen=True, tag="candle"):
    """A forming bar, whenever a step traded."""

    interval: str
    coin: str


class Books(_Subscription, frozen=True, tag="l2Book"):
    """An order book, every step; `fast` means five levels."""

    coin: str
    n_sig_figs: Literal[2, 3, 4, 5] | None = None
    mantissa: Literal[1, 2, 5] | None = None
    fast: bool = False


class Contexts(_Subscription, frozen=True, tag="activeAssetCtx"):
    """The context of a perp, every step."""

    coin: str


class Trades(_Subscription, frozen=True, tag="trades"):
    """Trades: one for each step that traded, as large as all of its trades together."""

    coin: str


class Tops(_Subscription, frozen=True, tag="bbo"):
    """The best bid and ask, when they change."""

    coin: str


Subscription = Mids | Candles | Books | Contexts | Trades | Tops
decode: Callable[[bytes], Subscription] = msgspec.json.Decoder(Subscription).decode


def is_valid(subscription: Subscription, exchange: Exchange) -> bool:
    """Whether the exchange has what is asked for."""
    match subscription:
        case Mids(dex=dex):
            return exchange.venue(dex) is not None
        case Candles(interval=interval, coin=coin):
            return interval in INTERVALS and exchange.coin(coin) is not None
        case Books(n_sig_figs=figures, mantissa=mantissa) if mantissa is not None and figures != 5:
            return False
        case Contexts(coin=coin):
            return exchange.perp(coin) is not None
    return exchange.coin(subscription.coin) is not None
