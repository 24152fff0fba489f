"""Housekeeping: anchors of the log's heads in the archive, so that a cut-off tail is found."""

from tapebook.log import Stream
from tapebook.wiring import Rooms

_FOLDER = "anchors/"
_OWNER_STREAM = "-"


def anchor_heads(rooms: Rooms) -> int:
    """Writes the head of every stream to the archive; returns how many streams there are."""
    streams = rooms.log.streams()
    for stream in streams:
        head = rooms.log.head(stream)
        rooms.archive.create(
            f"{_FOLDER}{stream.owner}/{stream.deployment or _OWNER_STREAM}/{head.seq:012d}", head.hash.encode()
        )
    return len(streams)


def anchors(rooms: Rooms) -> dict[Stream, dict[int, str]]:
    """Every anchored head: stream, sequence number, hash."""
    found: dict[Stream, dict[int, str]] = {}
    for key in rooms.archive.keys(_FOLDER):
        owner, deployment, seq = key.removeprefix(_FOLDER).split("/")
        content = rooms.archive.get(key)
        if content is not None:
            stream = Stream(owner, "" if deployment == _OWNER_STREAM else deployment)
            found.setdefault(stream, {})[int(seq)] = content.decode()
    return found
