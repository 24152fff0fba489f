"""From a file to facts, and how these compare with what the tape has already. Reads, never writes.

`parse_file` recognises a file, reads it as a table and makes facts of the rows. `compare_with_tape` sorts them into
new, same and differing; `mixed_lengths_refusal` says why bars cannot stand beside those the tape has of another
length.
"""

import csv
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tapebook.domain.market import Candle, FeatureRow, PredictedFunding, RegistryRecord
from tapebook.domain.units import DAY, SECOND, floor_to_step, iso_text
from tapebook.errors import BadInput
from tapebook.history import recorded_stream, series, tables
from tapebook.history.importer import Imported, ImportRequest, ParsedFile, Progress, RowProblems
from tapebook.history.table_columns import is_header
from tapebook.history.tables import FileFormat, Table, open_file, recognise_format
from tapebook.tape.store import Tape
from tapebook.tape.view import INTERVALS, View, span_text

_MAKERS = {"candles": series.parse_candles, "funding": series.parse_funding, "marks": series.parse_marks}
_DAMAGED = (EOFError, zlib.error, csv.Error, UnicodeDecodeError, OSError)


def parse_file(path: Path, ask: ImportRequest, *, progress: Progress = lambda rows: None) -> ParsedFile:
    """A file as facts. BadInput, with the file's name, for what is no such file at all."""
    try:
        return _parse_recognised(path, ask, progress)
    except _DAMAGED as error:
        raise BadInput(f"{path} cannot be read to its end: {error}") from error
    except BadInput as error:
        if str(path) in str(error):
            raise
        raise BadInput(f"{path}: {error}") from error


def _parse_recognised(path: Path, ask: ImportRequest, progress: Progress) -> ParsedFile:
    found = recognise_format(path)
    if (found.name == "stream") != (ask.kind == "stream"):
        raise BadInput(_other_command(path, found, ask))
    problems = RowProblems()
    with open_file(path, gzipped=found.gzipped) as file:
        if found.name == "stream":
            return recorded_stream.parse_stream(file, ask, problems=problems, progress=progress)
        table = _table_of_file(found, file, problems)
        parsed = _MAKERS[ask.kind](table, ask, problems=problems, progress=progress)
    if not parsed.rows and not parsed.problem_count:
        raise BadInput("the file has no rows")
    return parsed


def _table_of_file(found: FileFormat, file: BinaryIO, problems: RowProblems) -> Table:
    if found.name == "csv":
        return tables.read_csv(file, problems, is_header=is_header)
    if found.name == "json":
        return tables.read_json(file, problems)
    if found.name == "json lines":
        return tables.read_json_lines(file, problems)
    return tables.read_parquet(file) if found.name == "parquet" else tables.read_feather(file)


def _other_command(path: Path, found: FileFormat, ask: ImportRequest) -> str:
    if found.name == "stream":
        return f"{path} is a recorded stream, not a table of {ask.kind}: use `tapebook import stream {path}`"
    return f"{path} is {found.words}, not a recorded stream: use `tapebook import candles`, `funding` or `marks`"


def _says_something(tape: Tape, fact: Imported, parsed: ParsedFile) -> bool:
    """Whether a record is no repetition of what was known by its moment; all other facts are none."""
    if not isinstance(fact, RegistryRecord):
        return True
    stored = tape.registry.record(fact.register, fact.symbol, view=View(parsed.known_at(fact)))
    said = msgspec.json.decode(fact.record_json, type=dict[str, Any])
    return stored is None or {**stored.values, **said} != stored.values


FactKey = tuple[type, str, int, str]


class ImportComparison(msgspec.Struct, frozen=True):
    """The facts of a file beside the tape: those it does not have, how many it has, and those it has otherwise."""

    new: list[Imported]
    same: int
    differing: list[Imported]


def compare_with_tape(tape: Tape, parsed: ParsedFile, *, now: int) -> ImportComparison:
    """Sorts the facts of a file by what the tape says of the same moments."""
    there = _stored_facts(tape, parsed.rows, now=now)
    if not there:
        return ImportComparison([fact for fact in parsed.rows if _says_something(tape, fact, parsed)], 0, [])
    # A recording may hold several pictures of a bar: the last one decides whether the tape has it.
    last = {_fact_key(fact): fact for fact in parsed.rows}
    equal = _equality(parsed.stated)
    new: list[Imported] = []
    differing: list[Imported] = []
    for fact in parsed.rows:
        key = _fact_key(fact)
        if key not in there:
            new += [fact] if _says_something(tape, fact, parsed) else []
        elif not equal(last[key], there[key]):
            differing.append(fact)
    return ImportComparison(new, len(parsed.rows) - len(new) - len(differing), differing)


def mixed_lengths_refusal(tape: Tape, bars: Sequence[Candle], *, now: int) -> str:
    """Why these bars cannot stand beside those the tape has of other lengths; empty when they can.

    A larger bar that the tape itself has made of bars of this length is no other history.
    """
    symbol, length = bars[0].symbol, bars[0].granularity_sec
    first, end, view = bars[0].bucket_ts, bars[-1].end, View(now + DAY)
    for other in INTERVALS.values():
        if other == length:
            continue
        # A larger bar that begins before the first of these may reach into them.
        since = first - other * SECOND + 1
        found = tape.candles(symbol, granularity_sec=other, since=since, until=end - 1, view=view)
        if found and other > length:
            around = {"since": found[0].bucket_ts, "until": found[-1].end - 1}
            found = _not_made_of(tape.candles(symbol, granularity_sec=length, view=view, **around), found)
        if found:
            return _refusal_text(found[0], length)
    return ""


def _stored_facts(tape: Tape, facts: Sequence[Imported], *, now: int) -> dict[FactKey, Imported]:
    """What the tape has between the first and the last of these facts, by kind, symbol, moment and venue."""
    groups: dict[tuple[type, str, str], list[Imported]] = {}
    for fact in facts:
        # Records are versions of a register: what is said of them again is found out one by one.
        if not isinstance(fact, RegistryRecord):
            groups.setdefault((type(fact), fact.symbol, _family_of(fact)), []).append(fact)
    found: dict[FactKey, Imported] = {}
    for group in groups.values():
        times = [fact.bucket_ts for fact in group]
        stored = _stored_beside(tape, group[0], since=min(times), until=max(times), view=View(now + DAY))
        found |= {_fact_key(fact): fact for fact in stored}
    return found


def _stored_beside(tape: Tape, fact: Imported, *, since: int, until: int, view: View) -> Sequence[Imported]:
    """The stored facts of a fact's kind, symbol and length."""
    if isinstance(fact, Candle):
        length = fact.granularity_sec
        return tape.candles(fact.symbol, granularity_sec=length, since=since, until=until, view=view)
    if isinstance(fact, FeatureRow):
        return tape.facts(fact.family, fact.symbol, since=since, view=view)
    # Any, since a type variable cannot stand for "one of these".
    kind: Any = type(fact)
    found: Sequence[Imported] = tape.facts(kind, fact.symbol, since=since, view=view)
    return found


def _fact_key(fact: Imported) -> FactKey:
    venue = fact.venue if isinstance(fact, PredictedFunding) else ""
    return type(fact), fact.symbol, fact.bucket_ts, _family_of(fact) or venue


def _family_of(fact: Imported) -> str:
    """Which table of feature rows, or which register, a fact belongs to; empty for all that have one of their own."""
    if isinstance(fact, RegistryRecord):
        return fact.register
    return fact.family if isinstance(fact, FeatureRow) else ""


def _equality(stated: Sequence[str]) -> Callable[[Any, Any], bool]:
    """Compares what a file states: an estimate that differs from what was observed contradicts nothing."""
    if not stated:
        return lambda one, other: bool(one == other)
    return lambda one, other: all(getattr(one, name) == getattr(other, name) for name in stated)


def _not_made_of(stored: Sequence[Candle], larger: Sequence[Candle]) -> list[Candle]:
    """The larger bars inside of which none of the stored bars lies."""
    length = larger[0].granularity_sec * SECOND
    covered = {floor_to_step(bar.bucket_ts, length) for bar in stored}
    return [bar for bar in larger if bar.bucket_ts not in covered]


def _refusal_text(there: Candle, length: int) -> str:
    has, new = span_text(there.granularity_sec * SECOND), span_text(length * SECOND)
    if there.granularity_sec < length:
        remedy = f"bars of {new} are made of these when they are read, so nothing needs importing there"
    else:
        remedy = f"import bars of {has} for this range, or use another home for bars of {new}"
    conflict = f"the tape has {there.symbol} in bars of {has} in this range (at {iso_text(there.bucket_ts)})"
    return f"{conflict}, and a range holds one length: {remedy}"
