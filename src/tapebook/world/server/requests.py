"""The requests `/info` understands, what each weighs, and how much one client address may ask for.

A body that does not decode into one of these is refused as the exchange refuses it. The names of the classes are part
of the seed of a fault (`InfoEndpoint`): renaming one changes which requests fail.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from tapebook.domain.units import MINUTE


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
decode_request: Callable[[bytes | msgspec.Raw], Request] = msgspec.json.Decoder(Request).decode

WEIGHT_PER_MINUTE = 1_200
_LIGHT, _USUAL = 2, 20
_LIGHT_REQUESTS = (AllMids, L2Book, ExchangeStatus)
_ROWS_PER_WEIGHT: dict[type, int] = {CandleSnapshot: 60, FundingHistory: 20}


def request_weight(request: Request, rows: int) -> int:
    """What a question costs once `rows` were answered; asking the world for its time is free."""
    if isinstance(request, WorldClock):
        return 0
    base = _LIGHT if isinstance(request, _LIGHT_REQUESTS) else _USUAL
    per_weight = _ROWS_PER_WEIGHT.get(type(request))
    return base + math.ceil(rows / per_weight) if per_weight else base


def request_subject(request: Request) -> str:
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


def request_type(request: Request) -> str:
    """The `type` of a question."""
    return str(request.__struct_config__.tag)


MOST_SOCKETS = 10
MOST_NEW_SOCKETS = 30
MOST_SUBSCRIPTIONS = 1_000
MOST_MESSAGES = 2_000


class ClientRateWindow:
    """What was spent in the minute that ends now."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spent: deque[tuple[int, int]] = deque()
        self._sum = 0

    def fits(self, now: int, amount: int) -> bool:
        """Whether so much more may be spent."""
        while self._spent and self._spent[0][0] <= now - MINUTE:
            self._sum -= self._spent.popleft()[1]
        return self._sum + amount <= self._limit

    def spend(self, now: int, amount: int) -> None:
        """Notes what was spent; rows that were found on the way may pass the limit."""
        self._spent.append((now, amount))
        self._sum += amount

    def try_spend(self, now: int, amount: int = 1) -> bool:
        """Spends if it fits."""
        fits = self.fits(now, amount)
        if fits:
            self.spend(now, amount)
        return fits


class ClientLimits:
    """One address with its windows and what it holds open."""

    def __init__(self) -> None:
        self.weight = ClientRateWindow(WEIGHT_PER_MINUTE)
        self.messages = ClientRateWindow(MOST_MESSAGES)
        self.new_sockets = ClientRateWindow(MOST_NEW_SOCKETS)
        self.sockets = 0
        self.subscriptions = 0
