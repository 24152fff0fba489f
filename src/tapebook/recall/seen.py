"""What this home has seen of its files, so that one that did not change is not read again; and how the last sync went.

It is a memory of this machine and no fact: without it every file is read once more, and that is all.
"""

from pathlib import Path

import msgspec

from tapebook.domain.files import replace_file
from tapebook.recall.refuse import Refused
from tapebook.recall.workspace import Found, Stamp

FILE = "workspace.json"
# A file that changed so shortly before it was looked at may change again and keep its times.
_YOUNG_NS = 2_000_000_000


class Seen(msgspec.Struct, frozen=True):
    """Files by path: their stamp and the hash of their bytes; when the last sync ended, and what it had to say.

    `entries` is how far appended entries have been written to their files.
    """

    files: dict[str, tuple[Stamp, str]] = {}
    synced_at: int = 0
    refused: tuple[Refused, ...] = ()
    problem: str = ""
    entries: int = 0

    def hash_of(self, found: Found) -> str | None:
        """The hash of a file that has not changed since; None when it must be read."""
        stamp, sha256 = self.files.get(found.path, (None, ""))
        return sha256 if stamp == found.stamp else None


def settled(stamp: Stamp, *, now_ms: int) -> bool:
    """Whether a file is old enough that its stamp tells it from what it may become."""
    return max(stamp[1], stamp[2]) + _YOUNG_NS < now_ms * 1_000_000


def load(home: Path) -> Seen:
    """What was seen; nothing, if it cannot be read."""
    try:
        return msgspec.json.decode((home / FILE).read_bytes(), type=Seen)
    except (OSError, msgspec.DecodeError):
        return Seen()


def save(home: Path, seen: Seen) -> None:
    """Keeps it, whole or not at all."""
    replace_file(home / FILE, msgspec.json.encode(seen), durable=False)
