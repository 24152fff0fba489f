"""One version of a document: what the book says of it, without its text."""

import msgspec

GLOBAL = ""


class Version(msgspec.Struct, frozen=True):
    """A document as it was from one commit on, until the next version of the same scope and path.

    `seq` is its place in the owner's stream of documents; `scope` is the agent whose workspace it lies in, or empty for
    the global one; `sha256` is of the body, and empty when the document was removed.
    """

    seq: int
    scope: str
    path: str
    kind: str
    sha256: str
    known_at: int
