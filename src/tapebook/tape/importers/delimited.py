"""CSV as a table: separator, header and decimal sign are found out, line numbers are those of the file."""

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO, Protocol

from tapebook.errors import BadInput
from tapebook.tape.importer import Problems
from tapebook.tape.importers.table import BLOCK_ROWS, Block, Table, places

# The comma last: it also stands inside numbers.
_SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_SAMPLE_LINES = 20
# Some sites put a line with their name above the header.
_LINES_ABOVE = 3

Line = tuple[int, list[str]]
IsHeader = Callable[[Sequence[str]], bool]


class _Rows(Protocol):
    """A reader of the standard library's csv."""

    @property
    def line_num(self) -> int:
        """How many lines it has read."""
        ...

    def __iter__(self) -> Iterator[list[str]]: ...


def read(file: BinaryIO, problems: Problems, *, is_header: IsHeader) -> Table:
    """A CSV file as a table; rows with too few or too many fields become problems as the blocks are read."""
    text = map(bytes.decode, file)
    top = [line.removeprefix("\ufeff") for line in islice(text, _SAMPLE_LINES)]
    sample = [line for line in top if line.strip()]
    separator = _separator(sample)
    comma = separator != "," and not any("." in line for line in sample[1:]) and any("," in line for line in sample[1:])
    rows = csv.reader(chain(top, text), delimiter=separator)
    above = _numbered(list(islice(rows, _LINES_ABOVE)), 0)
    at = next((place for place, (_, row) in enumerate(above) if is_header(row)), None)
    names = places(len(above[0][1])) if at is None else tuple(name.strip() for name in above[at][1])
    notes = ["no header: columns are taken by their place"] if at is None else []
    notes += [f"the header is line {above[at][0]}"] if at else []
    notes += ["decimal commas"] if comma else []
    start = above if at is None else above[at + 1 :]
    blocks = _blocks(rows, start, width=len(names), problems=problems)
    said = f"CSV separated by {_SEPARATORS[separator]}"
    return Table(
        said, "line", names, at is not None, map(_with_points, blocks) if comma else blocks, notes=tuple(notes)
    )


def _separator(sample: Sequence[str]) -> str:
    # The last line is the least likely to be a header or a title.
    found = [separator for separator in _SEPARATORS if sample and separator in sample[-1]]
    if not found:
        raise BadInput("the lines have one column only: separate columns with commas, semicolons, tabs or bars")
    return found[0]


def _blocks(rows: _Rows, start: list[Line], *, width: int, problems: Problems) -> Iterator[Block]:
    """The lines in blocks, those of `start` first."""
    chunk, more = start, True
    while more:
        good = [(number, row) for number, row in chunk if len(row) == width]
        for number, row in chunk if len(good) < len(chunk) else ():
            if len(row) != width:
                problems.add(number, f"has {len(row)} fields instead of {width}")
        if good:
            numbers, cells = zip(*good, strict=True)
            yield Block(numbers, list(zip(*cells, strict=True)))
        before = rows.line_num
        read = list(islice(rows, BLOCK_ROWS))
        chunk, more = _numbered(read, before), bool(read)


def _numbered(rows: list[list[str]], line: int) -> list[Line]:
    """Rows with the number of their line, empty ones left out; a quoted cell may go on over several lines."""
    found = []
    for row in rows:
        line += 1
        if row and "\n" in "".join(row):
            line += sum(cell.count("\n") for cell in row)
        if row:
            found.append((line, row))
    return found


def _with_points(block: Block) -> Block:
    return Block(block.numbers, [[cell.replace(",", ".") for cell in column] for column in block.columns])
