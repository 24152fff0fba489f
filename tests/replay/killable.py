"""The command line, which says on stdout how far market time has come, so that a test can kill it anywhere.

Run as `python -m tests.replay.killable demo --fast …`.
"""

import os
import sys
from unittest import mock

from tapebook.clock import VirtualClock
from tapebook.surfaces.cli import main

_advance = VirtualClock.advance


def _told(clock: VirtualClock, to: int) -> None:
    _advance(clock, to)
    # In one call of the system, so that a line is there whole or not at all.
    os.write(1, f"at {to}\n".encode())


if __name__ == "__main__":
    with mock.patch.object(VirtualClock, "advance", _told):
        sys.exit(main())
