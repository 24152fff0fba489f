"""CSV as a table: separator, header and decimal sign are found out, line numbers are those of the file."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from tapebook.errors import BadInput
from tapebook.tape.importer import Problems
from tapebook.tape.importers.table import BLOCK_ROWS, Block, Table, places

# The comma last: it also stands inside numbers.
_SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_SAMPLE_LINES = 20
# Some sites put a line with their name above the header.
_LINES_ABOVE_HEADER = 3

Line = tuple[int, list[str]]
IsHeader = Callable[[Sequence[str]], bool]


def read(file: BinaryIO, problems: Problems, *, is_header: IsHeader) -> Table:
    """A CSV file as a table; rows with too few or too many fields become problems as the blocks are read."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    sample = [line for line in islice(text, _SAMPLE_LINES) if line.strip()]
    text.seek(0)
    separator = _separator(sample)
    comma = separator != "," and not any("." in line for line in sample[1:]) and any("," in line for line in sample[1:])
    lines = _lines(text, separator, decimal_comma=comma)
    above = list(islice(lines, _LINES_ABOVE_HEADER))
    at = next((place for place, (_, row) in enumerate(above) if is_header(row)), None)
    names = places(len(above[0][1])) if at is None else tuple(name.strip() for name in above[at][1])
    notes = ["no header: columns are taken by their place"] if at is None else []
    notes += [f"the header is line {above[at][0]}"] if at else []
    notes += ["decimal commas"] if comma else []
    first = above if at is None else above[at + 1 :]
    blocks = _blocks(first, lines, len(names), problems)
    said = f"CSV separated by {_SEPARATORS[separator]}"
    return Table(said, "line", names, at is not None, blocks, notes=tuple(notes))


def _separator(sample: Sequence[str]) -> str:
    # The last line is the least likely to be a header or a title.
    found = [separator for separator in _SEPARATORS if sample and separator in sample[-1]]
    if not found:
        raise BadInput("the lines have one column only: separate columns with commas, semicolons, tabs or bars")
    return found[0]


def _lines(text: io.TextIOWrapper, separator: str, *, decimal_comma: bool) -> Iterator[Line]:
    reader = csv.reader(text, delimiter=separator)
    for row in reader:
        if row:
            yield reader.line_num, [cell.replace(",", ".") for cell in row] if decimal_comma else row


def _blocks(first: list[Line], lines: Iterator[Line], width: int, problems: Problems) -> Iterator[Block]:
    chunk = first + list(islice(lines, BLOCK_ROWS))
    while chunk:
        good = [line for line in chunk if len(line[1]) == width]
        if len(good) < len(chunk):
            for number, row in chunk:
                if len(row) != width:
                    problems.add(number, f"has {len(row)} fields instead of {width}")
        if good:
            yield Block([number for number, _ in good], list(zip(*(row for _, row in good), strict=True)))
        chunk = list(islice(lines, BLOCK_ROWS))
