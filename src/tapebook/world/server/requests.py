"""The questions `/info` understands, and what each weighs.

A body that does not decode into one of these is refused as the exchange refuses it.
"""

import math
from collections.abc import Callable
from typing import Literal

import msgspec


class _Request(msgspec.Struct, frozen=True, rename="camel", tag_field="type"):
    """What all have in common: camel case on the wire, and the name of the question in `type`."""


class Meta(_Request, frozen=True, tag="meta"):
    """What is listed on a dex."""

    dex: str = ""


class MetaAndAssetCtxs(_Request, frozen=True, tag="metaAndAssetCtxs"):
    """What is listed, and how each perp stands."""

    dex: str = ""


class SpotMeta(_Request, frozen=True, tag="spotMeta"):
    """Spot pairs and tokens."""


class AllMids(_Request, frozen=True, tag="allMids"):
    """Every mid of a dex."""

    dex: str = ""


class L2Book(_Request, frozen=True, tag="l2Book"):
    """An order book, at full precision or drawn together."""

    coin: str
    n_sig_figs: Literal[2, 3, 4, 5] | None = None
    mantissa: Literal[1, 2, 5] | None = None


class CandleRange(msgspec.Struct, frozen=True, rename="camel"):
    """Which bars."""

    coin: str
    interval: str
    start_time: int
    end_time: int | None = None


class CandleSnapshot(_Request, frozen=True, tag="candleSnapshot"):
    """Bars of a coin; the only question with its arguments in a box."""

    req: CandleRange


class PredictedFundings(_Request, frozen=True, tag="predictedFundings"):
    """The funding to come, here and at two other venues."""


class FundingHistory(_Request, frozen=True, tag="fundingHistory"):
    """Settled funding."""

    coin: str
    start_time: int
    end_time: int | None = None


class PerpDexs(_Request, frozen=True, tag="perpDexs"):
    """The dexes."""


class ExchangeStatus(_Request, frozen=True, tag="exchangeStatus"):
    """Whether the exchange is well, and its time."""


class WorldClock(_Request, frozen=True, tag="worldClock"):
    """The world's own: its time and how fast it runs, for processes that follow it."""


Request = (
    Meta
    | MetaAndAssetCtxs
    | SpotMeta
    | AllMids
    | L2Book
    | CandleSnapshot
    | PredictedFundings
    | FundingHistory
    | PerpDexs
    | ExchangeStatus
    | WorldClock
)
decode: Callable[[bytes | msgspec.Raw], Request] = msgspec.json.Decoder(Request).decode

WEIGHT_PER_MINUTE = 1_200
_LIGHT, _USUAL = 2, 20
_LIGHT_REQUESTS = (AllMids, L2Book, ExchangeStatus)
_ROWS_PER_WEIGHT: dict[type, int] = {CandleSnapshot: 60, FundingHistory: 20}


def weight(request: Request, rows: int) -> int:
    """What a question costs once `rows` were answered; asking the world for its time is free."""
    if isinstance(request, WorldClock):
        return 0
    base = _LIGHT if isinstance(request, _LIGHT_REQUESTS) else _USUAL
    per_weight = _ROWS_PER_WEIGHT.get(type(request))
    return base + math.ceil(rows / per_weight) if per_weight else base


def subject(request: Request) -> str:
    """The coin or dex a question is about; a star when it is about everything."""
    if isinstance(request, CandleSnapshot):
        return request.req.coin
    return getattr(request, "coin", "") or getattr(request, "dex", "") or "*"


# The channel of the tape that an answer feeds, as gaps name it.
CHANNELS: dict[type, str] = {
    AllMids: "mids",
    CandleSnapshot: "candles",
    L2Book: "books",
    MetaAndAssetCtxs: "contexts",
    FundingHistory: "funding",
    PredictedFundings: "funding",
}


def name(request: Request) -> str:
    """The `type` of a question."""
    return str(request.__struct_config__.tag)
