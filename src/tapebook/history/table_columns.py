"""Which column of a table is which, which rows are of one symbol, and cells as times and numbers of the tape.

Columns are found by the names that exchanges and tools give them, or without a header by place. `BTC` also finds
`BTC/USDT`, `BTCUSDT` and the like; where a symbol is there as a perp and as a spot pair, the perp is meant: that is
what the bare name stands for on the tape.

The first readable time decides how all of a column are written. Numbers are counted since 1970 in s, ms, µs or ns,
told apart by their size; text is ISO-8601, year first, and without a zone it is UTC. What is written differently
from the first, or lies outside 2000 to 2099, is bad. A value that is no price, volume, count or rate is bad, never a
guess.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import compress
from typing import Any

import msgspec

from tapebook.domain.text import plural
from tapebook.domain.units import E8, E12, to_units
from tapebook.errors import BadInput
from tapebook.history.tables import Block, Table
from tapebook.tape.view import EARLIEST

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
# So many columns every dump of Binance has.
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

    def names_in_file(self, *fields: str) -> dict[str, str]:
        """The names the file gives to those of the fields that it has."""
        return {field: self.names[self.at[field]] for field in fields if field in self.at}


def is_header(cells: Sequence[str]) -> bool:
    """Whether the cells of a line are names of columns."""
    found = _by_name(cells)
    return "time" in found and len(found) > 1


def find_columns(table: Table, kind: str) -> Columns:
    """The columns of a table; without a header the usual order of that many columns."""
    if table.has_header:
        return Columns(_by_name(table.names), table.names)
    layout = _BY_PLACE[kind].get(len(table.names))
    if layout is None:
        widths = " or ".join(str(width) for width in _BY_PLACE[kind])
        has = plural(len(table.names), "column")
        raise BadInput(f"the file has no header and {has}; {kind} without a header have {widths}")
    return Columns({field: place for place, field in enumerate(layout) if field}, table.names)


def _by_name(names: Sequence[str]) -> dict[str, int]:
    found = {field: place for field, known in _NAMES.items() if (place := _place_of_name(names, known)) is not None}
    # Some sites name the coin: "Volume BTC" beside "Volume USDT".
    for place, name in enumerate(names):
        if (coin := _COIN_VOLUME.fullmatch(_plain_name(name))) and place not in found.values():
            found.setdefault("quote_volume" if coin[1] in _QUOTES else "volume", place)
    return found


def _place_of_name(names: Sequence[str], known: Sequence[str]) -> int | None:
    """The place of the first known name."""
    # One written exactly so comes first, since `t` and `T` are two columns.
    plain = [_plain_name(name) for name in names]
    places = (here.index(name) for name in known for here in (list(names), plain) if name in here)
    return next(places, None)


def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


_QUOTED = re.compile(r"[-_/:]?(USD[TC]?|BUSD|EUR|PERP)([-_/:].*)?")
_PERPS = ("perp", "perpetual", "swap", "future", "futures", "linear")
_SHOWN = 20

SymbolGroup = tuple[str, str]


def rows_of_symbol(table: Table, columns: Columns, symbol: str) -> Table:
    """The table with the rows of a symbol alone; as it is when it has no column of names."""
    if not columns.has("symbol"):
        return table
    blocks = list(table.blocks)
    groups = [_groups_of_rows(block, columns) for block in blocks]
    rows = Counter(group for part in groups for group in part)
    chosen = _choose_group(rows, symbol)
    kept = (_masked_block(block, [one == chosen for one in part]) for block, part in zip(blocks, groups, strict=True))
    note = f"{rows[chosen]:,} of {rows.total():,} rows are of {' '.join(filter(None, chosen))}"
    return msgspec.structs.replace(table, blocks=kept, notes=(*table.notes, note))


def _groups_of_rows(block: Block, columns: Columns) -> list[SymbolGroup]:
    names = [str(name) for name in block.columns[columns.at["symbol"]]]
    markets = block.columns[columns.at["market"]] if columns.has("market") else [""] * len(names)
    return list(zip(names, map(str, markets), strict=True))


def _masked_block(block: Block, mask: list[bool]) -> Block:
    return Block(list(compress(block.numbers, mask)), [list(compress(column, mask)) for column in block.columns])


def _choose_group(rows: Counter[SymbolGroup], symbol: str) -> SymbolGroup:
    exact = [group for group in rows if group[0] == symbol]
    found = exact or [group for group in rows if _is_pair(group[0], symbol)]
    if not found:
        names = sorted({name for name, _ in rows})
        more = ", …" if len(names) > _SHOWN else ""
        raise BadInput(f"the file has no rows of {symbol}; it has: {', '.join(names[:_SHOWN])}{more}")
    if len(found) > 1:
        found = [group for group in found if group[1].lower() in _PERPS] or found
    if len(found) > 1:
        several = ", ".join(" ".join(filter(None, group)) for group in found)
        raise BadInput(f"{symbol} may be any of: {several}; leave the rows of one in the file")
    return found[0]


def _is_pair(name: str, symbol: str) -> bool:
    return name.startswith(symbol) and _QUOTED.fullmatch(name.removeprefix(symbol)) is not None


BAD_TIME = -1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# The year 2100: a later time is a number in another unit.
_LATEST = 4_102_444_800_000
# The largest instant of each unit, and how many of the unit make a millisecond; a second has a thousand of them.
_EPOCH_UNITS = {"s": (10**11, 0.001), "ms": (10**14, 1), "µs": (10**17, 1_000), "ns": (10**20, 1_000_000)}
_WORDS = {"s": "seconds", "ms": "milliseconds", "µs": "microseconds", "ns": "nanoseconds"}
# 20260131 is a date, not seconds since 1970.
_DATE_DIGITS = 8


class TimeColumn:
    """Reads one column, block after block."""

    def __init__(self, declared: str = "") -> None:
        # A column that holds instants by its type comes as milliseconds.
        self._unit = "ms" if declared else ""
        self._declared = declared

    @property
    def words(self) -> str:
        """How the times are written."""
        if self._declared:
            return self._declared
        if self._unit in _WORDS:
            return f"{_WORDS[self._unit]} since 1970, UTC"
        return {"zone": "ISO-8601 with a zone, turned into UTC", "": "no readable time"}.get(
            self._unit, "ISO-8601 without a zone, taken as UTC"
        )

    def read_block(self, values: Sequence[Any]) -> list[int]:
        """The instants of a block; BAD for what is none."""
        if not self._unit:
            self._unit = next((unit for unit in map(_unit_of, values) if unit), "")
        if self._unit in _EPOCH_UNITS:
            return self._read_counts(values)
        if self._unit:
            aware = self._unit == "zone"
            return [_checked_instant(_written_instant(value, aware)) for value in values]
        return [BAD_TIME] * len(values)

    def _read_counts(self, values: Sequence[Any]) -> list[int]:
        most, each = _EPOCH_UNITS[self._unit]
        least = most // 1000
        if each == 1 and (counts := _milliseconds(values)):
            return counts
        found = []
        for number in map(_number, values):
            if number is None or not least <= number < most:
                found.append(BAD_TIME)
            elif isinstance(each, float):
                found.append(_checked_instant(round(number * 1000)))
            else:
                found.append(_checked_instant(int(number // each)))
        return found


def _milliseconds(values: Sequence[Any]) -> list[int]:
    """A whole block at once; empty unless all of it are instants in milliseconds."""
    kinds = set(map(type, values))
    try:
        counts = list(map(int, values)) if kinds in ({int}, {str}) else []
    except ValueError:
        return []
    return counts if counts and min(counts) >= EARLIEST and max(counts) < _LATEST else []


def why_bad_time(value: Any) -> str:
    """Why a time cannot be used, in words."""
    if value is None or value == "":
        return "has no time"
    if not _unit_of(value):
        return f"time {str(value)[:40]!r} cannot be read: write it like 2026-01-31T12:05:00Z or as epoch milliseconds"
    return f"time {str(value)[:40]!r} is not between 2000 and 2099, or is written unlike the first"


def _checked_instant(instant: int) -> int:
    return instant if EARLIEST <= instant < _LATEST else BAD_TIME


def _number(value: Any) -> int | float | None:
    """A count since 1970; None for what is none, dates in eight digits among them."""
    if isinstance(value, str):
        if value.isdecimal():
            return int(value) if len(value) != _DATE_DIGITS else None
        try:
            return float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _unit_of(value: Any) -> str:
    """s, ms, µs or ns for a count; `zone` or `naive` for a text; empty for neither."""
    number = _number(value)
    if number is not None:
        return next((unit for unit, (most, _) in _EPOCH_UNITS.items() if most // 1000 <= number < most), "")
    moment = _parsed_moment(value)
    return "" if moment is None else "naive" if moment.tzinfo is None else "zone"


def _written_instant(value: Any, aware: bool) -> int:
    moment = _parsed_moment(value)
    if moment is None or (moment.tzinfo is not None) != aware:
        return BAD_TIME
    return ((moment if aware else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


def _parsed_moment(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text[4:5] in ("/", "."):
        text = text[:10].replace(text[4], "-") + text[10:]
    if text.endswith(" UTC"):
        text = f"{text[:-4]}+00:00"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


# Below this a float times 10**8 is off by less than half a unit, so rounding gives the exact integer.
_FAST_LIMIT = 9e6
_LEAST_PRICE = 1 / E8
_LARGEST = 2**63
# Far beyond any market, and far enough from infinity to be multiplied by a price.
_MOST_VOLUME = 1e30
# From here on eight decimals are more digits than anybody quotes.
_CHEAP = 100 * E8

BAD_PRICE = 0
BAD_VOLUME = -1.0


def read_prices_e8(values: Sequence[Any]) -> list[int]:
    """A column of prices; BAD_PRICE for what is none."""
    floats = _floats(values)
    if floats and min(floats) >= _LEAST_PRICE and max(floats) < _FAST_LIMIT:
        return [round(price * E8) for price in floats]
    return [read_price_e8(value) for value in values]


def read_price_e8(value: Any) -> int:
    """A positive price, to eight decimals; BAD_PRICE when it is none."""
    if value is True or value is False:
        return BAD_PRICE
    try:
        price = float(value)
        if _LEAST_PRICE <= price < _FAST_LIMIT:
            return round(price * E8)
        exact = to_units(value, E8)
    except (TypeError, ValueError, OverflowError):
        return BAD_PRICE
    return exact if 0 < exact < _LARGEST else BAD_PRICE


def count_rounded_prices(values: Sequence[Any], kept: Sequence[int]) -> int:
    """How many prices had more digits than the eight decimals that are kept."""
    if not kept or max(kept) >= _CHEAP:
        return 0
    pairs = ((float(value) * E8, price) for value, price in zip(values, kept, strict=True) if price != BAD_PRICE)
    return sum(abs(exact - price) > 1e-3 for exact, price in pairs)


def read_volumes(values: Sequence[Any]) -> list[float]:
    """A column of volumes; BAD_VOLUME for what is none."""
    floats = _floats(values)
    fits = floats and min(floats) >= 0 and max(floats) < _MOST_VOLUME
    return floats if fits else [read_volume(value) for value in values]


def _floats(values: Sequence[Any]) -> list[float]:
    """A whole block at once; empty unless all of it are finite numbers."""
    try:
        floats = list(map(float, values)) if bool not in set(map(type, values)) else []
    except (TypeError, ValueError, OverflowError):
        return []
    # A sum is finite only when all of its numbers are.
    return floats if math.isfinite(sum(floats)) else []


def read_volume(value: Any) -> float:
    """A volume that is not negative; BAD_VOLUME when it is none."""
    try:
        amount = float(value)
    except (TypeError, ValueError, OverflowError):
        return BAD_VOLUME
    # A number that is not finite fails this comparison.
    return amount if 0 <= amount < _MOST_VOLUME and not isinstance(value, bool) else BAD_VOLUME


def read_trade_count(value: Any) -> int:
    """A number of trades; -1 when it is none."""
    amount = read_volume(value)
    return int(amount) if amount.is_integer() and amount < 2**53 else -1


def read_rate_e12(value: Any) -> int | None:
    """A rate as a fraction, or with a percent sign; None when it is none."""
    if value is None or isinstance(value, bool):
        return None
    text = str(value).strip()
    try:
        return to_units(text[:-1], E12 // 100) if text.endswith("%") else to_units(text, E12)
    except ValueError:
        return None


def why_bad_number(name: str, value: Any) -> str:
    """Why a value cannot be used, in words."""
    if value is None or value == "":
        return f"{name} is missing"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return f"{name} {str(value)[:40]!r} is not a number"
    if math.isnan(number):
        return f"{name} is missing (NaN)"
    if number < 0:
        return f"{name} {str(value)[:40]} is negative"
    return f"{name} is 0" if number == 0 else f"{name} {str(value)[:40]} is more than the tape can hold"


def decimals_used(common: int) -> int:
    """How many of the eight decimals prices need, by their greatest common divisor."""
    return next(digits for digits in range(9) if common % 10 ** (8 - digits) == 0)
