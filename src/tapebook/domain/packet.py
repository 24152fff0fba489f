"""What the engine is given: typed sections, the text they render to, and the hashes of both."""

import msgspec

from tapebook.domain.citation import Citation


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
