"""Fills of the past, from a file into an agent's book: the same ledger and materializer as for fills of today.

1. `read_fills` makes fills of the rows; the first row that is none refuses the file, with its number;
2. fills the book has are left alone, by their id; the others must come after the newest one there is;
3. each goes through `settle_fill`, and all their events are one append: all of the file or nothing;
4. what the trades teach is learned at once, so that the next decision need not.

They happened when the file says and are known from now on: no decision of the past gets to see them.
"""

import csv
import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from tapebook.book.events import TradeClosed, TradeOpened, draft
from tapebook.book.settle import Account, Cause, settle_fill
from tapebook.domain.agent import Deployment, is_dry
from tapebook.domain.canonical import short_id
from tapebook.domain.instants import iso
from tapebook.domain.money import E6, E8, scaled
from tapebook.domain.order import Fill
from tapebook.errors import BadInput
from tapebook.loop.gather import regime
from tapebook.loop.learn import learn_from_trades
from tapebook.loop.optional_reads import OptionalReads
from tapebook.loop.quotes import TapeQuotes
from tapebook.profile_keys import SYMBOL
from tapebook.tape.importer import Problems
from tapebook.tape.importers import delimited, json_rows
from tapebook.tape.importers.formats import open_file, recognise
from tapebook.tape.importers.table import Table
from tapebook.tape.importers.times import BAD, Times
from tapebook.tape.store import View
from tapebook.wiring import Rooms

REASON = "imported"
_COLUMNS = {
    "time": ("time", "timestamp", "happened_at", "datetime", "date"),
    "symbol": ("symbol", "coin"),
    "side": ("side",),
    "size": ("size", "sz", "qty", "quantity", "amount"),
    "price": ("price", "px"),
    "fee": ("fee", "commission"),
    "order": ("order_id", "oid", "client_id"),
    "id": ("fill_id", "trade_id", "tid"),
    "maker": ("maker",),
}
_NEEDED = ("time", "symbol", "side", "size", "price")
_SIDES = {"buy": 1, "b": 1, "bid": 1, "sell": -1, "s": -1, "a": -1, "ask": -1}
_TRUE = {"true", "1", "yes", "maker"}
_DAMAGED = (EOFError, zlib.error, csv.Error, UnicodeDecodeError, OSError)

Row = tuple[int, dict[str, Any]]


class FillsReport(msgspec.Struct, frozen=True):
    """What a file of fills came to."""

    file: str
    agent: str
    fills: int
    new: int
    opened: int
    closed: int
    net_pnl_usd: float
    dry_run: bool

    def result(self) -> str:
        """What came of it, in one line."""
        if not self.new:
            return f"nothing new: {self.agent} has all of these {self.fills:,} fills already"
        trades = f"{self.opened:,} trades opened, {self.closed:,} closed, net {self.net_pnl_usd:,.2f} USD"
        verb = "would be booked" if self.dry_run else "booked"
        return f"{self.new:,} of {self.fills:,} fills {verb} for {self.agent}: {trades}"


def import_fills(rooms: Rooms, path: Path, deployment: Deployment, *, dry_run: bool) -> FillsReport:
    """Books the fills of a file that the book does not have. BadInput names the row that stands against it."""
    if is_dry(deployment.id):
        name = deployment.agent.name
        raise BadInput(f"{name} is in dry run and has no fills: `tapebook agents edit {name} --mode trade` first")
    found = read_fills(path, now=rooms.clock.now())
    new = list(_new(rooms, deployment, found, path))
    seq = rooms.book.head(deployment.id)
    account = rooms.book.account(deployment.id, seq=seq)
    drafts, bodies = [], []
    for fill in new:
        account, said = _settled(rooms, deployment, account, fill)
        drafts += [draft(fill.happened_at, body) for body in said]
        bodies += said
    if drafts and not dry_run:
        rooms.book.append(deployment.id, drafts, expected_seq=seq)
        # Here, where it may take its time: a million trades are two minutes, and the next decision has not so long.
        learn_from_trades(rooms, deployment, OptionalReads())
    ended = [body.trade.state.net_usd_e6 for body in bodies if isinstance(body, TradeClosed)]
    return FillsReport(
        file=str(path),
        agent=deployment.agent.name,
        fills=len(found),
        new=len(new),
        opened=sum(isinstance(body, TradeOpened) for body in bodies),
        closed=len(ended),
        net_pnl_usd=sum(ended) / E6,
        dry_run=dry_run,
    )


def read_fills(path: Path, *, now: int) -> list[tuple[int, Fill]]:
    """The fills of a file, oldest first, each with the number of its row."""
    try:
        rows = _rows(path)
    except _DAMAGED as error:
        raise BadInput(f"{path} cannot be read to its end: {error}") from error
    instants = Times().read([row["time"] for _, row in rows])
    seen: Counter[tuple[Any, ...]] = Counter()
    fills = []
    for (number, row), at in zip(rows, instants, strict=True):
        try:
            fills.append((number, _fill(row, at, now=now, seen=seen)))
        except ValueError as error:
            raise BadInput(f"{path} row {number}: {error}") from error
    names = Counter(fill.fill_id for _, fill in fills)
    for number, fill in fills:
        if names[fill.fill_id] > 1:
            raise BadInput(f"{path} row {number}: the id {fill.fill_id!r} stands in more than one row")
    return _ordered(fills, path)


def _ordered(fills: list[tuple[int, Fill]], path: Path) -> list[tuple[int, Fill]]:
    """Oldest first; a file that goes the other way is read backwards."""
    if fills and fills[0][1].happened_at > fills[-1][1].happened_at:
        fills.reverse()
    for (_, before), (number, after) in pairwise(fills):
        if after.happened_at < before.happened_at:
            raise BadInput(f"{path} row {number} is earlier than the one before it: sort the file by time")
    return fills


def _rows(path: Path) -> list[Row]:
    found, problems = recognise(path), Problems()
    with open_file(path, gzipped=found.gzipped) as file:
        if found.name == "csv":
            table = delimited.read(file, problems, is_header=lambda names: len(_places(names)) >= len(_NEEDED))
        elif found.name in ("json", "json lines"):
            table = (json_rows.read if found.name == "json" else json_rows.read_lines)(file, problems)
        else:
            raise BadInput(f"{path} is {found.words}: fills are read from CSV or JSON")
        rows = list(_cells(table, path))
    for problem in problems.first()[:1]:
        raise BadInput(f"{path} row {problem.row}: {problem.why}")
    return rows


def _cells(table: Table, path: Path) -> Iterator[Row]:
    places = _places(table.names)
    missing = [field for field in _NEEDED if field not in places]
    if missing:
        raise BadInput(f"{path} has no column {missing[0]!r}: it needs {', '.join(_NEEDED)}")
    for block in table.blocks:
        for at, number in enumerate(block.numbers):
            yield number, {field: block.columns[place][at] for field, place in places.items()}


def _places(names: Any) -> dict[str, int]:
    """Where each field stands, by the names that are usual for it."""
    plain = [str(name).strip().lower().replace(" ", "_") for name in names]
    found = {
        field: next((plain.index(name) for name in known if name in plain), -1) for field, known in _COLUMNS.items()
    }
    return {field: place for field, place in found.items() if place >= 0}


def _fill(row: dict[str, Any], at: int, *, now: int, seen: Counter[tuple[Any, ...]]) -> Fill:
    """One row as a fill; ValueError says what is wrong with it."""
    if at == BAD:
        raise ValueError(f"{row['time']!r} is not a time like the others")
    if at > now:
        raise ValueError(f"{iso(at)} lies in the future")
    symbol, side = str(row["symbol"]).strip(), _SIDES.get(str(row["side"]).strip().lower())
    if not SYMBOL.fullmatch(symbol):
        raise ValueError(f"{symbol!r} is not a symbol")
    if side is None:
        raise ValueError(f"side is {row['side']!r}: write buy or sell")
    size, price = scaled(_word(row["size"]), E8), scaled(_word(row["price"]), E8)
    if size <= 0 or price <= 0:
        raise ValueError("size and price must be above 0")
    fee, order = scaled(_word(row.get("fee")) or "0", E6), _word(row.get("order")) or None
    what = (symbol, at, side * size, price, fee, order or "")
    seen[what] += 1
    name = _word(row.get("id")) or short_id("imported fill", *what, seen[what])
    maker = _word(row.get("maker")).lower() in _TRUE
    return Fill(name, symbol, at, side * size, price, fee, maker, order)


def _word(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _new(rooms: Rooms, deployment: Deployment, fills: list[tuple[int, Fill]], path: Path) -> Iterator[Fill]:
    newest = rooms.book.newest_fill_at(deployment.id)
    for number, fill in fills:
        there = rooms.book.fill(deployment.id, fill.fill_id)
        if there is not None and there != fill:
            raise BadInput(f"{path} row {number}: the book has another fill with the id {fill.fill_id!r}")
        if there is None and newest is not None and fill.happened_at < newest:
            raise BadInput(f"{path} row {number} is before the newest fill of {deployment.agent.name}, {iso(newest)}")
        if there is None:
            yield fill


def _settled(
    rooms: Rooms, deployment: Deployment, account: Account, fill: Fill
) -> tuple[Account, list[msgspec.Struct]]:
    mark = TapeQuotes(rooms.tape, View(rooms.clock.now())).mark_e8(fill.symbol, at=fill.happened_at)
    held = account.portfolio.positions.get(fill.symbol)
    adds = held is not None and (held.size_e8 > 0) == (fill.signed_size_e8 > 0)
    tag = None if adds else regime(rooms.tape, deployment, fill.symbol, view=View(fill.happened_at))
    agent = deployment.agent.name
    cause = Cause(
        agent, deployment.version, reason=REASON, regime=tag, exit_label=REASON, stream=deployment.stream
    )
    return settle_fill(account, fill, cause, mark_e8=mark)
