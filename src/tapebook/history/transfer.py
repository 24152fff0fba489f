"""Imports a file into the tape, and exports bars or recorded payloads of the tape to a file.

An import, in order:

1. the importer reads the whole file: facts, bad rows, and what the file looks like;
2. the facts are compared with what the tape has;
3. the caller is given the report, before anything is written;
4. what stands against the import is raised (`_import_objection`), else everything is one commit: all of it or
   nothing.

Rows the tape has already are left alone, so the same file again changes nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain, groupby
from pathlib import Path

import msgspec

from tapebook.archive import Archive
from tapebook.clock import Clock
from tapebook.db import Database
from tapebook.domain.market import TRADED_KINDS, Candle
from tapebook.domain.text import has_hidden_characters, plural
from tapebook.domain.units import SECOND, iso_text, minute_text
from tapebook.errors import BadInput, UnknownName
from tapebook.gc_pause import gc_paused
from tapebook.history import exporter
from tapebook.history.import_file import ImportComparison, compare_with_tape, mixed_lengths_refusal, parse_file
from tapebook.history.importer import FileFindings, ImportKind, ImportRequest, ParsedFile, Progress, RowProblem
from tapebook.settings.config import Config
from tapebook.tape.recording import recorded_lines, recorded_range
from tapebook.tape.source import SourceAdapter, SourceReplay
from tapebook.tape.store import Tape
from tapebook.tape.view import GRACE_MS, View, bar_length_ms, span_ms, span_text

_SYMBOL = re.compile(r"\S{1,64}")
_SHOWN_SYMBOLS = 20
_PROGRESS_LINES = 10_000


class ImportReport(msgspec.Struct, frozen=True):
    """What a file holds, how that compares with the tape, and how many rows were written."""

    kind: ImportKind
    file: str
    symbol: str | None
    told: FileFindings
    rows: int
    new_rows: int
    same_rows: int
    differing_rows: int
    problems: tuple[RowProblem, ...]
    problem_count: int
    dry_run: bool
    new_symbol: bool = False
    rows_written: int = 0

    def lines(self) -> list[str]:
        """What was found, for people; said before anything is written."""
        findings = self.told
        subject = f" of {self.symbol}" if self.symbol else ""
        columns = ", ".join(field if field == name else f"{field} = {name}" for field, name in findings.columns.items())
        return [
            f"{self.file}: {findings.format}, {plural(findings.rows_read, findings.row_name)}",
            *([f"columns: {columns}{_unused_columns(findings)}"] if columns else []),
            f"times: {findings.times}",
            f"values: {findings.values}",
            *(f"note: {note}" for note in findings.notes),
            f"{self.kind}{subject}: {plural(self.rows, 'row')}{_time_range(findings)}",
            *([f"{self.symbol} is new to the tape: check the spelling"] if self.new_symbol else []),
            f"gaps: {_gaps_text(findings)}; repeated rows: {findings.duplicates:,}",
            f"in the tape: {self.same_rows:,} are there, {self.differing_rows:,} differ, {self.new_rows:,} are new",
            *self._bad_rows(),
        ]

    def result_line(self) -> str:
        """What came of it, in one line."""
        if self.dry_run:
            return f"dry run: {plural(self.new_rows + self.differing_rows, 'row')} would be written"
        if not self.rows_written:
            return "nothing new: the tape has all of these rows already"
        basis = "known when they were received" if self.kind == "stream" else _known_at_text(self.kind)
        return f"{plural(self.rows_written, 'row')} written, {basis}"

    def _bad_rows(self) -> Iterator[str]:
        for problem in self.problems:
            yield f"bad: {self.told.row_name} {problem.row:,} {problem.why}"
        if self.problem_count > len(self.problems):
            yield f"bad: {self.problem_count - len(self.problems):,} more"


class ExportReport(msgspec.Struct, frozen=True):
    """What was written to a file."""

    file: str
    symbol: str
    interval: str
    rows: int
    first_ts: int
    last_ts: int
    as_of: int

    def result_line(self) -> str:
        """What was written, in one line."""
        bars = f"{plural(self.rows, 'bar')} of {self.symbol} every {self.interval}"
        span = f"from {iso_text(self.first_ts)} to {iso_text(self.last_ts)}"
        return f"{self.file}: {bars} {span}, known by {iso_text(self.as_of)}"


class StreamReport(msgspec.Struct, frozen=True):
    """What was written of a recording."""

    file: str
    lines: int
    first_at: int
    last_at: int

    def result_line(self) -> str:
        """What was written, in one line."""
        span = f"from {iso_text(self.first_at)} to {iso_text(self.last_at)}"
        return f"{self.file}: {plural(self.lines, 'payload')} received {span}"


def import_file(
    tape: Tape,
    clock: Clock,
    kind: ImportKind,
    path: Path,
    *,
    config: Config,
    sources: Sequence[SourceAdapter],
    symbol: str | None = None,
    interval: str | None = None,
    dry_run: bool = False,
    skip_bad: bool = False,
    revise: bool = False,
    tell: Callable[[ImportReport], None] = lambda report: None,
    progress: Progress = lambda rows: None,
) -> ImportReport:
    """Imports a file, whole or not at all. BadInput says why not; `tell` has been given the report by then.

    `skip_bad` leaves bad rows out. `revise` writes rows that differ from the tape's as their next revision.
    """
    ask = _import_request(kind, symbol, interval, now=clock.now())
    if kind == "stream":
        ask = msgspec.structs.replace(ask, replays=_source_replays(tape, config, sources))
    with gc_paused():
        parsed = parse_file(path, ask, progress=progress)
        found = compare_with_tape(tape, parsed, now=ask.now)
        is_new = symbol is not None and symbol not in tape.symbols(*TRADED_KINDS)
        report = _import_report(ask, path, parsed, found, dry_run=dry_run, new_symbol=is_new)
        tell(report)
        mixed = _mixed_bar_lengths(tape, found, now=ask.now)
        if objection := mixed or _import_objection(report, skip_bad=skip_bad, revise=revise):
            raise BadInput(objection)
        rows = found.new + found.differing
        if dry_run or not rows:
            return report
        tape.commit(rows, assumed=parsed.known_at, kinds=parsed.kinds)
        return msgspec.structs.replace(report, rows_written=len(rows))


def export_candles(
    tape: Tape,
    clock: Clock,
    path: Path,
    *,
    symbol: str,
    interval: str,
    since: int,
    until: int | None = None,
    as_of: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda rows: None,
) -> ExportReport:
    """Writes bars that begin from `since` up to, not including, `until`, as they were known at a moment."""
    step = bar_length_ms(interval)
    now = clock.now()
    moment = now if as_of is None else as_of
    if moment > now:
        raise BadInput(f"{iso_text(moment)} lies in the future: nothing is known after {iso_text(now)}")
    end = moment if until is None else until
    _require_range(since, end)
    exporter.check_export_path(path, overwrite=overwrite)
    _require_symbol(tape, symbol)
    # Bars committed while the file is written are not part of it.
    view = View(moment, tape.head()[0])
    blocks = exporter.read_blocks(tape, symbol, granularity_sec=step // SECOND, since=since, until=end, view=view)
    first = next(blocks, None)
    if first is None:
        raise BadInput(f"the tape has no bars of {symbol} for {interval} from {iso_text(since)} to {iso_text(end)}")
    rows, last = len(first), first[-1]
    with exporter.atomic_file(path) as file, closing(exporter.open_writer(path, file)) as writer:
        writer.write(first)
        for block in blocks:
            writer.write(block)
            rows, last = rows + len(block), block[-1]
            progress(rows)
    return ExportReport(str(path), symbol, interval, rows, first[0].bucket_ts, last.bucket_ts, moment)


def export_stream(
    tape: Tape,
    archive: Archive,
    clock: Clock,
    path: Path,
    *,
    tape_db: Database,
    since: int,
    until: int | None = None,
    overwrite: bool = False,
    progress: Progress = lambda rows: None,
) -> StreamReport:
    """Writes the payloads received from `since` up to, not including, `until`, as `import stream` reads them."""
    # A world that runs faster than real time can be ahead of the machine's clock.
    end = max(clock.now(), tape.head()[1]) + 1 if until is None else until
    _require_range(since, end)
    exporter.check_file_place(path, overwrite=overwrite)
    lines = recorded_lines(tape_db, archive.get, since=since, until=end)
    found = next(lines, None)
    if found is None:
        raise BadInput(
            f"no payloads were recorded from {iso_text(since)} to {iso_text(end)}: {_recorded_range(tape_db)}"
        )
    report = StreamReport(str(path), 0, found[0], found[0])
    with exporter.atomic_file(path) as file:
        for count, (at, line) in enumerate(chain([found], lines), 1):
            file.write(line)
            report = msgspec.structs.replace(report, lines=count, last_at=at)
            if count % _PROGRESS_LINES == 0:
                progress(count)
    return report


def _recorded_range(tape_db: Database) -> str:
    """What was recorded at all, or how to begin."""
    found = recorded_range(tape_db)
    if found is None:
        return "set `raw = true` in [archive] of tapebook.toml and run `tapebook ingest`"
    return f"there are some from {iso_text(found[0])} to {iso_text(found[1])}"


def _require_range(since: int, end: int) -> None:
    if since >= end:
        raise BadInput(f"the range is empty: it begins at {iso_text(since)} and ends at {iso_text(end)}")


def _import_request(kind: ImportKind, symbol: str | None, interval: str | None, *, now: int) -> ImportRequest:
    if kind != "stream" and symbol is None:
        raise BadInput("say whose rows these are with `symbol=`")
    if symbol is not None and (not _SYMBOL.fullmatch(symbol) or has_hidden_characters(symbol)):
        raise BadInput(f"{symbol!r} is no symbol: write it like BTC, without spaces or invisible characters")
    if kind == "candles":
        return ImportRequest(kind, symbol, None if interval is None else bar_length_ms(interval), now)
    return ImportRequest(kind, symbol, None if interval is None else span_ms(interval), now)


def _source_replays(tape: Tape, config: Config, sources: Sequence[SourceAdapter]) -> dict[str, SourceReplay]:
    """What makes facts of recorded payloads, by source of the settings that has such a thing."""
    return {
        adapter.name: adapter.replay(config.source_section(adapter.name), tape)
        for adapter in sources
        if adapter.replay is not None
    }


def _import_report(
    ask: ImportRequest, path: Path, parsed: ParsedFile, found: ImportComparison, *, dry_run: bool, new_symbol: bool
) -> ImportReport:
    return ImportReport(
        kind=ask.kind,
        file=str(path),
        symbol=ask.symbol,
        told=parsed.told,
        rows=len(parsed.rows),
        new_rows=len(found.new),
        same_rows=found.same,
        differing_rows=len(found.differing),
        problems=parsed.problems,
        problem_count=parsed.problem_count,
        dry_run=dry_run,
        new_symbol=new_symbol,
    )


def _import_objection(report: ImportReport, *, skip_bad: bool, revise: bool) -> str:
    """Why the rows cannot be written as they are; empty when they can."""
    if report.problem_count and not skip_bad:
        first, name = report.problems[0], report.told.row_name
        count = plural(report.problem_count, f"bad {name}")
        bad = f"{report.file}: {count}, the first is {first.row:,}: {first.why}"
        return f"{bad}; mend the file, or leave them out with `skip_bad=`"
    if not report.rows:
        return f"{report.file} has no row that can be used"
    if report.differing_rows and not revise:
        differ = f"{report.differing_rows:,} of {report.rows:,} rows differ from what the tape has"
        return f"{report.file}: {differ}; write them as revisions with `revise=`, or import another range"
    return ""


def _mixed_bar_lengths(tape: Tape, found: ImportComparison, *, now: int) -> str:
    """Why new bars cannot stand beside bars of another length; empty when they can, or when there are none."""
    bars = [fact for fact in found.new if isinstance(fact, Candle)]
    for _, group in groupby(sorted(bars, key=_bar_key), key=lambda bar: bar.symbol):
        if objection := mixed_lengths_refusal(tape, list(group), now=now):
            return objection
    return ""


def _bar_key(bar: Candle) -> tuple[str, int]:
    return bar.symbol, bar.bucket_ts


def _require_symbol(tape: Tape, symbol: str) -> None:
    known = tape.symbols(*TRADED_KINDS)
    if symbol not in known:
        shown = ", ".join(known[:_SHOWN_SYMBOLS]) or "nothing yet"
        more = f" and {len(known) - _SHOWN_SYMBOLS:,} more" if len(known) > _SHOWN_SYMBOLS else ""
        raise UnknownName(f"the tape has nothing of {symbol!r}; it has: {shown}{more}")


def _unused_columns(findings: FileFindings) -> str:
    return f" (not used: {', '.join(findings.unused)})" if findings.unused else ""


def _time_range(findings: FileFindings) -> str:
    if findings.first_ts is None or findings.last_ts is None:
        return ""
    every = f", every {span_text(findings.spacing_ms)}" if findings.spacing_ms else ""
    return f" from {iso_text(findings.first_ts)} to {iso_text(findings.last_ts)}{every}"


def _gaps_text(findings: FileFindings) -> str:
    if not findings.gap_count:
        return "none"
    shown = ", ".join(f"{minute_text(first)} to {minute_text(after)}" for first, after in findings.longest_gaps)
    missing = f" with {plural(findings.missing, 'row')} missing" if findings.missing else ""
    which = "the longest: " if findings.gap_count > len(findings.longest_gaps) else ""
    return f"{findings.gap_count:,}{missing} ({which}{shown})"


def _known_at_text(kind: ImportKind) -> str:
    since = {"candles": "the end of their bar", "funding": "their hour", "marks": "their five seconds"}[kind]
    return f"assumed to have been known {span_text(GRACE_MS)} after {since}"
