"""From a file to facts: recognise it, read it as a table, make facts of the rows."""

import csv
import zlib
from pathlib import Path
from typing import BinaryIO

from tapebook.errors import BadInput
from tapebook.tape.importer import Ask, Parsed, Problems, Progress
from tapebook.tape.importers import candles, columnar, delimited, funding, json_rows, marks, raw_stream
from tapebook.tape.importers.columns import is_header
from tapebook.tape.importers.formats import Format, open_file, recognise
from tapebook.tape.importers.table import Table

_MAKERS = {"candles": candles.parse, "funding": funding.parse, "marks": marks.parse}
_DAMAGED = (EOFError, zlib.error, csv.Error, UnicodeDecodeError, OSError)


def parse(path: Path, ask: Ask, *, progress: Progress = lambda rows: None) -> Parsed:
    """A file as facts. BadInput, with the file's name, for what is no such file at all."""
    try:
        return _parse(path, ask, progress)
    except _DAMAGED as error:
        raise BadInput(f"{path} cannot be read to its end: {error}") from error
    except BadInput as error:
        if str(path) in str(error):
            raise
        raise BadInput(f"{path}: {error}") from error


def _parse(path: Path, ask: Ask, progress: Progress) -> Parsed:
    found = recognise(path)
    if (found.name == "stream") != (ask.kind == "stream"):
        raise BadInput(_other_command(path, found, ask))
    problems = Problems()
    with open_file(path, gzipped=found.gzipped) as file:
        if found.name == "stream":
            return raw_stream.parse(file, ask, problems=problems, progress=progress)
        table = _table(found, file, problems)
        parsed = _MAKERS[ask.kind](table, ask, problems=problems, progress=progress)
    if not parsed.rows and not parsed.problem_count:
        raise BadInput("the file has no rows")
    return parsed


def _table(found: Format, file: BinaryIO, problems: Problems) -> Table:
    if found.name == "csv":
        return delimited.read(file, problems, is_header=is_header)
    if found.name == "json":
        return json_rows.read(file, problems)
    if found.name == "json lines":
        return json_rows.read_lines(file, problems)
    return columnar.read_parquet(file) if found.name == "parquet" else columnar.read_feather(file)


def _other_command(path: Path, found: Format, ask: Ask) -> str:
    if found.name == "stream":
        return f"{path} is a recorded stream, not a table of {ask.kind}: use `tapebook import stream {path}`"
    return f"{path} is {found.words}, not a recorded stream: use `tapebook import candles`, `funding` or `marks`"
