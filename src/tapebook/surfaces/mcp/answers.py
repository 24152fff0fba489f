"""Forms of answers, each at most `MOST_BYTES` on the wire, with how much there is and where it goes on.

An answer is sent twice, as structured content and as its text, since clients read one or the other: both count. A list
ends where the next row would not fit, a text is cut into pages, and what is shortened inside a row says so. Cursors are
opaque to clients; they hold the moment of the first page, so that a list stands still while it is read.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

from tapebook.domain.text import plural, sanitise_lines, short_line
from tapebook.errors import BadInput

MOST_BYTES = 8_000
# What JSON-RPC and the result put around the two copies of an answer.
_ENVELOPE_BYTES = 260
# How long texts and lists inside a row may be when it does not fit: the first pair with which it does.
_CUTS = ((600, 40), (300, 20), (160, 10), (100, 6), (60, 3), (30, 1))


class Rows(BaseModel):
    """Rows of a list: `total` there are, `returned` are here, and the next ones come with `next_cursor`."""

    total: int
    returned: int
    next_cursor: str | None
    rows: list[dict[str, Any]]
    note: str


class TextPage(BaseModel):
    """A part of a text, counted in characters, and the facts about it."""

    total: int
    returned: int
    next_cursor: str | None
    about: dict[str, Any]
    text: str


class SearchHits(BaseModel):
    """Places in documents; `fetch` gives the document of an id."""

    total: int
    returned: int
    next_cursor: str | None
    results: list[dict[str, Any]]


class FetchedDocument(BaseModel):
    """A document; `next_cursor` is the id to fetch for the rest of it."""

    total: int
    returned: int
    next_cursor: str | None
    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


class Receipt(BaseModel):
    """What was written."""

    id: str
    status: str
    detail: str
    about: dict[str, Any]


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a list goes on, as of the moment at which its first page was read."""

    offset: int
    as_of: int

    def encode(self) -> str:
        """The cursor as clients get it."""
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """A cursor that was given to a client."""
        try:
            found = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=cls)
        except (binascii.Error, msgspec.DecodeError, ValueError) as error:
            raise BadInput(f"{short_line(text, 40)!r} is no cursor: give next_cursor of the answer before") from error
        if found.offset < 0:
            raise BadInput("a cursor does not lie before the beginning: give next_cursor of the answer before")
        return found


def tool_result(answer: BaseModel) -> CallToolResult:
    """An answer as structured content and as text."""
    content = answer.model_dump(mode="json")
    return CallToolResult(
        content=[TextContent(type="text", text=msgspec.json.encode(content).decode())], structured_content=content
    )


def wire_bytes(content: Any) -> int:
    """How much an answer takes on the wire: itself, and once more as a text in JSON."""
    once = msgspec.json.encode(content)
    return len(once) + len(msgspec.json.encode(once.decode())) + _ENVELOPE_BYTES


def fit_rows(rows: Sequence[Mapping[str, Any]], *, cursor: Cursor, note: str = "", most: int = 50) -> Rows:
    """The rows from a cursor on, as many as fit; one that does not fit by itself is shortened, and says so."""
    chosen = list[dict[str, Any]]()
    offset = min(cursor.offset, len(rows))
    # Growing by one row at a time: the size of a sum is the sum of sizes but for some bytes, which a page has to spare.
    used = wire_bytes(
        Rows(total=len(rows), returned=most, next_cursor=cursor.encode(), rows=[], note=note).model_dump()
    )
    used += 60
    for row in rows[offset : offset + most]:
        size = wire_bytes(row) - _ENVELOPE_BYTES + 4
        if used + size > MOST_BYTES:
            break
        chosen.append(dict(row))
        used += size
    if not chosen and offset < len(rows):
        chosen.append(shorten(rows[offset], MOST_BYTES - used))
    end = offset + len(chosen)
    behind = Cursor(end, cursor.as_of).encode() if end < len(rows) else None
    return Rows(total=len(rows), returned=len(chosen), next_cursor=behind, rows=chosen, note=note)


def fit_text(text: str, *, cursor: Cursor, about: Mapping[str, Any]) -> TextPage:
    """The part of a text from a cursor on that fits; facts are given with the first part only."""
    told = dict(about) if not cursor.offset else {}
    # Facts leave at least half of the page to the text.
    if wire_bytes(told) > MOST_BYTES // (2 if text else 1):
        told = shorten(told, MOST_BYTES // 2 if text else MOST_BYTES - 2 * _ENVELOPE_BYTES)
    page = TextPage(total=len(text), returned=0, next_cursor="x" * 40, about=told, text="")
    piece = _piece_that_fits(text[cursor.offset :], MOST_BYTES - wire_bytes(page.model_dump()))
    end = cursor.offset + len(piece)
    behind = Cursor(end, cursor.as_of).encode() if end < len(text) else None
    return page.model_copy(update={"text": piece, "returned": len(piece), "next_cursor": behind})


def fit_document(document: FetchedDocument, *, offset: int, base_id: str) -> FetchedDocument:
    """The part of a document from an offset on that fits; the rest has an id of its own."""
    text = document.text
    empty = document.model_copy(update={"text": "", "next_cursor": f"{base_id}@{len(text)}"})
    piece = _piece_that_fits(text[offset:], MOST_BYTES - wire_bytes(empty.model_dump()) - 20)
    end = offset + len(piece)
    behind = f"{base_id}@{end}" if end < len(text) else None
    return empty.model_copy(update={"text": piece, "returned": len(piece), "next_cursor": behind})


def _piece_that_fits(text: str, most: int) -> str:
    """The beginning of a text that takes so many bytes on the wire, up to the end of a line where there is one."""
    piece = text[: max(most, 0)]
    while piece and wire_bytes(piece) - _ENVELOPE_BYTES > most:
        # Every character takes two bytes at least, so a cut by the excess comes near from above.
        piece = piece[: min(len(piece) - 1, len(piece) * most // max(wire_bytes(piece) - _ENVELOPE_BYTES, 1) + 1)]
    if len(piece) == len(text):
        return piece
    line_end = piece.rfind("\n") + 1
    return piece[:line_end] if line_end > len(piece) // 2 else piece


def shorten(row: Mapping[str, Any], most: int) -> dict[str, Any]:
    """A row whose texts and lists are cut until it fits; each cut says how much is missing."""
    for chars, items in _CUTS:
        found = {name: _cut_value(value, chars, items) for name, value in row.items()}
        if wire_bytes(found) - _ENVELOPE_BYTES <= most:
            return found
    return {"cut": f"this row is too large to show: {plural(len(row), 'field')}, {', '.join(list(row)[:20])}"}


def _cut_value(value: Any, chars: int, items: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= chars else f"{value[:chars]}… ({len(value) - chars} more characters)"
    if isinstance(value, Mapping):
        kept = {name: _cut_value(each, chars, items) for name, each in list(value.items())[: 2 * items]}
        left = len(value) - len(kept)
        return kept | ({"…": f"{left} more"} if left else {})
    if isinstance(value, list | tuple):
        rest = [f"… {len(value) - items} more"] if len(value) > items else []
        return [_cut_value(each, chars, items) for each in value[:items]] + rest
    return value


def clean_text(text: str | None) -> str:
    """A text of others without anything that is not seen; it is data, whatever it says."""
    return "\n".join(sanitise_lines(text or ""))
