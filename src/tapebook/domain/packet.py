"""What the engine is given: typed sections, the text they render to, the hashes of both, and citations.

A citation is a place in a document with the lines found there: search returns it, and a decision cites it back.
"""

from typing import Any

import msgspec


class Citation(msgspec.Struct, frozen=True):
    """Lines of a document as they were read; `id` (`c1`, `c2`…) is its name within one packet.

    `source` says which search found it, and `content_sha256` is of the whole document, so that the place can be shown
    after the document has changed.
    """

    path: str
    start_line: int
    end_line: int
    score_e4: int
    snippet: str
    source: str
    id: str
    content_sha256: str

    @property
    def score(self) -> float:
        """The score as a number between 0 and 1."""
        return self.score_e4 / 10_000

    def to_dict(self) -> dict[str, Any]:
        """The citation for programs."""
        return {
            "id": self.id,
            "path": self.path,
            "startLine": self.start_line,
            "endLine": self.end_line,
            "score": self.score,
            "snippet": self.snippet,
            "source": self.source,
            "contentSha256": self.content_sha256,
        }


class Segment(msgspec.Struct, frozen=True):
    """One part of the system message: header, leash, strategy, lessons or footer."""

    name: str
    text: str


class Section(msgspec.Struct, frozen=True, gc=False):
    """One table of the packet. Cells are text with declared digits, so that they have one set of bytes."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    dropped: int = 0

    def cells(self, column: str) -> list[str]:
        """One column, top to bottom."""
        at = self.columns.index(column)
        return [row[at] for row in self.rows]

    def get(self, key: str) -> str | None:
        """The value of a row in a section of (key, value) rows."""
        for row in self.rows:
            if row[0] == key:
                return row[1]
        return None


class Packet(msgspec.Struct, frozen=True):
    """The whole message, ready to send: a pure function of what was known.

    `system` is its segments, an empty line between two of them; `citations` are those the text shows.
    """

    agent: str
    symbol: str
    as_of: int
    renderer: int
    system: str
    text: str
    sections: tuple[Section, ...]
    tokens: int
    section_tokens: dict[str, int]
    inputs_sha256: str
    sha256: str
    segments: tuple[Segment, ...] = ()
    citations: tuple[Citation, ...] = ()

    def section(self, name: str) -> Section | None:
        """A section by name, or None when nothing was there to say."""
        for section in self.sections:
            if section.name == name:
                return section
        return None

    @property
    def citation_ids(self) -> frozenset[str]:
        """What an action may cite: the first column of the citations."""
        found = self.section("citations")
        return frozenset(row[0] for row in found.rows) if found else frozenset()
