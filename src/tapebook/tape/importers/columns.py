"""Which column of a file is which, by the names that exchanges and tools give them, or without a header by place."""

import re
from collections.abc import Sequence

import msgspec

from tapebook.errors import BadInput
from tapebook.tape.importers.table import Table

# In the order of preference; written as `_plain` makes them.
_NAMES: dict[str, tuple[str, ...]] = {
    "time": (
        *("open_time", "opentime", "timestamp", "timestamp_ms", "unix", "unix_timestamp", "epoch", "bucket_ts", "ts"),
        *("calc_time", "funding_time", "fundingtime", "start_time", "starttime", "time", "datetime", "date", "start"),
        *("begin", "t"),
    ),
    "open": ("open", "open_price", "o"),
    "high": ("high", "high_price", "h"),
    "low": ("low", "low_price", "l"),
    "close": ("close", "close_price", "c"),
    "volume": ("volume", "volume_base", "base_volume", "vol", "v"),
    "quote_volume": (
        *("quote_volume", "quotevolume", "quote_asset_volume", "volume_quote", "volume_quote_usd", "volume_usd"),
        *("turnover", "q"),
    ),
    "trades": ("trades", "trade_count", "tradecount", "number_of_trades", "num_trades", "count", "sample_count", "n"),
    "rate": ("funding_rate", "fundingrate", "last_funding_rate", "lastfundingrate", "rate", "funding"),
    "premium": ("premium",),
    "price": ("mark_price", "markprice", "mark", "mark_px", "markpx", "price", "px", "mid"),
    "interval": ("interval", "timeframe", "i"),
    "symbol": ("symbol", "coin", "ticker", "pair", "instrument", "s"),
    "market": ("market", "market_type"),
}
_COIN_VOLUME = re.compile(r"volume_([a-z0-9]{2,6})")
_QUOTES = ("usd", "usdt", "usdc", "busd", "eur")

_BARS = ("time", "open", "high", "low", "close", "volume")
# The dumps of Binance; what stands between and after these columns is not used.
_WIDE_BARS = (*_BARS, "", "quote_volume", "trades")
_WIDE = 12
_BY_PLACE = {
    "candles": {6: _BARS, _WIDE: _WIDE_BARS},
    "funding": {2: ("time", "rate"), 6: _BARS},
    "marks": {2: ("time", "price"), 5: _BARS[:5], 6: _BARS, _WIDE: _BARS},
}


class Columns(msgspec.Struct, frozen=True):
    """Where each field stands in a row, and what the file calls it."""

    at: dict[str, int]
    names: tuple[str, ...]

    def has(self, *fields: str) -> bool:
        """Whether all of these fields are there."""
        return all(field in self.at for field in fields)

    def require(self, *fields: str) -> None:
        """BadInput when a field is missing."""
        missing = [field for field in fields if field not in self.at]
        if missing:
            known = ", ".join(_NAMES[missing[0]][:4])
            has = ", ".join(self.names)[:200]
            raise BadInput(f"there is no column for {missing[0]} (called {known}, …); the file has: {has}")

    def called(self, *fields: str) -> dict[str, str]:
        """The names the file gives to those of the fields that it has."""
        return {field: self.names[self.at[field]] for field in fields if field in self.at}


def is_header(cells: Sequence[str]) -> bool:
    """Whether the cells of a line are names of columns."""
    found = _by_name(cells)
    return "time" in found and len(found) > 1


def find(table: Table, kind: str) -> Columns:
    """The columns of a table; without a header the usual order of that many columns."""
    if table.has_header:
        return Columns(_by_name(table.names), table.names)
    layout = _BY_PLACE[kind].get(len(table.names))
    if layout is None:
        widths = " or ".join(str(width) for width in _BY_PLACE[kind])
        raise BadInput(f"there is no header and {len(table.names)} columns; {kind} without one have {widths}")
    return Columns({field: place for place, field in enumerate(layout) if field}, table.names)


def _by_name(names: Sequence[str]) -> dict[str, int]:
    found = {field: place for field, known in _NAMES.items() if (place := _place(names, known)) is not None}
    # Some sites name the coin: "Volume BTC" beside "Volume USDT".
    for place, name in enumerate(names):
        if (coin := _COIN_VOLUME.fullmatch(_plain(name))) and place not in found.values():
            found.setdefault("quote_volume" if coin[1] in _QUOTES else "volume", place)
    return found


def _place(names: Sequence[str], known: Sequence[str]) -> int | None:
    """The place of the first known name; one written exactly so comes first, since `t` and `T` are two columns."""
    plain = [_plain(name) for name in names]
    places = (here.index(name) for name in known for here in (list(names), plain) if name in here)
    return next(places, None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
