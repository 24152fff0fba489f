"""Frames of the WebSocket as values: decimal texts become integers here, and nothing here raises.

`read_frame` takes what a socket received. What cannot be read becomes `Malformed`, to be counted
and shown; a stream never ends because of one bad frame. Every map of mids is full, every candle
is the whole bar so far, and only `pong` comes without data.
"""

import re
from collections.abc import Sequence
from math import floor as whole
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, field

from tapebook.domain.instants import MINUTE, SECOND
from tapebook.domain.market import Candle
from tapebook.domain.money import E8, scaled

# Below this a float times 10**8 is off by less than half a unit, so rounding gives the exact integer.
FAST_LIMIT = 9e6
LEAST_PRICE = 1 / E8
READ_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)

# The year 2100: a later time is a damaged number, and would not fit where instants are kept.
Instant = Annotated[int, Meta(ge=0, le=4_102_444_800_000)]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Malformed(Struct, frozen=True):
    """Something that could not be read: what it was taken for, why it is not that, and how it begins."""

    what: str
    why: str
    text: str = ""


class MidsFrame(Struct, frozen=True):
    """The mids of one dex, and the names whose price could not be read."""

    dex: str
    prices_e8: dict[str, int]
    bad: tuple[str, ...] = ()


class CandlesFrame(Struct, frozen=True):
    """Bars as they stand; whether one is final, the wire does not say."""

    candles: tuple[Candle, ...]


class Ack(Struct, frozen=True):
    """The server's word on a subscription: subscribe, unsubscribe or refuse. Its echo may name more than was sent."""

    method: str
    kind: str
    coin: str
    dex: str


class ErrorFrame(Struct, frozen=True):
    """The server's complaint."""

    text: str


class Pong(Struct, frozen=True):
    """The answer to a ping."""


class OtherFrame(Struct, frozen=True):
    """A channel nobody here listens to, or the greeting of older servers."""

    channel: str


Frame = MidsFrame | CandlesFrame | Ack | ErrorFrame | Pong | OtherFrame | Malformed


class CandleRow(Struct, frozen=True):
    """A bar as the exchange writes it, over the socket and over REST."""

    begins: Instant = field(name="t")
    symbol: str = field(name="s")
    interval: str = field(name="i")
    open: str = field(name="o")
    high: str = field(name="h")
    low: str = field(name="l")
    close: str = field(name="c")
    volume: str = field(name="v")
    trades: Count = field(name="n")


class _Envelope(Struct):
    channel: str
    data: Raw = Raw(b"null")


class _QuickMids(Struct):
    mids: dict[str, float]
    dex: str | None = None


class _ExactMids(Struct):
    mids: dict[str, Raw]
    dex: str | None = None


class _Echo(Struct):
    type: str = ""
    coin: str | None = None
    dex: str | None = None


class _AckRow(Struct):
    method: str
    subscription: _Echo


_envelope = msgspec.json.Decoder(_Envelope)
_quick_mids = msgspec.json.Decoder(_QuickMids, strict=False)
_exact_mids = msgspec.json.Decoder(_ExactMids)
# Documented as an array, sent as one object: both are read.
_candles = msgspec.json.Decoder(CandleRow | list[CandleRow])
_ack = msgspec.json.Decoder(_AckRow)
_echo = msgspec.json.Decoder(_Echo)
_text = msgspec.json.Decoder(str)

_SYMBOL = re.compile(r'"s":"([^"]+)"')
_GREETING = "Websocket connection established"
# Complaints about one subscription, and what they say about it: to ask twice is none, the subscription stands.
_COMPLAINTS = {
    "Already subscribed: ": "subscribe",
    "Already unsubscribed: ": "unsubscribe",
    "Invalid subscription ": "refuse",
}


def read_frame(text: str | bytes) -> Frame:
    """One message of the socket as a value."""
    try:
        envelope = _envelope.decode(text)
        return _read_data(envelope.channel, envelope.data)
    except READ_ERRORS as error:
        shown = text if isinstance(text, str) else text.decode(errors="replace")
        return OtherFrame("greeting") if shown.startswith(_GREETING) else malformed("frame", error, shown)


def _read_data(channel: str, data: Raw) -> Frame:
    if channel == "candle":
        rows = _candles.decode(data)
        return CandlesFrame(tuple(map(candle_of, rows if isinstance(rows, list) else [rows])))
    if channel == "allMids":
        return _read_mids(data)
    if channel == "pong":
        return Pong()
    if channel == "subscriptionResponse":
        ack = _ack.decode(data)
        return _ack_of(ack.method, ack.subscription)
    if channel == "error":
        return _read_error(_text.decode(data))
    return OtherFrame(channel)


def _read_mids(data: Raw) -> MidsFrame:
    """The fast way when all prices are ordinary; one by one when any is not."""
    try:
        quick = _quick_mids.decode(data)
        values = quick.mids.values()
        if quick.mids and min(values) >= LEAST_PRICE and max(values) < FAST_LIMIT:
            # `floor` of a half more is a quarter faster than `round`, and a frame has a thousand prices.
            return MidsFrame(quick.dex or "", {name: whole(price * E8 + 0.5) for name, price in quick.mids.items()})
    except (msgspec.ValidationError, ValueError):
        # A text that is no number, or the number that is none and passes every comparison: `nan` cannot be rounded.
        pass
    return _read_mids_one_by_one(data)


def _read_mids_one_by_one(data: Raw) -> MidsFrame:
    exact = _exact_mids.decode(data)
    prices: dict[str, int] = {}
    bad = []
    for name, raw in exact.mids.items():
        try:
            prices[name] = price_e8(_text.decode(raw))
        except READ_ERRORS:
            bad.append(name)
    return MidsFrame(exact.dex or "", prices, tuple(bad))


def _ack_of(method: str, echo: _Echo) -> Ack:
    return Ack(method, echo.type, echo.coin or "", echo.dex or "")


def _read_error(text: str) -> Frame:
    for beginning, method in _COMPLAINTS.items():
        if text.startswith(beginning):
            return _ack_of(method, _echo.decode(text.removeprefix(beginning)))
    return ErrorFrame(text)


def candle_of(row: CandleRow) -> Candle:
    """A bar as a fact. ValueError when it is none; the exchange names no quote volume, so it is estimated."""
    if row.interval != "1m" or row.begins % MINUTE:
        raise ValueError(f"a bar of {row.interval} at {row.begins} is no minute")
    opened, high, low, close = price_e8(row.open), price_e8(row.high), price_e8(row.low), price_e8(row.close)
    volume = float(row.volume)
    # A number that is not finite fails this comparison.
    if not 0 <= volume < float("inf"):
        raise ValueError(f"{row.volume!r} is no volume")
    quote = volume * (opened + high + low + close) / (4 * E8)
    bar = (opened, high, low, close, volume, quote, row.trades)
    return Candle(row.symbol, MINUTE // SECOND, row.begins, *bar)


def price_e8(text: str) -> int:
    """A positive price, exact to the last of eight decimals. ValueError when it is none."""
    price = float(text)
    if LEAST_PRICE <= price < FAST_LIMIT:
        return whole(price * E8 + 0.5)
    exact = scaled(text, E8)
    if exact <= 0 or exact >= 2**63:
        raise ValueError(f"{text!r} is no price")
    return exact


def damaged_candles(found: Malformed, carried: Sequence[str]) -> list[str]:
    """The symbols whose candle a frame that cannot be read may have been, of those its connection carries."""
    if found.text.startswith('{"channel":"allMids"'):
        return []
    named = _SYMBOL.search(found.text)
    return [named[1]] if named and named[1] in carried else list(carried)


def malformed(what: str, error: Exception, text: str) -> Malformed:
    """What could not be read, with enough of it to recognise it."""
    return Malformed(what, f"{type(error).__name__}: {error}"[:200], text[:200])
