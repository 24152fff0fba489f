"""What kind of file it is, told by its first bytes; the name only decides where these leave a choice."""

import gzip
import re
from pathlib import Path
from typing import BinaryIO, Literal, cast

import msgspec

from tapebook.errors import BadInput

Name = Literal["csv", "json", "json lines", "parquet", "feather", "stream"]

_HEAD = 1 << 20
_GZIP = b"\x1f\x8b"
_MAGIC: dict[bytes, Name] = {b"PAR1": "parquet", b"ARROW1": "feather", b"FEA1": "feather"}
_PACKED = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_BOM = "\ufeff"
# A receive time in milliseconds, a tab, and a frame: JSON, or the greeting of older servers.
_STAMPED = re.compile(r"\d{12,16}\t\s*[{\"W]")


class Format(msgspec.Struct, frozen=True):
    """What a file is, and whether it is packed with gzip."""

    name: Name
    gzipped: bool

    @property
    def words(self) -> str:
        """The format for people."""
        known = {"csv": "CSV", "json": "JSON", "json lines": "JSON lines", "parquet": "Parquet", "feather": "feather"}
        return known.get(self.name, "recorded stream") + (", gzip" if self.gzipped else "")


def recognise(path: Path) -> Format:
    """The format of a file. BadInput when it cannot be opened or is none of them."""
    with open_file(path, gzipped=False) as file:
        gzipped = file.read(2) == _GZIP
    with open_file(path, gzipped=gzipped) as file:
        head = file.read(_HEAD)
    return Format(_name(head, path), gzipped)


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


def _name(head: bytes, path: Path) -> Name:
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    for magic, packer in _PACKED.items():
        if head.startswith(magic):
            raise BadInput(f"{path} is packed with {packer}: unpack it first, or use gzip")
    if path.suffix in (".parquet", ".feather"):
        raise BadInput(f"{path} is not a {path.suffix[1:]} file, whatever its name says")
    return _text_name(_text(head, path), path)


def _text(head: bytes, path: Path) -> str:
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


def _text_name(text: str, path: Path) -> Name:
    first, _, rest = text.partition("\n")
    if _STAMPED.match(text):
        return "stream"
    if text[0] == "{":
        row = _json(first)
        if isinstance(row, dict):
            # One line that holds a list is a whole document: rows have none.
            wraps = not rest.strip() and any(isinstance(value, list) for value in row.values())
            return "stream" if {"at", "frame"} <= row.keys() else "json" if wraps else "json lines"
        # An object that goes on over several lines, unless this is a line that was cut off.
        return "json lines" if _json_suffix(path) == ".jsonl" else "json"
    if text[0] == "[":
        lines = _json(first) is not None and (rest.lstrip()[:1] == "[" or _json_suffix(path) == ".jsonl")
        return "json lines" if lines else "json"
    return "csv"


def _json_suffix(path: Path) -> str:
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    return {".ndjson": ".jsonl"}.get(suffixes[-1], suffixes[-1]) if suffixes else ""


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
