"""What may be written, and where: agents append to three kinds of file, people agree to a manual, nothing else.

An entry stands behind a fence below who said it, when and in which run, so that it is never taken for the words of a
person, and so that it can be found again: a file is not given the same entry twice.
"""

import re

import msgspec

from tapebook.domain.canonical import short_id
from tapebook.domain.instants import DAY, floor, iso
from tapebook.domain.text import fenced, sanitise_lines
from tapebook.errors import BadInput
from tapebook.recall.events import What

MOST_ENTRY = 2_000
ENTRIES_PER_FILE = 80
"""So many of the longest entries still fit into the largest file that is a document."""

FOR_EVER = 2**62

_PLACES: dict[What, str] = {
    "journal": "journal/{day}{part}.md",
    "learning": "memory/learnings{part}.md",
    "note": "memory/notes{part}.md",
}
_ENTRY_ID = re.compile(r"^entry ([0-9a-f]{20}),", re.MULTILINE)


class Entry(msgspec.Struct, frozen=True):
    """Words to append: who said them, in which run (empty for none), for which file, and when."""

    entry_id: str
    agent: str
    what: What
    path: str
    sha256: str
    written_by: str
    run_id: str
    happened_at: int


def required_what(what: str) -> What:
    """The kind of an entry; BadInput names those there are."""
    for known in _PLACES:
        if what == known:
            return known
    raise BadInput(f"{what!r} cannot be written: agents append to {', '.join(_PLACES)}, and to nothing else")


def cleaned(text: str) -> str:
    """The words of an entry, without what is not seen; BadInput when there are none or too many."""
    kept = "\n".join(sanitise_lines(text))
    if not kept:
        raise BadInput("there is nothing to append: give a text of at least one character")
    if len(kept) > MOST_ENTRY:
        raise BadInput(f"the text has {len(kept):,} characters and at most {MOST_ENTRY:,} are kept: shorten it")
    return kept


def entry_id(*parts: str | int) -> str:
    """An id that is the same on every attempt."""
    return short_id("entry", *parts)


def place(agent: str, what: What, *, at: int, before: int) -> str:
    """The path of the file an entry belongs to, given how many came before it; after a full one comes `notes-2.md`."""
    part = before // ENTRIES_PER_FILE + 1
    number = f"-{part}" if part > 1 else ""
    return f"agents/{agent}/{_PLACES[what].format(day=iso(at)[:10], part=number)}"


def span(what: What, at: int) -> tuple[int, int]:
    """The time in which entries go to the same files: a day of a journal, all time for the rest."""
    day = floor(at, DAY)
    return (day, day + DAY) if what == "journal" else (0, FOR_EVER)


def entry_text(entry: Entry, text: str) -> str:
    """An entry as its file has it."""
    run = f"run {entry.run_id}" if entry.run_id else "no run"
    heading = f"## {iso(entry.happened_at)[:16].replace('T', ' ')} UTC, {entry.what}"
    attribution = f"entry {entry.entry_id}, {run}, written by {entry.written_by}, trust: agent"
    return f"{heading}\n{attribution}\n\n{fenced(text)}\n"


def entries_in(content: str) -> set[str]:
    """The ids of the entries a file has already."""
    return set(_ENTRY_ID.findall(content))
