"""Reads files of fills: what an exchange answers or exports, as rows, oldest first, each row once.

1. `read_fill_rows` detects the format, finds the columns by their usual names, and makes a row of every fill;
2. rows of other accounts are left out, rows that stand there twice (overlapping pages) are taken once;
3. `rows_in_order` puts them in the order of execution: by time, and within one moment by the chain of start
   positions, since answers come newest first and the fills of one moment in either order.

What is wrong with a file is one line with the number of the row. Nothing is looked up in the book or the tape here.
"""

import csv
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tapebook.domain.canonical import short_id
from tapebook.domain.order import Fill
from tapebook.domain.units import E6, E8, iso_text, to_units
from tapebook.errors import BadInput
from tapebook.history import tables
from tapebook.history.importer import RowProblems
from tapebook.history.table_columns import BAD_TIME, TimeColumn
from tapebook.history.tables import FileFormat, open_file, recognise_format
from tapebook.settings.profiles import SYMBOL_NAME

# Names as they are without capitals and signs: `startPosition` and `start_position` are one.
_COLUMNS = {
    "time": ("time", "timestamp", "happenedat", "datetime", "date"),
    "symbol": ("symbol", "coin"),
    "side": ("side",),
    "size": ("size", "sz", "qty", "quantity", "amount"),
    "price": ("price", "px"),
    "fee": ("fee", "commission"),
    "token": ("feetoken", "feecurrency", "feeasset", "commissionasset"),
    "order": ("orderid", "oid", "clientid"),
    "id": ("fillid", "tradeid", "tid"),
    "maker": ("maker", "ismaker"),
    "crossed": ("crossed",),
    "start": ("startposition",),
    "dir": ("dir", "direction"),
    "closed_pnl": ("closedpnl",),
    "hash": ("hash",),
    "liquidation": ("liquidation",),
    "account": ("account", "user", "wallet"),
}
_NEEDED = ("time", "symbol", "side", "size", "price")
_LEAST_NAMES = 3
_SIDES = {"buy": 1, "b": 1, "bid": 1, "sell": -1, "s": -1, "a": -1, "ask": -1}
_DIRECTIONS = {"Open Long": 1, "Close Short": 1, "Short > Long": 1, "Buy": 1}
_DIRECTIONS |= {"Open Short": -1, "Close Long": -1, "Long > Short": -1, "Sell": -1}
_SPOT = re.compile(r"@[0-9]{1,9}|[A-Za-z0-9._:-]{1,30}/[A-Za-z0-9._:-]{1,30}")
_SPOT_DIRECTIONS = ("Buy", "Sell", "Spot Dust Conversion")
_TRUE = {"true", "1", "yes", "maker"}
_EMPTY = {"", "false", "none", "null", "nan", "0", "{}"}
DOLLARS = ("USD", "USDC", "USDT", "USDT0", "USDH", "USDE")
"""Fees in these count as dollars, as the prices and results of perps that are settled in them do."""

# Answers come bare, in the object of a request or a frame, or as pairs of an account and its fill.
_WRAPPERS = ("data", "fills", "response", "result", "rows")
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=str)
_DAMAGED = (EOFError, zlib.error, csv.Error, UnicodeDecodeError, OSError)
_UNREADABLE = (msgspec.DecodeError, RecursionError)
_LIQUIDATED_USER = "liquidatedUser"

Cells = dict[str, Any]


class FillRow(msgspec.Struct, frozen=True):
    """A row of a file: what was executed, and what the file says beside it.

    `start_e8` is what was held before it, `closed_pnl_usd_e6` the result the exchange gives for it; None where the
    file does not say. A fee in a token that is no dollar is `fee_e8` of `fee_token` and no part of the fill. A spot
    row has neither a position nor a result of ours.
    """

    number: int
    fill: Fill
    spot: bool = False
    direction: str = ""
    start_e8: int | None = None
    closed_pnl_usd_e6: int | None = None
    fee_token: str = ""
    fee_e8: int = 0


class FillFile(msgspec.Struct, frozen=True):
    """What a file holds: its format, its rows in the order of execution, and how many stood there more than once."""

    format: str
    rows: list[FillRow]
    repeated: int = 0
    notes: tuple[str, ...] = ()


def read_fill_rows(path: Path, *, now: int, account: str | None = None) -> FillFile:
    """The fills of a file, oldest first. BadInput names the first row that is none, or the columns that are missing."""
    try:
        form, cells = _cells(path)
    except _DAMAGED as error:
        raise BadInput(f"{path} cannot be read to its end: {error}") from error
    cells = _rows_of_account(cells, path, account)
    missing = [field for field in _NEEDED if not any(field in row for _, row in cells)]
    if "side" in missing and any("dir" in row for _, row in cells):
        missing.remove("side")
    if missing:
        raise BadInput(f"{path} has no column for {', '.join(missing)}: fills need {', '.join(_NEEDED)}")
    instants = TimeColumn().read_block([row.get("time") for _, row in cells])
    rows, seen = [], _RowIds()
    for (number, row), at in zip(cells, instants, strict=True):
        try:
            found = _fill_row(number, row, at, now=now, account=account, seen=seen)
        except ValueError as error:
            raise BadInput(f"{path} row {number}: {error}") from error
        if found is not None:
            rows.append(found)
    return FillFile(form, rows_in_order(rows, path), seen.repeated, _file_notes(cells, rows))


def rows_in_order(rows: list[FillRow], path: Path) -> list[FillRow]:
    """Rows in the order of execution; a file that goes the other way is read backwards."""
    if rows and rows[0].fill.happened_at > rows[-1].fill.happened_at:
        rows = rows[::-1]
    if any(row.start_e8 is None for row in rows if not row.spot):
        for before, after in pairwise(rows):
            if after.fill.happened_at < before.fill.happened_at:
                raise BadInput(f"{path} row {after.number} is earlier than the one before it: sort the file by time")
        return rows
    held: dict[str, int] = {}
    ordered: list[FillRow] = []
    for _, moment in groupby(sorted(rows, key=_happened_at), key=_happened_at):
        ordered += _order_moment(list(moment), held)
    return ordered


def _happened_at(row: FillRow) -> int:
    return row.fill.happened_at


def _order_moment(moment: list[FillRow], held: dict[str, int]) -> list[FillRow]:
    """The rows of one moment, those of each symbol so that each begins where the one before it ended."""
    by_symbol: dict[str, list[FillRow]] = defaultdict(list)
    for row in moment:
        if not row.spot:
            by_symbol[row.fill.symbol].append(row)
    turns: dict[str, Iterator[FillRow]] = {}
    for symbol, rows in by_symbol.items():
        # A history that begins within one moment begins with nothing, if it can.
        begins, unfolded = (held.get(symbol, 0), None), _self_trades_unfolded(rows)
        tries = (_find_chain(each, place) for each in (rows, unfolded) for place in begins)
        chain = next(filter(None, tries), rows)
        held[symbol] = (chain[-1].start_e8 or 0) + chain[-1].fill.signed_size_e8
        turns[symbol] = iter(chain)
    return [row if row.spot else next(turns[row.fill.symbol]) for row in moment]


def _self_trades_unfolded(rows: list[FillRow]) -> list[FillRow]:
    """Rows in which the second half of each self-trade begins where the first ended."""
    # Where an account met its own order, both fills are told with the position before the two. First comes the one
    # that closes, since its result is told from the entry price that was there before.
    found: list[FillRow] = []
    halves: dict[tuple[int | None, int, int], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        size = row.fill.signed_size_e8
        other = halves[row.start_e8, -size, row.fill.price_e8]
        if not other:
            halves[row.start_e8, size, row.fill.price_e8].append(place)
            found.append(row)
            continue
        first = found[other[-1]]
        if (row.start_e8 or 0) * size < 0:
            first, row = row, first
        after = (first.start_e8 or 0) + first.fill.signed_size_e8
        found[other.pop()] = first
        found.append(msgspec.structs.replace(row, start_e8=after))
    return found


def _find_chain(rows: list[FillRow], held_e8: int | None) -> list[FillRow]:
    """An order of rows in which each begins where the one before it ended; empty when there is none."""
    # Positions are places and fills the ways between them, so it is a path that takes every way once; `held_e8` is
    # where it begins, None where any place will do.
    for order in (rows, rows[::-1]):
        begins = order[0].start_e8 if held_e8 is None else held_e8
        if begins == order[0].start_e8 and all(_follows(before, after) for before, after in pairwise(order)):
            return order
    ways: dict[int, list[FillRow]] = defaultdict(list)
    surplus: Counter[int] = Counter()
    for row in rows[::-1]:
        start = row.start_e8 or 0
        ways[start].append(row)
        surplus[start] += 1
        surplus[start + row.fill.signed_size_e8] -= 1
    begins = next((place for place, count in surplus.items() if count > 0), rows[0].start_e8 or 0)
    walk: list[tuple[int, FillRow | None]] = [(begins if held_e8 is None else held_e8, None)]
    found: list[FillRow] = []
    while walk:
        place, way = walk[-1]
        if ways[place]:
            taken = ways[place].pop()
            walk.append((place + taken.fill.signed_size_e8, taken))
        else:
            walk.pop()
            found += [way] if way is not None else []
    found.reverse()
    whole = len(found) == len(rows) and all(_follows(before, after) for before, after in pairwise(found))
    return found if whole else []


def _follows(before: FillRow, after: FillRow) -> bool:
    return (before.start_e8 or 0) + before.fill.signed_size_e8 == after.start_e8


def _cells(path: Path) -> tuple[str, list[tuple[int, Cells]]]:
    """The rows of a file by our names for their columns, with its format in words."""
    found = recognise_format(path)
    with open_file(path, gzipped=found.gzipped) as file:
        if found.name == "csv":
            return _csv_cells(file, path)
        if found.name in ("json", "json lines"):
            return found.words, list(_json_cells(file, found, path))
    raise BadInput(f"{path} is {found.words}: fills are read from CSV or JSON")


def _csv_cells(file: BinaryIO, path: Path) -> tuple[str, list[tuple[int, Cells]]]:
    problems = RowProblems()
    table = tables.read_csv(file, problems, is_header=lambda names: len(_column_places(names)) >= _LEAST_NAMES)
    places = _column_places(table.names)
    rows = [
        (number, {field: block.columns[place][at] for field, place in places.items()})
        for block in table.blocks
        for at, number in enumerate(block.numbers)
    ]
    for problem in problems.first()[:1]:
        raise BadInput(f"{path} row {problem.row}: {problem.why}")
    return table.format, rows


def _json_cells(file: BinaryIO, found: FileFormat, path: Path) -> Iterator[tuple[int, Cells]]:
    """The fills of a document, counted from 1, or of lines, by their line."""
    if found.name == "json":
        try:
            document = _DECODER.decode(file.read())
        except _UNREADABLE as error:
            raise BadInput(f"{path}: the file is not whole JSON: {error}") from error
        yield from enumerate(_unwrap_fills(document, ""), 1)
        return
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                document = _DECODER.decode(line)
            except _UNREADABLE as error:
                raise BadInput(f"{path} row {number}: is not whole JSON: {error}") from error
            for cells in _unwrap_fills(document, ""):
                yield number, cells


def _unwrap_fills(value: Any, account: str) -> Iterator[Cells]:
    """The fills of a part of a document, whatever they are wrapped in."""
    if isinstance(value, list):
        pair = len(value) == 2 and isinstance(value[0], str)
        for each in value[1:] if pair else value:
            yield from _unwrap_fills(each, value[0] if pair else account)
    elif isinstance(value, dict):
        inner = next((value[name] for name in _WRAPPERS if isinstance(value.get(name), list | dict)), None)
        if inner is not None and "px" not in value:
            yield from _unwrap_fills(inner, str(value.get("user") or account))
            return
        places = _column_places(value)
        values = list(value.values())
        cells = {field: values[place] for field, place in places.items()}
        if places:
            yield cells | ({"account": account} if account and "account" not in cells else {})


def _column_places(names: Iterable[Any]) -> dict[str, int]:
    """Where each field stands, by the names that are usual for it."""
    plain = [re.sub(r"[^a-z0-9]", "", str(name).lower()) for name in names]
    found = {
        field: next((plain.index(name) for name in known if name in plain), -1) for field, known in _COLUMNS.items()
    }
    if found["time"] < 0:
        # Exports name the zone or the unit as well: `time_utc`, `timestamp (ms)`.
        found["time"] = next((place for place, name in enumerate(plain) if name.startswith("time")), -1)
    return {field: place for field, place in found.items() if place >= 0}


def _rows_of_account(cells: list[tuple[int, Cells]], path: Path, account: str | None) -> list[tuple[int, Cells]]:
    """The rows of one account; BadInput where a file has several and nobody says which."""
    if not cells:
        raise BadInput(f"{path} has no fills")
    there = sorted({_cell_text(row.get("account")).lower() for _, row in cells} - {""})
    if account is None and len(there) > 1:
        shown = ", ".join(there[:3]) + (", …" if len(there) > 3 else "")
        raise BadInput(f"{path} has fills of {len(there)} accounts ({shown}): say whose with `account=`")
    if account is None or not there:
        return cells
    if account.lower() not in there:
        raise BadInput(f"{path} has no fills of the account {account}: it has {', '.join(there[:3])}")
    return [(number, row) for number, row in cells if _cell_text(row.get("account")).lower() == account.lower()]


class _RowIds:
    """The rows of a file so far: which ids stand for what, and how often a row without one was there."""

    def __init__(self) -> None:
        self.repeated = 0
        self._by_id: dict[str, tuple[Any, ...]] = {}
        self._equal: Counter[tuple[Any, ...]] = Counter()

    def name(self, given: str, what: tuple[Any, ...], *, chained: bool) -> str | None:
        """The id of a row; None for one that was there before.

        Without an id of its own a row is named by what it says. With its start position (`chained`) that is one fill,
        without it two equal rows are two fills.
        """
        if not given:
            self._equal[what] += 1
            if chained and self._equal[what] > 1:
                self.repeated += 1
                return None
            return short_id("imported fill", *what, *(() if chained else (self._equal[what],)))
        if self._by_id.setdefault(given, what) != what:
            raise ValueError(f"the id {given!r} stands in more than one row, for different fills")
        self._equal[(given,)] += 1
        if self._equal[(given,)] > 1:
            self.repeated += 1
            return None
        return given


def _fill_row(number: int, row: Cells, at: int, *, now: int, account: str | None, seen: _RowIds) -> FillRow | None:
    """One row; None for one that was there before. ValueError says what is wrong with it."""
    if at == BAD_TIME:
        raise ValueError(f"{row.get('time')!r} is not a time like the others")
    if at > now:
        raise ValueError(f"{iso_text(at)} lies in the future")
    symbol, direction = _cell_text(row.get("symbol")), _cell_text(row.get("dir"))
    spot = _SPOT.fullmatch(symbol) is not None or direction in _SPOT_DIRECTIONS
    if not spot and not SYMBOL_NAME.fullmatch(symbol):
        raise ValueError(f"{symbol!r} is not a symbol")
    size, price = to_units(_cell_text(row.get("size")), E8), to_units(_cell_text(row.get("price")), E8)
    if size <= 0 or price <= 0:
        raise ValueError("size and price must be above 0")
    signed = _side(row, direction) * size
    start = None if not _cell_text(row.get("start")) else to_units(_cell_text(row["start"]), E8)
    token, order = _fee_token(row, symbol, signed, spot=spot), _cell_text(row.get("order"))
    fee = _cell_text(row.get("fee")) or "0"
    place = () if start is None else (start, _cell_text(row.get("hash")))
    what = (symbol, at, signed, price, to_units(fee, E6), order, *place)
    given = _cell_text(row.get("id"))
    # The exchange gives 0 where nobody traded with anybody, such as for dust that it converts.
    name = seen.name("" if given == "0" else given, what, chained=start is not None)
    if name is None:
        return None
    in_dollars = token in DOLLARS and not spot
    fill = Fill(
        fill_id=name,
        symbol=symbol,
        happened_at=at,
        signed_size_e8=signed,
        price_e8=price,
        fee_usd_e6=to_units(fee, E6) if in_dollars else 0,
        maker=_is_maker(row),
        client_id=order or None,
        liquidation=_is_liquidation(row, start, signed, account=account),
        delisted=direction == "Settlement",
    )
    pnl = _cell_text(row.get("closed_pnl"))
    return FillRow(
        number,
        fill,
        spot=spot,
        direction=direction,
        start_e8=None if spot else start,
        closed_pnl_usd_e6=to_units(pnl, E6) if pnl else None,
        fee_token="" if in_dollars else token,
        fee_e8=0 if in_dollars else to_units(fee, E8),
    )


def _side(row: Cells, direction: str) -> int:
    """1 for a buy, -1 for a sell, from the side or else the direction; ValueError when they contradict each other."""
    text, known = _cell_text(row.get("side")), _DIRECTIONS.get(direction)
    side = _SIDES.get(text.lower()) if text else known
    if side is None:
        raise ValueError(f"side is {text or direction!r}: write buy or sell")
    if known is not None and known != side:
        raise ValueError(f"side is {text!r} and dir {direction!r}: one of them is wrong")
    return side


def _fee_token(row: Cells, symbol: str, signed: int, *, spot: bool) -> str:
    """The token a fee was paid in. Where the file does not say: dollars, and of a spot buy what was bought."""
    token = _cell_text(row.get("token"))
    if token or not spot:
        return token or "USDC"
    bought, _, sold = symbol.partition("/")
    return bought if signed > 0 else sold or "USDC"


def _is_maker(row: Cells) -> bool:
    if _cell_text(row.get("crossed")):
        return _cell_text(row["crossed"]).lower() not in _TRUE
    return _cell_text(row.get("maker")).lower() in _TRUE


def _is_liquidation(row: Cells, start: int | None, signed: int, *, account: str | None) -> bool:
    """Whether a fill ended this account's position by force: whoever took it over is told of it, too."""
    stated = row.get("liquidation")
    forced = _cell_text(row.get("dir")).startswith("Liquidated") or _cell_text(stated).lower() not in _EMPTY
    if not forced or (start is not None and start * signed >= 0):
        return False
    user = stated.get(_LIQUIDATED_USER) if isinstance(stated, dict) else None
    mine = account or _cell_text(row.get("account"))
    return not user or not mine or str(user).lower() == mine.lower()


def _file_notes(cells: Sequence[tuple[int, Cells]], rows: Sequence[FillRow]) -> tuple[str, ...]:
    """What the file does not say, and what is taken instead."""
    notes = []
    if not any("fee" in row for _, row in cells):
        notes.append("no column for fee: fees are 0")
    if not any("start" in row for _, row in cells):
        notes.append("no column for startPosition: whether fills are missing cannot be checked")
    if any(row.spot for row in rows) and not any("token" in row for _, row in cells):
        notes.append("no column for feeToken: fees of spot buys are in what was bought, others in dollars")
    perps = (row for _, row in cells if not _SPOT.fullmatch(_cell_text(row.get("symbol"))))
    others = {_cell_text(row.get("token")) for row in perps} & set(DOLLARS) - {"USD", "USDC"}
    if others:
        notes.append(f"fees in {', '.join(sorted(others))} count as dollars")
    return tuple(notes)


def _cell_text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()
