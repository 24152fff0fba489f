"""The plainest index there can be: versions in a JSON file, and lines that share words with a question.

It stands in for the real ones where a test is about documents and not about search.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from tapebook.domain.packet import Citation
from tapebook.search import DocumentVersion, IndexAnswer, IndexCounts, IndexReport
from tapebook.search.index import Progress, SearchTerms


def silent(_done: int, _of: int) -> None:
    """Nobody watches."""


class PlainIndex:
    """Everything in memory, and all of it written at every change."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._rows: list[tuple[DocumentVersion, str]] = []
        if place.exists():
            self._rows = msgspec.json.decode(place.read_bytes(), type=list[tuple[DocumentVersion, str]])
        else:
            place.write_bytes(b"[]")

    def head(self) -> int:
        """The newest version."""
        return max((version.seq for version, _ in self._rows), default=0)

    def index(self, versions: Sequence[tuple[DocumentVersion, bytes]], *, progress: Progress = silent) -> IndexReport:
        """Takes in what is new."""
        new = [(version, body.decode()) for version, body in versions if version.seq > self.head()]
        self._rows += new
        self._place.write_bytes(msgspec.json.encode(self._rows))
        return IndexReport(len(new), len(new), 0, self.head())

    def search(
        self,
        query: str,
        *,
        scopes: Collection[str],
        seq: int,
        limit: int = 10,
        kinds: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> IndexAnswer:
        """Lines by how many words of the question they have."""
        newest = {(version.scope, version.path): (version, text) for version, text in self._rows if version.seq <= seq}
        wanted = words(query)
        found = [
            (len(wanted & words(line)), version, number, line)
            for version, text in newest.values()
            if version.scope in scopes
            and version.sha256
            and (kinds is None or version.kind in kinds)
            and version.path not in without
            for number, line in enumerate(text.splitlines(), start=1)
            if wanted & words(line)
        ]
        best = sorted(found, key=lambda row: (-row[0], row[1].path, row[2]))[:limit]
        cited = [
            Citation(version.path, number, number, 100 * count, line, version.kind, f"c{at}", version.sha256)
            for at, (count, version, number, line) in enumerate(best, start=1)
        ]
        return IndexAnswer(tuple(cited), "" if cited else "no line has a word of it")

    def counts(self) -> IndexCounts:
        """Documents are chunks."""
        return IndexCounts(len(self._rows), len(self._rows), len(self._rows), self._place.stat().st_size)

    def close(self) -> None:
        """Nothing is open."""


def words(text: str) -> set[str]:
    """The words of a text, in lower case."""
    return set(re.findall(r"\w+", text.lower()))


def make(_terms: SearchTerms, place: Path) -> PlainIndex:
    """As the rooms make an index."""
    return PlainIndex(place)
