"""A file as a table of named columns, read block by block: CSV, JSON, JSON lines, Parquet and feather.

What kind of file it is is told by its first bytes; the name only decides where these leave a choice. Separator,
header and decimal sign of CSV are found out, line numbers are those of the file. JSON may be arrays of arrays
(freqtrade, ccxt), arrays of objects (exchanges), or one of either per line; decimal numbers stay the text they are
in the file, so that no digit is lost on the way to an integer. Parquet and feather go through pyarrow; its readers of
CSV and JSON would lose line numbers and digits, and save less than a tenth of an import.
"""

import csv
import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, cast

import msgspec

from tapebook.errors import BadInput
from tapebook.history.importer import RowProblems

FormatName = Literal["csv", "json", "json lines", "parquet", "feather", "stream"]

# Enough of a file to recognise its format and its columns.
_HEAD = 1 << 20
_GZIP = b"\x1f\x8b"
_MAGIC: dict[bytes, FormatName] = {b"PAR1": "parquet", b"ARROW1": "feather", b"FEA1": "feather"}
_PACKED = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_BOM = "\ufeff"
# A receive time in milliseconds, a tab, and a frame: JSON, or the greeting of older servers.
_STAMPED = re.compile(r"\d{12,16}\t\s*[{\"W]")


class FileFormat(msgspec.Struct, frozen=True):
    """What a file is, and whether it is packed with gzip."""

    name: FormatName
    gzipped: bool

    @property
    def words(self) -> str:
        """The format for people."""
        known = {"csv": "CSV", "json": "JSON", "json lines": "JSON lines", "parquet": "Parquet", "feather": "feather"}
        return known.get(self.name, "recorded stream") + (", gzip" if self.gzipped else "")


def recognise_format(path: Path) -> FileFormat:
    """The format of a file. BadInput when it cannot be opened or is none of them."""
    with open_file(path, gzipped=False) as file:
        gzipped = file.read(2) == _GZIP
    with open_file(path, gzipped=gzipped) as file:
        head = file.read(_HEAD)
    return FileFormat(_format_name(head, path), gzipped)


def open_file(path: Path, *, gzipped: bool) -> BinaryIO:
    """The content of a file, unpacked."""
    try:
        return cast(BinaryIO, gzip.open(path)) if gzipped else open(path, "rb")
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder: name one file in it") from None
    except PermissionError:
        raise BadInput(f"{path} may not be read by this user: change its permissions") from None


def _format_name(head: bytes, path: Path) -> FormatName:
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    for magic, packer in _PACKED.items():
        if head.startswith(magic):
            raise BadInput(f"{path} is packed with {packer}: unpack it first, or use gzip")
    if path.suffix in (".parquet", ".feather"):
        raise BadInput(f"{path} is not a {path.suffix[1:]} file, whatever its name says")
    return _text_format_name(_decoded_head(head, path), path)


def _decoded_head(head: bytes, path: Path) -> str:
    # The head may end inside a character.
    whole = head if len(head) < _HEAD else head[: head.rfind(b"\n") + 1] or head[:-4]
    try:
        text = whole.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise BadInput(f"{path} is neither UTF-8 text nor Parquet nor feather: convert it to one of them")
    text = text.removeprefix(_BOM).lstrip()
    if not text:
        raise BadInput(f"{path} is empty")
    return text


def _text_format_name(text: str, path: Path) -> FormatName:
    first, _, rest = text.partition("\n")
    if _STAMPED.match(text):
        return "stream"
    if text[0] == "{":
        row = _decode_json(first)
        if isinstance(row, dict):
            # One line that holds a list is a whole document: rows have none.
            wraps = not rest.strip() and any(isinstance(value, list) for value in row.values())
            return "stream" if {"at", "frame"} <= row.keys() else "json" if wraps else "json lines"
        # An object that goes on over several lines, unless this is a line that was cut off.
        return "json lines" if _json_suffix(path) == ".jsonl" else "json"
    if text[0] == "[":
        lines = _decode_json(first) is not None and (rest.lstrip()[:1] == "[" or _json_suffix(path) == ".jsonl")
        return "json lines" if lines else "json"
    return "csv"


def _json_suffix(path: Path) -> str:
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    return {".ndjson": ".jsonl"}.get(suffixes[-1], suffixes[-1]) if suffixes else ""


def _decode_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


# Files of any length are read in a few megabytes of memory.
BLOCK_ROWS = 20_000

Column = Sequence[Any]


class Block(msgspec.Struct, frozen=True):
    """Some rows: the number of each in the file, and their values by column."""

    numbers: Sequence[int]
    columns: Sequence[Column]


class Table(msgspec.Struct, frozen=True):
    """The columns of a file and its blocks, which can be read once.

    Without a header `names` are the places of the columns. `instants` says of columns that hold instants by
    their type how they were written; their values are UTC milliseconds.
    """

    format: str
    row_name: Literal["line", "row"]
    names: tuple[str, ...]
    has_header: bool
    blocks: Iterator[Block]
    instants: dict[str, str] = {}
    notes: tuple[str, ...] = ()


def placeholder_names(width: int) -> tuple[str, ...]:
    """Names for columns that have none."""
    return tuple(f"#{place + 1}" for place in range(width))


# The comma last: it also stands inside numbers.
_SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_SAMPLE_LINES = 20
# Some sites put a line with their name above the header.
_LINES_ABOVE = 3

CsvLine = tuple[int, list[str]]
IsHeader = Callable[[Sequence[str]], bool]


class _CsvRows(Protocol):
    """A reader of the standard library's csv."""

    @property
    def line_num(self) -> int:
        """How many lines it has read."""
        ...

    def __iter__(self) -> Iterator[list[str]]: ...


def read_csv(file: BinaryIO, problems: RowProblems, *, is_header: IsHeader) -> Table:
    """A CSV file as a table; rows with too few or too many fields become problems as the blocks are read."""
    text = map(bytes.decode, file)
    top = [line.removeprefix("\ufeff") for line in islice(text, _SAMPLE_LINES)]
    sample = [line for line in top if line.strip()]
    separator = _separator(sample)
    comma = separator != "," and not any("." in line for line in sample[1:]) and any("," in line for line in sample[1:])
    rows = csv.reader(chain(top, text), delimiter=separator)
    above = _numbered_lines(list(islice(rows, _LINES_ABOVE)), 0)
    at = next((place for place, (_, row) in enumerate(above) if is_header(row)), None)
    names = placeholder_names(len(above[0][1])) if at is None else tuple(name.strip() for name in above[at][1])
    notes = ["no header: columns are taken by their place"] if at is None else []
    notes += [f"the header is line {above[at][0]}"] if at else []
    notes += ["decimal commas"] if comma else []
    start = above if at is None else above[at + 1 :]
    blocks = _csv_blocks(rows, start, width=len(names), problems=problems)
    format_text = f"CSV separated by {_SEPARATORS[separator]}"
    return Table(
        format_text, "line", names, at is not None, map(_with_points, blocks) if comma else blocks, notes=tuple(notes)
    )


def _separator(sample: Sequence[str]) -> str:
    # The last line is the least likely to be a header or a title.
    found = [separator for separator in _SEPARATORS if sample and separator in sample[-1]]
    if not found:
        raise BadInput("the lines have one column only: separate columns with commas, semicolons, tabs or bars")
    return found[0]


def _csv_blocks(rows: _CsvRows, start: list[CsvLine], *, width: int, problems: RowProblems) -> Iterator[Block]:
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
        chunk, more = _numbered_lines(read, before), bool(read)


def _numbered_lines(rows: list[list[str]], line: int) -> list[CsvLine]:
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


_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=str)
_ERRORS = (msgspec.DecodeError, RecursionError)
# Exchanges wrap their rows in an object; one of these names holds them.
_WRAPPERS = ("data", "candles", "result", "rows")

NumberedRow = tuple[int, Any]


def read_json(file: BinaryIO, problems: RowProblems) -> Table:
    """One JSON document as a table; rows are counted from 1."""
    try:
        document = _DECODER.decode(file.read())
    except _ERRORS as error:
        raise BadInput(f"the file is not whole JSON: {error}") from error
    if isinstance(document, dict):
        document = next((document[name] for name in _WRAPPERS if name in document), document)
    if not isinstance(document, list):
        raise BadInput("the JSON is no list of rows: write it as [[time, open, high, low, close, volume], …]")
    return _json_table(enumerate(document, 1), "JSON", "row", problems)


def read_json_lines(file: BinaryIO, problems: RowProblems) -> Table:
    """One row of JSON per line as a table; what cannot be read becomes a problem."""
    return _json_table(_decoded_lines(file, problems), "JSON lines", "line", problems)


def _decoded_lines(file: BinaryIO, problems: RowProblems) -> Iterator[NumberedRow]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                row = _DECODER.decode(line)
            except _ERRORS as error:
                problems.add(number, f"is not whole JSON: {error}")
            else:
                yield number, row


def _json_table(
    rows: Iterable[NumberedRow], name: str, row_name: Literal["line", "row"], problems: RowProblems
) -> Table:
    left = iter(rows)
    first = next(left, None)
    if first is None:
        raise BadInput("the file has no rows")
    rows = chain([first], left)
    shape = first[1]
    if isinstance(shape, dict):
        names = tuple(shape)
        return Table(f"{name}, objects", row_name, names, True, _object_blocks(rows, names, problems))
    if isinstance(shape, list):
        blocks = _array_blocks(rows, len(shape), problems)
        return Table(f"{name}, arrays", row_name, placeholder_names(len(shape)), False, blocks)
    raise BadInput(f"the rows are neither arrays nor objects: the first is {str(shape)[:60]!r}")


def _object_blocks(rows: Iterable[NumberedRow], names: Sequence[str], problems: RowProblems) -> Iterator[Block]:
    left = iter(rows)
    while chunk := list(islice(left, BLOCK_ROWS)):
        good = _of_type(chunk, dict, problems)
        yield Block([number for number, _ in good], [[row.get(name) for _, row in good] for name in names])


def _array_blocks(rows: Iterable[NumberedRow], width: int, problems: RowProblems) -> Iterator[Block]:
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


def _of_type(chunk: list[NumberedRow], wanted: type, problems: RowProblems) -> list[NumberedRow]:
    for number, row in chunk:
        if not isinstance(row, wanted):
            problems.add(number, f"is {str(row)[:40]!r}, unlike the rows before it")
    return [row for row in chunk if isinstance(row[1], wanted)]


# pyarrow is loaded by those who read or write its formats: it takes longer to load than most commands run.
def read_parquet(file: BinaryIO) -> Table:
    """A Parquet file as a table; rows are counted from 1."""
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(file)
    except (arrow.ArrowException, OSError) as error:
        raise _unreadable("Parquet", error) from error
    return _arrow_table("Parquet", opened.schema_arrow, opened.iter_batches(BLOCK_ROWS))


def read_feather(file: BinaryIO) -> Table:
    """A feather file as a table; rows are counted from 1."""
    import pyarrow as arrow
    from pyarrow import feather

    try:
        whole = feather.read_table(file)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise _unreadable("feather", error) from error
    return _arrow_table("feather", whole.schema, iter(whole.to_batches(BLOCK_ROWS)))


def _unreadable(name: str, error: Exception) -> BadInput:
    return BadInput(f"the {name} file is damaged or cut off: {str(error).splitlines()[0]}")


def _arrow_table(name: str, schema: Any, batches: Iterator[Any]) -> Table:
    types = {field.name: field.type for field in schema}
    instants = {name: words for name, kind in types.items() if (words := _instant_words(kind))}
    return Table(name, "row", tuple(schema.names), True, _arrow_blocks(name, batches), instants)


def _instant_words(kind: Any) -> str:
    """How a column that holds instants by its type wrote them; empty for other columns."""
    import pyarrow as arrow

    if arrow.types.is_timestamp(kind):
        zone = f"with the zone {kind.tz}" if kind.tz else "without a zone, taken as UTC"
        return f"timestamps in {kind.unit}, {zone}"
    return "dates, taken as 00:00 UTC" if arrow.types.is_date(kind) else ""


def _arrow_blocks(name: str, batches: Iterator[Any]) -> Iterator[Block]:
    import pyarrow as arrow

    done = 0
    while True:
        try:
            batch = next(batches, None)
        except (arrow.ArrowException, OSError) as error:
            raise _unreadable(name, error) from error
        if batch is None:
            return
        yield Block(range(done + 1, done + batch.num_rows + 1), [_arrow_values(column) for column in batch.columns])
        done += batch.num_rows


def _arrow_values(column: Any) -> list[Any]:
    """A column as Python values, instants as UTC milliseconds."""
    import pyarrow as arrow

    if arrow.types.is_timestamp(column.type) or arrow.types.is_date(column.type):
        stamps = column.cast(arrow.timestamp("ms"), safe=False) if arrow.types.is_date(column.type) else column
        # Finer units are cut to milliseconds; Arrow keeps every zone's instants in UTC.
        to_ms = arrow.timestamp("ms", getattr(stamps.type, "tz", None))
        column = stamps.cast(to_ms, safe=False).cast(arrow.int64())
    values: list[Any] = column.to_pylist()
    return values
