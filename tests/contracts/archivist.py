"""Writes to an archive in a process of its own; the tests start several, or kill one.

python -m tests.contracts.archivist ADAPTER PLACE for-ever        content after content, each under its hash
python -m tests.contracts.archivist ADAPTER PLACE once KEY SEED   one object, when a line comes in
"""

import random
import sys

from obstore.store import LocalStore

from tapebook import plug
from tapebook.archive import Archive, put_content
from tapebook.archive.archives._bucket import BucketArchive
from tapebook.errors import Damaged

FOLDER = "tapebook.archive.archives"
SIZE = 1_000_000
NO_SERVER = ("az", "gs")
"""Archives whose server is not at hand: a folder of the same driver stands behind their adapter."""


def opened(adapter: str, place: str) -> Archive:
    """An archive, as the composition root makes it."""
    module = plug.load(FOLDER, adapter)
    if adapter in NO_SERVER:
        bucket: BucketArchive = module.create(f"{adapter}://contracts")
        bucket._store = LocalStore(place, mkdir=True)
        return bucket
    made: Archive = module.create(place)
    return made


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
    archive = opened(adapter, place)
    if what == "for-ever":
        write_for_ever(archive)
    else:
        write_once(archive, rest[0], int(rest[1]))
