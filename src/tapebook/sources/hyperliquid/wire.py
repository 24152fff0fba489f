"""What Hyperliquid sends, as values: frames of the WebSocket and answers of `POST /info`.

Decimal texts become integers here, and nothing here raises. What cannot be read becomes `Malformed`, to be counted
and shown; a stream never ends because of one bad frame. Every map of mids is full, every candle is the whole bar so
far, and only `pong` comes without data. Lists are read row by row when they cannot be read at once, so one odd coin
never hides the others.
"""

import re
from collections.abc import Sequence
from math import inf
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

from tapebook.domain.market import Candle
from tapebook.domain.units import E8, MINUTE, SECOND, floats_to_e8, to_e8

_MINUTE_SEC = MINUTE // SECOND
_FOUR_E8 = 4 * E8
READ_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)

# The year 2100: a later time is a damaged number, and would not fit where instants are kept.
Instant = Annotated[int, Meta(ge=0, le=4_102_444_800_000)]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Malformed(Struct, frozen=True):
    """Something that could not be read: what it was taken for, why it is not that, how it begins, whose it was."""

    what: str
    why: str
    text: str = ""
    subject: str = ""


class MidsFrame(Struct, frozen=True):
    """The mids of one dex in two columns, and the names whose price could not be read."""

    dex: str
    symbols: list[str]
    prices_e8: list[int]
    bad: tuple[str, ...] = ()


class CandlesFrame(Struct, frozen=True, gc=False):
    """Bars as they stand; whether one is final, the wire does not say. `bad` are the rows that are no bars."""

    candles: tuple[Candle, ...]
    bad: tuple[Malformed, ...] = ()


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


class CandleRow(Struct, frozen=True, gc=False):
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


class _CandleMessage(Struct, gc=False):
    # Documented as an array, sent as one object: both are read.
    data: CandleRow | list[CandleRow]


class _RawCandles(Struct):
    data: list[Raw]


class _QuickMids(Struct):
    mids: dict[str, float]
    dex: str | None = None


class _QuickMidsMessage(Struct):
    data: _QuickMids


class _ExactMids(Struct):
    mids: dict[str, Raw]
    dex: str | None = None


class _ExactMidsMessage(Struct):
    data: _ExactMids


class _Echo(Struct):
    type: str = ""
    coin: str | None = None
    dex: str | None = None


class _AckRow(Struct):
    method: str
    subscription: _Echo


class _AckMessage(Struct):
    data: _AckRow


class _ErrorMessage(Struct):
    data: str


_envelope = msgspec.json.Decoder(_Envelope)
_candle_message = msgspec.json.Decoder(_CandleMessage)
_raw_candles = msgspec.json.Decoder(_RawCandles)
_candle_row = msgspec.json.Decoder(CandleRow)
# Not strict, so that texts are read as floats on the way.
_quick_mids = msgspec.json.Decoder(_QuickMidsMessage, strict=False)
_exact_mids = msgspec.json.Decoder(_ExactMidsMessage)
_ack_message = msgspec.json.Decoder(_AckMessage)
_error = msgspec.json.Decoder(_ErrorMessage)
_echo = msgspec.json.Decoder(_Echo)
_text = msgspec.json.Decoder(str)

_SYMBOL = re.compile(r'"s": ?"([^"]+)"')
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
        # The exchange writes the channel first: of a message that is all prices nothing else is read twice.
        if isinstance(text, str) and text.startswith('{"channel":"candle",'):
            return _read_candles(text)
        if isinstance(text, str) and text.startswith('{"channel":"allMids",'):
            return _read_mids(text)
        return _read_message(_envelope.decode(text).channel, text)
    except READ_ERRORS as error:
        shown = text if isinstance(text, str) else text.decode(errors="replace")
        return OtherFrame("greeting") if shown.startswith(_GREETING) else describe_malformed("frame", error, shown)


def _read_message(channel: str, text: str | bytes) -> Frame:
    if channel == "candle":
        return _read_candles(text)
    if channel == "allMids":
        return _read_mids(text)
    if channel == "pong":
        return Pong()
    if channel == "subscriptionResponse":
        ack = _ack_message.decode(text).data
        return _ack_of(ack.method, ack.subscription)
    if channel == "error":
        return _read_error(_error.decode(text).data)
    return OtherFrame(channel)


def _read_candles(text: str | bytes) -> CandlesFrame:
    """All bars at once when they are ordinary, else one by one."""
    # One by one, so that a bar that cannot be read hides no other.
    try:
        rows = _candle_message.decode(text).data
        return CandlesFrame(tuple(map(candle_of, rows)) if isinstance(rows, list) else (candle_of(rows),))
    except READ_ERRORS as error:
        try:
            raws = _raw_candles.decode(text).data
        except READ_ERRORS:
            raise error from None
    candles, bad = [], []
    for raw in raws:
        try:
            candles.append(candle_of(_candle_row.decode(raw)))
        except READ_ERRORS as error:
            shown = bytes(raw).decode(errors="replace")
            bad.append(describe_malformed("candle", error, shown, subject=symbol_in(shown)))
    return CandlesFrame(tuple(candles), tuple(bad))


def _read_mids(text: str | bytes) -> MidsFrame:
    """The fast way when all prices are ordinary; one by one when any is not."""
    try:
        quick = _quick_mids.decode(text).data
    except msgspec.ValidationError:
        return _read_mids_one_by_one(text)
    prices = floats_to_e8(quick.mids.values())
    if prices is None:
        return _read_mids_one_by_one(text)
    return MidsFrame(quick.dex or "", list(quick.mids), prices)


def _read_mids_one_by_one(text: str | bytes) -> MidsFrame:
    exact = _exact_mids.decode(text).data
    prices: dict[str, int] = {}
    bad = []
    for name, raw in exact.mids.items():
        try:
            prices[name] = price_e8(_text.decode(raw))
        except READ_ERRORS:
            bad.append(name)
    return MidsFrame(exact.dex or "", list(prices), list(prices.values()), tuple(bad))


def _ack_of(method: str, echo: _Echo) -> Ack:
    return Ack(method, echo.type, echo.coin or "", echo.dex or "")


def _read_error(text: str) -> Frame:
    for beginning, method in _COMPLAINTS.items():
        if text.startswith(beginning):
            return _ack_of(method, _echo.decode(text.removeprefix(beginning)))
    return ErrorFrame(text)


def candle_of(row: CandleRow) -> Candle:
    """A bar as a fact. ValueError when it is none; the exchange names no quote volume, so it is estimated."""
    begins, volume = row.begins, float(row.volume)
    if row.interval != "1m" or begins % MINUTE:
        raise ValueError(f"a bar of {row.interval} at {begins} is no minute")
    # A number that is not finite fails this comparison.
    if not 0 <= volume < inf:
        raise ValueError(f"{row.volume!r} is no volume")
    opened, high, low, close = to_e8(row.open), to_e8(row.high), to_e8(row.low), to_e8(row.close)
    total = opened + high + low + close
    if opened <= 0 or high <= 0 or low <= 0 or close <= 0 or total >= 2**63:
        raise ValueError(f"{row.open!r}, {row.high!r}, {row.low!r}, {row.close!r} are no prices")
    quote = volume * total / _FOUR_E8
    return Candle(row.symbol, _MINUTE_SEC, begins, opened, high, low, close, volume, quote, row.trades)


def price_e8(text: str) -> int:
    """A positive price, exact to the last of eight decimals. ValueError when it is none."""
    price = to_e8(text)
    if not 0 < price < 2**63:
        raise ValueError(f"{text!r} is no price")
    return price


def symbols_of_damaged_frame(found: Malformed, carried: Sequence[str]) -> list[str]:
    """The symbols whose candle a frame that cannot be read may have been, of those its connection carries."""
    if found.text.startswith('{"channel":"allMids"'):
        return []
    named = symbol_in(found.text)
    return [named] if named in carried else list(carried)


def symbol_in(text: str) -> str:
    """The symbol that a bar which cannot be read names; empty when it names none."""
    named = _SYMBOL.search(text)
    return named[1] if named else ""


def describe_malformed(what: str, error: Exception, text: str, *, subject: str = "") -> Malformed:
    """What could not be read, with enough of it to recognise it."""
    return Malformed(what, f"{type(error).__name__}: {error}"[:200], text[:200], subject[:80])


Row = TypeVar("Row")


class Perp(Struct, frozen=True, rename="camel"):
    """One line of a perp universe; delisted ones keep their place."""

    name: str
    is_delisted: bool = False
    # Only the registry reads these: odd ones must not cost the perp.
    sz_decimals: Any = None
    max_leverage: Any = None


class SpotPair(Struct, frozen=True):
    """One spot pair; `index` is its number, not its place in the list. Its tokens are those it names by their index."""

    name: str
    index: int
    tokens: Any = ()


class SpotToken(Struct, frozen=True, rename="camel"):
    """A token, named by whoever deployed it."""

    name: str
    index: int
    sz_decimals: Any = None


class ContextRow(Struct, frozen=True, rename="camel"):
    """The exchange's view of one perp; what an empty book leaves unknown is None."""

    funding: str
    open_interest: str
    mark_px: str
    oracle_px: str
    premium: str | None = None


class LevelRow(Struct, frozen=True):
    """One price of a book."""

    px: str
    sz: str


class BookRow(Struct, frozen=True):
    """A book: bids downwards, asks upwards, best first."""

    coin: str
    time: Instant
    levels: tuple[list[LevelRow], list[LevelRow]]


class VenueRow(Struct, frozen=True, rename="camel"):
    """What one venue will charge next."""

    funding_rate: str
    next_funding_time: Instant
    # Some venues name none; it is never assumed.
    funding_interval_hours: Annotated[int, Meta(gt=0, le=1000)] | None = None


class FundingRow(Struct, frozen=True, rename="camel"):
    """One settled rate; the time is a few milliseconds past the hour."""

    coin: str
    funding_rate: str
    time: Instant
    premium: str | None = None


class AnswerRows(Struct, Generic[Row], frozen=True):
    """The rows that could be read, in their places (None where one could not), and what was wrong."""

    rows: list[Row | None]
    problems: tuple[Malformed, ...] = ()

    def good_rows(self) -> list[Row]:
        """The rows that could be read."""
        return [row for row in self.rows if row is not None]


class Perps(Struct, frozen=True):
    """A perp universe with the contexts that belong to it, place by place; without contexts when only it was asked."""

    universe: list[Perp | None]
    contexts: list[ContextRow | None]
    problems: tuple[Malformed, ...] = ()


class _Meta(Struct):
    universe: list[Raw]


class _SpotMeta(Struct):
    universe: list[Raw]
    tokens: list[Raw] = []


class _Coin(Struct):
    """The name in a row that cannot be read otherwise: of a universe, of rates, of bars."""

    name: str = ""
    coin: str = ""
    s: str = ""


PredictedRow = tuple[str, list[tuple[str, VenueRow | None]]]

_meta = msgspec.json.Decoder(_Meta)
_spot_meta = msgspec.json.Decoder(_SpotMeta)
_meta_and_contexts = msgspec.json.Decoder(tuple[_Meta, list[Raw]])
_book: msgspec.json.Decoder[BookRow | None] = msgspec.json.Decoder(BookRow | None)
_raws = msgspec.json.Decoder(list[Raw])
_perp = msgspec.json.Decoder(Perp)
_pair = msgspec.json.Decoder(SpotPair)
_token = msgspec.json.Decoder(SpotToken)
_context = msgspec.json.Decoder(ContextRow)
_candle = msgspec.json.Decoder(CandleRow)
_funding = msgspec.json.Decoder(FundingRow)
_predicted = msgspec.json.Decoder(tuple[str, list[Raw]])
_venue: msgspec.json.Decoder[tuple[str, VenueRow | None]] = msgspec.json.Decoder(tuple[str, VenueRow | None])
_named: msgspec.json.Decoder[tuple[str, Raw]] = msgspec.json.Decoder(tuple[str, Raw])
_coin = msgspec.json.Decoder(_Coin)
_raw_list = msgspec.json.Decoder(list[Raw])


def read_meta(body: bytes) -> Perps | Malformed:
    """The answer to `meta`."""
    try:
        read = _read_each("meta", _meta.decode(body).universe, _perp)
    except READ_ERRORS as error:
        return _malformed_body("meta", error, body)
    return Perps(read.rows, [], read.problems)


def read_spot_meta(body: bytes) -> AnswerRows[SpotPair] | Malformed:
    """The pairs in the answer to `spotMeta`."""
    try:
        return _read_each("spotMeta", _spot_meta.decode(body).universe, _pair)
    except READ_ERRORS as error:
        return _malformed_body("spotMeta", error, body)


def read_spot_tokens(body: bytes) -> dict[int, SpotToken]:
    """The tokens in the answer to `spotMeta` by their index; one that cannot be read is named with the pairs."""
    try:
        rows = _read_each("spotMeta tokens", _spot_meta.decode(body).tokens, _token)
    except READ_ERRORS:
        return {}
    return {token.index: token for token in rows.good_rows()}


def read_contexts(body: bytes) -> Perps | Malformed:
    """The answer to `metaAndAssetCtxs`: two lists that belong together by place, so they must be equally long."""
    try:
        meta, raws = _meta_and_contexts.decode(body)
    except READ_ERRORS as error:
        return _malformed_body("metaAndAssetCtxs", error, body)
    if len(meta.universe) != len(raws):
        return Malformed("metaAndAssetCtxs", f"{len(meta.universe)} perps but {len(raws)} contexts")
    perps = _read_each("metaAndAssetCtxs", meta.universe, _perp)
    # A context does not say whose it is: its place does.
    names = [perp.name if perp is not None else "" for perp in perps.rows]
    contexts = _read_each("metaAndAssetCtxs", raws, _context, names=names)
    return Perps(perps.rows, contexts.rows, perps.problems + contexts.problems)


def read_book(body: bytes) -> BookRow | Malformed | None:
    """The answer to `l2Book`; None when the exchange knows no such coin."""
    try:
        return _book.decode(body)
    except READ_ERRORS as error:
        return _malformed_body("l2Book", error, body)


def read_candles(body: bytes) -> AnswerRows[Candle] | Malformed:
    """The answer to `candleSnapshot`, ascending; the last one is still forming."""
    found = _read_rows("candleSnapshot", body, _candle)
    if isinstance(found, Malformed):
        return found
    rows: list[Candle | None] = []
    problems = list(found.problems)
    for row in found.good_rows():
        try:
            rows.append(candle_of(row))
        except ValueError as error:
            problems.append(describe_malformed("candleSnapshot", error, row.symbol, subject=row.symbol))
    return AnswerRows(rows, tuple(problems))


def read_predicted(body: bytes) -> AnswerRows[PredictedRow] | Malformed:
    """The answer to `predictedFundings`; a venue that does not list the coin is None, and an odd one is left out."""
    found = _read_rows("predictedFundings", body, _predicted)
    if isinstance(found, Malformed):
        return found
    rows: list[PredictedRow | None] = []
    problems = list(found.problems)
    for coin, raws in found.good_rows():
        names = [f"{coin} {_venue_in(raw)}".strip() for raw in raws]
        venues = _read_each("predictedFundings", raws, _venue, names=names)
        rows.append((coin, venues.good_rows()))
        problems += venues.problems
    return AnswerRows(rows, tuple(problems))


def read_funding(body: bytes) -> AnswerRows[FundingRow] | Malformed:
    """The answer to `fundingHistory`, ascending."""
    return _read_rows("fundingHistory", body, _funding)


def _read_rows(what: str, body: bytes, decoder: msgspec.json.Decoder[Row]) -> AnswerRows[Row] | Malformed:
    try:
        raws = _raws.decode(body)
    except READ_ERRORS as error:
        return _malformed_body(what, error, body)
    return _read_each(what, raws, decoder)


def _read_each(
    what: str, raws: Sequence[Raw], decoder: msgspec.json.Decoder[Row], *, names: Sequence[str] = ()
) -> AnswerRows[Row]:
    """Each row by itself; `names` says whose they are, when they do not say it themselves."""
    rows: list[Row | None] = []
    problems = []
    for place, raw in enumerate(raws):
        try:
            rows.append(decoder.decode(raw))
        except READ_ERRORS as error:
            rows.append(None)
            subject = names[place] if names else _name_in(raw)
            problems.append(_malformed_body(what, error, bytes(raw), subject=subject))
    return AnswerRows(rows, tuple(problems))


def _name_in(raw: Raw) -> str:
    """Whose row it is that cannot be read, as far as it says so."""
    try:
        if bytes(raw).lstrip()[:1] == b"[":
            return _text.decode(_raw_list.decode(raw)[0])
        found = _coin.decode(raw)
        return found.name or found.coin or found.s
    except (*READ_ERRORS, IndexError):
        return ""


def _venue_in(raw: Raw) -> str:
    try:
        return _named.decode(raw)[0]
    except READ_ERRORS:
        return ""


def _malformed_body(what: str, error: Exception, body: Any, *, subject: str = "") -> Malformed:
    return describe_malformed(what, error, bytes(body[:200]).decode(errors="replace"), subject=subject)
