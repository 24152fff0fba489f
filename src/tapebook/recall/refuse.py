"""Why a file is no document. Refused files are listed with the reason; nothing else happens because of them."""

import msgspec

from tapebook.domain.text import has_hidden, sanitise

MOST_BYTES = 1_000_000
MOST_PATH = 400


class Refused(msgspec.Struct, frozen=True):
    """A file or folder that was left out, and why; `keeps` when it only cannot be read now, so what is known stays."""

    path: str
    why: str
    keeps: bool = False


def name_problem(name: str) -> str | None:
    """What is wrong with a name of a file or folder: it will be shown, and be part of a citation."""
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "its name is not UTF-8"
    if has_hidden(name):
        return "its name has control characters, or some that are not seen"
    return None


def body_problem(content: bytes, *, most: int = MOST_BYTES) -> str | None:
    """What is wrong with the bytes of a file."""
    if len(content) > most:
        return size_problem(len(content), most=most)
    if b"\0" in content:
        return "it is a binary file"
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text (byte {error.start})"
    return None


def size_problem(size: int, *, most: int = MOST_BYTES) -> str | None:
    """Whether a file is too large to be read at all."""
    return f"it has {size:,} bytes, and at most {most:,} are read" if size > most else None


def shown(path: str) -> str:
    """A path that may hold anything, as it can be shown."""
    escaped = path.encode(errors="surrogateescape").decode(errors="replace")
    return sanitise(escaped)[:MOST_PATH]
