"""The rows of one symbol from a file that holds several, told by a column with names.

`BTC` also finds `BTC/USDT`, `BTCUSDT` and the like. Where a symbol is there as a perp and as a spot pair, the perp is
meant: that is what the bare name stands for on the tape.
"""

import re
from collections import Counter
from itertools import compress

import msgspec

from tapebook.errors import BadInput
from tapebook.tape.importers.columns import Columns
from tapebook.tape.importers.table import Block, Table

_QUOTED = re.compile(r"[-_/:]?(USD[TC]?|BUSD|EUR|PERP)([-_/:].*)?")
_PERPS = ("perp", "perpetual", "swap", "future", "futures", "linear")
_SHOWN = 20

Group = tuple[str, str]


def narrowed(table: Table, columns: Columns, symbol: str) -> Table:
    """The table with the rows of a symbol alone; as it is when it has no column of names."""
    if not columns.has("symbol"):
        return table
    blocks = list(table.blocks)
    groups = [_groups(block, columns) for block in blocks]
    rows = Counter(group for part in groups for group in part)
    chosen = _choose(rows, symbol)
    kept = (_kept(block, [one == chosen for one in part]) for block, part in zip(blocks, groups, strict=True))
    note = f"{rows[chosen]:,} of {rows.total():,} rows are of {' '.join(filter(None, chosen))}"
    return msgspec.structs.replace(table, blocks=kept, notes=(*table.notes, note))


def _groups(block: Block, columns: Columns) -> list[Group]:
    names = [str(name) for name in block.columns[columns.at["symbol"]]]
    markets = block.columns[columns.at["market"]] if columns.has("market") else [""] * len(names)
    return list(zip(names, map(str, markets), strict=True))


def _kept(block: Block, mask: list[bool]) -> Block:
    return Block(list(compress(block.numbers, mask)), [list(compress(column, mask)) for column in block.columns])


def _choose(rows: Counter[Group], symbol: str) -> Group:
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
