"""The whole way of a file: the right reader, the file's name in every refusal, and how far it has come."""

import gzip
from pathlib import Path

import pytest

from tapebook.errors import BadInput
from tapebook.history import tables
from tapebook.history.import_file import parse_file
from tests.history.files import HEADER, MIDNIGHT, ask, lines, parsed, write


def test_a_stream_is_no_table_and_a_table_no_stream(tmp_path: Path) -> None:
    recorded = write(tmp_path, f'{{"at": {MIDNIGHT}, "frame": {{"channel": "pong"}}}}\n', "a.jsonl")
    with pytest.raises(
        BadInput, match=r"a.jsonl is a recorded stream, not a table of candles: use `tapebook import stream"
    ):
        parse_file(recorded, ask())
    with pytest.raises(BadInput, match="is CSV, not a recorded stream: use `tapebook import candles`"):
        parse_file(write(tmp_path, [HEADER, *lines(2)]), ask("stream"))


def test_files_that_end_too_soon(tmp_path: Path) -> None:
    packed = gzip.compress("\n".join([HEADER, *lines(2_000)]).encode())
    (tmp_path / "a.csv.gz").write_bytes(packed[:-500])
    with pytest.raises(BadInput, match=r"a.csv.gz cannot be read to its end: Compressed file ended"):
        parse_file(tmp_path / "a.csv.gz", ask())
    (tmp_path / "b.csv.gz").write_bytes(packed[:200] + bytes(400) + packed[600:])
    with pytest.raises(BadInput, match=r"b.csv.gz cannot be read to its end"):
        parse_file(tmp_path / "b.csv.gz", ask())


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="neither UTF-8"):
        parsed(tmp_path, b"time,open\n\xff\xfe,1\n")
    late = "\n".join([HEADER, *lines(30_000)]).encode() + b"\n\xff\n"
    assert len(late) > 1 << 20
    with pytest.raises(BadInput, match=r"file.csv cannot be read to its end: 'utf-8' codec"):
        parsed(tmp_path, late)


def test_a_header_alone(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"file.csv: the file has no rows"):
        parsed(tmp_path, [HEADER])


def test_progress_counts_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_ROWS", 10)
    seen: list[int] = []
    parse_file(write(tmp_path, [HEADER, *lines(25)]), ask(), progress=seen.append)
    assert seen[-1] == 25 and seen == sorted(set(seen)) and len(seen) >= 3
