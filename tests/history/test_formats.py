"""What a file is: told by its content, whatever it is called."""

from pathlib import Path

import pytest

from tapebook.errors import BadInput
from tapebook.history.tables import FileFormat, recognise_format
from tests.history.files import write


@pytest.mark.parametrize(
    ("content", "name", "found"),
    [
        (b"time,open\n1,2\n", "a.csv", "csv"),
        (b"\xef\xbb\xbftime;open\n1;2\n", "a.txt", "csv"),
        (b"1690156800000\t1.5\t2\n", "a.tsv", "csv"),
        (b"[[1690156800000,1,2,0.5,1.5,10]]", "a.json", "json"),
        (b"[[1690156800000,1,2,0.5,1.5,10]]", "a.csv", "json"),
        (b"[\n[1690156800000,1,2,0.5,1.5,10],\n[1690156860000,1,2,0.5,1.5,10]]", "a.json", "json"),
        (b"[1690156800000,1]\n[1690156860000,1]\n", "a.json", "json lines"),
        (b"[1690156800000,1]\n", "a.jsonl", "json lines"),
        (b"[1690156800000,1]\n", "a.ndjson", "json lines"),
        (b'{"t": 1, "o": 2}\n{"t": 2, "o": 2}\n', "a.jsonl", "json lines"),
        (b'{"t": 1, "o": 2', "a.jsonl", "json lines"),
        (b'{\n"data": []}', "a.json", "json"),
        (b'{"at": 1690156800000, "frame": {"channel": "pong"}}\n', "a.jsonl", "stream"),
        (b'1690156800000\t{"channel": "pong"}\n', "a.log", "stream"),
        (b"1690156800000\tWebsocket connection established.\n", "a.log", "stream"),
        (b"PAR1...", "a.parquet", "parquet"),
        (b"PAR1...", "a", "parquet"),
        (b"ARROW1\0\0", "a.feather", "feather"),
    ],
)
def test_content_decides(content: bytes, name: str, found: str, tmp_path: Path) -> None:
    assert recognise_format(write(tmp_path, content, name)) == FileFormat(found, False)  # type: ignore[arg-type]
    assert recognise_format(write(tmp_path, content, f"{name}.gz")) == FileFormat(found, True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (b"", "a.csv", "is empty"),
        (b"\xef\xbb\xbf \n\n", "a.csv", "is empty"),
        (b"\x0b", "a.csv", "is empty"),
        (b"PK\x03\x04rest", "a.csv", "packed with zip: unpack it first"),
        (b"\x28\xb5\x2f\xfdrest", "a.csv.zst", "packed with zstd"),
        (b"time,open\n1,2\n", "a.parquet", "is not a parquet file"),
        ("time,open\n".encode("utf-16"), "a.csv", "neither UTF-8 text nor Parquet"),
        (b"abc\0def", "a.bin", "neither UTF-8 text nor Parquet"),
    ],
)
def test_what_is_none_of_them(content: bytes, name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=says):
        recognise_format(write(tmp_path, content, name))


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no file"):
        recognise_format(tmp_path / "missing.csv")
    with pytest.raises(BadInput, match="is a folder"):
        recognise_format(tmp_path)


def test_a_long_text_may_be_cut_inside_a_character(tmp_path: Path) -> None:
    text = "time,open\n" + "é" * (1 << 20)
    assert recognise_format(write(tmp_path, text)).name == "csv"
    assert recognise_format(write(tmp_path, "é" * (1 << 20))).name == "csv"
