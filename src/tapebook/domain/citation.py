"""A place in a document, with what stands there: what recall answers with, and what a decision cites back."""

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
