"""Answers of `POST /info` as values; what cannot be read becomes `Malformed` instead of an exception.

Lists are read row by row when they cannot be read at once, so one odd coin never hides the others.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from tapebook.domain.market import Candle
from tapebook.tape.sources.hyperliquid.wire import (
    READ_ERRORS,
    CandleRow,
    Instant,
    Malformed,
    candle_of,
    malformed,
)

Row = TypeVar("Row")


class Perp(Struct, frozen=True, rename="camel"):
    """One line of a perp universe; delisted ones keep their place."""

    name: str
    is_delisted: bool = False


class SpotPair(Struct, frozen=True):
    """One spot pair; `index` is its number, not its place in the list."""

    name: str
    index: int


class ContextRow(Struct, frozen=True, rename="camel"):
    """The exchange's view of one perp; what an empty book leaves unknown is None."""

    funding: str
    open_interest: str
    mark_px: str
    oracle_px: str
    premium: str | None = None


class Level(Struct, frozen=True):
    """One price of a book."""

    px: str
    sz: str


class BookRow(Struct, frozen=True):
    """A book: bids downwards, asks upwards, best first."""

    coin: str
    time: Instant
    levels: tuple[list[Level], list[Level]]


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


class Rows(Struct, Generic[Row], frozen=True):
    """The rows that could be read, in their places (None where one could not), and what was wrong."""

    rows: list[Row | None]
    problems: tuple[Malformed, ...] = ()

    def good(self) -> list[Row]:
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
_context = msgspec.json.Decoder(ContextRow)
_candle = msgspec.json.Decoder(CandleRow)
_funding = msgspec.json.Decoder(FundingRow)
_predicted = msgspec.json.Decoder(tuple[str, list[Raw]])
_venue: msgspec.json.Decoder[tuple[str, VenueRow | None]] = msgspec.json.Decoder(tuple[str, VenueRow | None])
_named: msgspec.json.Decoder[tuple[str, Raw]] = msgspec.json.Decoder(tuple[str, Raw])
_coin = msgspec.json.Decoder(_Coin)
_text = msgspec.json.Decoder(str)
_first = msgspec.json.Decoder(list[Raw])


def read_meta(body: bytes) -> Perps | Malformed:
    """The answer to `meta`."""
    try:
        read = _each("meta", _meta.decode(body).universe, _perp)
    except READ_ERRORS as error:
        return _malformed("meta", error, body)
    return Perps(read.rows, [], read.problems)


def read_spot_meta(body: bytes) -> Rows[SpotPair] | Malformed:
    """The pairs in the answer to `spotMeta`."""
    try:
        return _each("spotMeta", _spot_meta.decode(body).universe, _pair)
    except READ_ERRORS as error:
        return _malformed("spotMeta", error, body)


def read_contexts(body: bytes) -> Perps | Malformed:
    """The answer to `metaAndAssetCtxs`: two lists that belong together by place, so they must be equally long."""
    try:
        meta, raws = _meta_and_contexts.decode(body)
    except READ_ERRORS as error:
        return _malformed("metaAndAssetCtxs", error, body)
    if len(meta.universe) != len(raws):
        return Malformed("metaAndAssetCtxs", f"{len(meta.universe)} perps but {len(raws)} contexts")
    perps = _each("metaAndAssetCtxs", meta.universe, _perp)
    # A context does not say whose it is: its place does.
    names = [perp.name if perp is not None else "" for perp in perps.rows]
    contexts = _each("metaAndAssetCtxs", raws, _context, names=names)
    return Perps(perps.rows, contexts.rows, perps.problems + contexts.problems)


def read_book(body: bytes) -> BookRow | Malformed | None:
    """The answer to `l2Book`; None when the exchange knows no such coin."""
    try:
        return _book.decode(body)
    except READ_ERRORS as error:
        return _malformed("l2Book", error, body)


def read_candles(body: bytes) -> Rows[Candle] | Malformed:
    """The answer to `candleSnapshot`, ascending; the last one is still forming."""
    found = _read_rows("candleSnapshot", body, _candle)
    if isinstance(found, Malformed):
        return found
    rows: list[Candle | None] = []
    problems = list(found.problems)
    for row in found.good():
        try:
            rows.append(candle_of(row))
        except ValueError as error:
            problems.append(malformed("candleSnapshot", error, row.symbol, subject=row.symbol))
    return Rows(rows, tuple(problems))


def read_predicted(body: bytes) -> Rows[PredictedRow] | Malformed:
    """The answer to `predictedFundings`; a venue that does not list the coin is None, and an odd one is left out."""
    found = _read_rows("predictedFundings", body, _predicted)
    if isinstance(found, Malformed):
        return found
    rows: list[PredictedRow | None] = []
    problems = list(found.problems)
    for coin, raws in found.good():
        names = [f"{coin} {_venue_in(raw)}".strip() for raw in raws]
        venues = _each("predictedFundings", raws, _venue, names=names)
        rows.append((coin, venues.good()))
        problems += venues.problems
    return Rows(rows, tuple(problems))


def read_funding(body: bytes) -> Rows[FundingRow] | Malformed:
    """The answer to `fundingHistory`, ascending."""
    return _read_rows("fundingHistory", body, _funding)


def _read_rows(what: str, body: bytes, decoder: msgspec.json.Decoder[Row]) -> Rows[Row] | Malformed:
    try:
        raws = _raws.decode(body)
    except READ_ERRORS as error:
        return _malformed(what, error, body)
    return _each(what, raws, decoder)


def _each(
    what: str, raws: Sequence[Raw], decoder: msgspec.json.Decoder[Row], *, names: Sequence[str] = ()
) -> Rows[Row]:
    """Each row by itself; `names` says whose they are, when they do not say it themselves."""
    rows: list[Row | None] = []
    problems = []
    for place, raw in enumerate(raws):
        try:
            rows.append(decoder.decode(raw))
        except READ_ERRORS as error:
            rows.append(None)
            subject = names[place] if names else _name_in(raw)
            problems.append(_malformed(what, error, bytes(raw), subject=subject))
    return Rows(rows, tuple(problems))


def _name_in(raw: Raw) -> str:
    """Whose row it is that cannot be read, as far as it says so."""
    try:
        if bytes(raw).lstrip()[:1] == b"[":
            return _text.decode(_first.decode(raw)[0])
        found = _coin.decode(raw)
        return found.name or found.coin or found.s
    except (*READ_ERRORS, IndexError):
        return ""


def _venue_in(raw: Raw) -> str:
    try:
        return _named.decode(raw)[0]
    except READ_ERRORS:
        return ""


def _malformed(what: str, error: Exception, body: Any, *, subject: str = "") -> Malformed:
    return malformed(what, error, bytes(body[:200]).decode(errors="replace"), subject=subject)
