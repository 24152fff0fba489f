"""Builds the index of a home anew, a few versions at a time, in a process that a test kills."""

import sys
from pathlib import Path

from tapebook.clock import VirtualClock
from tapebook.library import search
from tapebook.wiring import Rooms


def main(home: Path) -> None:
    """Says after each batch how far it is."""
    search.VERSIONS_PER_BATCH = 20
    rooms = Rooms(home, clock=VirtualClock(0))
    search.reindex(
        rooms.documents,
        rooms.archive,
        rooms.home,
        progress=lambda done, of: print(done, of, flush=True),
        indexes=rooms.indexes,
    )
    rooms.close()
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
