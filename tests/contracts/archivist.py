"""Writes to an archive in a process of its own; the tests start several, or kill one.

python -m tests.contracts.archivist ADAPTER PLACE for-ever        content after content, each under its hash
python -m tests.contracts.archivist ADAPTER PLACE once KEY SEED   one object, when a line comes in
"""

import random
import sys

from tapebook import plug
from tapebook.archive import Archive, put_content
from tapebook.errors import Damaged

FOLDER = "tapebook.archive.archives"
SIZE = 1_000_000


def content(seed: int) -> bytes:
    """Bytes that take a while to compress and to write."""
    return random.Random(seed).randbytes(SIZE)


def write_for_ever(archive: Archive) -> None:
    """Prints each key once its content is stored."""
    seed = 0
    while True:
        print(put_content(archive, content(seed)), flush=True)
        seed += 1


def write_once(archive: Archive, key: str, seed: int) -> None:
    """Says `ready`, waits for a line, writes, and says `stored` or `refused`."""
    bytes_to_write = content(seed)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        archive.create(key, bytes_to_write)
    except Damaged:
        print("refused", flush=True)
    else:
        print("stored", flush=True)


if __name__ == "__main__":
    adapter, place, what, *rest = sys.argv[1:]
    opened: Archive = plug.load(FOLDER, adapter).create(place)
    if what == "for-ever":
        write_for_ever(opened)
    else:
        write_once(opened, rest[0], int(rest[1]))
