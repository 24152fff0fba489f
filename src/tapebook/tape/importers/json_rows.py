"""JSON as a table: arrays of arrays (freqtrade, ccxt), arrays of objects (exchanges), or one of either per line.

Decimal numbers stay the text they are in the file, so that no digit is lost on the way to an integer.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO, Literal

import msgspec

from tapebook.errors import BadInput
from tapebook.tape.importer import Problems
from tapebook.tape.importers.table import BLOCK_ROWS, Block, Table, places

_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=str)
_ERRORS = (msgspec.DecodeError, RecursionError)
# Exchanges wrap their rows in an object; one of these names holds them.
_WRAPPERS = ("data", "candles", "result", "rows")

Row = tuple[int, Any]


def read(file: BinaryIO, problems: Problems) -> Table:
    """One JSON document as a table; rows are counted from 1."""
    try:
        document = _DECODER.decode(file.read())
    except _ERRORS as error:
        raise BadInput(f"the file is not whole JSON: {error}") from error
    if isinstance(document, dict):
        document = next((document[name] for name in _WRAPPERS if name in document), document)
    if not isinstance(document, list):
        raise BadInput("the JSON is no list of rows: write it as [[time, open, high, low, close, volume], …]")
    return _table(enumerate(document, 1), "JSON", "row", problems)


def read_lines(file: BinaryIO, problems: Problems) -> Table:
    """One row of JSON per line as a table; what cannot be read becomes a problem."""
    return _table(_decoded(file, problems), "JSON lines", "line", problems)


def _decoded(file: BinaryIO, problems: Problems) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                row = _DECODER.decode(line)
            except _ERRORS as error:
                problems.add(number, f"is not whole JSON: {error}")
            else:
                yield number, row


def _table(rows: Iterable[Row], name: str, row_name: Literal["line", "row"], problems: Problems) -> Table:
    left = iter(rows)
    first = next(left, None)
    if first is None:
        raise BadInput("the file has no rows")
    rows = chain([first], left)
    shape = first[1]
    if isinstance(shape, dict):
        names = tuple(shape)
        return Table(f"{name}, objects", row_name, names, True, _objects(rows, names, problems))
    if isinstance(shape, list):
        blocks = _arrays(rows, len(shape), problems)
        return Table(f"{name}, arrays", row_name, places(len(shape)), False, blocks)
    raise BadInput(f"the rows are neither arrays nor objects: the first is {str(shape)[:60]!r}")


def _objects(rows: Iterable[Row], names: Sequence[str], problems: Problems) -> Iterator[Block]:
    left = iter(rows)
    while chunk := list(islice(left, BLOCK_ROWS)):
        good = _of_type(chunk, dict, problems)
        yield Block([number for number, _ in good], [[row.get(name) for _, row in good] for name in names])


def _arrays(rows: Iterable[Row], width: int, problems: Problems) -> Iterator[Block]:
    left = iter(rows)
    while chunk := list(islice(left, BLOCK_ROWS)):
        good = []
        for number, row in _of_type(chunk, list, problems):
            if len(row) == width:
                good.append((number, row))
            else:
                problems.add(number, f"has {len(row)} fields instead of {width}")
        columns = list(zip(*(row for _, row in good), strict=True)) or [()] * width
        yield Block([number for number, _ in good], columns)


def _of_type(chunk: list[Row], wanted: type, problems: Problems) -> list[Row]:
    for number, row in chunk:
        if not isinstance(row, wanted):
            problems.add(number, f"is {str(row)[:40]!r}, unlike the rows before it")
    return [row for row in chunk if isinstance(row[1], wanted)]
